// Any files are either a model folder of Hugging Face's transformers, which is then imported, or
// are refused with a DataError. An input is several files with zero bytes between them:
// config.json, the header of model.safetensors (its tensors are zeros),
// model.safetensors.index.json, tokenizer.json, modules.json and 1_Pooling/config.json. An empty
// file is not there.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/error.h"
#include "runtime/exchange/exchange.h"

namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 6> kNames = {
    "config.json",    "model.safetensors", "model.safetensors.index.json",
    "tokenizer.json", "modules.json",      "1_Pooling/config.json"};
constexpr uint64_t kMostBytes = 65536;

// Where the last tensor of a header ends, or the most that a file has here.
uint64_t end_of_tensors(const std::string& header) try {
  uint64_t end = 0;
  const nlohmann::json tensors = nlohmann::json::parse(header);
  for (const auto& [name, tensor] : tensors.items()) {
    if (!tensor.contains("data_offsets")) continue;
    const nlohmann::json& last = tensor.at("data_offsets").at(1);
    if (last.is_number_unsigned()) end = std::max(end, last.get<uint64_t>());
  }
  return std::min(end, kMostBytes);
} catch (const nlohmann::json::exception&) {
  return kMostBytes;
}

// A safetensors file of that header.
std::string with_tensors(const std::string& header) {
  const uint64_t length = header.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  return bytes + header + std::string(end_of_tensors(header), '\0');
}

void write_folder(const fs::path& folder, std::string input) {
  for (const char* name : kNames) {
    const size_t cut = input.find('\0');
    const std::string content = input.substr(0, cut);
    input = cut == std::string::npos ? "" : input.substr(cut + 1);
    fs::remove(folder / name);
    if (content.empty()) continue;
    const bool tensors = std::string(name) == "model.safetensors";
    std::ofstream(folder / name, std::ios::binary) << (tensors ? with_tensors(content) : content);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fs::path& folder =
      *new fs::path(fs::temp_directory_path() / ("exchange_fuzz." + std::to_string(::getpid())));
  const fs::path model = folder / "model", output = folder / "output";
  fs::create_directories(model / "1_Pooling");
  write_folder(model, std::string(reinterpret_cast<const char*>(data), size));
  try {
    runtime::exchange::import_model(model.string(), output.string());
  } catch (const runtime::DataError&) {
  }
  fs::remove_all(folder);
  return 0;
}
