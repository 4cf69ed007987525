// Layers and configurations of the BERT family, and of sentence-transformers made of it.
#include "runtime/exchange/bert.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "runtime/exchange/functions.h"

namespace runtime::exchange {

namespace {

namespace fs = std::filesystem;

constexpr const char* kEmbedding = "bert.embeddings.word_embeddings";
constexpr const char* kBase = "bert.";
constexpr const char* kPooler = "bert.pooler.";
constexpr const char* kHead = "cls.";
constexpr const char* kHeadBias = "cls.predictions.bias";
constexpr const char* kDecoderBias = "cls.predictions.decoder.bias";
constexpr const char* kDocuments = "documents";

TomlLayer linear(const std::string& name, int64_t features) {
  return TomlLayer("linear").text("name", name).integer("features", features);
}

// A class of transformers that config.json's `architectures` names, and its task. The first row of
// a task is the class that a written folder names.
struct ModelClass {
  std::string_view name;
  Task task;
};
constexpr ModelClass kClasses[] = {{"BertModel", Task::kEmbedding},
                                   {"BertForMaskedLM", Task::kMaskedToken},
                                   {"BertForPreTraining", Task::kMaskedToken},
                                   {"BertForSequenceClassification", Task::kClass}};

// Returns the task of the first class that config.json names in `architectures`; without that key,
// the task of the first row.
Task task_of(const JsonObject& config) {
  const std::vector<std::string> names =
      config.has("architectures") ? config.texts("architectures") : std::vector<std::string>{};
  if (names.empty()) return kClasses[0].task;
  std::string known;
  for (const ModelClass& row : kClasses) {
    if (row.name == names[0]) return row.task;
    known.append(known.empty() ? "" : ", ").append(row.name);
  }
  config.fail("architectures", "one of " + known);
}

void read_pooling(Bert& bert, const std::string& folder) {
  const JsonObject config =
      JsonObject::of_file((fs::path(folder) / "config.json").lexically_normal().string());
  bert.first_token = config.flag("pooling_mode_cls_token", false);
  const bool mean = config.flag("pooling_mode_mean_tokens", false);
  for (const char* key : {"pooling_mode_max_tokens", "pooling_mode_mean_sqrt_len_tokens",
                          "pooling_mode_weightedmean_tokens", "pooling_mode_lasttoken"}) {
    if (config.flag(key, false)) config.fail(key, "false; the mean or the first token are known");
  }
  if (mean == bert.first_token)
    config.fail("pooling_mode_mean_tokens", "true, or pooling_mode_cls_token, one of the two");
}

// The modules behind the encoder that sentence-transformers has.
void read_modules(Bert& bert, const std::string& folder) {
  const fs::path path = fs::path(folder) / "modules.json";
  if (!fs::exists(path)) return;
  for (const JsonObject& module : JsonObject::list_of_file(path.string())) {
    const std::string type = module.text("type"), place = module.text("path", "");
    const std::string name = type.substr(type.rfind('.') + 1);
    if (name == "Transformer" && place.empty()) continue;
    if (name == "Pooling") {
      if (fs::path(place).filename() != place) module.fail("path", "a folder in that of the model");
      read_pooling(bert, (fs::path(folder) / place).string());
    } else if (name == "Normalize") {
      bert.normalised = true;
    } else {
      module.fail("type", "a Transformer in the same folder, Pooling or Normalize");
    }
  }
}

}  // namespace

TomlLayer Bert::norm(const std::string& name) const {
  return TomlLayer("layer_norm").text("name", name).number("eps", epsilon);
}

std::vector<TomlLayer> Bert::embeddings() const {
  const auto table = [&](const std::string& name, int64_t rows) {
    return TomlLayer("embedding")
        .text("name", name)
        .integer("vocabulary", rows)
        .integer("features", width);
  };
  const TomlLayer of_segments =
      TomlLayer("input").text("input", "segments").text("values", "integers");
  std::vector<TomlLayer> all = {
      table(kEmbedding, tokens),
      TomlLayer("join")
          .flag("prefix", false)
          .text("by", "add")
          .list("layers", {of_segments, table("bert.embeddings.token_type_embeddings", segments)}),
      TomlLayer("position_embedding")
          .text("name", "bert.embeddings.position_embeddings")
          .integer("length", places),
      norm("bert.embeddings.LayerNorm")};
  add_dropout(all, hidden_dropout);
  return all;
}

std::vector<TomlLayer> Bert::block() const {
  TomlLayer attention("attention");
  attention.flag("prefix", false).integer("heads", heads).text("documents", kDocuments);
  if (attention_dropout > 0) attention.number("dropout", attention_dropout);
  for (const char* which : {"query", "key", "value"})
    attention.list(which, {linear(std::string("attention.self.") + which, width)});
  const auto residual = [&](std::vector<TomlLayer> inner) {
    add_dropout(inner, hidden_dropout);
    return TomlLayer("residual").flag("prefix", false).list("layers", inner);
  };
  return {residual({attention, linear("attention.output.dense", width)}),
          norm("attention.output.LayerNorm"),
          residual({linear("intermediate.dense", hidden).text("activation", function),
                    linear("output.dense", width)}),
          norm("output.LayerNorm")};
}

std::vector<TomlLayer> Bert::head() const {
  std::vector<TomlLayer> all;
  switch (kind) {
    case Task::kNextToken:
      break;
    case Task::kMaskedToken: {
      all = {linear("cls.predictions.transform.dense", width).text("activation", function),
             norm("cls.predictions.transform.LayerNorm"),
             linear("cls.predictions.decoder", tokens)};
      if (tied) all.back().text("tie", kEmbedding);
      break;
    }
    case Task::kClass:
      all = {TomlLayer("first_token"),
             linear("bert.pooler.dense", width).text("activation", "tanh")};
      add_dropout(all, classifier_dropout);
      all.push_back(linear("classifier", classes));
      break;
    case Task::kEmbedding:
      all.push_back(first_token ? TomlLayer("first_token")
                                : TomlLayer("global_avg_pool").text("documents", kDocuments));
      if (normalised) all.push_back(TomlLayer("l2_norm"));
      break;
  }
  return all;
}

std::string Bert::layers() const {
  std::vector<TomlLayer> all = embeddings();
  all.push_back(repeated("bert.encoder.layer", blocks, block()));
  for (TomlLayer& layer : head()) all.push_back(std::move(layer));
  return to_toml(all);
}

int64_t Bert::outputs() const {
  return kind == Task::kClass ? classes : kind == Task::kEmbedding ? width : tokens;
}

// Files of the model alone have no "bert." before the names, and old files other names for the
// parameters of normalisations. Tensors of heads that the model does not have are left out, as
// transformers leaves them out.
std::string Bert::name_of(const std::string& tensor) const {
  const bool of_head = tensor.starts_with(kHead) || tensor.starts_with("classifier.");
  std::string name = of_head || tensor.starts_with(kBase) ? tensor : kBase + tensor;
  if (name == "bert.embeddings.position_ids") return "";
  if (name.starts_with(kPooler) && kind != Task::kClass) return "";
  if (name.starts_with(kHead) && kind != Task::kMaskedToken) return "";
  if (name.starts_with("cls.seq_relationship.")) return "";
  if (name == "cls.predictions.decoder.weight" && tied) return "";
  if (name == kHeadBias) return kDecoderBias;
  const auto rename = [&](const std::string& old, const std::string& now) {
    if (name.ends_with(old)) name.replace(name.size() - old.size(), old.size(), now);
  };
  rename("LayerNorm.gamma", "LayerNorm.weight");
  rename("LayerNorm.beta", "LayerNorm.bias");
  return name;
}

std::string Bert::tensor_of(const std::string& parameter) const {
  if (parameter == kDecoderBias) return kHeadBias;
  const bool alone = kind == Task::kEmbedding && parameter.starts_with(kBase);
  return alone ? parameter.substr(std::string(kBase).size()) : parameter;
}

nlohmann::ordered_json Bert::config() const {
  nlohmann::ordered_json json = {
      {"architectures", {std::ranges::find(kClasses, kind, &ModelClass::task)->name}},
      {"model_type", "bert"},
      {"vocab_size", tokens},
      {"hidden_size", width},
      {"num_hidden_layers", blocks},
      {"num_attention_heads", heads},
      {"intermediate_size", hidden},
      {"hidden_act", their_function(function)},
      {"hidden_dropout_prob", hidden_dropout},
      {"attention_probs_dropout_prob", attention_dropout},
      {"max_position_embeddings", places},
      {"type_vocab_size", segments},
      {"layer_norm_eps", epsilon},
      {"tie_word_embeddings", tied}};
  if (kind != Task::kClass) return json;
  json["classifier_dropout"] = classifier_dropout;
  for (int64_t i = 0; i < classes; ++i) {
    json["id2label"][std::to_string(i)] = "LABEL_" + std::to_string(i);
    json["label2id"]["LABEL_" + std::to_string(i)] = i;
  }
  return json;
}

std::map<std::string, std::string> Bert::files() const {
  if (kind != Task::kEmbedding) return {};
  const auto module = [](int64_t index, const std::string& path, const std::string& type) {
    return nlohmann::ordered_json{{"idx", index},
                                  {"name", std::to_string(index)},
                                  {"path", path},
                                  {"type", "sentence_transformers.models." + type}};
  };
  nlohmann::ordered_json modules = {module(0, "", "Transformer"),
                                    module(1, "1_Pooling", "Pooling")};
  if (normalised) modules.push_back(module(2, "2_Normalize", "Normalize"));
  const nlohmann::ordered_json pooling = {{"word_embedding_dimension", width},
                                          {"pooling_mode_cls_token", first_token},
                                          {"pooling_mode_mean_tokens", !first_token}};
  return {{"modules.json", modules.dump(2) + "\n"},
          {"1_Pooling/config.json", pooling.dump(2) + "\n"}};
}

std::unique_ptr<Architecture> read_bert(const JsonObject& config, const std::string& folder) {
  auto b = std::make_unique<Bert>();
  b->kind = task_of(config);
  b->tokens = config.integer("vocab_size", 1, 30522);
  b->width = config.integer("hidden_size", 1, 768);
  b->hidden = config.integer("intermediate_size", 1, 3072);
  b->blocks = config.integer("num_hidden_layers", 1, 12);
  if (b->blocks > 1000) config.fail("num_hidden_layers", "at most 1000");
  b->heads = config.integer("num_attention_heads", 1, 12);
  if (b->width % b->heads != 0)
    config.fail("num_attention_heads", "a divisor of hidden_size, " + std::to_string(b->width));
  b->places = config.integer("max_position_embeddings", 1, 512);
  b->segments = config.integer("type_vocab_size", 1, 2);
  b->epsilon = config.share("layer_norm_eps", 1e-12);
  b->function = read_function(config, "hidden_act", "gelu", {"gelu", "gelu_tanh", "relu", "tanh"});
  b->hidden_dropout = config.probability("hidden_dropout_prob", 0.1);
  b->attention_dropout = config.probability("attention_probs_dropout_prob", 0.1);
  b->classifier_dropout = config.probability("classifier_dropout", b->hidden_dropout);
  if (config.text("position_embedding_type", "absolute") != "absolute")
    config.fail("position_embedding_type", "absolute");
  for (const char* key : {"is_decoder", "add_cross_attention"}) {
    if (config.flag(key, false)) config.fail(key, "false");
  }
  b->tied = config.flag("tie_word_embeddings", true);
  if (b->kind == Task::kClass) {
    const int64_t named =
        config.has("id2label") ? static_cast<int64_t>(config.object("id2label").json().size()) : 2;
    b->classes = config.integer("num_labels", 1, named);
    const std::string problem = config.text("problem_type", "single_label_classification");
    if (problem != "single_label_classification")
      config.fail("problem_type", "single_label_classification");
    if (b->classes < 2) config.fail("num_labels", "at least 2 classes");
  }
  if (b->kind == Task::kEmbedding) read_modules(*b, folder);
  return b;
}

}  // namespace runtime::exchange
