// Reads named inputs, converts them to their types, and puts them beside the samples of a data set.
#include "runtime/data/inputs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "runtime/data/array.h"
#include "runtime/error.h"
#include "runtime/system/available_memory.h"

namespace runtime::data {
namespace {

class WithInputs final : public Dataset {
 public:
  WithInputs(std::shared_ptr<const Dataset> base, std::vector<InputColumn> columns)
      : base_(std::move(base)), spec_(base_->spec()), columns_(std::move(columns)) {
    for (const InputColumn& column : columns_) spec_.inputs.push_back(column.input);
  }
  const SampleSpec& spec() const override { return spec_; }
  int64_t size() const override { return base_->size(); }
  void read_features(int64_t index, float* out) const override { base_->read_features(index, out); }
  int32_t label(int64_t index) const override { return base_->label(index); }
  void read_labels(int64_t index, int32_t* out) const override { base_->read_labels(index, out); }
  void read_targets(int64_t index, float* out) const override { base_->read_targets(index, out); }
  void read_samples(std::span<const int64_t> indices, float* features, int32_t* labels,
                    float* targets) const override {
    base_->read_samples(indices, features, labels, targets);
  }
  void read_region(int64_t index, const RandomRegion& region, float* out,
                   float* scratch) const override {
    base_->read_region(index, region, out, scratch);
  }
  std::string file(int64_t index) const override { return base_->file(index); }
  void read_input(std::span<const int64_t> indices, std::size_t input,
                  InputArray out) const override {
    const std::size_t own = spec_.inputs.size() - columns_.size();
    if (input < own) return base_->read_input(indices, input, out);
    const InputColumn& column = columns_[input - own];
    const int64_t numbers = column.input.numbers();
    for (const int64_t index : indices) {
      if (column.input.integers)
        out.integers = std::copy_n(column.integers.data() + index * numbers, numbers, out.integers);
      else
        out.floats = std::copy_n(column.floats.data() + index * numbers, numbers, out.floats);
    }
  }
  std::string description() const override {
    std::string text = base_->description() + ", inputs";
    for (const InputColumn& column : columns_)
      text += " " + column.input.name + " (" + shape_text(column.input.shape) + ")";
    return text;
  }

 private:
  std::shared_ptr<const Dataset> base_;
  SampleSpec spec_;
  std::vector<InputColumn> columns_;
};

// Number `index` of an input as an integer. Throws DataError.
int32_t integer_of(double number, std::size_t index, const std::string& name,
                   const std::string& title) {
  constexpr double kLeast = std::numeric_limits<int32_t>::min();
  constexpr double kMost = std::numeric_limits<int32_t>::max();
  if (number == std::floor(number) && number >= kLeast && number <= kMost)
    return static_cast<int32_t>(number);
  throw DataError(title + ": number " + std::to_string(index) + " of the input " + name + " is " +
                  std::to_string(number) +
                  "; expected a whole number of 32 bits, or type = \"float32\" in its "
                  "[[dataset.input]]");
}

InputColumn column_of(const InputSource& source) {
  InputColumn column;
  column.input.name = source.name;
  column.input.integers = source.integers;
  return column;
}

template <class NumberOf>
void fill(InputColumn& column, std::size_t count, const std::string& title,
          const NumberOf& number_of) {
  system::require_memory(count * sizeof(float), title + ": the input " + column.input.name,
                         "use a smaller file or a machine with more memory");
  if (!column.input.integers) {
    std::vector<float> floats(count);
    for (std::size_t i = 0; i < count; ++i) floats[i] = static_cast<float>(number_of(i));
    column.floats = Held<float>(std::move(floats));
    return;
  }
  std::vector<int32_t> integers(count);
  for (std::size_t i = 0; i < count; ++i)
    integers[i] = integer_of(number_of(i), i, column.input.name, title);
  if (count > 0) {
    const auto [least, most] = std::minmax_element(integers.begin(), integers.end());
    column.input.least = *least;
    column.input.most = *most;
  }
  column.integers = Held<int32_t>(std::move(integers));
}

}  // namespace

std::shared_ptr<const Dataset> with_inputs(std::shared_ptr<const Dataset> base,
                                           std::vector<InputColumn> columns) {
  if (columns.empty()) return base;
  return std::make_shared<WithInputs>(std::move(base), std::move(columns));
}

InputColumn read_input_file(const InputSource& source, const std::string& path, int64_t samples,
                            const std::string& title) {
  const Array array = read_npy(path);
  const int64_t found = array.dims.empty() ? 0 : array.dims[0];
  if (found != samples) {
    throw DataError(path + " has the input " + source.name + " of " + std::to_string(found) +
                    " samples, but " + title + " has " + std::to_string(samples) +
                    " samples; expected as many of one as of the other, the files do not belong "
                    "together");
  }
  InputColumn column = column_of(source);
  column.input.shape.assign(array.dims.begin() + 1, array.dims.end());
  if (column.input.shape.empty()) column.input.shape = {1};
  if (!source.integers) {
    column.floats = Held<float>(to_floats(array));
    return column;
  }
  const std::vector<double> numbers = to_doubles(array);
  fill(column, numbers.size(), path, [&](std::size_t i) { return numbers[i]; });
  return column;
}

std::vector<std::string> columns_of(const std::vector<InputSource>& sources) {
  std::vector<std::string> all;
  for (const InputSource& source : sources)
    all.insert(all.end(), source.columns.begin(), source.columns.end());
  return all;
}

std::vector<InputColumn> take_columns(Part& table, const std::vector<InputSource>& sources) {
  std::vector<InputColumn> columns;
  const auto width = static_cast<std::size_t>(table.shape[0]);
  const auto samples = static_cast<std::size_t>(table.samples);
  std::size_t first = width - columns_of(sources).size();
  const std::size_t features = first;
  for (const InputSource& source : sources) {
    const std::size_t count = source.columns.size();
    if (count == 0) continue;
    InputColumn column = column_of(source);
    column.input.shape = {static_cast<int64_t>(count)};
    fill(column, samples * count, table.title,
         [&](std::size_t i) { return table.number(i / count * width + first + i % count); });
    columns.push_back(std::move(column));
    first += count;
  }
  const auto keep = [&](auto& numbers) {
    if (numbers.empty()) return;
    for (std::size_t row = 1; row < samples; ++row)
      std::copy_n(numbers.data() + row * width, features, numbers.data() + row * features);
    numbers.resize(samples * features);
  };
  keep(table.floats);
  keep(table.doubles);
  table.shape = {static_cast<int64_t>(features)};
  return columns;
}

void agree(std::vector<InputColumn>& train, std::vector<InputColumn>& validation,
           const std::string& title) {
  for (std::size_t i = 0; i < train.size(); ++i) {
    SampleInput &a = train[i].input, &b = validation[i].input;
    a.least = b.least = std::min(a.least, b.least);
    a.most = b.most = std::max(a.most, b.most);
    if (a == b) continue;
    throw DataError(title + ": the input " + b.name + " is " + shape_text(b.shape) +
                    " of a sample; expected " + shape_text(a.shape) +
                    ", as of the training samples");
  }
}

void check_sources(const std::vector<InputSource>& sources) {
  std::set<std::string> names;
  const auto refuse = [](const InputSource& source, const std::string& message) {
    throw ConfigurationError("dataset.input \"" + source.name + "\": " + message);
  };
  for (const InputSource& source : sources) {
    const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
    const bool named = !source.name.empty() && is_letter(source.name[0]) &&
                       std::all_of(source.name.begin(), source.name.end(), [&](char c) {
                         return is_letter(c) || (c >= '0' && c <= '9') || c == '_';
                       });
    if (!named) refuse(source, "expected a name of small letters, digits and _");
    if (!names.insert(source.name).second) refuse(source, "the name stands twice; change one");
    if (source.path.empty() == source.columns.empty())
      refuse(source, "expected either path, an NPY file, or columns of a table (format csv)");
  }
}

}  // namespace runtime::data
