// The pre-tokenizers that can be read, by their names.
#include "runtime/tokenizer/pre_tokenizer.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "runtime/tokenizer/pattern.h"
#include "runtime/tokenizer/utf8.h"
#include "runtime/tokenizer/visible_bytes.h"

namespace runtime::tokenizer {
namespace {

// How a text is cut at the matches of something: a stretch (a match, or what lies between two)
// belongs to the same piece as the one before it where `joins` says so.
struct Behavior {
  std::string_view name;
  bool (*joins)(bool match_before, bool match);
  bool removes = false;  // whether matches are left out
};

bool never_joins(bool, bool) { return false; }

constexpr Behavior kBehaviors[] = {
    {"Removed", never_joins, true},
    {"Isolated", never_joins},
    {"MergedWithPrevious", [](bool before, bool match) { return match && !before; }},
    {"MergedWithNext", [](bool before, bool match) { return before && !match; }},
    {"Contiguous", [](bool before, bool match) { return before == match; }}};
constexpr const Behavior &kRemoved = kBehaviors[0], &kIsolated = kBehaviors[1],
                         &kMergedWithNext = kBehaviors[3], &kContiguous = kBehaviors[4];

const Behavior& read_behavior(const Element& element) {
  if (const Behavior* found = find_choice(kBehaviors, element.text())) return *found;
  element.refuse("Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

// Takes the stretches of a piece from left to right, and emits pieces.
class Cutter {
 public:
  Cutter(const Piece& piece, const Behavior& behavior, bool inverted, const EmitPiece& emit)
      : piece_(piece), behavior_(behavior), inverted_(inverted), emit_(emit) {}

  // The next match, at or behind the end of the one before.
  void add_match(Range range) {
    if (range.begin > end_) add({end_, range.begin}, inverted_);
    add(range, !inverted_);
    end_ = range.end;
  }

  void finish() {
    if (end_ < piece_.text.size()) add({end_, piece_.text.size()}, inverted_);
    flush();
  }

 private:
  void add(Range range, bool match) {
    if (held_ && behavior_.joins(match_, match)) {
      range.begin = range_.begin;
    } else {
      flush();
    }
    held_ = true;
    range_ = range;
    match_ = match;
  }

  void flush() {
    if (!held_ || range_.begin == range_.end || (match_ && behavior_.removes)) return;
    emit_({piece_.text.substr(range_.begin, range_.end - range_.begin),
           piece_.at_start && range_.begin == 0});
  }

  const Piece& piece_;
  const Behavior& behavior_;
  bool inverted_;
  const EmitPiece& emit_;
  std::size_t end_ = 0;  // of the last match
  bool held_ = false;    // whether range_ is a stretch that is not emitted yet
  Range range_;
  bool match_ = false;
};

void cut(const Piece& piece, const Pattern& pattern, const Behavior& behavior, bool inverted,
         const EmitPiece& emit) {
  Cutter cutter(piece, behavior, inverted, emit);
  pattern.each_match(piece.text, [&](Range match) { cutter.add_match(match); });
  cutter.finish();
}

// Cuts at each character for which `is_match` is true.
void cut_at(const Piece& piece, const std::function<bool(char32_t)>& is_match,
            const Behavior& behavior, const EmitPiece& emit) {
  Cutter cutter(piece, behavior, false, emit);
  for (std::size_t at = 0; at < piece.text.size();) {
    const std::size_t begin = at;
    if (is_match(next_code_point(piece.text, at))) cutter.add_match({begin, at});
  }
  cutter.finish();
}

PreTokenizer cutting_at(bool (*is_match)(char32_t), const Behavior& behavior) {
  return [is_match, &behavior](const Piece& piece, const EmitPiece& emit) {
    cut_at(piece, is_match, behavior, emit);
  };
}

PreTokenizer in_order(std::vector<PreTokenizer> steps) {
  return [steps = std::move(steps)](const Piece& whole, const EmitPiece& emit) {
    const std::function<void(std::size_t, const Piece&)> run = [&](std::size_t step,
                                                                   const Piece& piece) {
      if (step == steps.size()) return emit(piece);
      steps[step](piece, [&](const Piece& next) { run(step + 1, next); });
    };
    run(0, whole);
  };
}

bool is_punctuation(char32_t c) {
  constexpr std::u32string_view kAscii = U"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
  return c < 0x80 ? kAscii.find(c) != std::u32string_view::npos : in_category(c, "P");
}

PreTokenizer read_byte_level(const Element& element) {
  return byte_level(element.flag("add_prefix_space", true), element.flag("use_regex", true));
}

PreTokenizer read_bert_cuts(const Element&) {
  return in_order({cutting_at(is_space, kRemoved), cutting_at(is_punctuation, kIsolated)});
}

// Words and runs of other characters that are no spaces, with the words of Rust's regex.
PreTokenizer read_whitespace(const Element& element) {
  const std::string word = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control})";
  return
      [pattern = Pattern(Regex("[" + word + "]+|[^" + word + "\\s]+", element.where()))](
          const Piece& piece, const EmitPiece& emit) { cut(piece, pattern, kRemoved, true, emit); };
}

PreTokenizer read_whitespace_split(const Element&) { return cutting_at(is_space, kRemoved); }

PreTokenizer read_split(const Element& element) {
  const Behavior& behavior = read_behavior(element.at("behavior"));
  return [pattern = read_pattern(element.at("pattern")), &behavior,
          inverted = element.flag("invert", false)](const Piece& piece, const EmitPiece& emit) {
    cut(piece, pattern, behavior, inverted, emit);
  };
}

PreTokenizer read_punctuation(const Element& element) {
  return cutting_at(is_punctuation,
                    element.has("behavior") ? read_behavior(element.at("behavior")) : kIsolated);
}

PreTokenizer read_digits(const Element& element) {
  return cutting_at([](char32_t c) { return in_category(c, "N"); },
                    element.flag("individual_digits", false) ? kIsolated : kContiguous);
}

char32_t read_character(const Element& element) {
  const std::string text = element.text();
  std::size_t at = 0;
  const char32_t character = text.empty() ? 0 : next_code_point(text, at);
  if (at == 0 || at < text.size()) element.refuse("a single character");
  return character;
}

PreTokenizer read_delimiter(const Element& element) {
  return [delimiter = read_character(element.at("delimiter"))](const Piece& piece,
                                                               const EmitPiece& emit) {
    cut_at(
        piece, [&](char32_t c) { return c == delimiter; }, kRemoved, emit);
  };
}

// SentencePiece's way: a mark stands for each space, and begins each piece.
PreTokenizer read_metaspace(const Element& element) {
  const std::string mark = element.text("replacement", "\u2581");
  if (element.has("replacement")) read_character(element.at("replacement"));
  // Old files say only whether a mark is put before the text.
  const std::string scheme =
      element.text("prepend_scheme", element.flag("add_prefix_space", true) ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never")
    element.at("prepend_scheme").refuse("always, first or never");
  const Pattern marks(mark), blanks(std::string(" "));
  return [=, cuts = element.flag("split", true)](const Piece& piece, const EmitPiece& emit) {
    std::string text = blanks.replaced(piece.text, mark);
    const bool wanted = scheme == "always" || (scheme == "first" && piece.at_start);
    if (wanted && !text.starts_with(mark)) text.insert(0, mark);
    const Piece marked{text, piece.at_start};
    cuts ? cut(marked, marks, kMergedWithNext, false, emit) : emit(marked);
  };
}

PreTokenizer read_pre_tokenizer_sequence(const Element& element) {
  std::vector<PreTokenizer> steps;
  for (const Element& step : element.at("pretokenizers").list()) {
    if (PreTokenizer next = read_pre_tokenizer(step)) steps.push_back(std::move(next));
  }
  return in_order(std::move(steps));
}

constexpr ComponentRow<PreTokenizer> kPreTokenizers[] = {
    {"ByteLevel", read_byte_level},  {"BertPreTokenizer", read_bert_cuts},
    {"Whitespace", read_whitespace}, {"WhitespaceSplit", read_whitespace_split},
    {"Split", read_split},           {"Punctuation", read_punctuation},
    {"Digits", read_digits},         {"CharDelimiterSplit", read_delimiter},
    {"Metaspace", read_metaspace},   {"Sequence", read_pre_tokenizer_sequence}};

}  // namespace

PreTokenizer byte_level(bool space, bool cuts) {
  const Pattern pattern(Regex(
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", "GPT-2"));
  return [=](const Piece& piece, const EmitPiece& emit) {
    const bool adds = space && !piece.text.starts_with(' ');
    const std::string spaced = adds ? " " + std::string(piece.text) : "";
    const Piece whole{adds ? std::string_view(spaced) : piece.text, piece.at_start};
    const EmitPiece emit_visible = [&](const Piece& part) {
      const std::string visible = visible_bytes(part.text);
      emit({visible, part.at_start});
    };
    cuts ? cut(whole, pattern, kIsolated, false, emit_visible) : emit_visible(whole);
  };
}

PreTokenizer read_pre_tokenizer(const Element& element) {
  if (element.is_null()) return nullptr;
  return element.row(kPreTokenizers).read(element);
}

}  // namespace runtime::tokenizer
