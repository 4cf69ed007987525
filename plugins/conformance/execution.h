// Runs one operation on one device, in buffers that detect writes beyond their ends.
#ifndef PLUGINS_CONFORMANCE_EXECUTION_H_
#define PLUGINS_CONFORMANCE_EXECUTION_H_

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "plugins/conformance/values.h"
#include "plugins/host/drain.h"

namespace plugins::conformance {

// A device has broken a rule of the contract. (An error that the device reports is not a
// Violation.)
class Violation : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The byte with which fresh memory is filled: four or eight of them are a NaN.
constexpr int kFreshNan = 0xFF;

// Device memory of exactly `bytes` bytes with guard bytes before and behind it. Every byte of the
// data is `fresh` at first.
class GuardedBuffer {
 public:
  GuardedBuffer(host::Device& device, host::Stream& stream, uint64_t bytes, int fresh = kFreshNan);
  void* data() const { return static_cast<std::byte*>(memory_.data()) + front_; }
  uint64_t bytes() const { return bytes_; }
  // Queues a copy of `data` to the front of the buffer. Throws Violation if it does not fit.
  void upload(host::Stream& stream, const Bytes& data);
  // Waits for the stream and returns the data. Throws Violation, with `what` at the front, if a
  // guard byte has changed.
  Bytes download(host::Stream& stream, const std::string& what) const;

 private:
  uint64_t bytes_;
  uint64_t front_;  // bytes of the guard before the data, a multiple of the device's alignment
  host::Memory memory_;
};

// Maps output j to the input i whose memory it uses.
using InPlace = std::map<uint32_t, uint32_t>;

// Makes a plan for the operation, in the layouts that it names, and runs it on canonical data.
// Operands in foreign layouts are reordered with `copy`, and outputs are reordered back.
class Execution {
 public:
  // `forward` is the execution whose saved data this one reads, or nullptr. It must outlive this
  // object.
  Execution(host::Device& device, const host::Operation& operation, Execution* forward);

  const rt_plan_info& info() const { return kernel_.info(); }
  const rt_plan* plan() const { return kernel_.get(); }
  const host::Operation& operation() const { return operation_; }

  // Returns canonical outputs for canonical inputs. Throws Violation if a guard byte or an input
  // was written. Outputs, workspace and saved data hold the byte `fresh` before the launch, so that
  // a result that depends on unwritten memory differs between two values of `fresh`.
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
  int fresh_ = kFreshNan;  // the value of the run in progress
  host::Operation operation_;
  Execution* forward_;
  host::Stream stream_;
  host::Kernel kernel_;
  std::vector<GuardedBuffer> saved_;  // the saved buffer, if there is one
  host::Drain drain_{stream_};        // last: the work of the stream uses everything above
};

}  // namespace plugins::conformance

#endif  // PLUGINS_CONFORMANCE_EXECUTION_H_
