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
  const Exchanged in = import();
  EXPECT_EQ(in.family, "llama");
  EXPECT_EQ(in.parameters, 21);
  EXPECT_TRUE(fs::exists(target() / "tokenizer.json"));
  const std::string weights = (target() / "weights.safetensors").string();
  EXPECT_EQ(imported().model.init_from, weights);
  const Exchanged out = export_model(imported(), weights, target("back").string());
  EXPECT_EQ(out.numbers, in.numbers);
  const auto back = nlohmann::json::parse(read(target("back") / "config.json"));
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
  const auto back = nlohmann::json::parse(read(target("back") / "config.json"));
  EXPECT_EQ(back.at("layer_types"), config["layer_types"]);
  EXPECT_EQ(back.at("model_type"), "qwen2");
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
