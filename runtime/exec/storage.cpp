// Allocates named buffers, in pieces if the device has a largest buffer, and the arena.
#include "runtime/exec/storage.h"

#include <algorithm>

#include "plugins/host/error.h"
#include "runtime/error.h"

namespace runtime::exec {

Storage::Storage(std::shared_ptr<plugins::host::Device> device, bool planned)
    : device_(std::move(device)), stream_(device_->create_stream()), planned_(planned) {}

size_t Storage::Buffer::piece_of(uint64_t offset) const {
  return std::upper_bound(begins.begin(), begins.end(), offset) - begins.begin() - 1;
}

uint64_t Storage::Buffer::end_of(size_t piece) const {
  return piece + 1 < begins.size() ? begins[piece + 1] : bytes;
}

void Storage::buffer(const std::string& name, uint64_t bytes, const std::vector<uint64_t>& cuts) {
  const auto [it, is_new] = buffers_.try_emplace(name);
  Buffer& buffer = it->second;
  std::vector<uint64_t> begins = {0};
  begins.insert(begins.end(), cuts.begin(), cuts.end());
  if (!is_new && (buffer.bytes != bytes || buffer.begins != begins)) {
    throw DeviceError("buffer '" + name + "' was made with " + std::to_string(buffer.bytes) +
                      " bytes in " + std::to_string(buffer.begins.size()) +
                      " pieces and is now asked for with " + std::to_string(bytes) + " in " +
                      std::to_string(begins.size()));
  }
  if (!is_new) return;
  buffer.bytes = bytes;
  buffer.begins = std::move(begins);
  expect_pieces(name, buffer);
  if (!planned_) allocate(buffer);
}

void Storage::expect_pieces(const std::string& name, const Buffer& buffer) const {
  for (size_t i = 0; i < buffer.begins.size(); ++i) {
    const uint64_t bytes = buffer.end_of(i) - buffer.begins[i];
    if (bytes <= device_->largest_buffer()) continue;
    throw plugins::host::Error(RT_ERROR_OUT_OF_MEMORY,
                               "'" + name + "' needs " + std::to_string(bytes) +
                                   " bytes in one piece, and one buffer of " + device_->id() +
                                   " has at most " + std::to_string(device_->largest_buffer()) +
                                   "; split the layer (parallelism.tensor), or use a device with "
                                   "larger buffers");
  }
}

void Storage::allocate(Buffer& buffer) {
  for (size_t i = 0; i < buffer.begins.size(); ++i) {
    buffer.pieces.push_back(device_->allocate(buffer.end_of(i) - buffer.begins[i]));
    stream_.fill(buffer.pieces[i].data(), 0, buffer.pieces[i].bytes());
  }
  stream_.synchronize();
}

void Storage::materialise() {
  planned_ = false;
  for (auto& [name, buffer] : buffers_) {
    if (buffer.pieces.empty()) allocate(buffer);
  }
}

void Storage::write_once(const std::string& name,
                         const std::function<std::vector<std::byte>()>& contents) {
  Buffer& buffer = buffers_.at(name);
  if (buffer.written) return;
  const std::vector<std::byte> bytes = contents();
  stream_.copy(buffer.pieces.at(0).data(), bytes.data(), bytes.size());
  stream_.synchronize();
  buffer.written = true;
}

std::byte* Storage::find(const std::string& name, uint64_t offset) const {
  const auto it = buffers_.find(name);
  if (it == buffers_.end() || it->second.pieces.empty()) return nullptr;
  const Buffer& buffer = it->second;
  const size_t piece = buffer.piece_of(offset);
  return static_cast<std::byte*>(buffer.pieces[piece].data()) + (offset - buffer.begins[piece]);
}

uint64_t Storage::contiguous(const std::string& name, uint64_t offset) const {
  const Buffer& buffer = buffers_.at(name);
  return buffer.end_of(buffer.piece_of(offset)) - offset;
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

namespace {

// Calls `copy(address, done, bytes)` for each piece of a range, of which `done` bytes lie before.
template <typename Copy>
void for_each_piece(const Storage& storage, const std::string& name, uint64_t begin, uint64_t bytes,
                    Copy&& copy) {
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t next = std::min(bytes - done, storage.contiguous(name, begin + done));
    copy(storage.find(name, begin + done), done, next);
    done += next;
  }
}

}  // namespace

std::vector<std::byte> read_bytes(const Storage& storage, plugins::host::Stream& stream,
                                  const std::string& name, uint64_t begin, uint64_t bytes) {
  std::vector<std::byte> out(bytes);
  for_each_piece(storage, name, begin, bytes,
                 [&](const std::byte* from, uint64_t done, uint64_t count) {
                   stream.copy(out.data() + done, from, count);
                 });
  stream.synchronize();
  return out;
}

void write_bytes(const Storage& storage, plugins::host::Stream& stream, const std::string& name,
                 uint64_t begin, const std::vector<std::byte>& bytes) {
  for_each_piece(storage, name, begin, bytes.size(),
                 [&](std::byte* to, uint64_t done, uint64_t count) {
                   stream.copy(to, bytes.data() + done, count);
                 });
  stream.synchronize();
}

std::vector<std::byte> read_memory(plugins::host::Stream& stream, const void* address,
                                   uint64_t bytes) {
  std::vector<std::byte> out(bytes);
  stream.copy(out.data(), address, bytes);
  stream.synchronize();
  return out;
}

void write_memory(plugins::host::Stream& stream, void* address,
                  const std::vector<std::byte>& bytes) {
  stream.copy(address, bytes.data(), bytes.size());
  stream.synchronize();
}

uint64_t Arena::piece_of(const plugins::host::Device& device) {
  const uint64_t largest = device.largest_buffer(), alignment = device.properties().alignment;
  return largest == UINT64_MAX ? largest : largest / alignment * alignment;
}

void Arena::reserve(uint64_t bytes) {
  if (bytes <= bytes_) return;
  bytes_ = bytes;
  pieces_.clear();  // freed first, because both together may not fit
  if (!planned_) allocate();
}

void Arena::materialise() {
  planned_ = false;
  if (pieces_.empty()) allocate();
}

void Arena::allocate() {
  ++version_;
  for (uint64_t begin = 0; begin < bytes_;) {
    const uint64_t bytes = std::min(piece(), bytes_ - begin);
    pieces_.push_back(device_->allocate(bytes, kind_));
    begin += bytes;
  }
}

std::byte* Arena::at(uint64_t offset) const {
  if (pieces_.empty()) return nullptr;
  // A value without elements may lie behind the last byte.
  const uint64_t index = std::min<uint64_t>(offset / piece(), pieces_.size() - 1);
  return static_cast<std::byte*>(pieces_[index].data()) + (offset - index * piece());
}

}  // namespace runtime::exec
