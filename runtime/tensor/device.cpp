// Keeps unused memory and plans of a device for the next tensors of the same size.
#include "runtime/tensor/device.h"

#include <algorithm>
#include <charconv>
#include <new>
#include <utility>

#include "plugins/host/error.h"
#include "runtime/error.h"
#include "runtime/tensor/context.h"

namespace runtime {
namespace detail {
namespace {

using plugins::host::Kernel;
using plugins::host::Memory;
using plugins::host::Operation;

// Sizes are rounded up to this many bytes, so that tensors of nearly one size share memory.
constexpr uint64_t kGranularity = 256;
// If more memory than this is unused, it is given back to the device.
constexpr uint64_t kMaxUnusedBytes = uint64_t{256} << 20;
// The number of plans kept for a device. When a program uses more shapes, all plans are dropped.
constexpr std::size_t kMaxKernels = 512;

void append(std::string& key, const std::vector<rt_tensor_desc>& tensors) {
  for (const rt_tensor_desc& tensor : tensors) {
    key += "|" + std::to_string(tensor.dtype);
    for (int32_t i = 0; i < tensor.rank; ++i) key += "," + std::to_string(tensor.dims[i]);
  }
}

// The key holds the bytes of attributes, because two numbers that print alike may differ.
std::string key_of(const Operation& operation) {
  std::string key = operation.name;
  append(key, operation.inputs);
  key += ">";
  append(key, operation.outputs);
  for (const auto& attribute : operation.attributes) {
    key += "|" + attribute.name + "=";
    std::visit(
        [&](auto value) { key.append(reinterpret_cast<const char*>(&value), sizeof(value)); },
        attribute.value);
  }
  return key;
}

struct DeviceName {
  std::string plugin;
  int32_t index = 0;
};

DeviceName parse_device(const std::string& name) {
  const std::size_t colon = name.find(':');
  DeviceName parsed{name.substr(0, colon), 0};
  bool valid = !parsed.plugin.empty();
  if (colon != std::string::npos) {
    const char* begin = name.data() + colon + 1;
    const char* end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(begin, end, parsed.index);
    valid = valid && begin != end && error == std::errc() && stop == end && *begin != '-';
  }
  if (!valid) {
    throw DeviceError("'" + name +
                      "' is no device; expected <plugin> or <plugin>:<index>, as in \"cpu\" or "
                      "\"cuda:1\"");
  }
  return parsed;
}

}  // namespace

TensorDevice::TensorDevice(std::shared_ptr<plugins::host::Device> device)
    : device_(std::move(device)), stream_(device_->create_stream()) {}

Memory TensorDevice::acquire(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  return acquire_locked(bytes);
}

Memory TensorDevice::acquire_locked(uint64_t bytes) {
  const uint64_t rounded =
      std::max(bytes, std::min((bytes + kGranularity - 1) / kGranularity * kGranularity,
                               device_->largest_buffer()));
  if (const auto found = unused_.find(rounded); found != unused_.end()) {
    Memory memory = std::move(found->second);
    unused_.erase(found);
    unused_bytes_ -= rounded;
    return memory;
  }
  if (unused_bytes_ > kMaxUnusedBytes) release_unused();
  try {
    return device_->allocate(rounded);
  } catch (const plugins::host::Error& error) {
    if (error.code() != RT_ERROR_OUT_OF_MEMORY || unused_.empty()) throw;
  }
  release_unused();
  return device_->allocate(rounded);
}

void TensorDevice::release_unused() {
  stream_.synchronize();
  unused_.clear();
  unused_bytes_ = 0;
}

void TensorDevice::recycle(Memory memory) noexcept {
  const std::lock_guard lock(mutex_);
  recycle_locked(std::move(memory));
}

void TensorDevice::recycle_locked(Memory memory) noexcept {
  if (!memory) return;
  const uint64_t bytes = memory.bytes();
  try {
    unused_.emplace(bytes, Memory())->second = std::move(memory);
    unused_bytes_ += bytes;
  } catch (const std::bad_alloc&) {
    // There is no host memory for the list entry, so `memory` is freed when this function ends.
    // Kernels and copies that use it must have ended before.
    try {
      stream_.synchronize();
    } catch (const plugins::host::Error&) {
      // The stream has failed: nothing runs on it any more, and the next synchronize() throws.
    }
  }
}

void TensorDevice::upload(void* destination, const void* host, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  stream_.copy(destination, host, bytes);
}

void TensorDevice::download(void* host, const void* source, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  stream_.copy(host, source, bytes);
  stream_.synchronize();
}

void TensorDevice::zero(void* destination, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  stream_.fill(destination, 0, bytes);
}

Kernel& TensorDevice::kernel_for(const Operation& operation) {
  const std::string key = key_of(operation);
  if (const auto found = kernels_.find(key); found != kernels_.end()) return found->second;
  if (kernels_.size() >= kMaxKernels) {
    stream_.synchronize();  // queued launches still use these plans
    kernels_.clear();
  }
  return kernels_.emplace(key, device_->create_kernel(operation)).first->second;
}

// Memory for one launch. It is recycled, never freed directly, when the launch is queued or has
// failed, because earlier work may still use it. The device's mutex is held.
struct TensorDevice::Scratch {
  Scratch(TensorDevice& from, uint64_t bytes) : device(from) {
    if (bytes > 0) memory = device.acquire_locked(bytes);
  }
  ~Scratch() { device.recycle_locked(std::move(memory)); }
  TensorDevice& device;
  Memory memory;
};

void TensorDevice::launch(const Operation& operation, const std::vector<const void*>& inputs,
                          void* output) {
  const std::lock_guard lock(mutex_);
  Kernel& kernel = kernel_for(operation);
  const Scratch workspace(*this, kernel.info().workspace_bytes);
  const Scratch saved(*this, kernel.info().saved_bytes);
  rt_launch launch{};
  launch.size = sizeof(launch);
  launch.input_count = static_cast<uint32_t>(inputs.size());
  launch.inputs = inputs.data();
  launch.outputs = &output;
  launch.output_count = 1;
  launch.workspace = workspace.memory.data();
  launch.saved = saved.memory.data();
  kernel.launch(stream_, launch);
}

TensorContext::TensorContext(const plugins::host::SearchPath& path) : registry_(path, {}) {}

TensorDevice& TensorContext::device(const std::string& name) {
  const DeviceName parsed = parse_device(name);
  const std::string id = parsed.plugin + ":" + std::to_string(parsed.index);
  const std::lock_guard lock(mutex_);
  auto& device = devices_[id];
  if (!device) {
    device = std::make_unique<TensorDevice>(
        plugins::host::Device::open(registry_.open(parsed.plugin), parsed.index));
  }
  return *device;
}

TensorStorage::TensorStorage(std::shared_ptr<TensorContext> context, TensorDevice& device,
                             uint64_t bytes)
    : context_(std::move(context)), device_(device) {
  if (bytes > 0) memory_ = device_.acquire(bytes);
}

TensorStorage::~TensorStorage() { device_.recycle(std::move(memory_)); }

}  // namespace detail

Context::Context(const std::vector<std::filesystem::path>& plugin_paths,
                 const std::filesystem::path& probe) {
  auto path = plugins::host::SearchPath::standard(plugin_paths);
  path.probe = probe;
  // A program that lies elsewhere takes the plugins of the installation that it was linked from:
  // <prefix>/lib/runtime/plugins, of <prefix>/libexec/runtime/plugin_probe.
  std::error_code ignored;
  if (!probe.empty() && !std::filesystem::is_directory(path.built_in, ignored))
    path.built_in = probe.parent_path().parent_path().parent_path() / "lib/runtime/plugins";
  try {
    state_ = std::make_shared<detail::TensorContext>(path);
  } catch (const plugins::host::Error& error) {
    throw DeviceError(error.what());
  }
}

std::vector<DeviceSummary> Context::devices() const {
  std::vector<DeviceSummary> summaries;
  for (const auto& plugin : state_->registry().plugins()) {
    for (const auto& device : plugin.devices) {
      summaries.push_back({device.id(), device.properties.name, device.usable(),
                           device.properties.unusable_reason, device.properties.memory_bytes});
    }
  }
  return summaries;
}

int Context::device_count() const {
  const auto all = devices();
  return static_cast<int>(
      std::count_if(all.begin(), all.end(), [](const auto& device) { return device.usable; }));
}

int Context::device_count(const std::string& plugin) const {
  const auto all = devices();
  const auto counts = [&](const DeviceSummary& device) {
    return device.usable && device.id.starts_with(plugin + ":");
  };
  return static_cast<int>(std::count_if(all.begin(), all.end(), counts));
}

std::vector<std::string> Context::rejections() const {
  std::vector<std::string> texts;
  for (const auto& rejection : state_->registry().rejections()) {
    texts.push_back(rejection.path.string() + ": " + rejection.reason);
  }
  return texts;
}

}  // namespace runtime
