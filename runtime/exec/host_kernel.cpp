// Computes masks of dropout and attention, bias corrections and casts on the host, between two
// copies.
#include "runtime/exec/host_kernel.h"

#include <cmath>

#include "plugins/host/drain.h"
#include "rt/sdk/attention.h"
#include "runtime/error.h"
#include "runtime/exec/encode.h"
#include "runtime/graph/host_operations.h"

namespace runtime::exec {

namespace {

// The factors of dropout, see plugins/operations.md.
std::vector<double> dropout_mask(const graph::Node& node, const std::vector<int64_t>& dims,
                                 int64_t step, int64_t base) {
  const auto integer = [&](const char* name, int64_t fallback) {
    return graph::integer_attribute(node, name, fallback);
  };
  const double probability = graph::number_attribute(node, RT_ATTR_PROBABILITY, 0);
  const auto seed = static_cast<uint64_t>(integer(RT_ATTR_SEED, 0));
  const auto stream = static_cast<uint32_t>(integer(RT_ATTR_STREAM, 0));
  const int64_t columns = integer(RT_ATTR_COLUMNS, 0);
  const int64_t first = integer(RT_ATTR_FIRST_COLUMN, 0);
  const int64_t whole = integer(RT_ATTR_WHOLE_COLUMNS, columns);
  const int64_t size = graph::element_count(dims) / dims[0];
  std::vector<double> mask(static_cast<size_t>(dims[0] * size));
  for (int64_t n = 0; n < dims[0]; ++n) {
    for (int64_t e = 0; e < size; ++e) {
      const int64_t number = columns == 0 ? e : e / columns * whole + first + e % columns;
      const rt::sdk::PhiloxCounter words = rt::sdk::philox4x32_10(
          {static_cast<uint32_t>(number / 4), static_cast<uint32_t>(base + n),
           static_cast<uint32_t>(step), stream},
          {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
      const double u = (words[number % 4] >> 8) * 0x1p-24;
      mask[n * size + e] = u >= probability ? 1 / (1 - probability) : 0;
    }
  }
  return mask;
}

// Which pairs of a query and a key belong to one document, and the factors of attention's dropout;
// see plugins/operations.md. `dims` are [N,H,T,S].
std::vector<double> document_mask(const std::vector<int64_t>& dims,
                                  const std::vector<double>& documents) {
  const int64_t queries = dims[2], keys = dims[3];
  const auto numbers = static_cast<int64_t>(documents.size()) / dims[0];
  std::vector<double> mask;
  for (int64_t row = 0; row < dims[0] * dims[1] * queries; ++row) {
    const double* const of = documents.data() + row / queries / dims[1] * numbers;
    const double own = of[row % queries];
    const double* const others = numbers == queries ? of : of + queries;
    for (int64_t j = 0; j < keys; ++j) mask.push_back(own >= 0 && own == others[j] ? 1 : 0);
  }
  return mask;
}

std::vector<double> weight_mask(const graph::Node& node, const std::vector<int64_t>& dims,
                                int64_t step, int64_t base) {
  rt::sdk::DotProductAttention s{};
  s.probability = graph::number_attribute(node, RT_ATTR_PROBABILITY, 0);
  s.seed = static_cast<uint64_t>(graph::integer_attribute(node, RT_ATTR_SEED, 0));
  s.stream = static_cast<uint32_t>(graph::integer_attribute(node, RT_ATTR_STREAM, 0));
  const int64_t first = graph::integer_attribute(node, RT_ATTR_FIRST_HEAD, 0);
  const rt::sdk::PhiloxKey key = s.key_of(step);
  std::vector<double> mask;
  for (int64_t row = 0; row < dims[0] * dims[1] * dims[2]; ++row) {
    for (int64_t j = 0; j < dims[3]; ++j) {
      const rt::sdk::PhiloxCounter words = rt::sdk::philox4x32_10(
          {static_cast<uint32_t>(j / 4), static_cast<uint32_t>(row % dims[2]),
           static_cast<uint32_t>(first + row / dims[2] % dims[1]),
           static_cast<uint32_t>(base + row / dims[2] / dims[1])},
          key);
      mask.push_back(words[j % 4] >> 8 >= s.threshold() ? 1 / (1 - s.probability) : 0);
    }
  }
  return mask;
}

}  // namespace

HostKernel::HostKernel(const graph::Graph& graph, const graph::Node& node)
    : node_(node), output_value_(graph.value(node.outputs.at(0))) {
  for (const graph::ValueId v : node.inputs) input_values_.push_back(graph.value(v));
  if (node.op != graph::kDropoutMask && node.op != graph::kBiasCorrection &&
      node.op != graph::kHostCast && node.op != graph::kAttentionDocuments &&
      node.op != graph::kAttentionDropout)
    throw InternalError("the host does not know the operation '" + node.op + "'");
}

std::vector<double> HostKernel::compute(const std::vector<std::vector<double>>& inputs) const {
  const auto number = [&](size_t i) { return static_cast<int64_t>(inputs.at(i).at(0)); };
  if (node_.op == graph::kHostCast) return inputs.at(0);
  if (node_.op == graph::kDropoutMask)
    return dropout_mask(node_, output_value_.dims, number(0), number(1));
  if (node_.op == graph::kAttentionDocuments)
    return document_mask(output_value_.dims, inputs.at(0));
  if (node_.op == graph::kAttentionDropout)
    return weight_mask(node_, output_value_.dims, number(0), number(1));
  const double beta = graph::number_attribute(node_, RT_ATTR_BETA, 0);
  return {1 - std::pow(beta, static_cast<double>(number(0)))};
}

std::vector<std::vector<std::byte>> HostKernel::read(plugins::host::Stream& stream,
                                                     const std::vector<const void*>& inputs) const {
  std::vector<std::vector<std::byte>> bytes;
  const plugins::host::Drain drain(stream);  // also where a later copy cannot be queued
  for (size_t i = 0; i < inputs.size(); ++i) {
    bytes.emplace_back(graph::canonical_bytes(input_values_[i]));
    stream.copy(bytes[i].data(), inputs[i], bytes[i].size());
  }
  stream.synchronize();
  return bytes;
}

void HostKernel::launch(plugins::host::Stream& stream, const std::vector<const void*>& inputs,
                        void* output) {
  const auto bytes = read(stream, inputs);  // the last copy from output_ has also ended
  std::vector<std::vector<double>> numbers;
  for (size_t i = 0; i < inputs.size(); ++i)
    numbers.push_back(decode(bytes[i], input_values_[i].dtype));
  output_ = encode(compute(numbers), output_value_.dtype);
  stream.copy(output, output_.data(), output_.size());
}

}  // namespace runtime::exec
