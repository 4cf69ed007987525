// Post-processors: which special tokens stand around a text, or two texts.
#ifndef RUNTIME_TOKENIZER_POST_PROCESSOR_H_
#define RUNTIME_TOKENIZER_POST_PROCESSOR_H_

#include <vector>

#include "runtime/tokenizer/element.h"
#include "runtime/tokenizer/tokenizer.h"

namespace runtime::tokenizer {

// One item of a template: all tokens of a text, or special tokens.
struct TemplateItem {
  enum { kFirst, kSecond, kSpecial } kind = kSpecial;
  int32_t segment = 0;
  std::vector<int32_t> ids = {};  // of kSpecial
};
using Template = std::vector<TemplateItem>;

// What stands around one text and around two.
struct PostProcessor {
  Template single = {{TemplateItem::kFirst, 0}};
  Template pair = {{TemplateItem::kFirst, 0}, {TemplateItem::kSecond, 1}};

  Marked process(Ids first, std::optional<Ids> second) const;
};

// Reads the element `post_processor` of a tokenizer.json, which may be null.
PostProcessor read_post_processor(const Element& element);

}  // namespace runtime::tokenizer

#endif  // RUNTIME_TOKENIZER_POST_PROCESSOR_H_
