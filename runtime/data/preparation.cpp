// Writes, reads and compares the entries of a preparation as text in weights files.
#include "runtime/data/preparation.h"

#include <functional>
#include <nlohmann/json.hpp>

#include "runtime/error.h"

namespace runtime::data {
namespace {

using Json = nlohmann::ordered_json;

// One thing that belongs to the preparation: its name in files, what a user sets it with, and how
// it is written and read.
struct Entry {
  const char* name;
  const char* key;
  std::function<Json(const Preparation&)> get;
  std::function<void(Preparation&, const Json&)> set;
};

template <class Member>
Entry entry(const char* name, const char* key, Member member) {
  return {name, key, [member](const Preparation& p) { return Json(std::invoke(member, p)); },
          [member](Preparation& p, const Json& value) { value.get_to(std::invoke(member, p)); }};
}

Entry statistics(const char* name, std::vector<double> FeatureStatistics::*member) {
  return {name, "dataset.standardize",
          [member](const Preparation& p) { return Json(p.features.*member); },
          [member](Preparation& p, const Json& value) { value.get_to(p.features.*member); }};
}

const std::vector<Entry>& entries() {
  static const std::vector<Entry>& list = *new std::vector<Entry>{
      entry("columns", "dataset.features", &Preparation::columns),
      entry("named", "dataset.header", &Preparation::named),
      entry("class_names", "the names of the classes", &Preparation::class_names),
      entry("classes", "dataset.classes", &Preparation::classes),
      entry("targets", "the targets of a sample", &Preparation::targets),
      statistics("feature_mean", &FeatureStatistics::mean),
      statistics("feature_deviation", &FeatureStatistics::deviation),
      entry("mean", "dataset.mean", &Preparation::mean),
      entry("std", "dataset.std", &Preparation::std),
      entry("resize", "dataset.resize", &Preparation::resize),
      entry("resize_shorter", "dataset.resize_shorter", &Preparation::resize_shorter),
      entry("tokenizer", "dataset.tokenizer", &Preparation::tokenizer),
      entry("characters", "the characters of the text", &Preparation::characters),
  };
  return list;
}

// Returns a value for a message, shortened.
std::string shown(const Json& value) {
  constexpr std::size_t kMost = 120;
  std::string text = value.dump();
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text == "[]" || text == "\"\"" ? "not set" : text;
}

}  // namespace

std::string to_json(const Preparation& preparation) {
  Json json = Json::object();
  for (const Entry& entry : entries()) json[entry.name] = entry.get(preparation);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Preparation parse_preparation(const std::string& json, const std::string& where) {
  Preparation result;
  try {
    const Json parsed = Json::parse(json);
    for (const Entry& entry : entries()) entry.set(result, parsed.at(entry.name));
  } catch (const nlohmann::json::exception& error) {
    throw DataError(where + ": how the data were prepared cannot be read: " + error.what());
  }
  if (result.features.mean.size() == result.features.deviation.size()) return result;
  throw DataError(where + ": it has the means of " + std::to_string(result.features.mean.size()) +
                  " features and the deviations of " +
                  std::to_string(result.features.deviation.size()) + "; expected as many");
}

const FeatureStatistics& known_statistics(const Preparation& preparation, int64_t features,
                                          const std::string& name) {
  const auto known = static_cast<int64_t>(preparation.features.mean.size());
  if (known == features) return preparation.features;
  throw DataError(name + " has " + std::to_string(features) +
                  " features to standardise, but the weights were trained with the means and "
                  "deviations of " +
                  std::to_string(known) +
                  (known == 0 ? "; remove dataset.standardize" : "; expected as many features"));
}

void check_same(const Preparation& saved, Preparation now, const std::string& where) {
  // Only a table has columns; the same samples may come in another format.
  if (saved.columns.empty() || now.columns.empty()) {
    now.columns = saved.columns;
    now.named = saved.named;
  }
  std::string faults;
  for (const Entry& entry : entries()) {
    const Json before = entry.get(saved), after = entry.get(now);
    if (before == after) continue;
    faults += std::string("\n  ") + entry.key + " (" + entry.name + "): " + shown(before) +
              " in training, " + shown(after) + " now";
  }
  if (faults.empty()) return;
  throw DataError(where + " belongs to data that were prepared otherwise:" + faults +
                  "\n  use the configuration with which the weights were trained");
}

}  // namespace runtime::data
