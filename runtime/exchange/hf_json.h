// The JSON files of a model folder of Hugging Face, read with the place in every message.
#ifndef RUNTIME_EXCHANGE_HF_JSON_H_
#define RUNTIME_EXCHANGE_HF_JSON_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace runtime::exchange {

// An object of a JSON file. All functions throw DataError, which names the file, the key, the value
// and what is expected. One thread uses an object.
class JsonObject {
 public:
  // Reads a file of at most 100 MB whose nesting is at most 64.
  static JsonObject of_file(const std::string& path);
  // Reads a file that is a list of objects.
  static std::vector<JsonObject> list_of_file(const std::string& path);
  // `where` is for messages: a file, or a file and a key.
  JsonObject(nlohmann::json object, std::string where);

  const std::string& where() const { return where_; }
  const nlohmann::json& json() const { return object_; }
  // Whether the key is there, with another value than null.
  bool has(const std::string& key) const;

  // Whole numbers from `least` on, without a fallback mandatory.
  int64_t integer(const std::string& key, int64_t least,
                  std::optional<int64_t> fallback = std::nullopt) const;
  // Finite numbers.
  double number(const std::string& key, std::optional<double> fallback = std::nullopt) const;
  // A number of at least 0 and below 1, as dropout has it.
  double probability(const std::string& key, double fallback) const;
  // A number above 0, up to 1.
  double share(const std::string& key, double fallback) const;
  bool flag(const std::string& key, bool fallback) const;
  std::string text(const std::string& key,
                   const std::optional<std::string>& fallback = std::nullopt) const;
  std::vector<std::string> texts(const std::string& key) const;
  JsonObject object(const std::string& key) const;

  // Throws DataError "<where>: <key> is <value>, expected <expected>".
  [[noreturn]] void fail(const std::string& key, const std::string& expected) const;

 private:
  nlohmann::json object_;
  std::string where_;
};

}  // namespace runtime::exchange

#endif  // RUNTIME_EXCHANGE_HF_JSON_H_
