// Puts slices of tensors together from the files of a checkpoint.
#ifndef RUNTIME_TRAIN_CHECKPOINT_ASSEMBLY_H_
#define RUNTIME_TRAIN_CHECKPOINT_ASSEMBLY_H_

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/data/safetensors.h"
#include "runtime/data/safetensors_header.h"
#include "runtime/train/checkpoint/files.h"
#include "runtime/train/checkpoint/slice.h"

namespace runtime::train {

// The beginnings of the names of tensors: "<group>/<parameter>". Each buffer of optimizer state is
// a group, too ("momentum/", "adam_m/", ...). Each rank of the data axis has running statistics of
// its own.
inline constexpr const char* kParametersGroup = "parameters/";
inline constexpr const char* kStatisticsGroup = "statistics/";

// A slice that is asked for.
struct WantedSlice {
  std::string name;
  rt_dtype dtype = RT_FLOAT32;  // of the result; files may have another floating type
  Slice slice;
  bool sent = false;  // another rank reads it and sends it, so that no file is asked for it
};

// Says in the metadata of a file which slice of a tensor it holds; nothing if it is the whole one.
void describe_slice(std::map<std::string, std::string>& metadata, const std::string& name,
                    const Slice& slice);
// Which slice a tensor with this name and these dimensions is in a file with this metadata. `path`
// is for messages. Throws DataError.
Slice slice_in(const std::map<std::string, std::string>& metadata, const std::string& name,
               const graph::Dims& dims, const std::string& path);

// The bytes of wanted slices. Used by one thread.
class Assembly {
 public:
  explicit Assembly(std::vector<WantedSlice> wanted);
  // Asks for one more slice, which files that were added before do not count for.
  void want(WantedSlice wanted);
  bool wants(const std::string& name) const { return by_name_.contains(name); }
  // The number of slices, and slice `i`.
  size_t size() const { return parts_.size(); }
  const WantedSlice& wanted(size_t i) const { return parts_[i].wanted; }

  // Takes what is wanted from a file; `path` is for messages. Files may come in any order. Running
  // statistics are left out if not `with_statistics`. Throws DataError if a tensor has another
  // shape than the wanted one.
  void add(const data::TensorFile& file, const std::string& path, bool with_statistics = true);
  // Reads only what is wanted from a file with this header.
  void add(const std::string& path, const data::TensorHeader& header, bool with_statistics = true);
  // Names the first slice that the files lacked; "" if there is none.
  std::string missing() const;
  // The bytes of wanted slice `i`.
  const std::vector<std::byte>& bytes(size_t i) const { return parts_[i].bytes; }
  std::vector<std::byte>& bytes(size_t i) { return parts_[i].bytes; }

 private:
  // A tensor of a file; `read` reads `count` of its elements from element `first` on.
  struct Stored {
    const std::string& name;
    const graph::Dims& dims;
    rt_dtype dtype;
    std::function<void(int64_t first, int64_t count, std::byte* out)> read;
  };
  struct Part {
    WantedSlice wanted;
    std::vector<std::byte> bytes;
    std::map<int64_t, int64_t> found;  // begin -> end of disjoint ranges of the slice's elements
  };
  void add(const Stored& stored, const std::map<std::string, std::string>& metadata,
           const std::string& path, bool with_statistics);
  static void add(Part& part, const Stored& stored, const Slice& slice, const std::string& where);

  std::vector<Part> parts_;
  std::multimap<std::string, size_t> by_name_;
};

// Reads the files of a checkpoint into the slices, and checks that nothing is missing. Statistics
// are those of rank `statistics_of` of the data axis. One rank by itself, and rank 0 where it reads
// for all, read each file once, with its checksum; otherwise each rank reads only what it wants.
// Throws DataError, on every rank if the ranks have opened the files together.
Assembly assemble(const CheckpointFiles& files, const Manifest& manifest,
                  std::vector<WantedSlice> wanted, int statistics_of);

// All tensors of a checkpoint, whole, as one rank would have saved them, with the metadata of the
// first rank's file. Reads every file once. Throws DataError.
data::TensorFile join_checkpoint(const std::filesystem::path& checkpoint, const Manifest& manifest);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_CHECKPOINT_ASSEMBLY_H_
