// The models of tokenizers: how a piece of text becomes tokens of a vocabulary.
#ifndef RUNTIME_TOKENIZER_MODEL_H_
#define RUNTIME_TOKENIZER_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/tokenizer/element.h"
#include "runtime/tokenizer/vocabulary.h"

namespace runtime::tokenizer {

// A model, which is immutable; any thread may use it.
class Model {
 public:
  virtual ~Model() = default;
  const Vocabulary& vocabulary() const { return vocabulary_; }
  // Appends the ids of a piece, which is UTF-8 and not empty, in time n log n at most for n bytes.
  // Throws DataError if the piece has a character for which there is no token.
  virtual void tokenize(std::string_view piece, std::vector<int32_t>& ids) const = 0;
  // Returns where a first part of a piece ends, whose ids and those of the rest are the ids of the
  // piece. It need not be the first such place.
  virtual std::size_t part_end(std::string_view piece) const { return piece.size(); }

 protected:
  explicit Model(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}

 private:
  Vocabulary vocabulary_;
};
using ModelPointer = std::unique_ptr<const Model>;

// Reads the element `model` of a tokenizer.json: one of BPE, WordPiece and Unigram.
ModelPointer read_model(const Element& element);

// Byte-pair encoding (Sennrich et al., "Neural Machine Translation of Rare Words with Subword
// Units", 2016): as long as two neighbouring symbols are a pair in the list of merges, the pair
// that is earliest in the list becomes one symbol.
ModelPointer read_bpe(const Element& element);
// Makes a byte-pair encoding whose symbols are characters. A merge is two tokens that make a third.
using Merges = std::vector<std::pair<std::string, std::string>>;
ModelPointer make_bpe(Vocabulary vocabulary, const Merges& merges, const std::string& where);
// WordPiece (Devlin et al., "BERT", 2019): the longest token with which a word begins, and so on.
ModelPointer read_word_piece(const Element& element);
// Unigram (Kudo, "Subword Regularization", 2018): of all sequences of tokens that make a piece, the
// one with the largest sum of scores.
ModelPointer read_unigram(const Element& element);

}  // namespace runtime::tokenizer

#endif  // RUNTIME_TOKENIZER_MODEL_H_
