// Named inputs of samples that lie in host memory, read from files of arrays or columns of a table.
#ifndef RUNTIME_DATA_INPUTS_H_
#define RUNTIME_DATA_INPUTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/dataset_options.h"
#include "runtime/data/held.h"
#include "runtime/data/part.h"

namespace runtime::data {

// The numbers of one input of all samples, one sample behind the other.
struct InputColumn {
  SampleInput input;
  Held<float> floats;      // empty for integers
  Held<int32_t> integers;  // empty otherwise
};

// Returns the samples of `base` with these inputs as well.
std::shared_ptr<const Dataset> with_inputs(std::shared_ptr<const Dataset> base,
                                           std::vector<InputColumn> columns);

// Reads the file of an input, an NPY array whose first dimension counts samples. Throws DataError
// for numbers that the type of the input cannot hold, and unless there are `samples` samples, those
// of `title`.
InputColumn read_input_file(const InputSource& source, const std::string& path, int64_t samples,
                            const std::string& title);

// The names of the columns that become inputs, of all sources in turn.
std::vector<std::string> columns_of(const std::vector<InputSource>& sources);

// Takes the last columns of a table, those of columns_of(sources) in their order, out of its
// features.
std::vector<InputColumn> take_columns(Part& table, const std::vector<InputSource>& sources);

// Makes the same inputs of two parts of a data set equal in the numbers that they may have. Throws
// DataError, which names the part `title`, if their shapes differ.
void agree(std::vector<InputColumn>& train, std::vector<InputColumn>& validation,
           const std::string& title);

// Throws ConfigurationError for names that are no names or stand twice, and for sources that have
// neither a file nor columns, or both.
void check_sources(const std::vector<InputSource>& sources);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_INPUTS_H_
