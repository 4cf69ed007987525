// Whole parameters and gradients of a model that is divided among ranks.
#ifndef RUNTIME_TRAIN_PARAMETERS_WHOLE_PARAMETERS_H_
#define RUNTIME_TRAIN_PARAMETERS_WHOLE_PARAMETERS_H_

#include <cstddef>
#include <vector>

#include "runtime/train/step_programs.h"

namespace runtime::train {

// Writes whole parameters as this rank's slices and ZeRO partitions, and gathers whole ones from
// all ranks. Every rank makes the same calls in the same order. Used by the thread of the programs,
// which must outlive it.
class WholeParameters {
 public:
  explicit WholeParameters(StepPrograms& programs) : programs_(programs) {}

  // `values`: the whole parameter in file order, of the training type; this rank writes its slice.
  void write(StepProgram& p, const model::Parameter& parameter, std::vector<std::byte> values);
  // The same in canonical order. Where the parameter is cut, `bytes` is then a part of it.
  void write_canonical(StepProgram& p, const model::Parameter& parameter,
                       std::vector<std::byte>& bytes);
  // Collects a parameter's values or gradient from the ranks of the tensor and pipeline axes.
  // `bytes` is what this rank has of it, in canonical layout, or empty. Returns the whole tensor in
  // file order, on every rank.
  std::vector<std::byte> joined(const StepProgram& p, const model::Parameter& parameter,
                                std::vector<std::byte> bytes);
  // Returns a whole flat buffer; empty if the program does not use it. If the configured ZeRO stage
  // is `zero_stage` or higher, each rank holds only a ZeRO partition, and the buffer is gathered.
  std::vector<std::byte> flat_bytes(const StepProgram& p, graph::ValueId flat,
                                    const parallel::FlatLayout& layout, int zero_stage);
  // Returns a whole buffer of that layout from the ZeRO partitions that the ranks have in the
  // buffer of that name.
  std::vector<std::byte> gathered(const std::string& buffer, const parallel::FlatLayout& layout);
  // Divides the gradients of float16 steps by the scale of the loss.
  std::vector<std::byte> unscaled(std::vector<std::byte> gradients);
  // Whether ranks hold only ZeRO partitions of the buffers that are partitioned from stage
  // `zero_stage` on.
  bool holds_parts(int zero_stage) const;
  // The layout of the parameter's flat buffer if ranks hold ZeRO partitions of it (stage 3), else
  // nullptr.
  const parallel::FlatLayout* layout_of_parts(const StepProgram& p,
                                              const model::Parameter& parameter) const;

 private:
  const parallel::ShardedParameter* sharded(const StepProgram& p,
                                            const model::Parameter& parameter) const;

  StepPrograms& programs_;
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_PARAMETERS_WHOLE_PARAMETERS_H_
