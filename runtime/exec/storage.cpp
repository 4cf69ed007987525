#include "runtime/exec/storage.h"

#include "runtime/error.h"

namespace runtime::exec {

Storage::Storage(std::shared_ptr<plugins::host::Device> device, bool planned)
    : device_(std::move(device)), stream_(device_->create_stream()), planned_(planned) {}

void* Storage::buffer(const std::string& name, uint64_t bytes) {
  const auto [it, is_new] = buffers_.try_emplace(name);
  Buffer& buffer = it->second;
  if (!is_new && buffer.bytes != bytes) {
    throw DeviceError("buffer '" + name + "' was made with " + std::to_string(buffer.bytes) +
                      " bytes and is now asked for with " + std::to_string(bytes));
  }
  buffer.bytes = bytes;
  if (is_new && !planned_) allocate(buffer);
  return buffer.memory.data();
}

void Storage::allocate(Buffer& buffer) {
  buffer.memory = device_->allocate(buffer.bytes);
  stream_.fill(buffer.memory.data(), 0, buffer.bytes);
  stream_.synchronize();
}

void Storage::materialise() {
  planned_ = false;
  for (auto& [name, buffer] : buffers_) {
    if (!buffer.memory) allocate(buffer);
  }
}

void Storage::write_once(const std::string& name,
                         const std::function<std::vector<std::byte>()>& contents) {
  Buffer& buffer = buffers_.at(name);
  if (buffer.written) return;
  const std::vector<std::byte> bytes = contents();
  stream_.copy(buffer.memory.data(), bytes.data(), bytes.size());
  stream_.synchronize();
  buffer.written = true;
}

void* Storage::find(const std::string& name) const {
  const auto it = buffers_.find(name);
  return it == buffers_.end() ? nullptr : it->second.memory.data();
}

uint64_t Storage::bytes(const std::string& name) const {
  const auto it = buffers_.find(name);
  return it == buffers_.end() ? 0 : it->second.bytes;
}

uint64_t Storage::total_bytes() const {
  uint64_t total = 0;
  for (const auto& [name, buffer] : buffers_) total += buffer.bytes;
  return total;
}

void Arena::reserve(uint64_t bytes) {
  if (bytes <= bytes_) return;
  bytes_ = bytes;
  memory_ = plugins::host::Memory();  // freed first, because both together may not fit
  if (!planned_) memory_ = device_->allocate(bytes);
}

void Arena::materialise() {
  planned_ = false;
  if (!memory_ && bytes_ > 0) memory_ = device_->allocate(bytes_);
}

}  // namespace runtime::exec
