// Names and shapes of the parameters of every preset, which must be those of torchvision and GPT-2
// so that their files can be loaded, and the published numbers of parameters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>

#include "runtime/model/layer_types.h"
#include "runtime/model/network.h"
#include "tests/runtime/support/devices.h"

namespace runtime::model {
namespace {

using graph::Dims;
using Shapes = std::map<std::string, Dims>;  // of tensors as stored in files

class Expected {
 public:
  Shapes shapes;

  Expected& conv(const std::string& name, int64_t out, int64_t in, int64_t k, bool bias = true) {
    shapes[name + ".weight"] = {out, in, k, k};
    if (bias) shapes[name + ".bias"] = {out};
    return *this;
  }
  Expected& linear(const std::string& name, int64_t out, int64_t in) {
    shapes[name + ".weight"] = {out, in};
    shapes[name + ".bias"] = {out};
    return *this;
  }
  Expected& layer_norm(const std::string& name, int64_t c) {
    shapes[name + ".weight"] = shapes[name + ".bias"] = {c};
    return *this;
  }
  Expected& batch_norm(const std::string& name, int64_t c) {
    shapes[name + ".running_mean"] = shapes[name + ".running_var"] = {c};
    return layer_norm(name, c);
  }
};

// torchvision.models.resnet. `blocks` has the number of blocks of each stage; `stem` is the size of
// the first kernel.
Shapes resnet(const std::vector<int>& blocks, bool bottleneck, int64_t stem, int64_t classes) {
  Expected e;
  e.conv("conv1", 64, 3, stem, false).batch_norm("bn1", 64);
  int64_t in = 64;
  for (size_t stage = 0; stage < blocks.size(); ++stage) {
    const int64_t width = int64_t{64} << stage, out = bottleneck ? 4 * width : width;
    for (int i = 0; i < blocks[stage]; ++i) {
      const std::string at = "layer" + std::to_string(stage + 1) + "." + std::to_string(i) + ".";
      e.conv(at + "conv1", width, in, bottleneck ? 1 : 3, false).batch_norm(at + "bn1", width);
      e.conv(at + "conv2", width, width, 3, false).batch_norm(at + "bn2", width);
      if (bottleneck) e.conv(at + "conv3", out, width, 1, false).batch_norm(at + "bn3", out);
      if (in != out)
        e.conv(at + "downsample.0", out, in, 1, false).batch_norm(at + "downsample.1", out);
      in = out;
    }
  }
  return e.linear("fc", classes, in).shapes;
}

// torchvision.models.vgg; a 0 in `layers` is a pooling.
Shapes vgg(const std::vector<int64_t>& layers, bool batch_norm) {
  Expected e;
  int64_t in = 3;
  int index = 0;
  for (const int64_t out : layers) {
    const std::string at = "features.";
    if (out != 0) {
      e.conv(at + std::to_string(index++), out, in, 3);
      if (batch_norm) e.batch_norm(at + std::to_string(index++), out);
      in = out;
    }
    ++index;  // skips a ReLU or a pooling
  }
  return e.linear("classifier.0", 4096, 512 * 49)
      .linear("classifier.3", 4096, 4096)
      .linear("classifier.6", 1000, 4096)
      .shapes;
}

// torchvision.models.alexnet; `first` and `second` are kernel sizes, `pixels` those of the last
// image.
Shapes alexnet(int64_t first, int64_t second, int64_t pixels, int64_t hidden, int64_t classes) {
  return Expected()
      .conv("features.0", 64, 3, first)
      .conv("features.3", 192, 64, second)
      .conv("features.6", 384, 192, 3)
      .conv("features.8", 256, 384, 3)
      .conv("features.10", 256, 256, 3)
      .linear("classifier.1", hidden, 256 * pixels)
      .linear("classifier.4", hidden, hidden)
      .linear("classifier.6", classes, hidden)
      .shapes;
}

// transformers' GPT2Model, whose Conv1D has weights [in, out].
Shapes gpt(int layers, int64_t c, int64_t context, int64_t vocabulary, bool conv1d) {
  Expected e;
  const auto linear = [&](const std::string& name, int64_t out, int64_t in) {
    e.linear(name, conv1d ? in : out, conv1d ? out : in).shapes[name + ".bias"] = {out};
  };
  e.shapes["wte.weight"] = {vocabulary, c};
  e.shapes["wpe.weight"] = {context, c};
  for (int i = 0; i < layers; ++i) {
    const std::string at = "h." + std::to_string(i) + ".";
    e.layer_norm(at + "ln_1", c).layer_norm(at + "ln_2", c);
    linear(at + "attn.c_attn", 3 * c, c);
    linear(at + "attn.c_proj", c, c);
    linear(at + "mlp.c_fc", 4 * c, c);
    linear(at + "mlp.c_proj", c, 4 * c);
  }
  return e.layer_norm("ln_f", c).shapes;
}

// transformers' LlamaForCausalLM with tied embeddings.
Shapes llama(int layers, int64_t c, int64_t shared, int64_t hidden, int64_t vocabulary) {
  Shapes s = {{"model.embed_tokens.weight", {vocabulary, c}}, {"model.norm.weight", {c}}};
  for (int i = 0; i < layers; ++i) {
    const std::string at = "model.layers." + std::to_string(i) + ".";
    s[at + "input_layernorm.weight"] = s[at + "post_attention_layernorm.weight"] = {c};
    s[at + "self_attn.q_proj.weight"] = s[at + "self_attn.o_proj.weight"] = {c, c};
    s[at + "self_attn.k_proj.weight"] = s[at + "self_attn.v_proj.weight"] = {shared, c};
    s[at + "mlp.gate_proj.weight"] = s[at + "mlp.up_proj.weight"] = {hidden, c};
    s[at + "mlp.down_proj.weight"] = {c, hidden};
  }
  return s;
}

Shapes bert(int layers, int64_t c, int64_t places, int64_t vocabulary) {
  Expected e;
  e.shapes["bert.embeddings.word_embeddings.weight"] = {vocabulary, c};
  e.shapes["bert.embeddings.position_embeddings.weight"] = {places, c};
  e.shapes["bert.embeddings.token_type_embeddings.weight"] = {2, c};
  e.layer_norm("bert.embeddings.LayerNorm", c);
  for (int i = 0; i < layers; ++i) {
    const std::string at = "bert.encoder.layer." + std::to_string(i) + ".";
    for (const char* which : {"query", "key", "value"})
      e.linear(at + "attention.self." + which, c, c);
    e.linear(at + "attention.output.dense", c, c).layer_norm(at + "attention.output.LayerNorm", c);
    e.linear(at + "intermediate.dense", 4 * c, c).linear(at + "output.dense", c, 4 * c);
    e.layer_norm(at + "output.LayerNorm", c);
  }
  e.linear("cls.predictions.transform.dense", c, c);
  e.layer_norm("cls.predictions.transform.LayerNorm", c);
  e.shapes["cls.predictions.decoder.bias"] = {vocabulary};
  return e.shapes;
}

Shapes vit(int layers, int64_t c, int64_t patch, int64_t tokens, int64_t classes) {
  Expected e;
  e.conv("patch_embed.proj", c, 3, patch).shapes["pos_embed.weight"] = {tokens, c};
  for (int i = 0; i < layers; ++i) {
    const std::string at = "blocks." + std::to_string(i) + ".";
    e.layer_norm(at + "norm1", c).linear(at + "attn.qkv", 3 * c, c).linear(at + "attn.proj", c, c);
    e.layer_norm(at + "norm2", c).linear(at + "mlp.fc1", 4 * c, c).linear(at + "mlp.fc2", c, 4 * c);
  }
  return e.layer_norm("norm", c).linear("head", classes, c).shapes;
}

struct Preset {
  std::string name;
  Shapes shapes;
  int64_t numbers;  // trained parameters, counted in elements
  Dims output;      // for one sample
};

void PrintTo(const Preset& preset, std::ostream* out) { *out << preset.name; }

const std::vector<Preset>& presets() {
  static const std::vector<int> k18 = {2, 2, 2, 2}, k34 = {3, 4, 6, 3};
  static const std::vector<int64_t> k11 = {64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0},
                                    k16 = {64, 64,  0,   128, 128, 0,   256, 256, 256,
                                           0,  512, 512, 512, 0,   512, 512, 512, 0};
  static const std::vector<Preset> all = {
      {"resnet18", resnet(k18, false, 7, 1000), 11689512, {1000}},
      {"resnet34", resnet(k34, false, 7, 1000), 21797672, {1000}},
      {"resnet50", resnet(k34, true, 7, 1000), 25557032, {1000}},
      {"resnet18_cifar", resnet(k18, false, 3, 10), 11173962, {10}},
      {"resnet34_cifar", resnet(k34, false, 3, 10), 21282122, {10}},
      {"resnet50_cifar", resnet(k34, true, 3, 10), 23520842, {10}},
      {"vgg11", vgg(k11, false), 132863336, {1000}},
      {"vgg16", vgg(k16, false), 138357544, {1000}},
      {"vgg11_bn", vgg(k11, true), 132868840, {1000}},
      {"vgg16_bn", vgg(k16, true), 138365992, {1000}},
      {"alexnet", alexnet(11, 5, 36, 4096, 1000), 61100840, {1000}},
      {"alexnet_small", alexnet(3, 3, 4, 1024, 10), 4361034, {10}},
      {"gpt2", gpt(12, 768, 1024, 50257, true), 124439808, {1024, 50257}},
      {"gpt_char", gpt(6, 384, 256, 65, false), 10770816, {256, 65}},
      {"gpt_char_small", gpt(4, 128, 64, 65, false), 809856, {64, 65}},
      {"llama_char", llama(6, 384, 128, 1024, 65), 9467136, {256, 65}},
      {"smollm2_135m", llama(30, 576, 192, 1536, 49152), 134515008, {1024, 49152}},
      {"bert_base", bert(12, 768, 512, 30522), 109514298, {512, 30522}},
      {"vit_small", vit(6, 192, 4, 64, 10), 2693194, {10}},
      {"lenet",
       Expected()
           .conv("conv1", 20, 1, 3)
           .conv("conv2", 50, 20, 5)
           .linear("fc1", 128, 800)
           .linear("fc2", 10, 128)
           .shapes,
       129068,
       {10}},
      {"mlp",
       Expected().linear("fc1", 1024, 784).linear("fc2", 1024, 1024).linear("fc3", 10, 1024).shapes,
       1863690,
       {10}},
  };
  return all;
}

Network build_preset(const std::string& name) {
  const config::Config config =
      test::parse("model.preset = \"" + name +
                  "\"\ndataset.name = \"synthetic\"\ndataset.samples = 4\ndataset.classes = 10\n"
                  "training.global_batch_size = 4\n");
  return build_network(model_from_config(config.model), NetworkOptions{});
}

class Presets : public testing::TestWithParam<Preset> {};

TEST_P(Presets, HasThePublishedNamesShapesAndSize) {
  const Network n = build_preset(GetParam().name);
  Shapes shapes;
  int64_t numbers = 0;
  for (const Parameter& p : n.parameters) {
    shapes[p.name] = p.file_dims;
    if (p.trainable) numbers += graph::element_count(n.graph.value(p.value).dims);
  }
  EXPECT_EQ(shapes, GetParam().shapes);
  EXPECT_EQ(numbers, GetParam().numbers);
  Dims output = {1};
  output.insert(output.end(), GetParam().output.begin(), GetParam().output.end());
  EXPECT_EQ(n.graph.value(n.output).dims, output);
}

INSTANTIATE_TEST_SUITE_P(All, Presets, testing::ValuesIn(presets()),
                         [](const auto& info) { return info.param.name; });

TEST(Presets, AllAreTestedHere) {
  std::set<std::string> files, tested;
  for (const auto& entry : std::filesystem::directory_iterator(test::preset_folder()))
    files.insert(entry.path().stem().string());
  for (const Preset& preset : presets()) tested.insert(preset.name);
  EXPECT_EQ(files, tested);
}

// 0.02; residual projections 0.02 / sqrt(2 * 12); biases 0 (Radford et al. 2019, section 2.3).
TEST(Presets, Gpt2HasItsInitialWeights) {
  std::map<std::string, Init> init;
  for (const Parameter& p : build_preset("gpt2").parameters) init[p.name] = p.init;
  const auto expect = [&](const std::string& name, const std::string& kind, double value) {
    EXPECT_EQ(init.at(name).kind, kind) << name;
    EXPECT_NEAR(init.at(name).value, value, 1e-8) << name;
  };
  for (const char* name : {"wte.weight", "wpe.weight", "h.11.mlp.c_fc.weight"})
    expect(name, "normal", 0.02);
  for (const char* name : {"h.0.attn.c_proj.weight", "h.11.mlp.c_proj.weight"})
    expect(name, "normal", 0.0040824829);
  expect("h.3.attn.c_attn.bias", "constant", 0);
  expect("h.3.attn.c_proj.bias", "constant", 0);
  expect("ln_f.weight", "constant", 1);
}

}  // namespace
}  // namespace runtime::model
