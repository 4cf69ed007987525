// Imports small folders as transformers writes them, exports them again, and refuses broken ones.
#include "runtime/exchange/exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/data/safetensors.h"
#include "runtime/error.h"
#include "runtime/exchange/hf_json.h"
#include "runtime/model/layer_types.h"
#include "tests/runtime/support/devices.h"

namespace runtime::exchange {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using testing::AllOf;
using testing::HasSubstr;

using Shapes = std::map<std::string, std::vector<int64_t>>;

data::TensorFile tensors_of(const Shapes& shapes) {
  data::TensorFile file;
  float next = 0;
  for (const auto& [name, dims] : shapes) {
    std::vector<float> numbers(static_cast<size_t>(graph::element_count(dims)));
    for (float& number : numbers) number = next += 0.125F;
    const auto* const bytes = reinterpret_cast<const std::byte*>(numbers.data());
    file.tensors[name] = {RT_FLOAT32, dims, {bytes, bytes + numbers.size() * sizeof(float)}};
  }
  return file;
}

void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

std::string read(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// One model of each family, at a width of 8.
class Exchange : public testing::Test {
 protected:
  Exchange() { fs::create_directory(source()); }

  fs::path source() const { return fs::path(folder_.path()) / "source"; }
  fs::path target(const char* name = "target") const { return fs::path(folder_.path()) / name; }

  static ordered_json llama() {
    return {{"model_type", "llama"},    {"vocab_size", 11},       {"hidden_size", 8},
            {"intermediate_size", 12},  {"num_hidden_layers", 2}, {"num_attention_heads", 4},
            {"num_key_value_heads", 2}, {"rms_norm_eps", 1e-5},   {"max_position_embeddings", 32}};
  }
  static Shapes llama_tensors() {
    Shapes shapes = {{"model.embed_tokens.weight", {11, 8}},
                     {"model.norm.weight", {8}},
                     {"lm_head.weight", {11, 8}}};
    for (const std::string block : {"model.layers.0.", "model.layers.1."}) {
      for (const char* norm : {"input_layernorm", "post_attention_layernorm"})
        shapes[block + norm + ".weight"] = {8};
      for (const char* whole : {"q_proj", "o_proj"})
        shapes[block + "self_attn." + whole + ".weight"] = {8, 8};
      for (const char* shared : {"k_proj", "v_proj"})
        shapes[block + "self_attn." + shared + ".weight"] = {4, 8};
      for (const char* wide : {"gate_proj", "up_proj"})
        shapes[block + "mlp." + wide + ".weight"] = {12, 8};
      shapes[block + "mlp.down_proj.weight"] = {8, 12};
    }
    return shapes;
  }

  void write_source(const ordered_json& config, const Shapes& shapes) {
    write(source() / "config.json", config.dump());
    data::write_safetensors((source() / "model.safetensors").string(), tensors_of(shapes));
  }
  Exchanged import() { return import_model(source().string(), target().string()); }
  std::string refusal() {
    std::string message = test::message_of<DataError>([&] { import(); });
    EXPECT_FALSE(fs::exists(target()));
    return message;
  }
  config::Config imported() const {
    return config::load((target() / "config.toml").string(), {}, "", model::layer_types());
  }

 private:
  test::TemporaryFolder folder_;
};

TEST_F(Exchange, LlamaComesInAndGoesOut) {
  write_source(llama(), llama_tensors());
  write(source() / "tokenizer.json", "{}");
  write(source() / "tokenizer_config.json", R"({"eos_token": "</s>"})");
  const Exchanged in = import();
  EXPECT_EQ(in.family, "llama");
  EXPECT_EQ(in.loader, "LlamaForCausalLM");
  EXPECT_EQ(in.parameters, 21);
  EXPECT_TRUE(fs::exists(target() / "tokenizer.json"));
  const std::string weights = (target() / "weights.safetensors").string();
  EXPECT_EQ(imported().model.init_from, weights);
  const Exchanged out = export_model(imported(), weights, target("back").string());
  EXPECT_EQ(out.numbers, in.numbers);
  EXPECT_EQ(read(target("back") / "tokenizer_config.json"), R"({"eos_token": "</s>"})");
  const auto back = ordered_json::parse(read(target("back") / "config.json"));
  const ordered_json config = llama();
  for (const auto& [key, value] : config.items()) EXPECT_EQ(back.at(key), value) << key;
  const data::TensorFile expected = tensors_of(llama_tensors()),
                         found = data::read_safetensors(
                             (target("back") / "model.safetensors").string());
  ASSERT_EQ(found.tensors.size(), expected.tensors.size());
  for (const auto& [name, tensor] : expected.tensors) {
    ASSERT_TRUE(found.tensors.contains(name)) << name;
    EXPECT_EQ(found.tensors.at(name).bytes, tensor.bytes) << name;
  }
}

TEST_F(Exchange, WindowsThatDifferAreLayersOfTheirOwn) {
  ordered_json config = llama();
  config["model_type"] = "qwen2", config["use_sliding_window"] = true;
  config["sliding_window"] = 7, config["layer_types"] = {"full_attention", "sliding_attention"};
  Shapes shapes = llama_tensors();
  for (const std::string block : {"model.layers.0.", "model.layers.1."}) {
    shapes[block + "self_attn.q_proj.bias"] = {8};
    shapes[block + "self_attn.k_proj.bias"] = shapes[block + "self_attn.v_proj.bias"] = {4};
  }
  write_source(config, shapes);
  import();
  EXPECT_THAT(read(target() / "config.toml"),
              AllOf(HasSubstr("name = \"model.layers.1\""), HasSubstr("window = 7")));
  export_model(imported(), (target() / "weights.safetensors").string(), target("back").string());
  const auto back = ordered_json::parse(read(target("back") / "config.json"));
  EXPECT_EQ(back.at("layer_types"), config["layer_types"]);
  EXPECT_EQ(back.at("model_type"), "qwen2");
}

// BERT with what stands behind its blocks.
ordered_json bert(const std::string& architecture) {
  return {{"architectures", {architecture}},
          {"model_type", "bert"},
          {"vocab_size", 11},
          {"hidden_size", 8},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 2},
          {"intermediate_size", 12},
          {"hidden_act", "gelu"},
          {"hidden_dropout_prob", 0.1},
          {"attention_probs_dropout_prob", 0.2},
          {"max_position_embeddings", 16},
          {"type_vocab_size", 2},
          {"layer_norm_eps", 1e-12}};
}

Shapes bert_tensors(const std::string& prefix) {
  Shapes shapes;
  const auto linear = [&](const std::string& name, int64_t outputs, int64_t inputs) {
    shapes[prefix + name + ".weight"] = {outputs, inputs};
    shapes[prefix + name + ".bias"] = {outputs};
  };
  const auto norm = [&](const std::string& name) {
    shapes[prefix + name + ".LayerNorm.weight"] = shapes[prefix + name + ".LayerNorm.bias"] = {8};
  };
  shapes[prefix + "embeddings.word_embeddings.weight"] = {11, 8};
  shapes[prefix + "embeddings.position_embeddings.weight"] = {16, 8};
  shapes[prefix + "embeddings.token_type_embeddings.weight"] = {2, 8};
  norm("embeddings");
  for (const std::string block : {"encoder.layer.0.", "encoder.layer.1."}) {
    for (const char* which : {"query", "key", "value"})
      linear(block + "attention.self." + which, 8, 8);
    linear(block + "attention.output.dense", 8, 8);
    norm(block + "attention.output");
    linear(block + "intermediate.dense", 12, 8);
    linear(block + "output.dense", 8, 12);
    norm(block + "output");
  }
  return shapes;
}

// The tensors of a folder that was written, which must be those with their bytes.
void expect_tensors(const fs::path& folder, const data::TensorFile& expected) {
  const data::TensorFile found = data::read_safetensors((folder / "model.safetensors").string());
  EXPECT_EQ(found.tensors.size(), expected.tensors.size());
  for (const auto& [name, tensor] : expected.tensors) {
    ASSERT_TRUE(found.tensors.contains(name)) << name;
    EXPECT_EQ(found.tensors.at(name).bytes, tensor.bytes) << name;
  }
}

TEST_F(Exchange, BertForClassesComesInAndGoesOut) {
  Shapes shapes = bert_tensors("bert.");
  shapes["bert.pooler.dense.weight"] = {8, 8}, shapes["bert.pooler.dense.bias"] = {8};
  shapes["classifier.weight"] = {3, 8}, shapes["classifier.bias"] = {3};
  ordered_json config = bert("BertForSequenceClassification");
  config["id2label"] = {{"0", "no"}, {"1", "yes"}, {"2", "perhaps"}};
  config["classifier_dropout"] = 0.3;
  write_source(config, shapes);
  EXPECT_THAT(refusal(), HasSubstr("has no tokenizer.json, but the model reads texts"));
  write(source() / "tokenizer.json", "{}");
  EXPECT_EQ(import().family, "bert");
  EXPECT_THAT(read(target() / "config.toml"),
              AllOf(HasSubstr("format = \"sentences\""), HasSubstr("classes = 3")));
  const std::string weights = (target() / "weights.safetensors").string();
  export_model(imported(), weights, target("back").string());
  const auto back = ordered_json::parse(read(target("back") / "config.json"));
  config.erase("id2label");
  for (const auto& [key, value] : config.items()) EXPECT_EQ(back.at(key), value) << key;
  EXPECT_EQ(back.at("id2label").size(), 3u);
  expect_tensors(target("back"), tensors_of(shapes));
}

// Old files have gamma and beta, a head for pairs of sentences, and the places as numbers.
TEST_F(Exchange, BertForMaskedTokensComesInAndGoesOut) {
  Shapes shapes = bert_tensors("bert.");
  shapes["cls.predictions.bias"] = {11};
  shapes["cls.predictions.transform.dense.weight"] = {8, 8};
  for (const char* name : {"dense.bias", "LayerNorm.weight", "LayerNorm.bias"})
    shapes[std::string("cls.predictions.transform.") + name] = {8};
  data::TensorFile file = tensors_of(shapes);
  const data::TensorFile expected = file;
  for (const auto& [name, tensor] : expected.tensors) {
    for (const auto& [now, old] : {std::pair{"LayerNorm.weight", "LayerNorm.gamma"},
                                   std::pair{"LayerNorm.bias", "LayerNorm.beta"}}) {
      if (!name.ends_with(now)) continue;
      file.tensors[name.substr(0, name.size() - std::string(now).size()) + old] = tensor;
      file.tensors.erase(name);
    }
  }
  for (const auto& [name, tensor] : tensors_of({{"bert.pooler.dense.weight", {8, 8}},
                                                {"cls.seq_relationship.bias", {2}},
                                                {"bert.embeddings.position_ids", {1, 16}}})
                                        .tensors)
    file.tensors[name] = tensor;
  write(source() / "config.json", bert("BertForPreTraining").dump());
  data::write_safetensors((source() / "model.safetensors").string(), file);
  write(source() / "tokenizer.json", "{}");
  import();
  EXPECT_THAT(read(target() / "config.toml"),
              AllOf(HasSubstr("task = \"masked_token\""), HasSubstr("mask_token = \"[MASK]\"")));
  export_model(imported(), (target() / "weights.safetensors").string(), target("back").string());
  EXPECT_EQ(ordered_json::parse(read(target("back") / "config.json")).at("architectures")[0],
            "BertForMaskedLM");
  expect_tensors(target("back"), expected);
}

TEST_F(Exchange, ASentenceTransformerComesInAndGoesOut) {
  write_source(bert("BertModel"), bert_tensors(""));
  write(source() / "tokenizer.json", "{}");
  const std::string modules =
      R"([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.LAST"}])";
  const auto with = [&](const std::string& last, const std::string& pooling) {
    std::string text = modules;
    write(source() / "modules.json", text.replace(text.find("LAST"), 4, last));
    fs::create_directory(source() / "1_Pooling");
    write(source() / "1_Pooling" / "config.json", pooling);
  };
  with("Dense", R"({"pooling_mode_mean_tokens": true})");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("modules.json: 2"), HasSubstr("models.Dense")));
  with("Normalize", R"({"pooling_mode_max_tokens": true})");
  EXPECT_THAT(refusal(), HasSubstr("pooling_mode_max_tokens is true, expected false"));
  with("Normalize", R"({"pooling_mode_mean_tokens": false})");
  EXPECT_THAT(refusal(), HasSubstr("one of the two"));
  with("Normalize", R"({"pooling_mode_mean_tokens": true})");
  import();
  EXPECT_THAT(read(target() / "config.toml"),
              AllOf(HasSubstr("type = \"global_avg_pool\", documents = \"documents\""),
                    HasSubstr("l2_norm")));
  const std::string weights = (target() / "weights.safetensors").string();
  EXPECT_THAT(data::read_safetensors_metadata(weights).at("preparation"),
              HasSubstr("\"targets\":8"));
  export_model(imported(), weights, target("back").string());
  expect_tensors(target("back"), tensors_of(bert_tensors("")));
  EXPECT_THAT(read(target("back") / "modules.json"), HasSubstr("2_Normalize"));
  EXPECT_TRUE(fs::exists(target("back") / "1_Pooling" / "config.json"));
}

TEST_F(Exchange, BertsThatCannotBeExpressedAreRefused) {
  const auto with = [&](const std::string& key, const ordered_json& value) {
    ordered_json config = bert("BertModel");
    config[key] = value;
    write_source(config, bert_tensors(""));
    write(source() / "tokenizer.json", "{}");
    return refusal();
  };
  EXPECT_THAT(with("position_embedding_type", "relative_key"), HasSubstr("expected absolute"));
  EXPECT_THAT(with("is_decoder", true), HasSubstr("is_decoder is true, expected false"));
  EXPECT_THAT(with("architectures", {"BertForTokenClassification"}), HasSubstr("BertForMaskedLM"));
  EXPECT_THAT(with("num_attention_heads", 3), HasSubstr("a divisor of hidden_size, 8"));
  EXPECT_THAT(with("hidden_act", "silu"), HasSubstr("one of gelu_pytorch_tanh"));
  EXPECT_THAT(with("max_position_embeddings", 15),
              HasSubstr("position_embeddings.weight is [16, 8], expected [15, 8]"));
}

TEST_F(Exchange, ShardsAreOneModel) {
  write(source() / "config.json", llama().dump());
  Shapes first = llama_tensors(), second;
  second["lm_head.weight"] = first["lm_head.weight"];
  first.erase("lm_head.weight");
  data::write_safetensors((source() / "a.safetensors").string(), tensors_of(first));
  data::write_safetensors((source() / "b.safetensors").string(), tensors_of(second));
  ordered_json map;
  for (const auto& [name, dims] : first) map[name] = "a.safetensors";
  map["lm_head.weight"] = "b.safetensors";
  const auto write_index = [&] {
    write(source() / "model.safetensors.index.json", ordered_json{{"weight_map", map}}.dump());
  };
  write_index();
  EXPECT_EQ(import().parameters, 21);
  fs::remove_all(target());
  map["lm_head.weight"] = "c.safetensors";
  write_index();
  EXPECT_THAT(refusal(), AllOf(HasSubstr("index.json"), HasSubstr("'c.safetensors'")));
  map["lm_head.weight"] = "../source/b.safetensors";
  write_index();
  EXPECT_THAT(refusal(), HasSubstr("not in the folder"));
  map["lm_head.weight"] = "a.safetensors";
  write_index();
  EXPECT_THAT(refusal(), AllOf(HasSubstr("'lm_head.weight'"), HasSubstr("'a.safetensors'")));
}

TEST_F(Exchange, TensorsThatDoNotFitAreNamed) {
  Shapes shapes = llama_tensors();
  shapes.erase("model.norm.weight");
  shapes["model.extra.weight"] = {3};
  shapes["lm_head.weight"] = {11, 9};
  write_source(llama(), shapes);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("missing: model.norm.weight"),
                               HasSubstr("not expected: model.extra.weight"),
                               HasSubstr("lm_head.weight is [11, 9], expected [11, 8]")));
}

TEST_F(Exchange, AFileThatIsCutIsRefused) {
  write_source(llama(), llama_tensors());
  const fs::path weights = source() / "model.safetensors";
  fs::resize_file(weights, fs::file_size(weights) - 100);
  EXPECT_THAT(refusal(), HasSubstr("model.safetensors"));
  fs::resize_file(weights, 4);
  EXPECT_THAT(refusal(), HasSubstr("model.safetensors"));
}

TEST_F(Exchange, AFolderWithoutItsFilesSaysWhatIsMissing) {
  EXPECT_THAT(refusal(), HasSubstr("has no config.json"));
  write(source() / "config.json", llama().dump());
  write(source() / "pytorch_model.bin", "");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("no model.safetensors"), HasSubstr("pytorch_model.bin"),
                               HasSubstr("safe_serialization")));
}

TEST_F(Exchange, NothingIsWrittenOverAFolder) {
  write_source(llama(), llama_tensors());
  import();
  EXPECT_THAT(test::message_of<DataError>([&] { import(); }), HasSubstr("is there already"));
}

struct BadKey {
  const char* key;
  const char* value;
  const char* part;  // of the message
};

class BadConfiguration : public Exchange, public testing::WithParamInterface<BadKey> {};

TEST_P(BadConfiguration, IsRefusedByItsKey) {
  ordered_json config = llama();
  config[GetParam().key] = ordered_json::parse(GetParam().value);
  write_source(config, llama_tensors());
  EXPECT_THAT(refusal(), AllOf(HasSubstr("config.json"), HasSubstr(GetParam().key),
                               HasSubstr(GetParam().part)));
}

INSTANTIATE_TEST_SUITE_P(
    Keys, BadConfiguration,
    testing::Values(
        BadKey{"model_type", "\"t5\"", "Llama (llama, mistral, qwen2, qwen3), GPT-2 (gpt2)"},
        BadKey{"model_type", "7", "a text"}, BadKey{"vocab_size", "\"many\"", "a whole number"},
        BadKey{"vocab_size", "0", "at least 1"}, BadKey{"vocab_size", "1e300", "a whole number"},
        BadKey{"num_hidden_layers", "1000000000", "at most 1000"},
        BadKey{"num_key_value_heads", "3", "a divisor of num_attention_heads, 4"},
        BadKey{"hidden_act", "\"mish\"", "silu"}, BadKey{"rms_norm_eps", "-1", "above 0"},
        BadKey{"attention_dropout", "1", "below 1"},
        BadKey{"rope_scaling", "{\"rope_type\": \"longrope\"}", "default, linear, llama3 or yarn"},
        BadKey{"rope_scaling", "[]", "an object"}, BadKey{"rope_theta", "0", "a number above 0"}));

TEST(JsonObject, HostileTextsAreRefused) {
  const test::TemporaryFolder folder;
  const fs::path path = fs::path(folder.path()) / "config.json";
  const auto message = [&](const std::string& text) {
    write(path, text);
    return test::message_of<DataError>([&] { JsonObject::of_file(path.string()); });
  };
  EXPECT_THAT(message(""), HasSubstr("no valid JSON"));
  EXPECT_THAT(message("{\"a\": 1"), HasSubstr("no valid JSON"));
  EXPECT_THAT(message("[1, 2]"), HasSubstr("expected an object"));
  EXPECT_THAT(message("{\"a\": " + std::string(100000, '[')), HasSubstr("nested more than 64"));
  EXPECT_THAT(message("{\"a\": \"\xff\"}"), HasSubstr("no valid JSON"));
}

TEST_F(Exchange, AModelOfNoFamilyIsNotExported) {
  write_source(llama(), llama_tensors());
  import();
  const std::string weights = (target() / "weights.safetensors").string();
  const auto refused = [&](const std::string& from, const std::string& to) {
    std::string text = read(target() / "config.toml");
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    const config::Config config = config::load_text(text, "changed", {}, "", model::layer_types());
    return test::message_of<ConfigurationError>(
        [&] { export_model(config, weights, target("back").string()); });
  };
  EXPECT_THAT(refused("model.embed_tokens", "table"), HasSubstr("none of the families"));
  EXPECT_THAT(refused("causal = true", "causal = false"), HasSubstr("differs from"));
}

}  // namespace
}  // namespace runtime::exchange
