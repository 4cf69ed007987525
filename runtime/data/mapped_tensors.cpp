// Maps a file behind its checked header.
#include "runtime/data/mapped_tensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/data/safetensors_header.h"
#include "runtime/data/source.h"
#include "runtime/error.h"

namespace runtime::data {

MappedTensors::MappedTensors(const std::string& path) {
  TensorHeader header;
  uint64_t begin = 0;
  {
    const auto source = open_file(path);
    header = read_tensor_header(*source);
    begin = source->offset();
    size_ = begin + source->limit();
  }
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd >= 0) address_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
  const int error = errno;
  if (fd >= 0) close(fd);
  if (fd < 0 || address_ == MAP_FAILED) {
    address_ = nullptr;
    throw DataError(path + ": cannot be mapped: " + std::strerror(error));
  }
  const auto* const data = static_cast<const std::byte*>(address_) + begin;
  for (TensorEntry& entry : header.entries) {
    file_.tensors[entry.name] = {entry.dtype, std::move(entry.dims), data + entry.begin,
                                 entry.end - entry.begin};
  }
  file_.metadata = std::move(header.metadata);
}

MappedTensors::MappedTensors(MappedTensors&& other) noexcept
    : file_(std::move(other.file_)),
      address_(std::exchange(other.address_, nullptr)),
      size_(other.size_) {}

MappedTensors::~MappedTensors() {
  if (address_ != nullptr) munmap(address_, size_);
}

}  // namespace runtime::data
