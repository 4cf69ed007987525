// Compares the tensors of files with the parameters of the model, and writes both sides' files.
#include "runtime/exchange/exchange.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <sstream>

#include "runtime/config/format.h"
#include "runtime/data/preparation.h"
#include "runtime/data/tokenizer.h"
#include "runtime/error.h"
#include "runtime/exchange/family.h"
#include "runtime/exchange/shards.h"
#include "runtime/graph/print.h"
#include "runtime/model/layer_types.h"
#include "runtime/model/network.h"
#include "runtime/system/atomic_file.h"
#include "runtime/system/atomic_folder.h"

namespace runtime::exchange {

namespace {

namespace fs = std::filesystem;
using Tensors = std::map<std::string, data::TensorView>;

constexpr int64_t kContext = 1024;  // tokens of a sample in a new configuration, at most
constexpr size_t kMostListed = 8;   // names in a message
const char* const kWeights = "weights.safetensors";
// transformers keeps these files beside tokenizer.json: they name special tokens, and say how a
// conversation is written and how texts are continued. They are copied unread, both ways.
constexpr const char* kAlong[] = {"tokenizer_config.json", "special_tokens_map.json",
                                  "chat_template.jinja", "generation_config.json"};

// Copies the tokenizer, and what stands beside it, if there is one.
void copy_tokenizer(const fs::path& tokenizer, const fs::path& to) {
  if (!fs::exists(tokenizer)) return;
  fs::copy_file(tokenizer, to / "tokenizer.json");
  for (const char* name : kAlong) {
    const fs::path file = tokenizer.parent_path() / name;
    if (fs::exists(file)) fs::copy_file(file, to / name);
  }
}

// Whether samples are the texts of a table, not windows of one text.
bool of_texts(Task task) { return task == Task::kClass || task == Task::kEmbedding; }

// [dataset] of a model for the texts of a table.
std::string table_text(const Architecture& model) {
  std::ostringstream text;
  text << "format = \"sentences\"\npath = \"texts.csv\"\ntexts = [\"text\"]\n"
       << "target = \"label\"\ntokenizer = \"hf\"\ntokenizer_path = \"tokenizer.json\"\n";
  if (model.task() == Task::kClass)
    text << "classes = " << model.outputs() << "\n";
  else
    text << "# `runtime predict CONFIG --data TEXTS.csv` gives the vectors of texts.\n"
         << "task = \"regression\"\n";
  return text.str();
}

// [dataset] of a model for windows of one text.
std::string text_text(const Architecture& model, bool tokenizer) {
  std::ostringstream text;
  if (tokenizer) {
    text << "format = \"text\"\npath = \"text.txt\"\ntokenizer = \"hf\"\n"
         << "tokenizer_path = \"tokenizer.json\"\n";
  } else {
    text << "# The folder had no tokenizer.json, so texts come as numbers of tokens.\n"
         << "format = \"tokens\"\npath = \"text.tokens\"\nclasses = " << model.tokens << "\n";
  }
  if (model.task() == Task::kMaskedToken) {
    text << "task = \"masked_token\"\n"
         << "mask_token = " << (tokenizer ? "\"[MASK]\"" : "\"0\"") << "\n";
  }
  return text.str();
}

// A model for texts keeps, besides its weights, how many numbers it makes of a text and which
// tokenizer it needs.
std::string preparation_text(const Architecture& model, const fs::path& tokenizer) {
  data::DatasetOptions options;
  options.tokenizer = "hf";
  options.tokenizer_path = tokenizer.string();
  data::Preparation preparation;
  preparation.tokenizer = data::tokenizer_identity(options);
  (model.task() == Task::kClass ? preparation.classes : preparation.targets) = model.outputs();
  return data::to_json(preparation);
}

// The text of a special token; "": the tokenizer has no text for it, or cannot be read, which only
// a data set of texts needs.
std::string text_of(int64_t id, const fs::path& tokenizer_file) try {
  data::DatasetOptions options;
  options.tokenizer = "hf";
  options.tokenizer_path = tokenizer_file.string();
  const data::TokenizerPointer tokenizer = data::make_tokenizer(options, "", 0);
  if (id >= tokenizer->vocabulary()) return "";
  const auto narrow = static_cast<int32_t>(id);
  const std::string text = tokenizer->decode({&narrow, 1});
  std::vector<int32_t> found;
  tokenizer->encode(text, "the end of a text", [&](int32_t token) { found.push_back(token); });
  const bool special = tokenizer->is_special(narrow) && found == std::vector<int32_t>{narrow};
  return special ? text : "";
} catch (const DataError&) {
  return "";
}

// The text of the token with which texts of the model end; "": config.json names none, or the
// tokenizer has no text for it.
std::string end_text(const JsonObject& config, const fs::path& tokenizer_file) {
  const char* const key = "eos_token_id";
  if (!config.has(key)) return "";
  const nlohmann::json& ids = config.json().at(key);
  const nlohmann::json first = ids.is_array() && !ids.empty() ? ids[0] : ids;
  if (!first.is_number_integer() || first < 0) config.fail(key, "the number of a token, or some");
  return text_of(first.get<int64_t>(), tokenizer_file);
}

// The configuration of a model that was read.
std::string config_text(const Architecture& model, const std::string& source, int64_t context,
                        bool tokenizer, const std::string& separator = "") {
  std::ostringstream text;
  const char* const path = of_texts(model.task()) ? "a table with a column of texts" : "a text";
  text << "# Layers and weights of " << source << ", whose texts have up to " << model.places
       << " tokens; model.input is how many a sample has.\n"
       << "# Set dataset.path to " << path
       << "; `runtime predict` and `evaluate` need no training.\n"
       << "[model]\ninput = [" << context << "]\ninit_from = \"" << kWeights << "\"\n"
       << "layers = " << model.layers() << "\n\n"
       << "[dataset]\n"
       << (of_texts(model.task()) ? table_text(model) : text_text(model, tokenizer));
  if (!separator.empty()) text << "separator = " << config::toml_string(separator) << "\n";
  text << "\n[training]\nglobal_batch_size = 8\nsteps = 1000\nmax_norm = 1.0\n\n"
       << "[optimizer]\nname = \"adamw\"\nlr = 2e-5\nweight_decay = 0.0\n";
  return text.str();
}

model::Network network_of(const config::Config& config) {
  const model::Model model = model::model_from_config(config.model);
  return model::build_network(model, model::NetworkOptions{});
}

config::Config parsed(const std::string& text) {
  return config::load_text(text, "config", {}, "", model::layer_types());
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMostListed); ++i)
    text += (i > 0 ? ", " : "") + names[i];
  if (names.size() > kMostListed)
    text += " and " + std::to_string(names.size() - kMostListed) + " more";
  return text;
}

bool is_floating(rt_dtype dtype) {
  return dtype == RT_FLOAT32 || dtype == RT_FLOAT64 || dtype == RT_FLOAT16 || dtype == RT_BFLOAT16;
}

// Throws DataError that lists what is missing, left over, or of another shape.
void check_tensors(const Tensors& tensors, const std::vector<model::Parameter>& parameters,
                   const std::string& where) {
  std::vector<std::string> missing, surplus, different;
  std::map<std::string, const model::Parameter*> known;
  for (const model::Parameter& p : parameters) {
    known[p.name] = &p;
    const auto found = tensors.find(p.name);
    if (found == tensors.end()) {
      missing.push_back(p.name);
    } else if (found->second.dims != p.file_dims || !is_floating(found->second.dtype)) {
      different.push_back(p.name + " is " + graph::to_string(found->second.dims) + ", expected " +
                          graph::to_string(p.file_dims) + " of a floating-point type");
    }
  }
  for (const auto& [name, tensor] : tensors) {
    if (!known.contains(name)) surplus.push_back(name);
  }
  if (missing.empty() && surplus.empty() && different.empty()) return;
  std::string text = where + ": its tensors are not those of the model that config.json describes";
  if (!missing.empty()) text += "; missing: " + listed(missing);
  if (!surplus.empty()) text += "; not expected: " + listed(surplus);
  if (!different.empty()) text += "; different: " + listed(different);
  throw DataError(text + ". Take configuration and weights from the same model");
}

void write_text(const fs::path& path, const std::string& text) {
  system::AtomicFile file(path.string());
  file.write(text);
  file.commit();
}

Exchanged summary(const Architecture& model, const Tensors& tensors, bool tokenizer) {
  const nlohmann::ordered_json config = model.config();
  Exchanged result{config.at("model_type").get<std::string>(),
                   config.at("architectures").at(0).get<std::string>(),
                   0,
                   0,
                   tokenizer,
                   model.task() == Task::kEmbedding};
  for (const auto& [name, tensor] : tensors) {
    ++result.parameters;
    result.numbers += graph::element_count(tensor.dims);
  }
  return result;
}

// Throws ConfigurationError unless the layers are those that the family would have.
void check_layers(const config::Config& config, const Architecture& found) {
  const auto lines = [](const model::Network& network) {
    std::istringstream text(graph::to_text(network.graph));
    std::vector<std::string> all;
    for (std::string line; std::getline(text, line);) all.push_back(line);
    return all;
  };
  const std::vector<std::string> own = lines(network_of(config)),
                                 family = lines(network_of(
                                     parsed(config_text(found, "", config.model.input[0], false))));
  const auto [a, b] = std::mismatch(own.begin(), own.end(), family.begin(), family.end());
  if (a == own.end() && b == family.end()) return;
  throw ConfigurationError(
      "model.layers looks like a model of type " +
      found.config().at("model_type").get<std::string>() +
      ", but differs from what transformers computes: got '" + (a == own.end() ? "nothing" : *a) +
      "', expected '" + (b == family.end() ? "nothing" : *b) +
      "'; only models with the layers that `runtime import` writes can be exported");
}

}  // namespace

Exchanged import_model(const std::string& folder, const std::string& output) {
  const fs::path base(folder), description = base / "config.json",
                               tokenizer = base / "tokenizer.json";
  if (!fs::exists(description)) {
    throw DataError(folder +
                    ": has no config.json; expected a folder as save_pretrained() of "
                    "transformers writes it");
  }
  const JsonObject config = JsonObject::of_file(description.string());
  const std::unique_ptr<Architecture> model = read_architecture(config, folder);
  const bool has_tokenizer = fs::exists(tokenizer);
  if (!has_tokenizer && of_texts(model->task())) {
    throw DataError(folder +
                    ": has no tokenizer.json, but the model reads texts; save it there with "
                    "AutoTokenizer.from_pretrained(...).save_pretrained(...) of transformers");
  }
  const std::string separator =
      has_tokenizer && model->task() == Task::kNextToken ? end_text(config, tokenizer) : "";
  const std::string text =
      config_text(*model, fs::absolute(base).lexically_normal().filename().string(),
                  std::min(model->places, kContext), has_tokenizer, separator);
  const Shards shards = open_shards(folder);
  data::FileView weights;
  for (const auto& [name, tensor] : shards.tensors) {
    const std::string own = model->name_of(name);
    if (!own.empty()) weights.tensors[own] = tensor;
  }
  check_tensors(weights.tensors, network_of(parsed(text)).parameters, folder);
  if (of_texts(model->task()))
    weights.metadata["preparation"] = preparation_text(*model, tokenizer);
  system::write_folder(output, [&](const fs::path& made) {
    data::write_safetensors((made / kWeights).string(), weights);
    write_text(made / "config.toml", text);
    copy_tokenizer(tokenizer, made);
  });
  return summary(*model, weights.tensors, has_tokenizer);
}

Exchanged export_model(const config::Config& config, const std::string& weights,
                       const std::string& output) {
  const std::unique_ptr<Architecture> model =
      recognise_architecture(model::model_from_config(config.model));
  check_layers(config, *model);
  const data::MappedTensors file(weights);
  check_tensors(file.file().tensors, network_of(config).parameters, weights);
  data::FileView renamed;
  for (const auto& [name, tensor] : file.file().tensors)
    renamed.tensors[model->tensor_of(name)] = tensor;
  renamed.metadata["format"] = "pt";
  // A tokenizer with other files has no tokenizer.json, and nothing is copied then.
  fs::path tokenizer = config.dataset.tokenizer_path;
  if (fs::is_directory(tokenizer)) tokenizer /= "tokenizer.json";
  const bool has_tokenizer = fs::is_regular_file(tokenizer);
  system::write_folder(output, [&](const fs::path& made) {
    data::write_safetensors((made / "model.safetensors").string(), renamed);
    write_text(made / "config.json", model->config().dump(2) + "\n");
    for (const auto& [name, content] : model->files()) {
      fs::create_directories((made / name).parent_path());
      write_text(made / name, content);
    }
    copy_tokenizer(tokenizer, made);
  });
  return summary(*model, renamed.tensors, has_tokenizer);
}

}  // namespace runtime::exchange
