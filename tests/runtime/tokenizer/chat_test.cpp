// Checks how a turn of a conversation is written, by the special tokens of a vocabulary.
#include "runtime/tokenizer/chat.h"

#include <gmock/gmock.h>

#include "tests/runtime/tokenizer/documents.h"

namespace runtime::tokenizer {
namespace {

using testing::HasSubstr;

// A vocabulary of bytes with these special tokens behind them.
TokenizerPointer with_tokens(const std::vector<std::string>& special) {
  std::string added;
  int id = 3;
  for (const std::string& text : special) {
    added += (added.empty() ? "" : ", ") + std::string("{\"id\": ") + std::to_string(id++) +
             ", \"content\": \"" + text + "\", \"special\": true}";
  }
  return test::tokenizer_of(
      R"({"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]})",
      R"("version": "1.0", "added_tokens": [)" + added + "]");
}

TEST(Chat, TheSpecialTokensTellTheFormat) {
  EXPECT_EQ(find_chat_format(*with_tokens({})), nullptr);
  EXPECT_EQ(find_chat_format(*with_tokens({"<|im_start|>"})), nullptr) << "nothing ends an answer";
  EXPECT_EQ(find_chat_format(*with_tokens({"<|im_start|>", "<|im_end|>"}))->name, "ChatML");
  EXPECT_EQ(find_chat_format(*with_tokens({"<|start_header_id|>", "<|eot_id|>"}))->name, "Llama 3");
  EXPECT_THAT(all_chat_formats(), HasSubstr("ChatML (<|im_start|>), Llama 3"));
}

// As apply_chat_template(add_generation_prompt=True) writes them for SmolLM2, Qwen 2 and Llama 3.
TEST(Chat, TurnsAreWrittenAsTheTemplatesWriteThem) {
  const ChatFormat& chatml = *find_chat_format(*with_tokens({"<|im_start|>", "<|im_end|>"}));
  EXPECT_EQ(chat_prompt(chatml, "Be brief.", "Hello!"),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello!<|im_end|>\n"
            "<|im_start|>assistant\n");
  EXPECT_EQ(chat_prompt(chatml, "", "Hello!"),
            "<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n");
  const ChatFormat& llama = *find_chat_format(*with_tokens({"<|start_header_id|>", "<|eot_id|>"}));
  EXPECT_EQ(chat_prompt(llama, "Be brief.", "Hello!"),
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nHello!<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
}

TEST(Chat, SpecialTokensAreFoundByTheirText) {
  const auto tokenizer = with_tokens({"<s>", "</s>"});
  EXPECT_EQ(find_special(*tokenizer, "</s>"), 4);
  EXPECT_EQ(find_special(*tokenizer, "ab"), std::nullopt) << "a token, but no special one";
  EXPECT_EQ(find_special(*tokenizer, "<s><s>"), std::nullopt);
  EXPECT_EQ(find_special(*tokenizer, ""), std::nullopt);
}

}  // namespace
}  // namespace runtime::tokenizer
