// Samples whose format this room does not know: whoever opens a data set brings them (a plugin, for
// example), and this file makes a data set of them.
#ifndef RUNTIME_DATA_RECORDS_H_
#define RUNTIME_DATA_RECORDS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/data/dataset_options.h"

namespace runtime::data {

// What is known of records. Every record has the same shape.
struct RecordSpec {
  std::string title;           // like "LIBSVM /data/train.txt", for messages
  std::vector<int64_t> shape;  // of the features: [features] or [height, width, channels]
  bool bytes = false;          // features are uint8, which become x / 255; else float32
  int64_t samples = 0;
  int64_t classes = 0;  // > 0: targets are int32 labels below it; else they are float32
  int64_t targets = 1;  // numbers in the target of one sample
  std::vector<SampleInput> inputs = {};
};

// Records, which are immutable after construction. Any thread may read any of them at any time.
class Records {
 public:
  virtual ~Records() = default;
  virtual const RecordSpec& spec() const = 0;
  // Writes the features and the targets of the records `indices`, 0..samples-1, densely one after
  // the other, in the types that spec() says. Either may be null, if it is not wanted. Throws
  // DataError.
  virtual void read(std::span<const int64_t> indices, void* features, void* targets) const = 0;
  // Writes input `input` of spec().inputs of these records, densely one after the other, in its
  // type. Throws DataError.
  virtual void read_input(std::span<const int64_t> indices, std::size_t input, void* out) const;
};

// The records of the splits of a data set. Validation may be null.
struct RecordsPair {
  std::shared_ptr<const Records> train, validation;
};

// Whether `format` is one of a plugin, "<plugin>.<name>".
bool is_of_plugin(const std::string& format);

// Makes data sets of what options.open_records returns: scaled, standardised or normalised, and
// split as the options say. Labels, and the token ids of language models, are checked when they are
// read. Throws DataError.
DatasetPair open_records(const DatasetOptions& options);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_RECORDS_H_
