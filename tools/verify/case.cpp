// Writes and reads the folder of a case, and distrusts everything that it reads.
#include "tools/verify/case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "rt/operations.h"
#include "rt/sdk/definitions.h"
#include "rt/sdk/operation.h"
#include "runtime/data/source.h"
#include "runtime/error.h"
#include "runtime/graph/graph.h"
#include "runtime/system/atomic_file.h"
#include "runtime/train/weights.h"

namespace runtime::verify {

namespace {

namespace fs = std::filesystem;
using plugins::host::Operation;

// Bytes; far more than the description of an operation needs.
constexpr uint64_t kMostJson = 1 << 20;

std::string file_of(const std::string& folder, const char* name) {
  return (fs::path(folder) / name).string();
}

void add(data::TensorFile& file, const std::string& prefix, const HostTensors& tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) file.tensors[prefix + std::to_string(i)] = tensors[i];
}

void write_tensors(const std::string& folder, const char* name, const HostTensors& outputs) {
  data::TensorFile file;
  add(file, "output.", outputs);
  data::write_safetensors(file_of(folder, name), file);
}

std::string tensor_text(rt_dtype dtype, const std::vector<int64_t>& dims) {
  return rt::sdk::to_string(dtype) + " " + graph::to_string(dims);
}

// Moves the tensors that `tensors` describes from `file` into the result, and checks their types
// and shapes.
HostTensors take(data::TensorFile& file, const std::string& path, const std::string& prefix,
                 const std::vector<rt_tensor_desc>& tensors, bool widened) {
  HostTensors list;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string name = prefix + std::to_string(i);
    const auto found = file.tensors.find(name);
    if (found == file.tensors.end())
      throw DataError(path + " has no tensor '" + name + "', which case.json describes");
    rt_dtype dtype = tensors[i].dtype;
    if (widened && train::is_floating(dtype)) dtype = RT_FLOAT64;
    const std::vector<int64_t> dims = dims_of(tensors[i]);
    if (found->second.dtype != dtype || found->second.dims != dims) {
      throw DataError(path + ": tensor '" + name + "' is " +
                      tensor_text(found->second.dtype, found->second.dims) + ", case.json says " +
                      tensor_text(dtype, dims));
    }
    list.push_back(std::move(found->second));
    file.tensors.erase(found);
  }
  return list;
}

void expect_no_more(const data::TensorFile& file, const std::string& path) {
  if (!file.tensors.empty())
    throw DataError(path + " has a tensor '" + file.tensors.begin()->first +
                    "' that case.json does not describe");
}

HostTensors read_outputs(const std::string& folder, const char* name, const Operation& operation,
                         bool widened) {
  const std::string path = file_of(folder, name);
  data::TensorFile file = data::read_safetensors(path);
  HostTensors outputs = take(file, path, "output.", operation.outputs, widened);
  expect_no_more(file, path);
  return outputs;
}

// Returns whether the operand is a range of rows of a larger embedding table; indices outside of it
// are then ignored.
bool has_part_of_table(const Operation& operation) {
  return attribute<int64_t>(operation, RT_ATTR_FIRST_ROW).value_or(-1) >= 0;
}

// The number of classes or of rows of the table that the indices of an operation count.
int64_t end_of_indices(const Operation& operation, const rt::sdk::Definition& definition) {
  const rt_tensor_desc& logits = operation.inputs[0];
  if (definition.attributes.find(RT_ATTR_FIRST_ROW) == nullptr)
    return logits.rank > 0 ? logits.dims[logits.rank - 1] : 0;
  const bool reads_table = !definition.inputs[1].is(rt::sdk::OperandDefinition::kRows);
  return reads_table ? operation.inputs[1].dims[0] : operation.outputs[0].dims[0];
}

// Kernels trust labels and indices, because data sets check them. An operation with too few
// operands is not checked here, because the reference device refuses it; neither is one of a slice
// of the classes.
void check_indices(const Operation& operation, const HostTensors& inputs, const std::string& path,
                   const std::string& prefix) {
  const rt::sdk::Definition* const definition = rt::sdk::find_definition(operation.name);
  if (definition == nullptr || inputs.size() < 2 || operation.outputs.empty()) return;
  if (has_part_of_table(operation) || definition->attributes.find(RT_ATTR_FIRST_CLASS) != nullptr)
    return;
  for (size_t at = 0; at < definition->inputs.size() && at < inputs.size(); ++at) {
    if (!definition->inputs[at].is(rt::sdk::OperandDefinition::kIndex)) continue;
    const int64_t end = end_of_indices(operation, *definition);
    for (const double index : train::numbers_of(inputs[at])) {
      if (index >= 0 && index < static_cast<double>(end)) continue;
      throw DataError(path + ": tensor '" + prefix + std::to_string(at) + "' of " + operation.name +
                      " has the index " + rt::sdk::format("%.0f", index) + ", expected 0.." +
                      std::to_string(end - 1));
    }
  }
}

std::string readme_text(const std::string& folder, const Case& c) {
  fs::path path(folder);
  if (!path.has_filename()) path = path.parent_path();  // for a path like "wrong/"
  const std::string name = path.filename().string();
  return "# " + describe(c.isolated.operation) + "\n\n" + c.device.id + " (" + c.device.name +
         ", plugin " + c.device.plugin + " " + c.device.plugin_version +
         ") computed other numbers than " + c.definition + " in float64: layer '" + c.origin.layer +
         "', step " + std::to_string(c.origin.step + 1) + " of " + c.origin.config +
         ".\n`case.json` says all about the operation; the tensors are in the three safetensors "
         "files, in canonical layouts.\n\n    runtime verify --case " +
         name + "                # on " + c.device.id + ", in the candidate that was at fault\n" +
         "    runtime verify --case " + name + " --device ID   # on one of `runtime devices`\n\n" +
         "Exit code 0: within the bound; 6: the fault is still there.\n";
}

}  // namespace

std::string describe(const Operation& operation) {
  std::string text = operation.name + " of";
  for (size_t i = 0; i < operation.inputs.size(); ++i)
    text += (i > 0 ? ", " : " ") + rt::sdk::to_string(operation.inputs[i]);
  if (!operation.post_ops.empty())
    text += " with " + std::to_string(operation.post_ops.size()) +
            (operation.post_ops.size() == 1 ? " post-operation" : " post-operations");
  return text;
}

void check_case_folder(const std::string& folder) {
  std::error_code ignored;
  if (!fs::exists(folder, ignored)) return;
  if (fs::is_directory(folder, ignored) && fs::is_empty(folder, ignored)) return;
  throw ConfigurationError("--reduce " + folder +
                           ": there is something already; name a new or an empty folder");
}

void write_case(const std::string& folder, const Case& c) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw DataError("cannot make the folder " + folder + ": " + error.message() +
                    "; name another one");
  data::TensorFile operands;
  add(operands, "input.", c.isolated.inputs);
  add(operands, "forward.input.", c.isolated.forward_inputs);
  data::write_safetensors(file_of(folder, "operands.safetensors"), operands);
  write_tensors(folder, "expected.safetensors", c.expected);
  write_tensors(folder, "actual.safetensors", c.actual);
  system::write_file(file_of(folder, "README.md"), readme_text(folder, c));
  system::write_file(file_of(folder, "case.json"), case_to_json(c));
}

Case read_case(const std::string& folder) {
  const std::string path = file_of(folder, "case.json");
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored))
    throw DataError("--case " + folder +
                    " is no folder; expected one that `runtime verify --reduce` has written");
  Case c = case_from_json(data::read_text(path, kMostJson), path);
  const std::string file = file_of(folder, "operands.safetensors");
  data::TensorFile operands = data::read_safetensors(file);
  IsolatedOperation& isolated = c.isolated;
  isolated.inputs = take(operands, file, "input.", isolated.operation.inputs, false);
  if (isolated.forward)
    isolated.forward_inputs =
        take(operands, file, "forward.input.", isolated.forward->inputs, false);
  expect_no_more(operands, file);
  // The expected outputs are in float64, except those of a cast, whose purpose is to round.
  const bool widened = kind_of(isolated.operation) != graph::Kind::kConverts;
  c.expected = read_outputs(folder, "expected.safetensors", isolated.operation, widened);
  c.actual = read_outputs(folder, "actual.safetensors", isolated.operation, false);
  check_indices(isolated.operation, isolated.inputs, file, "input.");
  if (isolated.forward)
    check_indices(*isolated.forward, isolated.forward_inputs, file, "forward.input.");
  return c;
}

}  // namespace runtime::verify
