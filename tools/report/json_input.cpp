// Bounds depth and size of JSON, replaces NaN, and reads fields of a kind.
#include "tools/report/json_input.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>

#include "runtime/error.h"

namespace tools::report {

namespace {

namespace fs = std::filesystem;

// Calls `outside` for each character that is not part of a string.
template <typename Function>
void for_each_outside_strings(std::string_view text, const Function& outside) {
  bool inside = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (inside && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      inside = !inside;
    } else if (!inside) {
      outside(i);
    }
  }
}

int depth_of(std::string_view text) {
  int depth = 0, most = 0;
  for_each_outside_strings(text, [&](size_t i) {
    if (text[i] == '{' || text[i] == '[') most = std::max(most, ++depth);
    if (text[i] == '}' || text[i] == ']') --depth;
  });
  return most;
}

// The text with null where a number is not finite.
std::string without_not_finite(std::string_view text) {
  std::string out;
  size_t done = 0;
  for_each_outside_strings(text, [&](size_t i) {
    for (const std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
      if (i < done || text.substr(i, word.size()) != word) continue;
      out.append(text.substr(done, i - done)).append("null");
      done = i + word.size();
    }
  });
  return out.append(text.substr(done));
}

// A message of the parser without its own name and number.
std::string plain(const std::string& message) {
  const size_t colon = message.find("] ");
  return colon == std::string::npos ? message : message.substr(colon + 2);
}

std::string kind_of(const Json& json) {
  return json.is_object() ? "an object" : std::string("a value of the type ") + json.type_name();
}

[[noreturn]] void not_readable(const fs::path& file, const std::string& reason) {
  throw runtime::DataError(file.string() + ": cannot be read: " + reason +
                           "; name a folder of a run whose files can be read");
}

std::ifstream opened(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) {
    not_readable(file, error ? error.message() : "it is no regular file");
  }
  std::ifstream in(file, std::ios::binary);
  if (!in) not_readable(file, std::generic_category().message(errno));
  return in;
}

}  // namespace

std::optional<Json> parse_json(std::string_view text, std::string& reason) {
  if (depth_of(text) > kMostDepth) {
    reason = "brackets are nested deeper than " + std::to_string(kMostDepth);
    return std::nullopt;
  }
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::exception& first) {
    reason = plain(first.what());
  }
  const std::string replaced = without_not_finite(text);
  if (replaced == text) return std::nullopt;
  try {
    return Json::parse(replaced);
  } catch (const nlohmann::json::exception& second) {
    reason = plain(second.what());
  }
  return std::nullopt;
}

Json read_json(const fs::path& file) {
  std::ifstream in = opened(file);
  const uint64_t bytes = fs::file_size(file);
  if (bytes > kMostFileBytes) {
    not_readable(file, "it has " + std::to_string(bytes) + " bytes, and at most " +
                           std::to_string(kMostFileBytes) + " are read");
  }
  std::string text(bytes, '\0');
  in.read(text.data(), static_cast<std::streamsize>(bytes));
  text.resize(static_cast<size_t>(in.gcount()));
  std::string reason;
  std::optional<Json> json = parse_json(text, reason);
  if (json && !json->is_object()) reason = "it holds " + kind_of(*json);
  if (json && json->is_object()) return *std::move(json);
  throw runtime::DataError(file.string() + ": expected one JSON object: " + reason +
                           "; write the file again, or remove it");
}

std::vector<BadLine> read_json_lines(const fs::path& file,
                                     const std::function<void(const Json&)>& take) {
  std::ifstream in = opened(file);
  std::vector<BadLine> bad;
  int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    std::string reason;
    const std::optional<Json> json = parse_json(line, reason);
    if (json && json->is_object()) {
      take(*json);
    } else {
      bad.push_back({number, in.eof(), json ? "it holds " + kind_of(*json) : reason});
    }
  }
  if (in.bad()) not_readable(file, "reading failed after line " + std::to_string(number));
  return bad;
}

Fields::Fields(const Json& json, std::string where) : json_(&json), where_(std::move(where)) {
  if (json.is_object()) return;
  throw runtime::DataError(where_ + ": expected an object, got " + kind_of(json));
}

const Json* Fields::find(std::string_view key) const {
  const auto found = json_->find(std::string(key));
  return found == json_->end() || found->is_null() ? nullptr : &*found;
}

void Fields::fail(std::string_view key, const std::string& message) const {
  throw runtime::DataError(where_ + "." + std::string(key) + ": " + message +
                           "; write the file again with the program that made it, or remove it");
}

bool Fields::has(std::string_view key) const { return find(key) != nullptr; }

double Fields::number(std::string_view key) const {
  const Json* const value = find(key);
  if (value == nullptr) return std::numeric_limits<double>::quiet_NaN();
  if (!value->is_number()) fail(key, "expected a number, got " + kind_of(*value));
  return value->get<double>();
}

std::string Fields::text(std::string_view key) const {
  const Json* const value = find(key);
  if (value == nullptr) return "";
  if (!value->is_string()) fail(key, "expected a text, got " + kind_of(*value));
  return value->get<std::string>();
}

std::vector<Fields> Fields::list(std::string_view key) const {
  const Json* const value = find(key);
  if (value == nullptr) return {};
  if (!value->is_array()) fail(key, "expected a list, got " + kind_of(*value));
  std::vector<Fields> fields;
  for (const Json& item : *value) {
    fields.emplace_back(
        item, where_ + "." + std::string(key) + "[" + std::to_string(fields.size()) + "]");
  }
  return fields;
}

std::optional<Fields> Fields::object(std::string_view key) const {
  const Json* const value = find(key);
  if (value == nullptr) return std::nullopt;
  return Fields(*value, where_ + "." + std::string(key));
}

double Fields::required_number(std::string_view key) const {
  if (!has(key)) fail(key, "expected a number, but it is missing");
  return number(key);
}

std::string Fields::required_text(std::string_view key) const {
  if (!has(key)) fail(key, "expected a text, but it is missing");
  return text(key);
}

}  // namespace tools::report
