// The normalizers that can be read, by their names.
#include "runtime/tokenizer/normalizer.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "runtime/tokenizer/pattern.h"
#include "runtime/tokenizer/regex.h"
#include "runtime/tokenizer/utf8.h"
#include "runtime/tokenizer/visible_bytes.h"

namespace runtime::tokenizer {
namespace {

// Calls change(character, text) for each character, which appends to the text what replaces it.
template <class Change>
void change_characters(Stretch& stretch, Change change) {
  std::string text;
  text.reserve(stretch.text.size());
  for (std::size_t at = 0; at < stretch.text.size();) {
    const bool first = at == 0;
    change(next_code_point(stretch.text, at), text);
    if (first && text.empty()) stretch.at_start = false;
  }
  stretch.text = std::move(text);
}

// Leaves out the characters for which `is_removed` is true.
template <class Predicate>
void remove_characters(Stretch& stretch, Predicate is_removed) {
  change_characters(stretch, [&](char32_t c, std::string& text) {
    if (!is_removed(c)) append_utf8(text, c);
  });
}

template <NormalForm form>
Normalizer read_normal_form(const Element&) {
  return [](Stretch& stretch) { stretch.text = normal_form(stretch.text, form); };
}

void make_lower_case(Stretch& stretch) {
  change_characters(stretch, [](char32_t c, std::string& text) { append_lower_case(text, c); });
}

Normalizer read_lowercase(const Element&) { return make_lower_case; }

Normalizer read_strip_accents(const Element&) {
  return [](Stretch& stretch) {
    remove_characters(stretch, [](char32_t c) { return c >= 0x80 && in_category(c, "M"); });
  };
}

bool is_chinese(char32_t c) {
  constexpr std::pair<char32_t, char32_t> kBlocks[] = {
      {0x4E00, 0x9FFF},   {0x3400, 0x4DBF}, {0x20000, 0x2A6DF}, {0x2A700, 0x2B81F},
      {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF}, {0x2F800, 0x2FA1F}};
  for (const auto& [first, last] : kBlocks)
    if (c >= first && c <= last) return true;
  return false;
}

// Leaves control characters out, and turns every kind of space into a blank.
void clean_text(Stretch& stretch) {
  change_characters(stretch, [](char32_t c, std::string& text) {
    if (c > ' ' && c < 0x7F)
      text += static_cast<char>(c);
    else if (is_space(c) && (c <= '\r' ? c != '\v' && c != '\f' : c != 0x85))
      text += ' ';
    else if (c != 0 && c != 0xFFFD && !in_category(c, "Cc") && !in_category(c, "Cf") &&
             !in_category(c, "Co"))
      append_utf8(text, c);
  });
}

Normalizer read_bert(const Element& element) {
  const bool clean = element.flag("clean_text", true);
  const bool chinese = element.flag("handle_chinese_chars", true);
  const bool lower = element.flag("lowercase", true);
  const bool strip = element.flag("strip_accents", lower);
  return [=](Stretch& stretch) {
    if (clean) clean_text(stretch);
    if (chinese) {
      change_characters(stretch, [](char32_t c, std::string& text) {
        const char* around = is_chinese(c) ? " " : "";
        text += around;
        append_utf8(text, c);
        text += around;
      });
    }
    if (strip) {
      stretch.text = normal_form(stretch.text, NormalForm::kNfd);
      remove_characters(stretch, [](char32_t c) { return c >= 0x80 && in_category(c, "Mn"); });
    }
    if (lower) make_lower_case(stretch);
  };
}

Normalizer read_strip(const Element& element) {
  const bool left = element.flag("strip_left", true), right = element.flag("strip_right", true);
  return [=](Stretch& stretch) {
    if (right) stretch.text.resize(spaces_at_end(stretch.text));
    const std::size_t begin = left ? spaces_from(stretch.text, 0) : 0;
    if (begin > 0) stretch.at_start = false;
    stretch.text.erase(0, begin);
  };
}

Normalizer read_prepend(const Element& element) {
  return [before = element.at("prepend").text()](Stretch& stretch) {
    if (!stretch.text.empty()) stretch.text.insert(0, before);
  };
}

Normalizer read_replace(const Element& element) {
  return [pattern = read_pattern(element.at("pattern")),
          content = element.at("content").text()](Stretch& stretch) {
    if (content.empty() && pattern.matches_at_begin(stretch.text)) stretch.at_start = false;
    stretch.text = pattern.replaced(stretch.text, content);
  };
}

// The normalizer of Google's neural machine translation, without its normal form.
Normalizer read_nmt(const Element&) {
  return [](Stretch& stretch) {
    change_characters(stretch, [](char32_t c, std::string& text) {
      constexpr std::u32string_view kSpaces =
          U"\t\n\f\r\u1680\u200B\u200C\u200D\u200E\u200F\u2028\u2029\u2581\uFEFF\uFFFD";
      const bool removed = (c >= 1 && c < 0x20) || c == 0x7F || c == 0x8F || c == 0x9F;
      if (kSpaces.find(c) != std::u32string_view::npos)
        text += ' ';
      else if (!removed)
        append_utf8(text, c);
    });
  };
}

Normalizer read_visible_bytes(const Element&) {
  return [](Stretch& stretch) { stretch.text = visible_bytes(stretch.text); };
}

Normalizer read_normalizer_sequence(const Element& element) {
  std::vector<Normalizer> steps;
  for (const Element& step : element.at("normalizers").list())
    steps.push_back(read_normalizer(step));
  return [steps = std::move(steps)](Stretch& stretch) {
    for (const Normalizer& step : steps)
      if (step) step(stretch);
  };
}

constexpr ComponentRow<Normalizer> kNormalizers[] = {{"NFC", read_normal_form<NormalForm::kNfc>},
                                                     {"NFD", read_normal_form<NormalForm::kNfd>},
                                                     {"NFKC", read_normal_form<NormalForm::kNfkc>},
                                                     {"NFKD", read_normal_form<NormalForm::kNfkd>},
                                                     {"Lowercase", read_lowercase},
                                                     {"StripAccents", read_strip_accents},
                                                     {"BertNormalizer", read_bert},
                                                     {"Strip", read_strip},
                                                     {"Prepend", read_prepend},
                                                     {"Replace", read_replace},
                                                     {"Nmt", read_nmt},
                                                     {"ByteLevel", read_visible_bytes},
                                                     {"Precompiled", read_precompiled},
                                                     {"Sequence", read_normalizer_sequence}};

}  // namespace

Normalizer read_normalizer(const Element& element) {
  if (element.is_null()) return nullptr;
  return element.row(kNormalizers).read(element);
}

}  // namespace runtime::tokenizer
