// Reads lines of LIBSVM with their numbers checked, and writes samples as dense rows.
#include "libsvm.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <string_view>

#include "rt/sdk/error.h"

namespace libsvm {
namespace {

constexpr int64_t kMaxFeatures = int64_t{1} << 28;
constexpr std::size_t kMaxLine = std::size_t{1} << 24;  // bytes

class Reader {
 public:
  Reader(const std::string& path, const Options& options) : options_(options) {
    samples_.path = path;
  }

  Samples run() {
    std::ifstream file(samples_.path, std::ios::binary);
    if (!file) {
      throw rt::sdk::Error(RT_ERROR_INVALID_ARGUMENT,
                           samples_.path + ": cannot be opened: " + std::strerror(errno));
    }
    std::vector<char> buffer(std::size_t{1} << 20);
    while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())),
           file.gcount() > 0) {
      add({buffer.data(), static_cast<std::size_t>(file.gcount())});
      // A vector that grows is twice as large for a moment, and is copied.
      if (options_.check) options_.check(3 * samples_.bytes());
    }
    if (file.bad()) {
      throw rt::sdk::Error(RT_ERROR_INVALID_ARGUMENT,
                           samples_.path + ": cannot be read: " + std::strerror(errno));
    }
    end_line();
    if (samples_.labels.empty()) refuse("no sample in the whole file", "`label index:value ...`");
    samples_.features = options_.features > 0 ? options_.features : largest_;
    if (samples_.features == 0) refuse("no feature in the whole file", "`label index:value ...`");
    return std::move(samples_);
  }

 private:
  void add(std::string_view text) {
    for (std::size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1)) {
      line_ += text.substr(0, end);
      end_line();
    }
    line_ += text;
    if (line_.size() > kMaxLine)
      refuse("a line of more than " + std::to_string(kMaxLine) + " bytes", "one sample a line");
  }

  void end_line() {
    ++number_;
    if (number_ == 1 && line_.starts_with("\xEF\xBB\xBF")) line_.erase(0, 3);  // byte order mark
    rest_ = std::string_view(line_).substr(0, line_.find('#'));
    std::string_view word = next();
    if (!word.empty()) {
      samples_.labels.push_back(number<float>(word, "a number as label"));
      int64_t before = -1;
      while (!(word = next()).empty()) before = add_value(word, before);
      samples_.begins.push_back(samples_.columns.size());
    }
    line_.clear();
  }

  // Adds `index:value`, whose column must be above `before`; returns the column.
  int64_t add_value(std::string_view word, int64_t before) {
    const std::size_t colon = word.find(':');
    if (colon == word.npos) refuse("'" + std::string(word) + "'", "`index:value`");
    const auto index = number<int64_t>(word.substr(0, colon), "a whole number as index");
    const int64_t end = options_.features > 0 ? options_.features : kMaxFeatures;
    const int64_t last = options_.first_index + end - 1;
    if (index < options_.first_index || index > last) {
      refuse("index " + std::to_string(index),
             "an index from " + std::to_string(options_.first_index) + " to " +
                 std::to_string(last) + (options_.features > 0 ? ", as the model's input" : ""));
    }
    const int64_t column = index - options_.first_index;
    if (column <= before) refuse("index " + std::to_string(index), "indices in ascending order");
    samples_.columns.push_back(static_cast<uint32_t>(column));
    samples_.values.push_back(number<float>(word.substr(colon + 1), "a number as value"));
    largest_ = std::max(largest_, column + 1);
    return column;
  }

  std::string_view next() {
    constexpr std::string_view kSpace = " \t\r";
    rest_.remove_prefix(std::min(rest_.find_first_not_of(kSpace), rest_.size()));
    const std::string_view word = rest_.substr(0, rest_.find_first_of(kSpace));
    rest_.remove_prefix(word.size());
    return word;
  }

  template <typename Number>
  Number number(std::string_view word, const char* expected) const {
    std::string_view digits = word;
    if (digits.starts_with('+')) digits.remove_prefix(1);  // "+1 3:0.5" is usual
    Number value{};
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || digits.empty())
      refuse("'" + std::string(word.substr(0, 64)) + "'", expected);
    return value;
  }

  [[noreturn]] void refuse(const std::string& actual, const std::string& expected) const {
    throw rt::sdk::Error(RT_ERROR_INVALID_ARGUMENT, samples_.path + ":" + std::to_string(number_) +
                                                        ": " + actual + "; expected " + expected);
  }

  const Options& options_;
  Samples samples_;
  std::string line_;       // what has been read of the current line
  std::string_view rest_;  // what is left of it
  int64_t number_ = 0;
  int64_t largest_ = 0;  // features that the indices need
};

}  // namespace

uint64_t Samples::bytes() const {
  return labels.size() * (sizeof(float) + sizeof(uint64_t)) +
         columns.size() * (sizeof(uint32_t) + sizeof(float));
}

void Samples::write(int64_t index, float* out) const {
  std::fill_n(out, features, 0.0f);
  const auto row = static_cast<std::size_t>(index);
  for (uint64_t i = begins[row]; i < begins[row + 1]; ++i) out[columns[i]] = values[i];
}

Samples read(const std::string& path, const Options& options) {
  return Reader(path, options).run();
}

}  // namespace libsvm
