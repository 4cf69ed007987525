// The data sets, their formats, tasks and tokenizers: what the configuration needs to know of each.
// What opens them is in runtime/data.
#include "runtime/config/choices.h"

namespace runtime::config {

namespace {

using D = Dataset;

KeyOf<D> target_path() {
  return key("target_path", &D::target_path, "the targets").as(Type::kDataPath);
}

KeyOf<D> validation_target_path() {
  return key("validation_target_path", &D::validation_target_path, "the targets of validation_path")
      .as(Type::kDataPath);
}

std::vector<KeyOf<D>> keys_of_table() {
  return {key("target", &D::target,
              "the column to predict, by name or number from 0; \"-1\" is the last")
              .needed("the column to predict"),
          key("header", &D::header,
              "whether the first line has the names of the columns. \"auto\": it has if no field "
              "is a number, or target or features name one of its fields, or its target is no "
              "number and those below are")
              .one_of({"auto", "yes", "no"})};
}

std::vector<KeyOf<D>> keys_of_csv() {
  std::vector<KeyOf<D>> keys = keys_of_table();
  keys.push_back(key("features", &D::features,
                     "feature columns by name or number from 0; empty: all but the target and the "
                     "columns of inputs"));
  return keys;
}

std::vector<KeyOf<D>> keys_of_tokenizer() {
  std::vector<std::string> names = names_of_rows(tokenizers());
  names.insert(names.begin(), "");
  return {key("tokenizer", &D::tokenizer,
              "what a token is. \"char\", the default for text: the characters of the (UTF-8) text "
              "in the order of their code points, kept with the weights; \"byte\": 256; \"gpt2\": "
              "byte-pair encoding; \"hf\": as a tokenizer.json of Hugging Face says. With format "
              "tokens it is how `predict` reads and writes text; "
              "\"\": as numbers")
              .one_of(std::move(names)),
          key("tokenizer_path", &D::tokenizer_path,
              "with gpt2 the folder that holds vocab.json and merges.txt, with hf tokenizer.json "
              "or its "
              "folder")
              .as(Type::kDataPath)};
}

std::vector<KeyOf<D>> keys_of_language() {
  std::vector<KeyOf<D>> keys = keys_of_tokenizer();
  keys.push_back(
      key("separator", &D::separator,
          "the token that ends a document, as a text, or a number where tokens have no texts: "
          "samples then have the inputs \"documents\" and \"positions\", int32 [length], "
          "which attention and position_embedding read; \"\": none"));
  keys.push_back(key("mask_token", &D::mask_token,
                     "task = \"masked_token\": the token that stands for a hidden one, for example "
                     "\"[MASK]\", as separator"));
  keys.push_back(key("mask_share", &D::mask_share,
                     "task = \"masked_token\": share of the tokens that are hidden; of these 8 of "
                     "10 become mask_token, 1 of 10 a random token, and 1 of 10 stays")
                     .in({.minimum = 0, .maximum = 1, .open_minimum = true}));
  keys.push_back(
      key("stride", &D::stride,
          "tokens between the beginnings of two training samples, windows of model.input "
          "tokens; 0: that length, 1: every offset. Validation samples never overlap")
          .in(at_least(0, kMaxCount)));
  return keys;
}

KeyOf<D> invalid_utf8() {
  return key("invalid_utf8", &D::invalid_utf8,
             "what becomes of bytes that are not UTF-8: an error, or the character U+FFFD")
      .one_of({"refuse", "replace"});
}

std::vector<KeyOf<D>> keys_of_text() {
  std::vector<KeyOf<D>> keys = keys_of_language();
  keys.push_back(invalid_utf8());
  return keys;
}

std::vector<KeyOf<D>> keys_of_sentences() {
  std::vector<KeyOf<D>> keys = keys_of_table();
  keys.push_back(key("texts", &D::texts,
                     "the column of the text of a sample, or the two columns of its two texts. The "
                     "tokenizer puts its special tokens around them; what is longer than "
                     "model.input is cut, and samples have the inputs \"segments\" (0, or 1 in the "
                     "second text) and \"documents\" (0, or -1 for padding), int32 [length]")
                     .needed("the columns with the texts"));
  for (KeyOf<D>& k : keys_of_tokenizer()) keys.push_back(std::move(k));
  keys.push_back(invalid_utf8());
  return keys;
}

std::vector<KeyOf<D>> keys_of_tokens() {
  std::vector<KeyOf<D>> keys = keys_of_language();
  keys.push_back(key("token_type", &D::token_type, "type of an id in the file, little-endian")
                     .one_of({"uint16", "uint32"}));
  return keys;
}

}  // namespace

const std::vector<Format>& formats() {
  static const std::vector<Format>& all = *new std::vector<Format>{
      {.name = "idx",
       .path = "the image file, or a folder with the four files under MNIST's names",
       .keys = {target_path(), validation_target_path()}},
      {.name = "cifar10", .path = "the folder"},
      {.name = "csv", .path = "the table", .keys = keys_of_csv()},
      {.name = "npy",
       .path = "the features",
       .keys = {target_path().needed("the file of targets"), validation_target_path()}},
      {.name = "images",
       .path = "a folder with a folder of PNG and JPEG files for each class, or with two such "
               "folders, train and val",
       .decodes = true},
      {.name = "text",
       .path = "the text",
       .keys = keys_of_text(),
       .language = true,
       .tokenizer = "char"},
      {.name = "tokens",
       .path = "token ids, nothing else",
       .keys = keys_of_tokens(),
       .language = true,
       .ids = true},
      {.name = "sentences",
       .path = "a table as csv, with columns of texts",
       .keys = keys_of_sentences(),
       .tokenizer = "hf"},
      {.name = "synthetic",
       .keys = {key("samples", &D::samples, "number of samples (required there)")
                    .in(at_least(0, kMaxCount))
                    .needed("the number of samples, at least 1")}},
  };
  return all;
}

const std::vector<KnownData>& known_data() {
  static const std::vector<KnownData>& all =
      *new std::vector<KnownData>{{"fashion_mnist", "idx"},
                                  {"mnist", "idx"},
                                  {"cifar10", "cifar10"},
                                  {"tiny_shakespeare", "text"},
                                  {"synthetic", "synthetic"}};
  return all;
}

const std::vector<DataTask>& data_tasks() {
  static const std::vector<DataTask>& all =
      *new std::vector<DataTask>{{.name = "classification"},
                                 {.name = "regression", .of_numbers = true},
                                 {.name = "next_token", .language = true},
                                 {.name = "masked_token", .masked = true}};
  return all;
}

const std::vector<Tokenizer>& tokenizers() {
  static const std::vector<Tokenizer>& all = *new std::vector<Tokenizer>{
      {.name = "char", .learns = true},
      {.name = "byte"},
      {.name = "gpt2", .files = "the folder of vocab.json and merges.txt"},
      {.name = "hf", .files = "tokenizer.json"}};
  return all;
}

const Format* format_of(const Dataset& data) {
  const KnownData* const known = find_choice(known_data(), data.name);
  return find_choice(formats(), known == nullptr ? data.format : known->format);
}

const DataTask& task_of(const Dataset& data) {
  return find_row("dataset.task", data.task, data_tasks());
}

bool is_regression(const Dataset& data) { return task_of(data).of_numbers; }

bool is_language(const Dataset& data) {
  const Format* const format = format_of(data);
  return (format != nullptr && format->language) || task_of(data).language;
}

}  // namespace runtime::config
