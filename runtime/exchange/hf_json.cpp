// Parses JSON files of limited size and depth, and checks the type of each value that is asked for.
#include "runtime/exchange/hf_json.h"

#include <cmath>
#include <utility>

#include "runtime/data/source.h"
#include "runtime/error.h"

namespace runtime::exchange {

namespace {

constexpr uint64_t kMostBytes = 100'000'000;
constexpr int kMostDepth = 64;
constexpr std::size_t kShown = 60;  // characters of a value in a message

std::string shown(const nlohmann::json& value) {
  const std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return text.size() <= kShown ? text : text.substr(0, kShown) + "...";
}

nlohmann::json parse(const std::string& text, const std::string& path) {
  const auto too_deep = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    if (depth > kMostDepth) {
      throw DataError(path + ": JSON nested more than " + std::to_string(kMostDepth) +
                      " deep; expected a configuration of a model");
    }
    return true;
  };
  try {
    return nlohmann::json::parse(text, too_deep);
  } catch (const nlohmann::json::exception& error) {
    throw DataError(path + ": no valid JSON: " + error.what());
  }
}

}  // namespace

JsonObject JsonObject::of_file(const std::string& path) {
  return {parse(data::read_marked_text(path, kMostBytes), path), path};
}

std::vector<JsonObject> JsonObject::list_of_file(const std::string& path) {
  const nlohmann::json list = parse(data::read_marked_text(path, kMostBytes), path);
  if (!list.is_array())
    throw DataError(path + ": is " + shown(list) + ", expected a list [ { ... }, ... ]");
  std::vector<JsonObject> objects;
  for (size_t i = 0; i < list.size(); ++i)
    objects.push_back({list[i], path + ": " + std::to_string(i)});
  return objects;
}

JsonObject::JsonObject(nlohmann::json object, std::string where)
    : object_(std::move(object)), where_(std::move(where)) {
  if (object_.is_object()) return;
  throw DataError(where_ + ": is " + shown(object_) + ", expected an object { ... }");
}

bool JsonObject::has(const std::string& key) const {
  return object_.contains(key) && !object_[key].is_null();
}

void JsonObject::fail(const std::string& key, const std::string& expected) const {
  const std::string found = object_.contains(key) ? "is " + shown(object_[key]) : "is missing";
  throw DataError(where_ + ": " + key + " " + found + ", expected " + expected);
}

int64_t JsonObject::integer(const std::string& key, int64_t least,
                            std::optional<int64_t> fallback) const {
  if (!has(key) && fallback) return *fallback;
  constexpr int64_t kMost = int64_t{1} << 40;
  if (has(key) && object_[key].is_number_integer()) {
    const auto value = object_[key].get<int64_t>();
    if (value >= least && value <= kMost) return value;
  }
  fail(key, "a whole number of at least " + std::to_string(least));
}

double JsonObject::number(const std::string& key, std::optional<double> fallback) const {
  if (!has(key) && fallback) return *fallback;
  if (has(key) && object_[key].is_number()) {
    const auto value = object_[key].get<double>();
    if (std::isfinite(value)) return value;
  }
  fail(key, "a number");
}

double JsonObject::probability(const std::string& key, double fallback) const {
  const double value = number(key, fallback);
  if (!(value >= 0 && value < 1)) fail(key, "a number of at least 0, below 1");
  return value;
}

double JsonObject::share(const std::string& key, double fallback) const {
  const double value = number(key, fallback);
  if (!(value > 0 && value <= 1)) fail(key, "a number above 0, up to 1");
  return value;
}

bool JsonObject::flag(const std::string& key, bool fallback) const {
  if (!has(key)) return fallback;
  if (!object_[key].is_boolean()) fail(key, "true or false");
  return object_[key].get<bool>();
}

std::string JsonObject::text(const std::string& key,
                             const std::optional<std::string>& fallback) const {
  if (!has(key) && fallback) return *fallback;
  if (!has(key) || !object_[key].is_string()) fail(key, "a text");
  return object_[key].get<std::string>();
}

std::vector<std::string> JsonObject::texts(const std::string& key) const {
  if (!has(key) || !object_[key].is_array()) fail(key, "a list of texts");
  std::vector<std::string> result;
  for (const nlohmann::json& item : object_[key]) {
    if (!item.is_string()) fail(key, "a list of texts");
    result.push_back(item.get<std::string>());
  }
  return result;
}

JsonObject JsonObject::object(const std::string& key) const {
  if (!has(key) || !object_[key].is_object()) fail(key, "an object { ... }");
  return {object_[key], where_ + ", " + key};
}

}  // namespace runtime::exchange
