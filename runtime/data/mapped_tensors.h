// The tensors of a safetensors file, left where they are.
#ifndef RUNTIME_DATA_MAPPED_TENSORS_H_
#define RUNTIME_DATA_MAPPED_TENSORS_H_

#include <cstddef>
#include <string>

#include "runtime/data/safetensors.h"

namespace runtime::data {

// A file in the address space: its pages are read when they are used, and the memory can be taken
// back at any time, so that a file may be larger than the memory. The checksum of the file is not
// checked. A file that becomes shorter in the meantime ends the program. Any thread may read.
class MappedTensors {
 public:
  // Throws DataError as read_safetensors() does.
  explicit MappedTensors(const std::string& path);
  ~MappedTensors();
  MappedTensors(MappedTensors&& other) noexcept;
  MappedTensors(const MappedTensors&) = delete;
  MappedTensors& operator=(const MappedTensors&) = delete;

  const FileView& file() const { return file_; }

 private:
  FileView file_;
  void* address_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace runtime::data

#endif  // RUNTIME_DATA_MAPPED_TENSORS_H_
