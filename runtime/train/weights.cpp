// Draws initial values, and permutes parameters between PyTorch's layouts and ours.
#include "runtime/train/weights.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <numbers>
#include <set>
#include <thread>
#include <utility>

#include "rt/sdk/float16.h"
#include "runtime/data/philox.h"
#include "runtime/error.h"
#include "runtime/exec/encode.h"
#include "runtime/graph/graph.h"
#include "runtime/row_of.h"
#include "runtime/step/freeze.h"

namespace runtime::train {

namespace {

using model::Parameter;
using step::matches_any;

// Separates these random numbers from those of runtime/data and of dropout under the same seed.
constexpr uint32_t kInitialisation = 0x77656967;

// FNV-1a, 32 bit
uint32_t name_hash(const std::string& name) {
  uint32_t h = 2166136261u;
  for (unsigned char c : name) h = (h ^ c) * 16777619u;
  return h;
}

// Four 32-bit random numbers, for the numbers 4*block .. 4*block+3 of the parameter with the name
// of this hash.
data::PhiloxCounter words(uint32_t name, uint64_t seed, uint64_t block) {
  return rt::sdk::philox4x32_10(
      {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), name, kInitialisation},
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

// A number in (0, 1): the middle of one of 2^32 intervals.
double unit(uint32_t word) { return (word + 0.5) * 0x1p-32; }

// Four random numbers from the four words of a block.
using Four = std::array<double, 4>;

// Uniform in (-bound, bound).
Four uniform(const data::PhiloxCounter& w, double bound) {
  Four out;
  for (size_t i = 0; i < out.size(); ++i) out[i] = (2 * unit(w[i]) - 1) * bound;
  return out;
}

// Box and Muller, "A note on the generation of random normal deviates", 1958.
Four normal(const data::PhiloxCounter& w, double deviation) {
  Four out;
  for (size_t pair = 0; pair < out.size(); pair += 2) {
    const double radius = std::sqrt(-2 * std::log(unit(w[pair]))),
                 angle = 2 * std::numbers::pi * unit(w[pair + 1]);
    out[pair] = deviation * radius * std::cos(angle);
    out[pair + 1] = deviation * radius * std::sin(angle);
  }
  return out;
}

// Where the initial values of a parameter come from.
struct Source {
  enum class Kind { kConstant, kUniform, kNormal } kind;
  double scale;  // the constant, the bound or the standard deviation
};

// The inits, from the argument and the numbers of inputs and outputs.
struct InitSource {
  const char* name;
  Source (*source)(double value, double fan_in, double fan_out);
};

constexpr Source uniform_source(double bound) { return {Source::Kind::kUniform, bound}; }
constexpr Source normal_source(double deviation) { return {Source::Kind::kNormal, deviation}; }

constexpr InitSource kInits[] = {
    {"constant",
     [](double value, double, double) {
       return Source{Source::Kind::kConstant, value};
     }},
    {"uniform", [](double value, double, double) { return uniform_source(value); }},
    {"normal", [](double value, double, double) { return normal_source(value); }},
    // Both weight and bias as in torch.nn.Linear and Conv2d: kaiming_uniform with a = sqrt(5),
    // which is uniform within 1 / sqrt(fan_in).
    {"default", [](double, double in, double) { return uniform_source(1 / std::sqrt(in)); }},
    // Glorot and Bengio, 2010; He et al., 2015 (gain of ReLU).
    {"xavier_uniform",
     [](double, double in, double out) { return uniform_source(std::sqrt(6 / (in + out))); }},
    {"xavier_normal",
     [](double, double in, double out) { return normal_source(std::sqrt(2 / (in + out))); }},
    {"kaiming_uniform",
     [](double, double in, double) { return uniform_source(std::sqrt(6 / in)); }},
    {"kaiming_normal", [](double, double in, double) { return normal_source(std::sqrt(2 / in)); }}};

Source source_of(const Parameter& p) {
  return find_row("init", p.init.kind, kInits)
      .source(p.init.value, static_cast<double>(p.fan_in), static_cast<double>(p.fan_out));
}

// The values from index `first`, a multiple of 4, on.
void fill(const Parameter& p, const Source& source, uint64_t seed, int64_t first,
          std::vector<double>& out) {
  if (source.kind == Source::Kind::kConstant) return out.assign(out.size(), source.scale);
  const uint32_t name = name_hash(p.name);
  for (size_t i = 0; i < out.size(); i += 4) {
    const data::PhiloxCounter w = words(name, seed, (static_cast<uint64_t>(first) + i) / 4);
    const Four four =
        source.kind == Source::Kind::kNormal ? normal(w, source.scale) : uniform(w, source.scale);
    std::copy_n(four.begin(), std::min<size_t>(4, out.size() - i),
                out.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// Numbers that a thread makes at a time.
constexpr int64_t kPiece = 1 << 14;

bool is_in_file_order(const Parameter& p) {
  return std::is_sorted(p.permutation.begin(), p.permutation.end());
}

// Calls f(file index, canonical index) for the elements of a parameter from file index `begin` to
// `end`.
template <typename F>
void for_each_element(const Parameter& p, int64_t begin, int64_t end, F&& f) {
  const size_t rank = p.view.size();
  std::vector<int64_t> strides(rank, 1), index(rank, 0);
  for (size_t i = rank; i-- > 1;) strides[i - 1] = strides[i] * p.view[i];
  int64_t rest = begin;
  for (size_t i = rank; i-- > 0; rest /= p.view[p.permutation[i]])
    index[i] = rest % p.view[p.permutation[i]];
  for (int64_t file = begin; file < end; ++file) {
    int64_t canonical = 0;
    for (size_t i = 0; i < rank; ++i) canonical += index[i] * strides[p.permutation[i]];
    f(file, canonical);
    for (size_t i = rank; i-- > 0;) {
      if (++index[i] < p.view[p.permutation[i]]) break;
      index[i] = 0;
    }
  }
}

double number_at(const data::HostTensor& tensor, size_t i) {
  const std::byte* bytes = tensor.bytes.data() + i * graph::dtype_bytes(tensor.dtype);
  if (tensor.dtype == RT_FLOAT64) {
    double v;
    std::memcpy(&v, bytes, sizeof(v));
    return v;
  }
  if (tensor.dtype == RT_FLOAT32) {
    float v;
    std::memcpy(&v, bytes, sizeof(v));
    return v;
  }
  uint16_t raw;
  std::memcpy(&raw, bytes, sizeof(raw));
  return tensor.dtype == RT_FLOAT16 ? rt::sdk::from_float16(raw) : rt::sdk::from_bfloat16(raw);
}

// Whether the bits of `exponent`, which NaN and infinities have all set, are not all set in any
// number. Only where they are, the sum with the lowest of them carries into the sign. A state may
// have 10^9 numbers: the lanes of a cache line are independent of each other, so that the compiler
// makes vectors of them and the processor adds several at once.
template <typename Bits>
bool none_has(const std::byte* numbers, uint64_t bytes, Bits exponent) {
  constexpr size_t kLine = 64, kLanes = kLine / sizeof(Bits);
  const auto lowest = static_cast<Bits>(exponent & (~exponent + 1));
  Bits any[kLanes] = {}, bits[kLanes] = {};
  const uint64_t whole = bytes / kLine * kLine;
  for (uint64_t at = 0; at < whole; at += kLine) {
    std::memcpy(bits, numbers + at, kLine);
    for (size_t i = 0; i < kLanes; ++i) any[i] |= static_cast<Bits>((bits[i] & exponent) + lowest);
  }
  if (bytes > whole) std::memcpy(bits, numbers + whole, bytes - whole);  // others are old numbers
  Bits all = 0;
  for (size_t i = 0; i < kLanes; ++i)
    all |= static_cast<Bits>(any[i] | ((bits[i] & exponent) + lowest));
  return all >> (8 * sizeof(Bits) - 1) == 0;
}

template <typename T>
std::vector<double> widened(const data::HostTensor& tensor) {
  std::vector<T> numbers(tensor.bytes.size() / sizeof(T));
  std::memcpy(numbers.data(), tensor.bytes.data(), numbers.size() * sizeof(T));
  return {numbers.begin(), numbers.end()};
}

// Tensors in PyTorch's files that are not weights: the counter of a batch norm, GPT-2's causal
// masks.
bool is_no_weight(const std::string& name, const data::TensorView& tensor) {
  return name.ends_with(".num_batches_tracked") ||
         (name.ends_with(".attn.bias") && tensor.dims.size() == 4);
}

void check_exception(const std::string& pattern, const data::FileView& file,
                     const std::set<std::string>& parameters, const std::string& path) {
  for (const std::string& name : parameters) {
    if (matches_any({pattern}, name)) return;
  }
  for (const auto& [name, tensor] : file.tensors) {
    if (matches_any({pattern}, name)) return;
  }
  throw ConfigurationError("model.init_except: '" + pattern +
                           "' matches no parameter of the model and nothing in " + path +
                           "; correct or remove it");
}

}  // namespace

std::vector<std::string> written_inits() { return names_of_rows(kInits); }

void draw_initial_values(const Parameter& p, uint64_t seed, rt_dtype dtype, int threads,
                         std::vector<std::byte>& bytes) {
  const Source source = source_of(p);
  const int64_t count = graph::element_count(p.view);
  const uint64_t element = graph::dtype_bytes(dtype);
  bytes.resize(static_cast<uint64_t>(count) * element);
  const bool in_order = is_in_file_order(p);
  std::atomic<int64_t> next = 0;
  const auto work = [&] {
    std::vector<double> numbers;
    for (int64_t at = next++ * kPiece; at < count; at = next++ * kPiece) {
      const int64_t end = std::min(at + kPiece, count);
      numbers.resize(end - at);
      fill(p, source, seed, at, numbers);
      const std::vector<std::byte> piece = exec::encode(numbers, dtype);
      if (in_order) {
        std::memcpy(&bytes[at * element], piece.data(), piece.size());
        continue;
      }
      for_each_element(p, at, end, [&](int64_t file, int64_t canonical) {
        std::memcpy(&bytes[canonical * element], &piece[(file - at) * element], element);
      });
    }
  };
  const int64_t useful = (count + kPiece - 1) / kPiece;
  std::vector<std::jthread> others;
  for (int64_t i = 1; i < std::min<int64_t>(threads, useful); ++i) others.emplace_back(work);
  work();
}

std::vector<std::byte> to_file_order(const Parameter& p, std::vector<std::byte> canonical,
                                     uint64_t element) {
  if (is_in_file_order(p)) return canonical;
  std::vector<std::byte> file(canonical.size());
  for_each_element(p, 0, graph::element_count(p.view), [&](int64_t f, int64_t c) {
    std::memcpy(&file[f * element], &canonical[c * element], element);
  });
  return file;
}

std::vector<std::byte> from_file_order(const Parameter& p, std::vector<std::byte> file,
                                       uint64_t element) {
  if (is_in_file_order(p)) return file;
  std::vector<std::byte> canonical(file.size());
  for_each_element(p, 0, graph::element_count(p.view), [&](int64_t f, int64_t c) {
    std::memcpy(&canonical[c * element], &file[f * element], element);
  });
  return canonical;
}

bool all_finite(rt_dtype dtype, const std::byte* numbers, uint64_t bytes) {
  switch (dtype) {
    case RT_FLOAT64:
      return none_has<uint64_t>(numbers, bytes, 0x7ff0000000000000);
    case RT_FLOAT32:
      return none_has<uint32_t>(numbers, bytes, 0x7f800000);
    case RT_FLOAT16:
      return none_has<uint16_t>(numbers, bytes, 0x7c00);
    case RT_BFLOAT16:
      return none_has<uint16_t>(numbers, bytes, 0x7f80);
    default:
      return true;
  }
}

std::string first_not_finite(const data::TensorFile& file) {
  for (const auto& [name, tensor] : file.tensors) {
    if (!all_finite(tensor.dtype, tensor.bytes.data(), tensor.bytes.size())) return name;
  }
  return "";
}

bool is_floating(rt_dtype dtype) {
  return dtype == RT_FLOAT32 || dtype == RT_FLOAT64 || dtype == RT_FLOAT16 || dtype == RT_BFLOAT16;
}

std::vector<std::byte> converted(const data::HostTensor& tensor, rt_dtype dtype) {
  if (tensor.dtype == dtype) return tensor.bytes;
  std::vector<double> values(graph::element_count(tensor.dims));
  for (size_t i = 0; i < values.size(); ++i) values[i] = number_at(tensor, i);
  return exec::encode(values, dtype);
}

std::vector<double> numbers_of(const data::HostTensor& tensor) {
  if (tensor.dtype == RT_INT32) return widened<int32_t>(tensor);
  if (tensor.dtype == RT_INT64) return widened<int64_t>(tensor);
  if (tensor.dtype == RT_UINT8) return widened<uint8_t>(tensor);
  if (tensor.dtype == RT_INT8) return widened<int8_t>(tensor);
  return widened<double>({RT_FLOAT64, tensor.dims, converted(tensor, RT_FLOAT64)});
}

std::map<std::string, int64_t> rows_to_append(data::FileView& file,
                                              const std::vector<Parameter>& parameters,
                                              const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    const bool matches = std::any_of(parameters.begin(), parameters.end(),
                                     [&](const auto& p) { return matches_any({pattern}, p.name); });
    if (!matches)
      throw ConfigurationError("model.init_append: '" + pattern +
                               "' matches no parameter of the model; correct or remove it");
  }
  std::map<std::string, int64_t> rows;
  for (const Parameter& p : parameters) {
    const auto it = file.tensors.find(p.name);
    if (!matches_any(patterns, p.name) || it == file.tensors.end()) continue;
    graph::Dims& dims = it->second.dims;
    if (dims.empty() || dims[0] == 0 || dims[0] >= p.file_dims[0]) continue;
    graph::Dims larger = dims;
    larger[0] = p.file_dims[0];
    if (larger != p.file_dims || !is_floating(it->second.dtype)) continue;
    rows[p.name] = larger[0];
    dims = larger;
  }
  return rows;
}

void append_rows(data::HostTensor& tensor, int64_t rows) {
  const std::vector<double> numbers = numbers_of(tensor);
  const auto old = static_cast<size_t>(tensor.dims[0]);
  std::vector<double> mean(numbers.size() / old);
  for (size_t i = 0; i < numbers.size(); ++i)
    mean[i % mean.size()] += numbers[i] / static_cast<double>(old);
  const std::vector<std::byte> row = exec::encode(mean, tensor.dtype);
  for (; tensor.dims[0] < rows; ++tensor.dims[0])
    tensor.bytes.insert(tensor.bytes.end(), row.begin(), row.end());
}

void check_weights(const data::FileView& file, const std::vector<Parameter>& parameters,
                   const std::string& path, const std::vector<std::string>& except) {
  std::string problems;
  std::set<std::string> known;
  for (const Parameter& p : parameters) known.insert(p.name);
  for (const std::string& pattern : except) check_exception(pattern, file, known, path);
  for (const Parameter& p : parameters) {
    if (matches_any(except, p.name)) continue;
    const auto it = file.tensors.find(p.name);
    if (it == file.tensors.end()) {
      problems += "\n  missing: " + p.name + " " + graph::to_string(p.file_dims);
    } else if (it->second.dims != p.file_dims) {
      problems += "\n  " + p.name + " is " + graph::to_string(it->second.dims) +
                  ", the model has " + graph::to_string(p.file_dims);
    } else if (!is_floating(it->second.dtype)) {
      problems += "\n  " + p.name + " is not of a floating type";
    }
  }
  for (const auto& [name, tensor] : file.tensors) {
    if (!known.contains(name) && !is_no_weight(name, tensor) && !matches_any(except, name))
      problems += "\n  not in the model: " + name;
  }
  if (!problems.empty()) {
    throw DataError(path + ": the weights do not fit the model:" + problems +
                    "\nUse the configuration that the file was made with, or list patterns of the "
                    "names that init_from shall leave out, like model.init_except = [\"fc.*\"].");
  }
}

}  // namespace runtime::train
