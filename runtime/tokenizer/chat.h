// How a turn of a conversation is written for models that were trained on conversations.
#ifndef RUNTIME_TOKENIZER_CHAT_H_
#define RUNTIME_TOKENIZER_CHAT_H_

#include <string>
#include <string_view>

#include "runtime/tokenizer/tokenizer.h"

namespace runtime::tokenizer {

// One way to write conversations, told by a special token that only it has. Equivalent to: the
// chat_template of a tokenizer of transformers, for one turn.
struct ChatFormat {
  std::string_view name;
  std::string_view marker;                   // the special token that tells it
  std::string_view beginning;                // of every conversation
  std::string_view system, user, assistant;  // what stands before a text of each
  std::string_view end;     // the token behind each text, with which an answer ends
  std::string_view behind;  // what stands behind that token
};

// The format of a vocabulary; null: it has the marker of none.
const ChatFormat* find_chat_format(const Tokenizer& tokenizer);
// "ChatML (<|im_start|>), ...", for messages.
std::string all_chat_formats();

// The text to which the answer is the continuation; an empty `system` is left out.
std::string chat_prompt(const ChatFormat& format, std::string_view system, std::string_view user);

// The id of a special token by its text; nullopt: the vocabulary has no such special token.
std::optional<int32_t> find_special(const Tokenizer& tokenizer, std::string_view text);

}  // namespace runtime::tokenizer

#endif  // RUNTIME_TOKENIZER_CHAT_H_
