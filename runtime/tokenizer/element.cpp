// Reads values of JSON, and says where one is that is not as expected.
#include "runtime/tokenizer/element.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/error.h"

namespace runtime::tokenizer {
namespace {

using Json = nlohmann::json;

// A value for a message, shortened before it becomes text, because it may be the whole file.
std::string shown_value(const Json& value) {
  constexpr std::size_t kMost = 60;
  if (value.is_structured())
    return (value.is_array() ? "an array of " : "an object of ") + std::to_string(value.size());
  const Json part =
      value.is_string() ? Json(value.get_ref<const std::string&>().substr(0, kMost)) : value;
  return part.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

bool Element::is_null() const { return value_->is_null(); }

bool Element::has(const char* key) const {
  const auto it = value_->find(key);
  return it != value_->end() && !it->is_null();
}

Element Element::at(const char* key) const {
  const auto it = value_->find(key);
  if (it == value_->end()) refuse(std::string("an object with the key \"") + key + "\"");
  return Element(*it, where_ + (where_.ends_with(' ') ? "" : ".") + key);
}

Element Element::at(std::size_t index) const {
  if (!value_->is_array() || index >= value_->size())
    refuse("an array of more than " + std::to_string(index));
  return Element((*value_)[index], where_ + "[" + std::to_string(index) + "]");
}

std::vector<Element> Element::list() const {
  constexpr std::ptrdiff_t kDeepest = 16;
  if (!value_->is_array() || std::count(where_.begin(), where_.end(), '[') >= kDeepest)
    refuse("an array, in fewer than " + std::to_string(kDeepest) + " others");
  std::vector<Element> elements;
  for (std::size_t i = 0; i < value_->size(); ++i) elements.push_back(at(i));
  return elements;
}

std::string Element::text() const {
  if (!value_->is_string()) refuse("a string");
  return value_->get<std::string>();
}

bool Element::flag() const {
  if (!value_->is_boolean()) refuse("true or false");
  return value_->get<bool>();
}

int64_t Element::number(int64_t least, int64_t most) const {
  const bool fits = value_->is_number_integer() &&
                    (!value_->is_number_unsigned() || value_->get<uint64_t>() <= INT64_MAX);
  const int64_t number = fits ? value_->get<int64_t>() : 0;
  if (!fits || number < least || number > most)
    refuse("an integer in " + std::to_string(least) + ".." + std::to_string(most));
  return number;
}

std::string Element::text(const char* key, const std::string& otherwise) const {
  return has(key) ? at(key).text() : otherwise;
}

bool Element::flag(const char* key, bool otherwise) const {
  return has(key) ? at(key).flag() : otherwise;
}

void Element::refuse(const std::string& expected) const {
  throw DataError(where_ + " is " + shown_value(*value_) + "; expected " + expected);
}

void Element::refuse_type(const std::string& type, const std::vector<std::string>& names) const {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  throw DataError(where_ + ": the type \"" + type.substr(0, 60) +
                  "\" is not supported; expected one of " + list +
                  "; or make a file of ids with the library tokenizers and set dataset.format = "
                  "\"tokens\"");
}

}  // namespace runtime::tokenizer
