// Makes documents of tokenizers for the tests.
#ifndef TESTS_RUNTIME_TOKENIZER_DOCUMENTS_H_
#define TESTS_RUNTIME_TOKENIZER_DOCUMENTS_H_

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/error.h"
#include "runtime/tokenizer/element.h"
#include "runtime/tokenizer/tokenizer.h"

namespace runtime::tokenizer::test {

using nlohmann::json;

// Returns what `read` makes of a text in JSON, which is at the place "file: part".
template <class Read>
auto read_json(Read read, const std::string& text) {
  const json document = json::parse(text);
  return read(Element(document, "file: part"));
}

// Returns a tokenizer.json with a model, and what else `more` has ("key": value, ...).
std::string document(const std::string& model, const std::string& more = "");
TokenizerPointer tokenizer_of(const std::string& model, const std::string& more = "");
// A byte-pair encoding with the tokens a, b, c, ab, abc.
extern const char kSmallBpe[];

std::vector<int32_t> encode(const Tokenizer& tokenizer, const std::string& text);

// Returns the message of the DataError that `call` throws; "": it throws none.
template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

}  // namespace runtime::tokenizer::test

#endif  // TESTS_RUNTIME_TOKENIZER_DOCUMENTS_H_
