// CUPTI's activity functions, from the library that comes with the CUDA runtime in use. It is loaded when somebody
// profiles: the program does not need it.
#pragma once

#include <string>

#include <cupti.h>

namespace trifold::cuda {

class CuptiLibrary {
 public:
  // Null, with the reason, where it cannot be loaded. Stays to the end of the process.
  static const CuptiLibrary* load(std::string* why_not);

  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityFlushAll) flush_all = nullptr;
  decltype(&cuptiActivityGetNextRecord) next_record = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) dropped_records = nullptr;
  decltype(&cuptiActivityPushExternalCorrelationId) push_id = nullptr;
  decltype(&cuptiActivityPopExternalCorrelationId) pop_id = nullptr;
  decltype(&cuptiGetResultString) result_string = nullptr;

  std::string text_of(CUptiResult result) const;

 private:
  bool find_functions(void* library, std::string* missing);
};

}  // namespace trifold::cuda
