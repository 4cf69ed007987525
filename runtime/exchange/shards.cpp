// Opens the files of a model folder and checks that they hold what their index says.
#include "runtime/exchange/shards.h"

#include <filesystem>
#include <set>

#include "runtime/error.h"
#include "runtime/exchange/hf_json.h"

namespace runtime::exchange {

namespace {

namespace fs = std::filesystem;

void add_file(Shards& shards, const std::string& path) {
  shards.files.emplace_back(path);
  for (const auto& [name, tensor] : shards.files.back().file().tensors) {
    if (!shards.tensors.emplace(name, tensor).second) {
      throw DataError(path + ": has the tensor '" + name + "', which " + shards.origins[name] +
                      " has, too; expected each tensor once");
    }
    shards.origins[name] = path;
  }
}

[[noreturn]] void fail_without_weights(const fs::path& folder) {
  std::string text = folder.string() +
                     ": has no model.safetensors and no model.safetensors.index.json; expected a "
                     "folder as save_pretrained() of transformers writes it";
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string end = entry.path().extension().string();
    if (end != ".bin" && end != ".pth" && end != ".pt") continue;
    text += ". " + entry.path().filename().string() +
            " is a file of Python objects, which is not read; load the model with transformers and "
            "save it with save_pretrained(..., safe_serialization=True)";
    break;
  }
  throw DataError(text);
}

}  // namespace

Shards open_shards(const std::string& folder) {
  const fs::path base(folder), single = base / "model.safetensors",
                               index = base / "model.safetensors.index.json";
  Shards shards;
  if (!fs::exists(index)) {
    if (!fs::exists(single)) fail_without_weights(base);
    add_file(shards, single.string());
    return shards;
  }
  const JsonObject map = JsonObject::of_file(index.string()).object("weight_map");
  std::set<std::string> names;
  for (const auto& [tensor, file] : map.json().items()) names.insert(map.text(tensor));
  for (const std::string& name : names) {
    if (fs::path(name).filename() != name || !fs::exists(base / name)) {
      throw DataError(index.string() + ": names the file '" + name +
                      "', which is not in the folder; copy all files of the model");
    }
    add_file(shards, (base / name).string());
  }
  for (const auto& [tensor, file] : map.json().items()) {
    const auto origin = shards.origins.find(tensor);
    if (origin != shards.origins.end() && fs::path(origin->second).filename() == map.text(tensor))
      continue;
    throw DataError(index.string() + ": the tensor '" + tensor + "' is in '" + map.text(tensor) +
                    "', but that file has no such tensor; copy the files of one model again");
  }
  return shards;
}

}  // namespace runtime::exchange
