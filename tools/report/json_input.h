// JSON that others have written: nothing in it is trusted.
#ifndef TOOLS_REPORT_JSON_INPUT_H_
#define TOOLS_REPORT_JSON_INPUT_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tools::report {

using Json = nlohmann::ordered_json;

// Parses a text, in which NaN, Infinity and -Infinity stand for null as Python writes them. Empty
// if it is no JSON, or if brackets are nested deeper than kMostDepth; `reason` then says why.
std::optional<Json> parse_json(std::string_view text, std::string& reason);
inline constexpr int kMostDepth = 32;

// The whole file. Throws DataError if it cannot be read, has more than kMostFileBytes or is no JSON
// object.
Json read_json(const std::filesystem::path& file);
inline constexpr uint64_t kMostFileBytes = uint64_t{256} << 20;

// A line of a file that is no JSON object, and why. Lines count from 1.
struct BadLine {
  int64_t line = 0;
  bool last = false;  // the file ends in it without a line feed: its writer was stopped
  std::string reason;
};

// Calls `take` with the object of each line, in their order. Empty lines are passed over; returns
// the lines that hold no object. Throws DataError if the file cannot be read.
std::vector<BadLine> read_json_lines(const std::filesystem::path& file,
                                     const std::function<void(const Json&)>& take);

// The members of an object, whose file and place are named in messages.
class Fields {
 public:
  // `json` must outlive the object. Throws DataError if it is no object.
  Fields(const Json& json, std::string where);

  bool has(std::string_view key) const;  // and it is not null
  // These are the value if there is one, and NaN, "" or nothing if there is none. All throw
  // DataError if the value is of another kind.
  double number(std::string_view key) const;
  std::string text(std::string_view key) const;
  std::vector<Fields> list(std::string_view key) const;
  std::optional<Fields> object(std::string_view key) const;
  // Like number() and text(), but throws DataError if there is no value.
  double required_number(std::string_view key) const;
  std::string required_text(std::string_view key) const;

  const Json& json() const { return *json_; }
  // Throws DataError("<file>: <place>.<key>: <message>").
  [[noreturn]] void fail(std::string_view key, const std::string& message) const;

 private:
  const Json* find(std::string_view key) const;
  const Json* json_;
  std::string where_;
};

}  // namespace tools::report

#endif  // TOOLS_REPORT_JSON_INPUT_H_
