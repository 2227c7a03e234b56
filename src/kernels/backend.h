// A backend: the kernels of one kind of device, found by op name, and the memory layouts it wants.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/half_as_float.h"
#include "kernels/kernel.h"

namespace trifold {

// The layouts a backend wants for an op's tensors. An input whose producer chose another one gets a reorder.
struct LayoutChoice {
  std::vector<Layout> in;
  std::vector<Layout> out;
};

class Backend {
 public:
  // With `convert` the kernels know only float, and tensors in 16 bits are converted around them; without, the kernels
  // take every type.
  explicit Backend(std::string name, ConvertElements convert = nullptr) : name_(std::move(name)), convert_(convert) {}
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  const std::string& name() const { return name_; }
  virtual bool supports(std::string_view op_name) const { return factories_.find(op_name) != factories_.end(); }
  virtual KernelPtr make(const KernelRequest& request) const;

  // `in` carries the layouts that the producers chose. The default keeps everything plain.
  virtual LayoutChoice choose_layouts(const Op& op, std::span<const TensorDesc> in,
                                      std::span<const TensorDesc> out) const;

  void add(std::string_view op_name, KernelFactory factory);

 private:
  std::string name_;
  ConvertElements convert_;
  std::map<std::string, KernelFactory, std::less<>> factories_;
};

Backend& reference_backend();  // plain loops in double precision: the oracle of every test
Backend& cpu_backend();        // oneDNN and our own vectorised loops

// At namespace scope in a kernel's file: const RegisterKernel registration(cpu_backend(), "add.forward",
// make<AddKernel>);
struct RegisterKernel {
  RegisterKernel(Backend& backend, std::string_view op_name, KernelFactory factory) { backend.add(op_name, factory); }
};

// The factory of a kernel whose constructor takes the request.
template <class K>
KernelPtr make_kernel(const KernelRequest& request) {
  return std::make_unique<K>(request);
}

// The op behind a request, as the type that its name stands for.
template <class T>
const T& op_as(const KernelRequest& request) {
  return static_cast<const T&>(request.op);
}

}  // namespace trifold
