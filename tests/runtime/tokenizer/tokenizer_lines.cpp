// Encodes lines with a tokenizer.json, for scripts that compare the ids with those of the library
// tokenizers.
//   tokenizer_lines TOKENIZER < LINES    each line is a string of JSON; prints [ids, ids with
//   special
//                                        tokens, text of the latter, the same without special
//                                        tokens]
//   tokenizer_lines TOKENIZER --time TEXT   prints the ids of a file, their number and the seconds
#include <chrono>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/error.h"
#include "runtime/tokenizer/tokenizer.h"
#include "runtime/tokenizer/utf8.h"

namespace {

using nlohmann::json;
using runtime::tokenizer::read_tokenizer;
using runtime::tokenizer::Tokenizer;
using runtime::tokenizer::with_replacements;

std::string content_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::vector<int32_t> encoded(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<int32_t> ids;
  tokenizer.encode(text, "the line", [&](int32_t id) { ids.push_back(id); });
  return ids;
}

json row_of(const Tokenizer& tokenizer, const std::string& text) {
  const std::vector<int32_t> ids = encoded(tokenizer, text);
  const std::vector<int32_t> all = tokenizer.marked(ids).ids;
  std::vector<int32_t> plain;
  for (const int32_t id : all) {
    if (!tokenizer.is_special(id)) plain.push_back(id);
  }
  return {ids, all, with_replacements(tokenizer.decode(all)),
          with_replacements(tokenizer.decode(plain))};
}

void encode_lines(const Tokenizer& tokenizer) {
  for (std::string line; std::getline(std::cin, line);) {
    try {
      std::cout << row_of(tokenizer, json::parse(line).get<std::string>()).dump() << '\n';
    } catch (const runtime::DataError& error) {
      std::cout << json(error.what()).dump() << '\n';
    }
  }
}

void time_text(const Tokenizer& tokenizer, const std::string& text) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const std::vector<int32_t> ids = encoded(tokenizer, text);
  const std::chrono::duration<double> seconds = Clock::now() - begin;
  std::cout << json{{"tokens", ids.size()}, {"seconds", seconds.count()}, {"ids", ids}}.dump()
            << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 4) {
    std::cerr << "usage: tokenizer_lines TOKENIZER [--time TEXT]\n";
    return 2;
  }
  const auto tokenizer = read_tokenizer({argv[1], content_of(argv[1])});
  argc == 4 ? time_text(*tokenizer, content_of(argv[3])) : encode_lines(*tokenizer);
  return 0;
}
