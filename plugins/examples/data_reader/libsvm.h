// The samples of a file in the format of LIBSVM: one line a sample, `label index:value ...`,
// indices in ascending order, absent values 0, and `#` before a comment.
#ifndef LIBSVM_H_
#define LIBSVM_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace libsvm {

// How a file is read.
struct Options {
  int64_t first_index = 1;  // index of the first feature
  int64_t features = 0;     // of a sample; 0: as many as the largest index says
  // Called about once a mebibyte with the bytes in use, so that large files can be refused and
  // reading can be stopped; throws.
  std::function<void(uint64_t bytes)> check = nullptr;
};

// The samples of a file as compressed sparse rows. Immutable once it has been read.
struct Samples {
  std::string path;
  int64_t features = 0;
  std::vector<float> labels;
  std::vector<uint64_t> begins = {0};  // of each sample in `columns`, and the end of the last one
  std::vector<uint32_t> columns;       // from 0
  std::vector<float> values;

  int64_t size() const { return static_cast<int64_t>(labels.size()); }
  uint64_t bytes() const;
  // Writes the `features` numbers of a sample.
  void write(int64_t index, float* out) const;
};

// Reads a whole file. Throws rt::sdk::Error, whose message names file and line.
Samples read(const std::string& path, const Options& options);

}  // namespace libsvm

#endif  // LIBSVM_H_
