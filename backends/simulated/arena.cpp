// Maps the memory of a simulated device twice: without access for the host, with access for
// kernels.
#include "backends/simulated/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "rt/sdk/error.h"

namespace backends::simulated {
namespace {

constexpr int kPoisonByte = 0xFF;  // four or eight such bytes are a NaN

uint64_t rounded(uint64_t bytes) {
  return (bytes + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment;
}

[[noreturn]] void fail(const char* call, uint64_t bytes) {
  const int number = errno;
  throw rt::sdk::Error(
      RT_ERROR_OUT_OF_MEMORY,
      rt::sdk::format("%s of %llu bytes for the memory of a simulated device: %s", call,
                      static_cast<unsigned long long>(bytes), std::strerror(number)),
      RT_SCOPE_DEVICE)
      .native("errno", number);
}

std::byte* map(int file, uint64_t bytes, int protection) {
  void* address = mmap(nullptr, bytes, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
  return address == MAP_FAILED ? nullptr : static_cast<std::byte*>(address);
}

}  // namespace

Arena::Arena(uint64_t bytes, bool poison) : bytes_(bytes), poison_(poison) {
  const int file = memfd_create("simulated_device", MFD_CLOEXEC);
  if (file < 0) fail("memfd_create", bytes);
  if (ftruncate(file, static_cast<off_t>(bytes)) == 0) {
    host_ = map(file, bytes, PROT_NONE);
    device_ = map(file, bytes, PROT_READ | PROT_WRITE);
  }
  const int number = errno;
  close(file);
  if (host_ != nullptr && device_ != nullptr) return;
  if (host_ != nullptr) munmap(host_, bytes);
  if (device_ != nullptr) munmap(device_, bytes);
  errno = number;
  fail("mmap", bytes);
}

Arena::~Arena() {
  munmap(host_, bytes_);
  munmap(device_, bytes_);
}

void* Arena::allocate(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > bytes_) return nullptr;
  uint64_t offset = 0;  // first fit
  for (const auto& [begin, size] : blocks_) {
    if (begin - offset >= rounded(bytes)) break;
    offset = begin + rounded(size);
  }
  if (bytes_ - offset < rounded(bytes)) return nullptr;
  blocks_.emplace(offset, bytes);
  allocated_ += rounded(bytes);
  if (poison_) std::memset(device_ + offset, kPoisonByte, bytes);
  return host_ + offset;
}

bool Arena::release(void* address) {
  const std::lock_guard lock(mutex_);
  if (!contains(address)) return false;
  const auto block = blocks_.find(offset_of(address));
  if (block == blocks_.end()) return false;
  if (poison_) std::memset(device_ + block->first, kPoisonByte, block->second);
  allocated_ -= rounded(block->second);
  blocks_.erase(block);
  return true;
}

bool Arena::contains(const void* address) const { return offset_of(address) < bytes_; }

std::byte* Arena::translate(const void* address, uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  if (!contains(address)) return nullptr;
  const uint64_t offset = offset_of(address);
  auto block = blocks_.upper_bound(offset);
  if (block == blocks_.begin()) return nullptr;
  --block;
  const uint64_t within = offset - block->first;
  if (within > block->second || bytes > block->second - within) return nullptr;
  return device_ + offset;
}

uint64_t Arena::allocated_bytes() const {
  const std::lock_guard lock(mutex_);
  return allocated_;
}

uint64_t Arena::offset_of(const void* address) const {
  return reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(host_);
}

}  // namespace backends::simulated
