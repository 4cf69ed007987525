// A step that another framework has recorded, in the names and layouts of PyTorch, as
// compare_step() compares it. README.md lists the names; tools/pytorch/record_step.py writes such
// files.
#ifndef TOOLS_VERIFY_FOREIGN_RECORD_H_
#define TOOLS_VERIFY_FOREIGN_RECORD_H_

#include <optional>
#include <string>

#include "runtime/data/dataset.h"
#include "runtime/model/network.h"
#include "tools/verify/compare_steps.h"

namespace runtime::verify {

// A file with one step of another framework. All functions throw DataError, which names the file,
// the tensor, what it has and what was expected.
class ForeignRecord {
 public:
  // Throws if a name is none of those of a record.
  ForeignRecord(data::TensorFile file, std::string path);

  // Whether the file has no step that `runtime verify --record` has written.
  static bool is_one(const data::TensorFile& file) { return count_steps(file) == 0; }

  // The number of samples in the recorded batch; 0 if the record has no batch.
  int64_t rows() const;
  // The recorded batch, with labels or targets as `programs` reads them; nullopt if the record has
  // none.
  std::optional<data::Batch> batch(train::StepPrograms& programs) const;
  // The weights before the step, with PyTorch's names; no tensors if the record has none.
  data::TensorFile weights() const;
  // What was recorded of the step of this batch, by the names of `trace`, and the state that the
  // trace has. Throws ConfigurationError if the step is computed in several parts.
  RecordedStep step(StepTrace& trace, train::StepPrograms& programs,
                    const data::Batch& batch) const;

 private:
  const data::HostTensor* find(const std::string& name) const;
  void read_inputs(const model::Network& network, const data::SampleSpec& spec,
                   data::Batch& batch) const;

  data::TensorFile file_;
  std::string path_;
};

}  // namespace runtime::verify

#endif  // TOOLS_VERIFY_FOREIGN_RECORD_H_
