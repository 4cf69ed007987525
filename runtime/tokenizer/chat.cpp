// The formats of conversations, one row for each.
#include "runtime/tokenizer/chat.h"

#include <vector>

#include "runtime/error.h"

namespace runtime::tokenizer {

namespace {

constexpr ChatFormat kFormats[] = {
    {.name = "ChatML",
     .marker = "<|im_start|>",
     .beginning = "",
     .system = "<|im_start|>system\n",
     .user = "<|im_start|>user\n",
     .assistant = "<|im_start|>assistant\n",
     .end = "<|im_end|>",
     .behind = "\n"},
    {.name = "Llama 3",
     .marker = "<|start_header_id|>",
     .beginning = "<|begin_of_text|>",
     .system = "<|start_header_id|>system<|end_header_id|>\n\n",
     .user = "<|start_header_id|>user<|end_header_id|>\n\n",
     .assistant = "<|start_header_id|>assistant<|end_header_id|>\n\n",
     .end = "<|eot_id|>",
     .behind = ""}};

}  // namespace

std::optional<int32_t> find_special(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> ids;
  try {
    tokenizer.encode(text, "a special token", [&](int32_t id) { ids.push_back(id); });
  } catch (const DataError&) {  // the vocabulary lacks the characters of the text
    return std::nullopt;
  }
  if (ids.size() == 1 && tokenizer.is_special(ids[0])) return ids[0];
  return std::nullopt;
}

const ChatFormat* find_chat_format(const Tokenizer& tokenizer) {
  for (const ChatFormat& format : kFormats) {
    if (find_special(tokenizer, format.marker) && find_special(tokenizer, format.end))
      return &format;
  }
  return nullptr;
}

std::string all_chat_formats() {
  std::string text;
  for (const ChatFormat& format : kFormats) {
    text += (text.empty() ? "" : ", ") + std::string(format.name) + " (" +
            std::string(format.marker) + ")";
  }
  return text;
}

std::string chat_prompt(const ChatFormat& format, std::string_view system, std::string_view user) {
  std::string text(format.beginning);
  const auto add = [&](std::string_view before, std::string_view what) {
    text.append(before).append(what).append(format.end).append(format.behind);
  };
  if (!system.empty()) add(format.system, system);
  add(format.user, user);
  return text.append(format.assistant);
}

}  // namespace runtime::tokenizer
