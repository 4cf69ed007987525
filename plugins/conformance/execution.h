// One operation on one device, with buffers that catch what goes beyond them.
#ifndef PLUGINS_CONFORMANCE_EXECUTION_H_
#define PLUGINS_CONFORMANCE_EXECUTION_H_

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "plugins/conformance/values.h"

namespace plugins::conformance {

// A broken promise of the device, as opposed to an error that it reports.
class Violation : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What fresh memory holds: four or eight bytes of the usual value are a NaN.
constexpr int kFreshNan = 0xFF;

// Device memory of exactly `bytes` with guard bytes before and behind it; every byte is `fresh` at
// first.
class GuardedBuffer {
 public:
  GuardedBuffer(host::Device& device, host::Stream& stream, uint64_t bytes, int fresh = kFreshNan);
  void* data() const { return static_cast<std::byte*>(memory_.data()) + front_; }
  uint64_t bytes() const { return bytes_; }
  void upload(host::Stream& stream, const Bytes& data);
  // Waits for the stream. Throws Violation (naming `what`) if a guard byte has changed.
  Bytes download(host::Stream& stream, const std::string& what) const;

 private:
  uint64_t bytes_;
  uint64_t front_;  // bytes of the guard before the data; keeps the alignment of the device
  host::Memory memory_;
};

// output j -> input i whose memory it shares
using InPlace = std::map<uint32_t, uint32_t>;

// Plans the operation (with whatever layouts it names) and runs it on canonical data; operands in
// foreign layouts are reordered with `copy`, outputs back.
class Execution {
 public:
  // Both may be nullptr-like: `forward` is the execution whose saved data this one reads.
  Execution(host::Device& device, const host::Operation& operation, Execution* forward);

  const rt_plan_info& info() const { return kernel_.info(); }
  const rt_plan* plan() const { return kernel_.get(); }
  const host::Operation& operation() const { return operation_; }

  // Canonical outputs for canonical inputs. Checks guards, and that inputs were not written.
  // Outputs, workspace and saved data hold the byte `fresh` before the launch: results that depend
  // on it depend on memory that nobody wrote.
  std::vector<Bytes> run(const std::vector<Bytes>& inputs, const InPlace& in_place = {},
                         int fresh = kFreshNan);
  void* saved() const { return saved_.empty() ? nullptr : saved_.front().data(); }

 private:
  GuardedBuffer load(const rt_tensor_desc& tensor, const Bytes& data);
  Bytes store(const rt_tensor_desc& tensor, const GuardedBuffer& buffer, const std::string& what);
  GuardedBuffer reorder(const GuardedBuffer& from, const rt_tensor_desc& tensor,
                        uint64_t from_layout, uint64_t to_layout);
  void launch(const std::vector<const void*>& inputs, const std::vector<void*>& outputs);

  host::Device& device_;
  int fresh_ = kFreshNan;  // of the present run
  host::Operation operation_;
  Execution* forward_;
  host::Stream stream_;
  host::Kernel kernel_;
  std::vector<GuardedBuffer> saved_;  // at most one
};

}  // namespace plugins::conformance

#endif  // PLUGINS_CONFORMANCE_EXECUTION_H_
