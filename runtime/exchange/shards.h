// The weights of a model folder: one safetensors file, or several with an index.
#ifndef RUNTIME_EXCHANGE_SHARDS_H_
#define RUNTIME_EXCHANGE_SHARDS_H_

#include <map>
#include <string>
#include <vector>

#include "runtime/data/mapped_tensors.h"

namespace runtime::exchange {

// All tensors of a folder, by their names in the files; they stay in the files. Any thread may
// read.
struct Shards {
  std::vector<data::MappedTensors> files;
  std::map<std::string, data::TensorView> tensors;
  std::map<std::string, std::string> origins;  // the file of each tensor, for messages
};

// Opens model.safetensors, or the files that model.safetensors.index.json names. Throws DataError
// if there is neither (for .bin and .pth files with the remedy), or if the index names a file that
// is not there, one outside of the folder, or a tensor that its file does not have.
Shards open_shards(const std::string& folder);

}  // namespace runtime::exchange

#endif  // RUNTIME_EXCHANGE_SHARDS_H_
