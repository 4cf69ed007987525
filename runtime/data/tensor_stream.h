// The tensors of a safetensors file, one after the other, for files as large as the memory.
#ifndef RUNTIME_DATA_TENSOR_STREAM_H_
#define RUNTIME_DATA_TENSOR_STREAM_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/safetensors.h"
#include "runtime/data/safetensors_checksum.h"
#include "runtime/data/safetensors_header.h"
#include "runtime/data/source.h"

namespace runtime::data {

// A file that is read once from front to back. One thread uses an object.
class TensorStream {
 public:
  // Reads the header. Throws DataError as read_safetensors() does.
  explicit TensorStream(const std::string& path);

  // Types and dimensions of all tensors, whose data are null, and the metadata.
  const FileView& header() const { return header_; }

  // Gives each tensor to `visit`, in the order of the file. Then checks the checksum of the file,
  // if it has one: what was given is right only if the function returns. Throws DataError. Call it
  // once.
  void read(const std::function<void(const std::string& name, HostTensor tensor)>& visit);

 private:
  std::unique_ptr<Source> source_;
  std::vector<TensorEntry> entries_;  // in the order of the data
  std::optional<Checksum> checksum_;
  FileView header_;
};

}  // namespace runtime::data

#endif  // RUNTIME_DATA_TENSOR_STREAM_H_
