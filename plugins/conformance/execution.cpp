// Loads operands between guard bytes, launches a plan, and checks what lies around the results.
#include "plugins/conformance/execution.h"

#include <algorithm>

#include "plugins/host/launch.h"
#include "rt/operations.h"
#include "rt/sdk/operation.h"

namespace plugins::conformance {
namespace {

constexpr uint64_t kGuardBytes = 256;
constexpr int kGuardValue = 0xA5;

// The number of guard bytes before the data, a multiple of the alignment.
uint64_t front_bytes(const host::Device& device) {
  const uint64_t alignment = std::max<uint64_t>(device.properties().alignment, 1);
  return (kGuardBytes + alignment - 1) / alignment * alignment;
}

host::Operation with_forward(const host::Operation& operation, const Execution* forward) {
  host::Operation result = operation;
  if (forward != nullptr) result.forward = forward->plan();
  return result;
}

}  // namespace

GuardedBuffer::GuardedBuffer(host::Device& device, host::Stream& stream, uint64_t bytes, int fresh)
    : bytes_(bytes),
      front_(front_bytes(device)),
      memory_(device.allocate(front_ + bytes + kGuardBytes)) {
  stream.fill(memory_.data(), kGuardValue, front_);
  if (bytes > 0) stream.fill(data(), fresh, bytes);
  stream.fill(static_cast<std::byte*>(data()) + bytes, kGuardValue, kGuardBytes);
}

void GuardedBuffer::upload(host::Stream& stream, const Bytes& data) {
  if (data.size() > bytes_) {
    throw Violation(
        rt::sdk::format("an operand takes %llu bytes in its layout, but has %zu bytes "
                        "of elements",
                        static_cast<unsigned long long>(bytes_), data.size()));
  }
  if (!data.empty()) stream.copy(this->data(), data.data(), data.size());
}

Bytes GuardedBuffer::download(host::Stream& stream, const std::string& what) const {
  Bytes all(front_ + bytes_ + kGuardBytes);
  stream.copy(all.data(), memory_.data(), all.size());
  stream.synchronize();
  const auto changed = [](std::byte b) { return b != std::byte{kGuardValue}; };
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(front_);
  const auto end = begin + static_cast<std::ptrdiff_t>(bytes_);
  if (const auto hit = std::find_if(end, all.end(), changed); hit != all.end()) {
    throw Violation(rt::sdk::format("%s: a byte %lld behind its %llu bytes was written",
                                    what.c_str(), static_cast<long long>(hit - end),
                                    static_cast<unsigned long long>(bytes_)));
  }
  if (const auto hit = std::find_if(all.begin(), begin, changed); hit != begin) {
    throw Violation(rt::sdk::format("%s: a byte %lld before its %llu bytes was written",
                                    what.c_str(), static_cast<long long>(begin - hit),
                                    static_cast<unsigned long long>(bytes_)));
  }
  return Bytes(begin, end);
}

Execution::Execution(host::Device& device, const host::Operation& operation, Execution* forward)
    : device_(device),
      operation_(with_forward(operation, forward)),
      forward_(forward),
      stream_(device.create_stream()),
      kernel_(device.create_kernel(operation_)) {}

GuardedBuffer Execution::load(const rt_tensor_desc& tensor, const Bytes& data) {
  GuardedBuffer canonical(device_, stream_, data.size());
  const host::Drain drain(stream_);  // `canonical` may be freed here
  canonical.upload(stream_, data);
  if (tensor.layout == RT_LAYOUT_CANONICAL) return canonical;
  GuardedBuffer foreign = reorder(canonical, tensor, RT_LAYOUT_CANONICAL, tensor.layout);
  stream_.synchronize();
  return foreign;
}

Bytes Execution::store(const rt_tensor_desc& tensor, const GuardedBuffer& buffer,
                       const std::string& what) {
  Bytes data = buffer.download(stream_, what);
  if (tensor.layout == RT_LAYOUT_CANONICAL) return data;
  return reorder(buffer, tensor, tensor.layout, RT_LAYOUT_CANONICAL)
      .download(stream_, what + " after its reorder");
}

GuardedBuffer Execution::reorder(const GuardedBuffer& from, const rt_tensor_desc& tensor,
                                 uint64_t from_layout, uint64_t to_layout) {
  host::Operation copy;
  copy.name = RT_OP_COPY;
  copy.inputs = {tensor};
  copy.outputs = {tensor};
  copy.inputs[0].layout = from_layout;
  copy.outputs[0].layout = to_layout;
  host::Kernel kernel = device_.create_kernel(copy);
  GuardedBuffer result(device_, stream_, device_.layout_bytes(copy.outputs[0]), fresh_);
  const GuardedBuffer workspace(device_, stream_, kernel.info().workspace_bytes);
  const host::Drain drain(stream_);  // kernel and workspace are freed here
  const void* input = from.data();
  void* output = result.data();
  rt_launch launch{};
  launch.size = sizeof(launch);
  launch.inputs = &input;
  launch.input_count = 1;
  launch.outputs = &output;
  launch.output_count = 1;
  launch.workspace = kernel.info().workspace_bytes > 0 ? workspace.data() : nullptr;
  kernel.launch(stream_, launch);
  workspace.download(stream_, "the workspace of copy");
  return result;
}

void Execution::launch(const std::vector<const void*>& inputs, const std::vector<void*>& outputs) {
  const GuardedBuffer workspace(device_, stream_, info().workspace_bytes, fresh_);
  const host::Drain drain(stream_);  // `workspace` is freed here
  kernel_.launch(stream_, host::make_launch(inputs, outputs,
                                            info().workspace_bytes > 0 ? workspace.data() : nullptr,
                                            forward_ != nullptr ? forward_->saved() : saved()));
  workspace.download(stream_, "the workspace");
}

std::vector<Bytes> Execution::run(const std::vector<Bytes>& inputs, const InPlace& in_place,
                                  int fresh) {
  fresh_ = fresh;
  std::vector<GuardedBuffer> in, out;
  const host::Drain drain(stream_);  // these are freed here
  std::vector<const void*> in_addresses;
  std::vector<void*> out_addresses;
  std::vector<Bytes> before;
  for (size_t i = 0; i < inputs.size(); ++i) {
    in.push_back(load(operation_.inputs[i], inputs[i]));
    before.push_back(in.back().download(stream_, "input " + std::to_string(i)));
    in_addresses.push_back(in.back().data());
  }
  for (uint32_t j = 0; j < operation_.outputs.size(); ++j) {
    out.emplace_back(device_, stream_, device_.layout_bytes(operation_.outputs[j]), fresh);
    const auto shared = in_place.find(j);
    out_addresses.push_back(shared == in_place.end() ? out.back().data()
                                                     : in[shared->second].data());
  }
  saved_.clear();
  if (info().saved_bytes > 0) saved_.emplace_back(device_, stream_, info().saved_bytes, fresh);
  stream_.synchronize();
  launch(in_addresses, out_addresses);
  if (!saved_.empty()) saved_.front().download(stream_, "the saved buffer");

  std::vector<Bytes> results;
  std::vector<bool> overwritten(in.size(), false);
  for (uint32_t j = 0; j < out.size(); ++j) {
    const auto shared = in_place.find(j);
    const GuardedBuffer& buffer = shared == in_place.end() ? out[j] : in[shared->second];
    if (shared != in_place.end()) overwritten[shared->second] = true;
    results.push_back(store(operation_.outputs[j], buffer, "output " + std::to_string(j)));
  }
  for (size_t i = 0; i < in.size(); ++i) {
    const std::string what = "input " + std::to_string(i);
    if (!overwritten[i] && in[i].download(stream_, what) != before[i]) {
      throw Violation(what + " was written, though it shares its memory with no output");
    }
  }
  return results;
}

}  // namespace plugins::conformance
