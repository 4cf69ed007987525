// Writes a case as words of a command line, and reads it back.
#include "tests/differential/operations/recipe.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <stdexcept>

#include "rt/operations.h"
#include "rt/sdk/operation.h"

namespace differential {
namespace {

[[noreturn]] void fail(const std::string& word, const std::string& expected) {
  throw std::invalid_argument("the case has \"" + word + "\"; expected " + expected);
}

template <typename T>
T parse_number(const std::string& text, const std::string& word) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) {
    fail(word, "a whole number in place of \"" + text + "\"");
  }
  return value;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

void expect_one_of(const std::vector<std::string>& names, const std::string& name,
                   const std::string& word) {
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  std::string list;
  for (const std::string& n : names) list += (list.empty() ? "" : ", ") + n;
  fail(word, "one of " + list + " in place of \"" + name + "\"");
}

Plant parse_plant(const std::string& text, const std::string& word) {
  const std::vector<std::string> parts = split(text, ':');
  if (parts.size() != 3) fail(word, "plant=operand:index:value;...");
  expect_one_of(plant_values(), parts[2], word);
  return {parse_number<uint32_t>(parts[0], word), parse_number<uint64_t>(parts[1], word), parts[2]};
}

void parse_fill(Recipe& recipe, const std::string& value, const std::string& word) {
  const std::vector<std::string> parts = split(value, '@');
  if (parts.empty() || parts.size() > 2) fail(word, "fill=kind or fill=kind@operand");
  expect_one_of(fill_kinds(), parts[0], word);
  recipe.fill = parts[0];
  if (parts.size() == 2) recipe.filled_operand = parse_number<int32_t>(parts[1], word);
}

void parse_word(Recipe& recipe, const std::string& word) {
  if (word == "deterministic") {
    recipe.deterministic = true;
    return;
  }
  const size_t sign = word.find('=');
  if (sign == std::string::npos) fail(word, "name=value");
  const std::string name = word.substr(0, sign), value = word.substr(sign + 1);
  if (name == "post") {
    recipe.post = split(value, ',');
    for (const std::string& post : recipe.post) expect_one_of(post_kinds(), post, word);
  } else if (name == "fill") {
    parse_fill(recipe, value, word);
  } else if (name == "plant") {
    for (const std::string& p : split(value, ';')) recipe.plants.push_back(parse_plant(p, word));
  } else if (name == "seed") {
    recipe.seed = parse_number<uint64_t>(value, word);
  } else if (name == "threads") {
    recipe.threads = parse_number<int32_t>(value, word);
  } else {
    recipe.numbers[name] = parse_number<int64_t>(value, word);
  }
}

std::string data_text(const Recipe& recipe) {
  std::string text;
  if (recipe.fill != "plain") {
    text += " fill=" + recipe.fill;
    if (recipe.filled_operand >= 0) text += "@" + std::to_string(recipe.filled_operand);
  }
  for (size_t i = 0; i < recipe.plants.size(); ++i) {
    const Plant& p = recipe.plants[i];
    text += (i == 0 ? " plant=" : ";") + std::to_string(p.operand) + ":" + std::to_string(p.index) +
            ":" + p.value;
  }
  return text;
}

}  // namespace

const std::vector<std::string>& plant_values() {
  static const std::vector<std::string> names = {"nan", "inf", "-inf", "-0", "0", "tiny", "huge"};
  return names;
}

const std::vector<std::string>& fill_kinds() {
  static const std::vector<std::string> names = {"plain",  "whole", "huge", "tiny",
                                                 "offset", "same",  "zero", "one"};
  return names;
}

int32_t activation_function(const std::string& name) {
  static const std::map<std::string, int32_t> functions = {{"relu", RT_ACTIVATION_RELU},
                                                           {"gelu", RT_ACTIVATION_GELU},
                                                           {"gelu_tanh", RT_ACTIVATION_GELU_TANH},
                                                           {"tanh", RT_ACTIVATION_TANH},
                                                           {"sigmoid", RT_ACTIVATION_SIGMOID}};
  const auto found = functions.find(name);
  return found == functions.end() ? 0 : found->second;
}

const std::vector<std::string>& post_kinds() {
  static const std::vector<std::string> names = {
      "bias",          "residual",        "relu",          "gelu",          "gelu_tanh",
      "tanh",          "sigmoid",         "relu_backward", "gelu_backward", "gelu_tanh_backward",
      "tanh_backward", "sigmoid_backward"};
  return names;
}

rt_dtype parse_dtype(const std::string& name) {
  for (const rt_dtype dtype : {RT_FLOAT32, RT_FLOAT64, RT_FLOAT16, RT_BFLOAT16}) {
    if (rt::sdk::to_string(dtype) == name) return dtype;
  }
  fail(name, "float32, float64, float16 or bfloat16");
}

std::string to_text(const Recipe& recipe) {
  std::string text = recipe.operation + " " + rt::sdk::to_string(recipe.dtype);
  for (const auto& [name, value] : recipe.numbers) text += " " + name + "=" + std::to_string(value);
  for (size_t i = 0; i < recipe.post.size(); ++i)
    text += (i == 0 ? " post=" : ",") + recipe.post[i];
  text += data_text(recipe) + " seed=" + std::to_string(recipe.seed);
  if (recipe.threads != 1) text += " threads=" + std::to_string(recipe.threads);
  return text + (recipe.deterministic ? " deterministic" : "");
}

Recipe parse_recipe(const std::string& text) {
  std::istringstream words(text);
  Recipe recipe;
  std::string dtype;
  if (!(words >> recipe.operation >> dtype)) fail(text, "an operation and a type to begin with");
  recipe.dtype = parse_dtype(dtype);
  for (std::string word; words >> word;) parse_word(recipe, word);
  if (recipe.threads < 1) fail("threads=" + std::to_string(recipe.threads), "at least one thread");
  return recipe;
}

}  // namespace differential
