// Reading and writing of case.json. Every field is checked when it is read.
#include <cmath>
#include <nlohmann/json.hpp>

#include "plugins/host/printable.h"
#include "rt/operations.h"
#include "rt/sdk/operation.h"
#include "runtime/error.h"
#include "tools/verify/case.h"

namespace runtime::verify {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using plugins::host::Attribute;
using plugins::host::Operation;
using plugins::host::PostOp;

constexpr int kVersion = 1;
constexpr const char* kFormat = "runtime verify case";
// Largest number of elements of a tensor in a case. The size of the files bounds what is read.
constexpr int64_t kMostElementsOfCase = int64_t{1} << 40;

template <class T>
struct Name {
  T value;
  const char* name;
};
constexpr Name<int32_t> kPostOps[] = {{RT_POST_BIAS, "bias"},
                                      {RT_POST_ACTIVATION, "activation"},
                                      {RT_POST_RESIDUAL_ADD, "residual_add"},
                                      {RT_POST_ACTIVATION_BACKWARD, "activation_backward"},
                                      {RT_POST_STORE, "store"}};
constexpr Name<int32_t> kFunctions[] = {{0, ""},
                                        {RT_ACTIVATION_RELU, "relu"},
                                        {RT_ACTIVATION_GELU, "gelu"},
                                        {RT_ACTIVATION_GELU_TANH, "gelu_tanh"},
                                        {RT_ACTIVATION_TANH, "tanh"},
                                        {RT_ACTIVATION_SIGMOID, "sigmoid"}};
constexpr Name<rt_dtype> kTypes[] = {{RT_FLOAT32, "float32"}, {RT_FLOAT64, "float64"},
                                     {RT_FLOAT16, "float16"}, {RT_BFLOAT16, "bfloat16"},
                                     {RT_INT32, "int32"},     {RT_INT64, "int64"},
                                     {RT_UINT8, "uint8"},     {RT_INT8, "int8"}};

template <class T, size_t N>
std::string name_of(const Name<T> (&names)[N], T value) {
  for (const Name<T>& n : names) {
    if (n.value == value) return n.name;
  }
  return std::to_string(value);
}

ordered_json tensors_json(const std::vector<rt_tensor_desc>& tensors,
                          const std::vector<std::string>& layouts,
                          const std::vector<std::string>& values, const std::string& prefix) {
  ordered_json list = ordered_json::array();
  for (size_t i = 0; i < tensors.size(); ++i) {
    ordered_json t = {{"tensor", prefix + std::to_string(i)}};
    if (i < values.size()) t["value"] = values[i];
    t["dtype"] = name_of(kTypes, tensors[i].dtype);
    t["shape"] = dims_of(tensors[i]);
    t["layout"] = i < layouts.size() ? layouts[i] : "canonical";
    t["layout_id"] = tensors[i].layout;
    list.push_back(t);
  }
  return list;
}

ordered_json operation_json(const Operation& operation, const CaseCandidate& candidate,
                            const CaseOrigin& origin, const std::string& prefix) {
  ordered_json attributes = ordered_json::object(), post_ops = ordered_json::array();
  for (const Attribute& a : operation.attributes)
    std::visit([&](auto value) { attributes[a.name] = value; }, a.value);
  for (const PostOp& p : operation.post_ops) {
    ordered_json post = {{"kind", name_of(kPostOps, p.kind)}};
    if (p.function != 0) post["function"] = name_of(kFunctions, p.function);
    if (p.operand >= 0) post["operand"] = p.operand;
    post_ops.push_back(post);
  }
  return {{"operation", operation.name},
          {"attributes", attributes},
          {"post_operations", post_ops},
          {"candidate", {{"name", candidate.implementation}, {"algorithm", operation.algorithm}}},
          {"inputs", tensors_json(operation.inputs, candidate.input_layouts, origin.inputs,
                                  prefix + "input.")},
          {"outputs", tensors_json(operation.outputs, candidate.output_layouts, origin.outputs,
                                   prefix + "output.")}};
}

// A value in the file, with its path in the document for messages.
class Field {
 public:
  Field(const json& value, std::string where) : value_(value), where_(std::move(where)) {}

  [[noreturn]] void fail(const std::string& expected) const {
    std::string text = value_.dump(-1, ' ', true, json::error_handler_t::replace);
    if (text.size() > 60) text = text.substr(0, 60) + "...";
    throw DataError(where_ + " is " + text + "; expected " + expected);
  }
  Field operator[](const char* key) const {
    if (!value_.is_object()) fail("an object");
    const auto found = value_.find(key);
    if (found == value_.end()) throw DataError(where_ + " has no \"" + key + "\"");
    return {*found, where_ + "." + key};
  }
  bool has(const char* key) const { return value_.is_object() && value_.contains(key); }

  std::string text(size_t most = 1000) const {
    if (!value_.is_string() || value_.get_ref<const std::string&>().size() > most)
      fail("a text of at most " + std::to_string(most) + " bytes");
    return plugins::host::printable(value_.get_ref<const std::string&>());
  }
  int64_t integer(int64_t least, int64_t most) const {
    const std::string expected =
        "a whole number in " + std::to_string(least) + ".." + std::to_string(most);
    if (!value_.is_number_integer()) fail(expected);
    if (value_.is_number_unsigned() && value_.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
      fail(expected);
    const auto number = value_.get<int64_t>();
    if (number < least || number > most) fail(expected);
    return number;
  }
  uint64_t id() const {
    if (!value_.is_number_unsigned()) fail("a whole number of at least 0");
    return value_.get<uint64_t>();
  }
  double not_negative() const {
    if (value_.is_null()) return INFINITY;  // JSON has no infinity, which is written as null
    const double number = value_.is_number() ? value_.get<double>() : -1;
    if (!(number >= 0)) fail("a number of at least 0");
    return number;
  }
  template <class T, size_t N>
  T one_of(const Name<T> (&names)[N]) const {
    std::string list;
    for (const Name<T>& n : names) {
      if (value_.is_string() && value_.get_ref<const std::string&>() == n.name) return n.value;
      list += (list.empty() ? "" : ", ") + std::string(n.name);
    }
    fail("one of " + list);
  }
  std::vector<Field> items(size_t most) const {
    if (!value_.is_array() || value_.size() > most)
      fail("a list of at most " + std::to_string(most));
    std::vector<Field> list;
    for (size_t i = 0; i < value_.size(); ++i)
      list.emplace_back(value_[i], where_ + "[" + std::to_string(i) + "]");
    return list;
  }
  std::vector<std::pair<std::string, Field>> members(size_t most) const {
    if (!value_.is_object() || value_.size() > most)
      fail("an object of at most " + std::to_string(most) + " members");
    std::vector<std::pair<std::string, Field>> list;
    for (const auto& [key, value] : value_.items())
      list.emplace_back(key, Field(value, where_ + "." + plugins::host::printable(key)));
    return list;
  }
  Attribute attribute(const std::string& name) const {
    if (value_.is_number_integer()) return {name, integer(INT64_MIN, INT64_MAX)};
    if (!value_.is_number()) fail("a number");
    return {name, value_.get<double>()};
  }

 private:
  const json& value_;
  std::string where_;
};

rt_tensor_desc read_tensor(const Field& field) {
  std::vector<int64_t> dims;
  int64_t elements = 1;
  for (const Field& dim : field["shape"].items(RT_MAX_RANK)) {
    dims.push_back(dim.integer(0, kMostElementsOfCase));
    if (__builtin_mul_overflow(elements, dims.back(), &elements) || elements > kMostElementsOfCase)
      field["shape"].fail("at most " + std::to_string(kMostElementsOfCase) + " elements");
  }
  const rt_dtype dtype = field["dtype"].one_of(kTypes);
  const uint64_t layout = field["layout_id"].id();
  if (layout == RT_LAYOUT_ANY) field["layout_id"].fail("the layout of a candidate");
  return plugins::host::make_tensor_desc(dtype, dims, layout);
}

std::vector<rt_tensor_desc> read_tensors(const Field& field, size_t most,
                                         std::vector<std::string>& layouts,
                                         std::vector<std::string>* values) {
  std::vector<rt_tensor_desc> tensors;
  for (const Field& tensor : field.items(most)) {
    tensors.push_back(read_tensor(tensor));
    layouts.push_back(tensor["layout"].text());
    if (values != nullptr) values->push_back(tensor.has("value") ? tensor["value"].text() : "");
  }
  return tensors;
}

PostOp read_post_op(const Field& field, size_t inputs) {
  PostOp post;
  post.kind = field["kind"].one_of(kPostOps);
  if (field.has("function")) post.function = field["function"].one_of(kFunctions);
  if (field.has("operand"))
    post.operand =
        static_cast<int32_t>(field["operand"].integer(0, static_cast<int64_t>(inputs) - 1));
  return post;
}

Operation read_operation(const Field& field, CaseCandidate& candidate, CaseOrigin* origin) {
  Operation operation;
  operation.name = field["operation"].text(100);
  for (const auto& [name, value] : field["attributes"].members(64))
    operation.attributes.push_back(value.attribute(name));
  candidate.implementation = field["candidate"]["name"].text();
  operation.algorithm = field["candidate"]["algorithm"].id();
  operation.inputs = read_tensors(field["inputs"], RT_MAX_INPUTS, candidate.input_layouts,
                                  origin != nullptr ? &origin->inputs : nullptr);
  operation.outputs = read_tensors(field["outputs"], RT_MAX_OUTPUTS, candidate.output_layouts,
                                   origin != nullptr ? &origin->outputs : nullptr);
  for (const Field& post : field["post_operations"].items(RT_MAX_INPUTS))
    operation.post_ops.push_back(read_post_op(post, operation.inputs.size()));
  return operation;
}

CaseDevice read_device(const Field& field) {
  CaseDevice d;
  d.id = field["id"].text(100);
  d.name = field["name"].text();
  d.plugin = field["plugin"].text(100);
  d.plugin_version = field["plugin_version"].text();
  d.plugin_build = field["plugin_build"].text();
  d.threads = static_cast<int32_t>(field["threads"].integer(0, 4096));
  for (const auto& [key, value] : field["options"].members(64)) d.options[key] = value.text();
  return d;
}

void read_origin(const Field& field, CaseOrigin& origin) {
  origin.config = field["config"].text();
  origin.layer = field["layer"].text();
  origin.phase = field["phase"].text(100);
  origin.against = field["against"].text(4000);
  origin.step = field["step"].integer(1, INT64_MAX) - 1;
  origin.rows = field["rows"].integer(0, kMostElementsOfCase);
  origin.operations = static_cast<size_t>(field["operations"].integer(1, INT32_MAX));
  origin.operation =
      static_cast<size_t>(field["number"].integer(1, static_cast<int64_t>(origin.operations)) - 1);
}

void read_in_place(const Field& field, IsolatedOperation& isolated) {
  const auto end = [](size_t count) { return static_cast<int64_t>(count) - 1; };
  for (const Field& pair : field.items(RT_MAX_OUTPUTS)) {
    isolated.in_place.emplace_back(
        pair["output"].integer(0, end(isolated.operation.outputs.size())),
        pair["input"].integer(0, end(isolated.operation.inputs.size())));
  }
}

Case read(const Field& root) {
  if (root["format"].text() != kFormat) root["format"].fail(std::string("\"") + kFormat + "\"");
  root["version"].integer(kVersion, kVersion);
  Case c;
  c.isolated.operation = read_operation(root, c.candidate, &c.origin);
  if (root.has("forward"))
    c.isolated.forward = read_operation(root["forward"], c.forward_candidate, nullptr);
  read_in_place(root["in_place"], c.isolated);
  for (const Field& bound : root["bounds"].items(RT_MAX_OUTPUTS)) {
    c.bounds.push_back({bound["tolerance"].not_negative(), bound["rounding"].not_negative(),
                        bound["element_rounding"].not_negative()});
  }
  if (c.bounds.size() != c.isolated.operation.outputs.size())
    root["bounds"].fail("one for each output");
  c.definition = root["definition"].text(100);
  c.device = read_device(root["device"]);
  read_origin(root["found"], c.origin);
  return c;
}

}  // namespace

std::string case_to_json(const Case& c) {
  ordered_json j = {{"format", kFormat}, {"version", kVersion}};
  j.update(operation_json(c.isolated.operation, c.candidate, c.origin, ""));
  if (c.isolated.forward)
    j["forward"] = operation_json(*c.isolated.forward, c.forward_candidate, {}, "forward.");
  j["in_place"] = ordered_json::array();
  for (const auto& [output, input] : c.isolated.in_place)
    j["in_place"].push_back({{"output", output}, {"input", input}});
  for (const Bound& b : c.bounds) {
    j["bounds"].push_back({{"tolerance", b.tolerance},
                           {"rounding", b.rounding},
                           {"element_rounding", b.element_rounding}});
  }
  j["definition"] = c.definition;
  j["device"] = {{"id", c.device.id},
                 {"name", c.device.name},
                 {"plugin", c.device.plugin},
                 {"plugin_version", c.device.plugin_version},
                 {"plugin_build", c.device.plugin_build},
                 {"threads", c.device.threads},
                 {"options", c.device.options}};
  j["found"] = {{"config", c.origin.config},         {"against", c.origin.against},
                {"step", c.origin.step + 1},         {"layer", c.origin.layer},
                {"phase", c.origin.phase},           {"number", c.origin.operation + 1},
                {"operations", c.origin.operations}, {"rows", c.origin.rows}};
  return j.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

Case case_from_json(const std::string& text, const std::string& path) {
  try {
    // Nothing in the format is nested deeper than this.
    const auto shallow = [&](int depth, json::parse_event_t, json&) {
      if (depth > 8) throw DataError(path + " is nested deeper than a case is");
      return true;
    };
    const json root = json::parse(text, shallow);
    return read(Field(root, path));
  } catch (const json::exception& error) {
    throw DataError(path + " is no JSON: " + error.what() +
                    "; expected a case that `runtime verify --reduce` has written");
  }
}

}  // namespace runtime::verify
