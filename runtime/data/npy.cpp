// Parses NPY files, whose headers are Python literals.
#include <charconv>
#include <cstring>
#include <string_view>

#include "runtime/data/array.h"

namespace runtime::data {
namespace {

constexpr std::size_t kPrefix = 8;              // bytes of magic and version
constexpr std::size_t kMaxNpyHeader = 1 << 16;  // bytes; headers that NumPy writes have about 100
constexpr std::size_t kMaxNpyRank = 8;

struct NpyType {
  std::string_view name;
  ElementType type;
};
constexpr NpyType kNpyTypes[] = {{"|u1", ElementType::kUint8},   {"|i1", ElementType::kInt8},
                                 {"<u2", ElementType::kUint16},  {"<i2", ElementType::kInt16},
                                 {"<u4", ElementType::kUint32},  {"<i4", ElementType::kInt32},
                                 {"<u8", ElementType::kUint64},  {"<i8", ElementType::kInt64},
                                 {"<f4", ElementType::kFloat32}, {"<f8", ElementType::kFloat64}};

// Reads the header's dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& file, uint64_t offset)
      : text_(text), file_(file), offset_(offset) {}

  Array parse() {
    expect('{');
    while (!accept('}')) {
      parse_item();
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (at_ != text_.size()) fail("unexpected text behind '}'");
    if (!has_type_ || !has_order_ || !has_shape_) {
      fail("a key is missing; expected 'descr', 'fortran_order' and 'shape'");
    }
    return std::move(array_);
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    fail_at(file_, offset_ + at_, "bad NPY header: " + message);
  }
  void skip_space() {
    while (at_ < text_.size() && std::strchr(" \t\r\n", text_[at_]) != nullptr && text_[at_] != 0) {
      ++at_;
    }
  }
  bool accept(char wanted) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  void expect(char wanted) {
    if (!accept(wanted)) fail(std::string("expected '") + wanted + "'");
  }
  std::string_view parse_text() {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') fail("expected text in quotes");
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("text without a closing quote");
    const std::string_view result = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return result;
  }
  void once(bool& seen) {
    if (seen) fail("a key is there twice");
    seen = true;
  }

  void parse_item() {
    const std::string_view key = parse_text();
    expect(':');
    if (key == "descr") {
      once(has_type_);
      parse_type();
    } else if (key == "fortran_order") {
      once(has_order_);
      parse_order();
    } else if (key == "shape") {
      once(has_shape_);
      parse_shape();
    } else {
      fail("unknown key '" + std::string(key) + "'; expected descr, fortran_order and shape");
    }
  }
  void parse_type() {
    skip_space();
    if (at_ < text_.size() && text_[at_] == '[') {
      fail("structured element types are not supported; save the columns as one array of float32");
    }
    const std::string_view name = parse_text();
    for (const NpyType& type : kNpyTypes) {
      if (name != type.name) continue;
      array_.type = type.type;
      return;
    }
    fail("unsupported element type '" + std::string(name) +
         "'; expected float32, float64 or an integer, little-endian (array.astype('float32'))");
  }
  void parse_order() {
    skip_space();
    if (text_.substr(at_, 4) == "True") {
      fail("the array is in Fortran order; expected C order (save numpy.ascontiguousarray(array))");
    }
    if (text_.substr(at_, 5) != "False") fail("fortran_order is neither True nor False");
    at_ += 5;
  }
  void parse_shape() {
    expect('(');
    while (!accept(')')) {
      array_.dims.push_back(parse_number());
      if (array_.dims.size() > kMaxNpyRank) fail("more than 8 dimensions; expected at most 8");
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
  }
  int64_t parse_number() {
    skip_space();
    int64_t value = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc() || value < 0) fail("a dimension is no number from 0 to 2^63 - 1");
    at_ += static_cast<std::size_t>(end - begin);
    return value;
  }

  std::string_view text_;
  const std::string& file_;
  uint64_t offset_;
  std::size_t at_ = 0;
  Array array_;
  bool has_type_ = false, has_order_ = false, has_shape_ = false;
};

std::size_t read_npy_header_size(Source& source) {
  static constexpr char kMagic[] = "\x93NUMPY";
  uint8_t prefix[kPrefix] = {};
  source.read_exactly(prefix, kPrefix, "the NPY magic text and version");
  if (std::memcmp(prefix, kMagic, 6) != 0) {
    fail_at(source.name(), 0, "wrong magic text; expected an NPY file, which begins with 93 NUMPY");
  }
  if (prefix[6] != 1 && prefix[6] != 2) {
    fail_at(source.name(), 6,
            "NPY version " + std::to_string(prefix[6]) + "; expected version 1 or 2");
  }
  uint8_t length[4] = {};
  source.read_exactly(length, prefix[6] == 1 ? 2 : 4, "the length of the NPY header");
  const std::size_t size = length[0] | std::size_t{length[1]} << 8 | std::size_t{length[2]} << 16 |
                           std::size_t{length[3]} << 24;
  if (size > kMaxNpyHeader) {
    fail_at(source.name(), kPrefix,
            "the NPY header has " + std::to_string(size) + " bytes; expected at most " +
                std::to_string(kMaxNpyHeader));
  }
  return size;
}

Array parse_npy(Source& source) {
  std::string header(read_npy_header_size(source), '\0');
  const uint64_t offset = source.offset();
  source.read_exactly(header.data(), header.size(), "the NPY header");
  Array array = HeaderParser(header, source.name(), offset).parse();
  read_elements(source, array);
  return array;
}

}  // namespace

Array read_npy(const std::string& path) { return parse_npy(*open_file(path)); }

Array parse_npy(const void* data, std::size_t size, const std::string& name) {
  return parse_npy(*memory_source(data, size, name));
}

}  // namespace runtime::data
