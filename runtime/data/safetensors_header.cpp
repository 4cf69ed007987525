// Reads the JSON header event by event, and checks that tensors cover the data without gaps.
#include "runtime/data/safetensors_header.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "runtime/data/safetensors_checksum.h"
#include "runtime/data/source.h"

namespace runtime::data {
namespace {

struct TensorType {
  const char* name;
  rt_dtype dtype;
  uint64_t size;
};
// The first name of a type is the one that is written. BOOL is one byte for each element, 0 or 1.
constexpr TensorType kTensorTypes[] = {
    {"F64", RT_FLOAT64, 8},   {"F32", RT_FLOAT32, 4}, {"F16", RT_FLOAT16, 2},
    {"BF16", RT_BFLOAT16, 2}, {"I64", RT_INT64, 8},   {"I32", RT_INT32, 4},
    {"I8", RT_INT8, 1},       {"U8", RT_UINT8, 1},    {"BOOL", RT_UINT8, 1}};

// Reads the header event by event. No tree is built, so nesting costs no memory, and a duplicate
// key is noticed.
class Handler : public nlohmann::json_sax<nlohmann::json> {
 public:
  Handler(const std::string& file, uint64_t text_offset) : file_(file), offset_(text_offset) {}

  TensorHeader take() { return std::move(header_); }

  bool start_object(std::size_t) override {
    if (depth_ == 0 || (depth_ == 1 && !array_)) {
      ++depth_;
      return true;
    }
    unexpected("an object");
  }
  bool end_object() override {
    if (--depth_ == 1 && !in_metadata_) finish_entry();
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ != 2 || array_ || in_metadata_ || (field_ != "shape" && field_ != "data_offsets")) {
      unexpected("an array");
    }
    array_ = true;
    return true;
  }
  bool end_array() override {
    array_ = false;
    return true;
  }
  bool key(string_t& text) override {
    if (depth_ == 1) {
      start_entry(text);
    } else {
      if (!in_metadata_ && text != "dtype" && text != "shape" && text != "data_offsets") {
        bad("unknown key '" + text + "'; expected dtype, shape and data_offsets");
      }
      if (!fields_.insert(text).second) bad("key '" + text + "' is there twice");
      field_ = text;
    }
    return true;
  }
  bool string(string_t& text) override {
    if (depth_ == 2 && !array_ && in_metadata_) {
      header_.metadata[field_] = text;
    } else if (depth_ == 2 && !array_ && field_ == "dtype") {
      set_dtype(text);
    } else {
      unexpected("the text \"" + text + "\"");
    }
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (!array_) unexpected("the number " + std::to_string(value));
    (field_ == "shape" ? shape_ : offsets_).push_back(value);
    if (shape_.size() > RT_MAX_RANK) {
      bad("more than " + std::to_string(RT_MAX_RANK) + " dimensions; expected at most that many");
    }
    if (offsets_.size() > 2) bad("data_offsets has more than two numbers; expected begin and end");
    return true;
  }
  bool number_integer(number_integer_t value) override {
    unexpected("the number " + std::to_string(value));
  }
  bool number_float(number_float_t, const string_t& text) override {
    unexpected("the number " + text);
  }
  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("a boolean"); }
  bool binary(binary_t&) override { unexpected("binary data"); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception& error) override {
    fail_at(file_, offset_ + position, std::string("the header is not JSON: ") + error.what());
  }

 private:
  [[noreturn]] void bad(const std::string& message) const {
    const std::string where = entry_.name.empty() ? "" : " of '" + entry_.name + "'";
    fail_at(file_, offset_, "the safetensors header" + where + ": " + message);
  }
  [[noreturn]] void unexpected(const std::string& what) const {
    bad("unexpected " + what +
        "; expected {\"dtype\": text, \"shape\": [sizes], "
        "\"data_offsets\": [begin, end]} per tensor, and texts in __metadata__");
  }

  void start_entry(const std::string& name) {
    entry_ = {};
    entry_.name = name;
    shape_.clear();
    offsets_.clear();
    fields_.clear();
    field_.clear();
    if (!names_.insert(name).second) bad("the name is there twice; expected each name once");
    in_metadata_ = name == "__metadata__";
  }
  void set_dtype(const std::string& text) {
    for (const TensorType& type : kTensorTypes) {
      if (text == type.name) entry_.dtype = type.dtype;
    }
    if (entry_.dtype == 0) {
      bad("unknown type '" + text + "'; expected F64, F32, F16, BF16, I64, I32, I8, U8 or BOOL");
    }
  }
  void finish_entry() {
    if (fields_.size() != 3) bad("keys are missing; expected dtype, shape and data_offsets");
    if (offsets_.size() != 2 || offsets_[0] > offsets_[1]) {
      bad("data_offsets are not two rising numbers; expected [begin, end]");
    }
    entry_.begin = offsets_[0];
    entry_.end = offsets_[1];
    auto size = static_cast<int64_t>(dtype_size(entry_.dtype));
    for (const uint64_t dim : shape_) {
      if (dim > INT64_MAX || __builtin_mul_overflow(size, dim, &size)) {
        bad("the shape has more elements than can be counted");
      }
      entry_.dims.push_back(static_cast<int64_t>(dim));
    }
    if (static_cast<uint64_t>(size) != entry_.end - entry_.begin) {
      bad("data_offsets span " + std::to_string(entry_.end - entry_.begin) + " bytes; expected " +
          std::to_string(size) + " for its type and shape");
    }
    header_.entries.push_back(std::move(entry_));
    entry_ = {};
  }

  std::string file_;
  uint64_t offset_;
  TensorHeader header_;
  std::set<std::string> names_;  // of the tensors
  std::set<std::string> fields_;
  TensorEntry entry_;
  std::vector<uint64_t> shape_, offsets_;
  std::string field_;
  int depth_ = 0;  // how many objects enclose the current value
  bool array_ = false;
  bool in_metadata_ = false;
};

void check_cover(const std::vector<TensorEntry>& entries, const std::string& file,
                 uint64_t data_offset, uint64_t data_size) {
  uint64_t end = 0;
  for (const TensorEntry& entry : entries) {
    if (entry.begin != end) {
      fail_at(file, data_offset + end,
              "tensor '" + entry.name + "' begins at " + std::to_string(entry.begin) +
                  " of the data; expected " + std::to_string(end) +
                  (entry.begin < end ? " (it overlaps the one before it)" : " (there is a gap)"));
    }
    end = entry.end;
  }
  if (end != data_size) {
    fail_at(file, data_offset + std::min(end, data_size),
            "the tensors take " + std::to_string(end) + " bytes, the file has " +
                std::to_string(data_size) +
                (end > data_size ? "; the file is cut" : "; trailing bytes"));
  }
}

// The limit of the safetensors library, in bytes; a header of this size names a million tensors.
constexpr uint64_t kMaxHeader = 100'000'000;

uint64_t read_header_size(Source& source) {
  uint64_t size = 0;
  source.read_exactly(&size, kLengthSize, "the size of the safetensors header");
  const uint64_t bound = std::min(source.limit(), kMaxHeader);
  if (size < 2 || size > bound) {
    fail_at(source.name(), 0,
            "the safetensors header has " + std::to_string(size) + " bytes; expected 2.." +
                std::to_string(bound) + "; this is no safetensors file, or it is cut");
  }
  return size;
}

}  // namespace

uint64_t dtype_size(rt_dtype dtype) {
  for (const TensorType& type : kTensorTypes) {
    if (type.dtype == dtype) return type.size;
  }
  return 0;
}

const char* dtype_name(rt_dtype dtype) {
  for (const TensorType& type : kTensorTypes) {
    if (type.dtype == dtype) return type.name;
  }
  return nullptr;
}

TensorHeader read_tensor_header(Source& source) {
  std::string text(read_header_size(source), '\0');
  source.read_exactly(text.data(), text.size(), "the safetensors header");
  return parse_tensor_header(std::move(text), source.limit(), source.name());
}

TensorHeader parse_tensor_header(std::string text, uint64_t data_bytes, const std::string& file) {
  if (!text.starts_with('{'))
    fail_at(file, kLengthSize, "the safetensors header does not begin with '{'");
  Handler handler(file, kLengthSize);
  nlohmann::json::sax_parse(text, &handler);
  TensorHeader header = handler.take();
  header.text = std::move(text);
  std::sort(header.entries.begin(), header.entries.end(),
            [](const TensorEntry& a, const TensorEntry& b) {
              return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
            });
  check_cover(header.entries, file, kLengthSize + header.text.size(), data_bytes);
  return header;
}

}  // namespace runtime::data
