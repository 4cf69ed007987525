// Writes cases with the reference's results as a safetensors file for PyTorch.
#include "tests/differential/operations/export.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "plugins/conformance/execution.h"
#include "rt/sdk/operation.h"

namespace differential {
namespace {

using nlohmann::json;
using plugins::conformance::Execution;
using plugins::host::Operation;

const char* safetensors_type(rt_dtype dtype) {
  switch (dtype) {
    case RT_FLOAT64:
      return "F64";
    case RT_FLOAT16:
      return "F16";
    case RT_BFLOAT16:
      return "BF16";
    case RT_INT32:
      return "I32";
    case RT_INT64:
      return "I64";
    case RT_UINT8:
      return "U8";
    default:
      return "F32";
  }
}

class File {
 public:
  void add(const std::string& name, const rt_tensor_desc& tensor, const Bytes& data) {
    header_[name] = {{"dtype", safetensors_type(tensor.dtype)},
                     {"shape", Dims(tensor.dims, tensor.dims + tensor.rank)},
                     {"data_offsets", {data_.size(), data_.size() + data.size()}}};
    data_.insert(data_.end(), data.begin(), data.end());
  }
  void add_case(const json& about) { cases_.push_back(about); }

  void write(const std::filesystem::path& path) {
    header_["__metadata__"] = {{"cases", cases_.dump()}};
    const std::string header = header_.dump();
    const uint64_t length = header.size();
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&length), sizeof(length));
    out << header;
    out.write(reinterpret_cast<const char*>(data_.data()),
              static_cast<std::streamsize>(data_.size()));
    out.close();
    if (!out) throw std::runtime_error("cannot write " + path.string() + ": " + strerror(errno));
  }

 private:
  json header_ = json::object(), cases_ = json::array();
  Bytes data_;
};

json attributes_json(const Operation& operation) {
  json attributes = json::object();
  for (const auto& a : operation.attributes)
    std::visit([&](auto value) { attributes[a.name] = value; }, a.value);
  return attributes;
}

void add_tensors(File& file, const std::string& prefix, const std::vector<rt_tensor_desc>& tensors,
                 const std::vector<Bytes>& data) {
  for (size_t i = 0; i < data.size(); ++i)
    file.add(prefix + std::to_string(i), tensors[i], data[i]);
}

void add_case(File& file, plugins::host::Device& reference, const Recipe& recipe,
              const std::string& number) {
  const Case c = build_case(recipe).value();
  const Operands operands = make_operands(recipe, c);
  std::optional<Execution> forward;
  if (c.forward) {
    forward.emplace(reference, *c.forward, nullptr);
    forward->run(operands.forward_inputs);
    add_tensors(file, number + "/forward/", c.forward->inputs, operands.forward_inputs);
  }
  Execution execution(reference, c.operation, forward ? &*forward : nullptr);
  add_tensors(file, number + "/input/", c.operation.inputs, operands.inputs);
  add_tensors(file, number + "/output/", c.operation.outputs, execution.run(operands.inputs));
  file.add_case({{"case", to_text(recipe)},
                 {"operation", recipe.operation},
                 {"attributes", attributes_json(c.operation)},
                 {"post", recipe.post}});
}

}  // namespace

void export_cases(plugins::host::Device& reference, const DrawOptions& options, uint64_t seed,
                  uint64_t count, const std::filesystem::path& file) {
  File tensors;
  for (uint64_t k = 0; k < count; ++k)
    add_case(tensors, reference, draw_recipe(options, seed, k), std::to_string(k));
  tensors.write(file);
}

}  // namespace differential
