#include "runtime/exec/storage.h"

#include "runtime/error.h"

namespace runtime::exec {

Storage::Storage(std::shared_ptr<plugins::host::Device> device)
    : device_(std::move(device)), stream_(device_->create_stream()) {}

void* Storage::buffer(const std::string& name, uint64_t bytes) {
  const auto it = buffers_.find(name);
  if (it != buffers_.end()) {
    if (it->second.bytes() != bytes) {
      throw DeviceError("buffer '" + name + "' was made with " +
                        std::to_string(it->second.bytes()) + " bytes and is now asked for with " +
                        std::to_string(bytes));
    }
    return it->second.data();
  }
  plugins::host::Memory memory = device_->allocate(bytes);
  stream_.fill(memory.data(), 0, bytes);
  stream_.synchronize();
  return buffers_.emplace(name, std::move(memory)).first->second.data();
}

void* Storage::find(const std::string& name) const {
  const auto it = buffers_.find(name);
  return it == buffers_.end() ? nullptr : it->second.data();
}

uint64_t Storage::bytes(const std::string& name) const {
  const auto it = buffers_.find(name);
  return it == buffers_.end() ? 0 : it->second.bytes();
}

uint64_t Storage::total_bytes() const {
  uint64_t total = 0;
  for (const auto& [name, memory] : buffers_) total += memory.bytes();
  return total;
}

void Arena::reserve(uint64_t bytes) {
  if (bytes <= memory_.bytes()) return;
  memory_ = plugins::host::Memory();  // freed first: the two together may not fit
  memory_ = device_->allocate(bytes);
}

}  // namespace runtime::exec
