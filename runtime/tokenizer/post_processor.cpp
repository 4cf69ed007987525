// The post-processors that can be read, by their names.
#include "runtime/tokenizer/post_processor.h"

#include <nlohmann/json.hpp>

#include "runtime/tokenizer/vocabulary.h"

namespace runtime::tokenizer {
namespace {

int32_t read_id(const Element& element) {
  return static_cast<int32_t>(element.number(0, kMostTokens - 1));
}

// Reads {"Sequence": {"id": "A", "type_id": 0}} or {"SpecialToken": {"id": "[CLS]", "type_id": 0}}.
TemplateItem read_item(const Element& element, const Element& special_tokens) {
  const bool special = element.has("SpecialToken");
  const Element item = element.at(special ? "SpecialToken" : "Sequence");
  const std::string id = item.at("id").text();
  TemplateItem result;
  result.segment =
      item.has("type_id") ? static_cast<int32_t>(item.at("type_id").number(0, INT32_MAX)) : 0;
  if (special) {
    for (const Element& token : special_tokens.at(id.c_str()).at("ids").list())
      result.ids.push_back(read_id(token));
    return result;
  }
  if (id != "A" && id != "B") item.at("id").refuse("\"A\" or \"B\"");
  result.kind = id == "A" ? TemplateItem::kFirst : TemplateItem::kSecond;
  return result;
}

PostProcessor read_template(const Element& element) {
  PostProcessor processor;
  for (const auto& [key, items] :
       {std::pair{"single", &processor.single}, std::pair{"pair", &processor.pair}}) {
    items->clear();
    for (const Element& item : element.at(key).list())
      items->push_back(read_item(item, element.at("special_tokens")));
  }
  return processor;
}

// [CLS] A [SEP], or [CLS] A [SEP] B [SEP].
PostProcessor read_bert_processor(const Element& element) {
  const TemplateItem begin{.ids = {read_id(element.at("cls").at(1))}};
  TemplateItem end{.ids = {read_id(element.at("sep").at(1))}};
  PostProcessor processor;
  processor.single = processor.pair = {begin, {TemplateItem::kFirst, 0}, end};
  end.segment = 1;
  processor.pair.push_back({TemplateItem::kSecond, 1});
  processor.pair.push_back(end);
  return processor;
}

// <s> A </s>, or <s> A </s> </s> B </s>, all in segment 0.
PostProcessor read_roberta_processor(const Element& element) {
  const TemplateItem begin{.ids = {read_id(element.at("cls").at(1))}};
  const TemplateItem end{.ids = {read_id(element.at("sep").at(1))}};
  return {.single = {begin, {TemplateItem::kFirst, 0}, end},
          .pair = {begin, {TemplateItem::kFirst, 0}, end, end, {TemplateItem::kSecond, 0}, end}};
}

// The others of a sequence must be of the kind that changes no ids.
PostProcessor read_processor_sequence(const Element& element) {
  PostProcessor processor;
  bool adds = false;
  for (const Element& step : element.at("processors").list()) {
    if (step.text("type", "") == "ByteLevel") continue;
    if (adds) step.refuse("one post-processor besides ByteLevel");
    processor = read_post_processor(step);
    adds = true;
  }
  return processor;
}

// ByteLevel moves the offsets of tokens, which are not used here.
PostProcessor read_byte_level_processor(const Element&) { return {}; }

constexpr ComponentRow<PostProcessor> kPostProcessors[] = {
    {"TemplateProcessing", read_template},
    {"BertProcessing", read_bert_processor},
    {"RobertaProcessing", read_roberta_processor},
    {"ByteLevel", read_byte_level_processor},
    {"Sequence", read_processor_sequence}};

}  // namespace

Marked PostProcessor::process(Ids first, std::optional<Ids> second) const {
  Marked result;
  for (const TemplateItem& item : second ? pair : single) {
    Ids ids = item.ids;
    if (item.kind == TemplateItem::kFirst) ids = first;
    if (item.kind == TemplateItem::kSecond) ids = second.value_or(Ids());
    result.ids.insert(result.ids.end(), ids.begin(), ids.end());
    result.segments.insert(result.segments.end(), ids.size(), item.segment);
  }
  return result;
}

PostProcessor read_post_processor(const Element& element) {
  if (element.is_null()) return {};
  return element.row(kPostProcessors).read(element);
}

}  // namespace runtime::tokenizer
