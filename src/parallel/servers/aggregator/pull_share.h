// What a head's workers pull: a slice is asked of the servers once a clock, whoever of them wants it, and whoever asks
// later gets the same. Knows nothing of connections.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "parallel/servers/aggregator/push_gather.h"
#include "parallel/servers/wire/message.h"

namespace trifold {

class PullShare {
 public:
  explicit PullShare(std::size_t slices) : kept_(slices) {}

  // Those of the slices that the servers are to be asked for now.
  std::vector<int> ask(const Asker& asker, std::int64_t clock, const std::vector<int>& slices);

  // What servers said.
  void answered(std::int64_t clock, int slice, Payload values, std::int64_t oldest);
  std::vector<Asker> refused(std::int64_t clock, const std::vector<int>& slices);

  struct Answer {
    PeerId to = 0;
    Message message = {};
  };
  std::vector<Answer> take_answers();
  void forget();  // what was answered; whoever asks again is told what servers say then

 private:
  struct Values {
    std::int64_t clock = -1;
    std::int64_t oldest = 0;
    Payload bytes = {};
  };
  struct Answered {
    std::vector<int> slices = {};
    std::vector<std::int64_t> oldest = {};
    std::vector<Payload> values = {};
  };

  void answer(const Asker& asker, int slice, const Values& values);

  // By slice: of the newest clock. When it is here, every worker has had the one before.
  std::vector<Values> kept_;
  std::map<std::pair<std::int64_t, int>, std::vector<Asker>> asked_;  // clock and slice: on their way
  std::map<Asker, Answered> answers_;
};

}  // namespace trifold
