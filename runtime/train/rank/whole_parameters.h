// Whole parameters and gradients of a model that is divided among ranks.
#ifndef RUNTIME_TRAIN_RANK_WHOLE_PARAMETERS_H_
#define RUNTIME_TRAIN_RANK_WHOLE_PARAMETERS_H_

#include <cstddef>
#include <vector>

#include "runtime/train/rank/rank_model.h"

namespace runtime::train {

// Writes whole parameters as this rank's slices and ZeRO partitions, and gathers whole ones from
// all ranks. Every rank makes the same calls in the same order. Used by the thread of the programs,
// which must outlive it.
class WholeParameters {
 public:
  explicit WholeParameters(RankModel& model) : model_(model) {}

  // `values`: the whole parameter in file order, of the training type; this rank writes its slice.
  void write(const HeldParameter& held, std::vector<std::byte> values);
  // The same in canonical order. Where the parameter is cut, `bytes` is then a part of it.
  void write_canonical(const HeldParameter& held, std::vector<std::byte>& bytes);
  // Collects a parameter's values or gradient from the ranks of the tensor and pipeline axes.
  // `bytes` is what this rank has of it, in canonical layout, or empty. Returns the whole tensor in
  // file order, on every rank.
  std::vector<std::byte> joined(const HeldParameter& held, std::vector<std::byte> bytes);
  // Returns a whole flat buffer of that layout; empty if the rank has none. If the configured ZeRO
  // stage is `zero_stage` or higher, each rank holds only a ZeRO partition, and the buffer is
  // gathered.
  std::vector<std::byte> flat_bytes(const std::string& buffer, const parallel::FlatLayout& layout,
                                    int zero_stage);
  // Returns a whole buffer of that layout from the ZeRO partitions that the ranks have in the
  // buffer of that name.
  std::vector<std::byte> gathered(const std::string& buffer, const parallel::FlatLayout& layout);
  // Divides the gradients of float16 steps by the scale of the loss.
  std::vector<std::byte> unscaled(std::vector<std::byte> gradients);
  // Whether ranks hold only ZeRO partitions of the parameter (stage 3).
  bool is_partitioned(const HeldParameter& held) const;

 private:
  RankModel& model_;
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_RANK_WHOLE_PARAMETERS_H_
