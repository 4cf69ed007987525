// Builds cases, for the files that list them.
#ifndef PLUGINS_CONFORMANCE_BUILDER_H_
#define PLUGINS_CONFORMANCE_BUILDER_H_

#include <string>
#include <utility>
#include <vector>

#include "plugins/conformance/conformance.h"
#include "rt/operations.h"
#include "rt/sdk/operation.h"

namespace plugins::conformance {

using Dims = std::vector<int64_t>;
using Cases = std::vector<Case>;

using rt::sdk::is_sixteen_bit;

// Builds one case. Operands have the type of the case, and operand i is filled with seed i + 1,
// unless said otherwise.
class Builder {
 public:
  // The case is named "<operation>/<dtype>/<label>".
  Builder(const std::string& operation, rt_dtype dtype, const std::string& label) {
    case_.name = operation + "/" + rt::sdk::to_string(dtype) + "/" + label;
    case_.operation.name = operation;
    case_.dtype = dtype;
  }
  // Append an input or an output of the case's type.
  Builder& in(const Dims& dims, Values values = {}) {
    return in_of(case_.dtype, dims, seeded(values));
  }
  // An operand in float32 if the case's type has 16 bits, else in the case's type.
  Builder& wide_in(const Dims& dims, Values values = {}) {
    return in_of(wide(), dims, seeded(values));
  }
  Builder& wide_out(const Dims& dims) { return out_of(wide(), dims); }
  // Append an input or an output of a given type.
  Builder& in_of(rt_dtype dtype, const Dims& dims, Values values) {
    case_.operation.inputs.push_back(host::make_tensor_desc(dtype, dims));
    case_.inputs.push_back(values);
    return *this;
  }
  Builder& out(const Dims& dims) { return out_of(case_.dtype, dims); }
  Builder& out_of(rt_dtype dtype, const Dims& dims) {
    case_.operation.outputs.push_back(host::make_tensor_desc(dtype, dims));
    return *this;
  }
  Builder& integer(const std::string& name, int64_t value) {
    case_.operation.attributes.push_back({name, value});
    return *this;
  }
  Builder& number(const std::string& name, double value) {
    case_.operation.attributes.push_back({name, value});
    return *this;
  }
  Builder& attributes(const std::vector<host::Attribute>& more) {
    auto& all = case_.operation.attributes;
    all.insert(all.end(), more.begin(), more.end());
    return *this;
  }
  // Post-operations on output 0; their operands are appended to the inputs, and what they store to
  // the outputs.
  Builder& bias() { return post(RT_POST_BIAS, 0, {result_dims().back()}); }
  Builder& activation(int32_t function) {
    case_.operation.post_ops.push_back({RT_POST_ACTIVATION, function, -1});
    return *this;
  }
  Builder& store() {
    case_.operation.post_ops.push_back({RT_POST_STORE, 0, -1});
    return out_of(result_dtype(), result_dims());
  }
  Builder& residual() { return post(RT_POST_RESIDUAL_ADD, 0, result_dims()); }
  Builder& activation_backward(int32_t function) {
    return post(RT_POST_ACTIVATION_BACKWARD, function, result_dims());
  }
  Builder& mandatory() {
    case_.mandatory = true;
    return *this;
  }
  Builder& rename(const std::string& suffix) {
    case_.name += " " + suffix;
    return *this;
  }
  // Sets the forward operation whose saved data this case reads.
  Builder& forward(const Case& forward) {
    case_.forward = forward.operation;
    case_.forward_inputs = forward.inputs;
    return *this;
  }
  const Case& get() const { return case_; }
  // A list of cases takes what a chain of calls built.
  // NOLINTNEXTLINE(google-explicit-constructor)
  operator Case() const { return case_; }

 private:
  rt_dtype wide() const { return is_sixteen_bit(case_.dtype) ? RT_FLOAT32 : case_.dtype; }
  Values seeded(Values values) const {
    if (values.seed == 1) values.seed = case_.inputs.size() + 1;
    return values;
  }
  rt_dtype result_dtype() const { return case_.operation.outputs.at(0).dtype; }
  Dims result_dims() const {
    const rt_tensor_desc& y = case_.operation.outputs.at(0);
    return Dims(y.dims, y.dims + y.rank);
  }
  Builder& post(int32_t kind, int32_t function, const Dims& operand) {
    const auto index = static_cast<int32_t>(case_.operation.inputs.size());
    in_of(result_dtype(), operand, seeded({}));
    case_.operation.post_ops.push_back({kind, function, index});
    return *this;
  }

  Case case_;
};

// The dims as text: "2x5x5x3".
std::string label(const Dims& dims);

// Each function appends the cases of its list.
void add_matmul(Cases& cases, rt_dtype dtype);            // cases_linear.cpp
void add_convolution(Cases& cases, rt_dtype dtype);       // cases_linear.cpp
void add_pooling(Cases& cases, rt_dtype dtype);           // cases_pooling.cpp
void add_conv_pool(Cases& cases, rt_dtype dtype);         // cases_conv_pool.cpp
void add_elementwise(Cases& cases, rt_dtype dtype);       // cases_elementwise.cpp
void add_gated(Cases& cases, rt_dtype dtype);             // cases_gate.cpp
void add_reductions(Cases& cases, rt_dtype dtype);        // cases_elementwise.cpp
void add_losses(Cases& cases, rt_dtype dtype);            // cases_losses.cpp
void add_normalisation(Cases& cases, rt_dtype dtype);     // cases_normalisation.cpp
void add_batch_norm_parts(Cases& cases, rt_dtype dtype);  // cases_batch_norm_parts.cpp
void add_attention(Cases& cases, rt_dtype dtype);         // cases_attention.cpp
void add_movement(Cases& cases, rt_dtype dtype);          // cases_movement.cpp
void add_optimizers(Cases& cases, rt_dtype dtype);        // cases_optimizers.cpp
void add_special_numbers(Cases& cases, rt_dtype dtype);   // cases_special.cpp
void add_special_rows(Cases& cases, rt_dtype dtype);      // cases_special_rows.cpp

}  // namespace plugins::conformance

#endif  // PLUGINS_CONFORMANCE_BUILDER_H_
