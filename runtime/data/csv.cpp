// Makes features and labels of CSV records, and names the line of what cannot be read.
#include "runtime/data/csv.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "runtime/data/csv_header.h"
#include "runtime/data/csv_reader.h"
#include "runtime/data/formats.h"
#include "runtime/data/source.h"
#include "runtime/error.h"
#include "runtime/system/available_memory.h"

namespace runtime::data {
namespace {

constexpr const char* kSeparators = ";\t|";
constexpr const char* kCommas =
    "commas between the fields and points in numbers: save the table again in that form";

constexpr const char* kFillIn = "fill it in, or remove the line";

// Largest number of bytes of a text label; a longer one is taken for an error in the data.
constexpr std::size_t kMaxLabel = 1024;

class CsvParser {
 public:
  CsvParser(Source& source, const std::string& name, const CsvOptions& options,
            const CsvTable* known, bool header)
      : reader_(source, name), name_(name), options_(options), known_(known), named_(header) {}

  CsvTable parse() {
    CsvRecord record;
    if (!reader_.next(record)) throw DataError(name_ + ": the file is empty; expected a table");
    width_ = record.fields.size();
    check_separator(record);
    table_.named = named_;
    if (named_) header_ = record.fields;
    choose_columns();
    if (!named_ && !options_.header) check_no_count(record);
    if (!named_) add(record);
    while (reader_.next(record)) add(record);
    if (table_.part.samples == 0) {
      throw DataError(name_ + ": no line behind the header; expected at least one sample");
    }
    finish();
    return std::move(table_);
  }

 private:
  // Other programs separate fields by semicolons (where the comma is part of numbers) or tabs.
  void check_separator(const CsvRecord& record) const {
    if (width_ > 1 || record.fields[0].find_first_of(kSeparators) == std::string::npos) return;
    fail_at_cell(name_, record.line, 0,
                 quoted_for_message(record.fields[0]) + " has no comma; expected " + kCommas);
  }

  // Some programs name columns 0, 1, 2, ...; beside numbers or words nothing tells such a header
  // from a sample.
  void check_no_count(const CsvRecord& record) const {
    constexpr std::size_t kFew = 3;  // a sample may well begin with 0, 1
    std::size_t counted = 0;
    for (std::size_t i = 0; i < width_; ++i) {
      if (i == target_) continue;
      if (record.fields[i] != std::to_string(i)) return;
      ++counted;
    }
    if (counted < kFew) return;
    fail_at_cell(
        name_, record.line, 0,
        "the fields are 0, 1, 2, ..., like the names of columns; expected dataset.header = "
        "\"yes\" if they are, or \"no\" if they are a sample");
  }

  std::string column_list() const {
    if (header_.empty()) return "numbers 0.." + std::to_string(width_ - 1) + " (no header line)";
    std::string list;
    for (const std::string& column : header_) {
      if (!list.empty()) list += ", ";
      list += quoted_for_message(column);
      if (list.size() > 300) return list + ", ...";
    }
    return list;
  }

  std::size_t find_column(const std::string& wanted) const {
    const auto matches = std::count(header_.begin(), header_.end(), wanted);
    if (matches == 1) {
      return static_cast<std::size_t>(std::find(header_.begin(), header_.end(), wanted) -
                                      header_.begin());
    }
    const int64_t width = static_cast<int64_t>(width_);
    const auto number = to_integer(wanted);
    if (matches == 0 && number && *number >= -width && *number < width) {
      return static_cast<std::size_t>(*number < 0 ? *number + width : *number);
    }
    throw DataError(name_ + ": " + (matches > 1 ? "more than one column " : "there is no column ") +
                    quoted_for_message(wanted) + "; the columns are " + column_list());
  }

  // A target that is named by its number is missing where all columns are features.
  bool lacks_target() const {
    if (options_.needs_target || known_ == nullptr) return false;
    if (to_integer(options_.target))
      return known_->columns.size() + options_.inputs.size() + options_.texts.size() == width_;
    return !header_.empty() &&
           std::find(header_.begin(), header_.end(), options_.target) == header_.end();
  }

  void choose_columns() {
    table_.labelled = !lacks_target();
    if (table_.labelled) target_ = find_column(options_.target);
    const bool by_name = table_.labelled || !header_.empty();
    if (by_name)
      for (const std::string& feature : options_.features) add_feature(find_column(feature));
    std::vector<std::size_t> inputs;
    for (const std::string& input : options_.inputs) inputs.push_back(find_column(input));
    for (const std::string& text : options_.texts) texts_.push_back(find_column(text));
    if (texts_.empty() && (options_.features.empty() || !by_name)) {
      for (std::size_t i = 0; i < width_; ++i) {
        if (i != target_ && std::find(inputs.begin(), inputs.end(), i) == inputs.end())
          add_feature(i);
      }
    }
    const bool has_features = !features_.empty();
    for (const std::size_t input : inputs) add_column(input);
    if (!by_name) table_.columns = known_->columns;
    if (!has_features && texts_.empty()) {
      throw DataError(
          name_ + ": no column is left for features; expected a column beside the target, and " +
          kCommas);
    }
    if (known_ != nullptr && known_->columns != table_.columns) {
      throw DataError(name_ + ": the feature columns differ from those of " + known_->part.title +
                      "; expected the same columns in the same order");
    }
  }

  void add_feature(std::size_t column) {
    add_column(column);
    table_.columns.push_back(header_.empty() ? std::to_string(column) : header_[column]);
  }

  // Inputs are read behind the features, and taken out of them later.
  void add_column(std::size_t column) {
    if (column == target_ ||
        std::find(features_.begin(), features_.end(), column) != features_.end()) {
      throw DataError(name_ + ": column " + std::to_string(column + 1) +
                      (column == target_
                           ? " is the target and a feature or an input"
                           : " is twice in dataset.features and the columns of inputs") +
                      "; expected each column once");
    }
    features_.push_back(column);
  }

  // What to do about a field in a column of numbers that is none: `change` it, or do without.
  std::string remedy_for(const CsvRecord& record, std::size_t column,
                         const std::string& change) const {
    if (record.fields[column].find_first_of(kSeparators) != std::string::npos)
      return std::string("; expected ") + kCommas;
    const std::string name =
        header_.empty() ? std::to_string(column) : quoted_for_message(header_[column]);
    const std::string place =
        column == target_
            ? "dataset.target = " + name + " (dataset.task = \"regression\"): " + change
            : "each feature: " + change + ", or name only columns beside " + name +
                  " in dataset.features";
    const bool may_be_header = header_.empty() && record.line == 1;
    return "; expected a number in " + place +
           (may_be_header ? "; if this line is a header, set dataset.header = \"yes\"" : "");
  }

  double number_in(const CsvRecord& record, std::size_t column) const {
    const std::string& field = record.fields[column];
    const auto value = to_number(field);
    if (!value) {
      fail_at_cell(name_, record.line, column,
                   field.empty() ? "the field is empty" + remedy_for(record, column, kFillIn)
                                 : quoted_for_message(field) + " is not a number" +
                                       remedy_for(record, column, "write numbers for its words"));
    }
    // The comparison is negated, so that NaN fails as well.
    if (!(std::abs(*value) <= static_cast<double>(std::numeric_limits<float>::max()))) {
      fail_at_cell(name_, record.line, column,
                   field + "; expected a finite number in the range of float32" +
                       remedy_for(record, column, kFillIn));
    }
    if (!keeps_integer(field, *value)) {
      fail_at_cell(
          name_, record.line, column,
          field + " would be rounded, as integers above 2^53 are" +
              remedy_for(record, column, "write fewer digits where the last do not count"));
    }
    return *value;
  }

  template <class Number>
  void add_features(const CsvRecord& record, std::vector<Number>& numbers) const {
    make_room(numbers, features_.size());
    for (const std::size_t column : features_)
      numbers.push_back(static_cast<Number>(number_in(record, column)));
  }

  void add(const CsvRecord& record) {
    if (record.fields.size() != width_) {
      fail_at_cell(name_, record.line, std::min(record.fields.size(), width_),
                   "the line has " + std::to_string(record.fields.size()) + " fields; expected " +
                       std::to_string(width_) + " as in the first line");
    }
    Part& part = table_.part;
    std::vector<std::string> texts;
    for (const std::size_t column : texts_) texts.push_back(record.fields[column]);
    if (!texts.empty()) table_.texts.push_back(std::move(texts));
    options_.normalised ? add_features(record, part.doubles) : add_features(record, part.floats);
    if (!table_.labelled) {
      options_.classification ? part.targets.labels.push_back(0) : part.targets.values.push_back(0);
    } else if (options_.classification) {
      make_room(part.targets.labels, 1);
      add_label(record);
    } else {
      make_room(part.targets.values, 1);
      part.targets.values.push_back(static_cast<float>(number_in(record, target_)));
    }
    ++part.samples;
  }

  // Makes room for `count` more numbers and checks the memory for each enlargement by a half. The
  // length of a compressed text is unknown before its end, and a small file can hold a long one.
  template <class Number>
  void make_room(std::vector<Number>& numbers, std::size_t count) const {
    const std::size_t wanted = numbers.size() + count;
    if (wanted <= numbers.capacity()) return;
    const std::size_t next = std::max(wanted, numbers.capacity() + numbers.capacity() / 2);
    system::require_memory(
        next * sizeof(Number),
        name_ + ": the table has " + std::to_string(table_.part.samples) +
            " samples so far; more room for it",
        "read fewer columns (dataset.features) or lines, or use a machine with more memory");
    numbers.reserve(next);
  }

  // Labels are first numbered in the order of appearance.
  void add_label(const CsvRecord& record) {
    const std::string& field = record.fields[target_];
    if (field.empty())
      fail_at_cell(name_, record.line, target_, std::string("the label is empty; ") + kFillIn);
    if (field.size() > kMaxLabel) {
      fail_at_cell(name_, record.line, target_,
                   "the label " + quoted_for_message(field) + " has " +
                       std::to_string(field.size()) + " bytes; expected at most " +
                       std::to_string(kMaxLabel));
    }
    const auto next = static_cast<int32_t>(classes_.size());
    const auto [found, is_new] = classes_.try_emplace(field, Seen{next, record.line});
    if (is_new && next == kMaxClasses) {
      fail_at_cell(name_, record.line, target_,
                   "more than " + std::to_string(kMaxClasses) + " different labels");
    }
    table_.part.targets.labels.push_back(found->second.number);
  }

  void finish() {
    Part& part = table_.part;
    part.title = name_;
    part.shape = {static_cast<int64_t>(features_.size())};
    if (!options_.classification) {
      part.targets.per_sample = 1;
      return;
    }
    if (!table_.labelled) {
      part.targets.classes = options_.classes;
      table_.class_names = known_->class_names;
      return;
    }
    const std::vector<int32_t> final_number = number_classes();
    for (int32_t& label : part.targets.labels)
      label = final_number[static_cast<std::size_t>(label)];
  }

  // Returns the class number of each label, indexed by its order of appearance.
  std::vector<int32_t> number_classes() {
    const bool integers =
        known_ != nullptr ? known_->class_names.empty()
                          : std::all_of(classes_.begin(), classes_.end(), [](const auto& entry) {
                              return to_integer(entry.first).has_value();
                            });
    if (!integers && known_ == nullptr) name_classes();
    if (known_ != nullptr) table_.class_names = known_->class_names;
    const int64_t known_classes = known_ != nullptr ? known_->part.targets.classes : 0;
    const int64_t classes = known_classes > 0 ? known_classes : options_.classes;
    std::vector<int32_t> numbers(classes_.size());
    int64_t largest = 0;
    for (const auto& [label, seen] : classes_) {
      const int64_t number =
          integers ? integer_class(label, seen.line, classes) : named_class(label, seen.line);
      numbers[static_cast<std::size_t>(seen.number)] = static_cast<int32_t>(number);
      largest = std::max(largest, number);
    }
    table_.part.targets.classes = classes > 0 ? classes : largest + 1;
    return numbers;
  }

  int64_t integer_class(const std::string& label, int64_t line, int64_t classes) const {
    const int64_t bound = classes > 0 ? classes : kMaxClasses;
    const auto number = to_integer(label);
    if (!number || *number < 0 || *number >= bound) {
      fail_at_cell(name_, line, target_,
                   "label " + quoted_for_message(label) + "; expected an integer in 0.." +
                       std::to_string(bound - 1));
    }
    return *number;
  }

  int64_t named_class(const std::string& label, int64_t line) const {
    const std::vector<std::string>& names = table_.class_names;
    const auto found = std::lower_bound(names.begin(), names.end(), label);
    if (found == names.end() || *found != label) {
      fail_at_cell(name_, line, target_,
                   "label " + quoted_for_message(label) + " does not occur in the training part");
    }
    return found - names.begin();
  }

  // std::map is sorted, so class numbers do not depend on the order of the lines.
  void name_classes() {
    bool numbers = true;
    for (const auto& [label, seen] : classes_) {
      table_.class_names.push_back(label);
      numbers = numbers && to_number(label).has_value();
    }
    if (numbers) {
      throw DataError(name_ + ": the target column holds numbers such as " +
                      table_.class_names.front() +
                      "; expected integers or names as labels (to predict numbers, say "
                      "dataset.task = \"regression\")");
    }
    const auto found = static_cast<int64_t>(table_.class_names.size());
    if (options_.classes > 0 && found > options_.classes) {
      throw DataError(name_ + ": the target column has " + std::to_string(found) +
                      " different labels; expected at most dataset.classes = " +
                      std::to_string(options_.classes));
    }
  }

  struct Seen {
    int32_t number;
    int64_t line;
  };

  CsvReader reader_;
  const std::string& name_;
  const CsvOptions& options_;
  const CsvTable* known_;
  const bool named_;                 // the first line has the names of the columns
  std::vector<std::string> header_;  // these names; empty if there are none
  std::size_t width_ = 0;
  std::size_t target_ = std::numeric_limits<std::size_t>::max();  // no column
  std::vector<std::size_t> features_, texts_;
  std::map<std::string, Seen> classes_;
  CsvTable table_;
};

bool has_header(Source& source, const std::string& name, const CsvOptions& options,
                const CsvTable* known) {
  CsvReader reader(source, name);
  ColumnHints hints{options.target, options.features, {}};
  for (const auto* more : {&options.texts, &options.inputs})
    hints.features.insert(hints.features.end(), more->begin(), more->end());
  // Columns without a header are called by their places, which a sample may hold as well.
  if (known != nullptr && known->named && !options.needs_target) hints.columns = known->columns;
  return begins_with_header(reader, hints);
}

// `open` returns the text from its beginning, each time that it is called.
template <class Open>
CsvTable parse(const Open& open, const std::string& name, const CsvOptions& options,
               const CsvTable* known) {
  const bool header = options.header ? *options.header : has_header(*open(), name, options, known);
  const std::unique_ptr<Source> source = open();
  return CsvParser(*source, name, options, known, header).parse();
}

}  // namespace

CsvTable parse_csv(std::string_view text, const std::string& name, const CsvOptions& options,
                   const CsvTable* known) {
  return parse([&] { return memory_source(text.data(), text.size(), name); }, name, options, known);
}

CsvTable read_csv(const std::string& path, const CsvOptions& options, const CsvTable* known) {
  return parse([&] { return gunzip_if_needed(open_file(path)); }, path, options, known);
}

Parts load_csv(const std::string& train, const std::string& validation,
               const DatasetOptions& options) {
  if (options.target.empty()) {
    throw ConfigurationError(
        "dataset.target is missing; expected the name of the target column of " + train +
        ", or its number from 0 (-1: the last one)");
  }
  CsvOptions csv{options.features,      options.target, options.classification, options.classes,
                 options.needs_targets, options.header, options.normalises()};
  const std::vector<std::string> of_inputs = columns_of(options.inputs);
  CsvTable known;
  if (options.preparation != nullptr) {
    known.columns = options.preparation->columns;
    if (csv.features.empty()) csv.features = known.columns;
    known.class_names = options.preparation->class_names;
    known.named = options.preparation->named;
    known.part.title = "the data that the weights were trained on";
  }
  csv.inputs = of_inputs;
  // Integers of 32 bits have digits that float32 has not.
  for (const InputSource& source : options.inputs)
    csv.normalised = csv.normalised || (source.integers && !source.columns.empty());
  CsvTable table = read_csv(train, csv, options.preparation != nullptr ? &known : nullptr);
  Parts parts;
  parts.columns = table.columns;
  parts.class_names = table.class_names;
  parts.named = table.named;
  parts.labelled = table.labelled;
  if (!validation.empty()) parts.validation = read_csv(validation, csv, &table).part;
  parts.train = std::move(table.part);
  if (of_inputs.empty()) return parts;
  parts.inputs = take_columns(parts.train, options.inputs);
  if (parts.validation) parts.validation_inputs = take_columns(*parts.validation, options.inputs);
  return parts;
}

}  // namespace runtime::data
