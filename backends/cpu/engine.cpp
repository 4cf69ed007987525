// Joins the answers of a device's providers, and numbers the algorithms of all of them.
#include "backends/cpu/engine.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "backends/cpu/bfloat16/obstacle.h"
#include "backends/cpu/host_limits.h"
#include "backends/cpu/layouts.h"
#include "backends/cpu/onednn_isa.h"
#include "backends/cpu/onednn_threads.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/system.h"
#include "rt/sdk/post_ops.h"

namespace backends::cpu {
namespace {

// The device's number of an algorithm: the number of its provider (from 1) in the upper 32 bits,
// the provider's own number in the lower ones.
uint64_t global_algorithm(size_t provider, uint32_t own) {
  return (static_cast<uint64_t>(provider + 1) << 32) | own;
}

double peak_flops(const EngineOptions& options, Isa isa) {
  const double per_cycle = isa == Isa::kGeneric ? 8.0 : 32.0;
  return per_cycle * options.gigahertz * options.threads;
}

// How many threads compute `parts` parts: as many, but no more than there are processors, unless
// OpenMP's variable OMP_DYNAMIC says "false".
int team_size(int parts) {
  const char* text = std::getenv("OMP_DYNAMIC");
  const std::string_view dynamic = text == nullptr ? "" : text;
  return dynamic == "false" || dynamic == "FALSE" ? parts : std::min(parts, usable_cores());
}

// The first operand (outputs from 100) whose type this device does not compute in; -1: none.
int32_t unsupported_operand(const Operation& op, bool bfloat16) {
  const auto bad = [=](const rt_tensor_desc& tensor) {
    return tensor.dtype == RT_FLOAT64 || tensor.dtype == RT_FLOAT16 ||
           (tensor.dtype == RT_BFLOAT16 && !bfloat16) || tensor.dtype == RT_INT8;
  };
  for (uint32_t i = 0; i < op.input_count(); ++i) {
    if (bad(op.input(i))) return static_cast<int32_t>(i);
  }
  for (uint32_t i = 0; i < op.output_count(); ++i) {
    if (bad(op.output(i))) return static_cast<int32_t>(100 + i);
  }
  return -1;
}

Answer refuse_type(const Operation& op, int32_t operand, const std::string& bfloat16_obstacle) {
  const rt_tensor_desc& tensor = operand < 100 ? op.input(static_cast<uint32_t>(operand))
                                               : op.output(static_cast<uint32_t>(operand - 100));
  Answer answer;
  answer.reason_operand = operand;
  if (tensor.dtype == RT_FLOAT64) {
    answer.reason =
        "the cpu backend computes in float32; use device.backend = \"reference\" for float64";
  } else {
    answer.reason =
        std::string(op.name()) + ": operand is " + rt::sdk::to_string(tensor) + "; " +
        (tensor.dtype == RT_BFLOAT16 ? bfloat16_obstacle
                                     : "the cpu backend computes in float32 and bfloat16");
  }
  return answer;
}

}  // namespace

Engine::Engine(const EngineOptions& options)
    : options_(options),
      isa_(options.isa.value_or(widest_isa())),
      layouts_(std::make_unique<Layouts>()),
      team_(std::make_unique<Team>(team_size(options.threads), options.pin)) {
  limit_onednn(options.isa);
  bfloat16_obstacle_ = cpu::bfloat16_obstacle(
      {has_bfloat16(), processor_name(), options.isa, onednn_uses_bfloat16()});
  peak_ = peak_flops(options, isa_);
  bandwidth_ = 10.0 + 5.0 * std::min(options.threads, 8);
}

Engine::~Engine() = default;

Team::Use Engine::use_team() const {
  set_onednn_threads(team_->threads());
  return Team::Use(*team_);
}

void Engine::add(std::unique_ptr<Provider> provider) { providers_.push_back(std::move(provider)); }

EngineAnswer Engine::query(const Operation& op) {
  const Team::Use use = use_team();
  require_headroom();
  if (const int32_t operand = unsupported_operand(op, bfloat16_obstacle_.empty()); operand >= 0) {
    return {refuse_type(op, operand, bfloat16_obstacle_), {}};
  }
  const uint32_t fusible = rt::sdk::fusible_post_ops(op);
  if (fusible < op.post_op_count()) return query_part(op, fusible);
  EngineAnswer merged;
  const bool bfloat16 = has_bfloat16_operand(op);
  for (size_t i = 0; i < providers_.size(); ++i) {
    if (bfloat16 && !providers_[i]->takes_bfloat16()) continue;
    Answer answer = providers_[i]->query(op);
    for (Candidate& c : answer.candidates) c.estimated_ns = std::max(c.estimated_ns, 1.0);
    if (answer.level == RT_SUPPORT_REFUSED) {
      if (merged.level == RT_SUPPORT_REFUSED && merged.reason.empty()) {
        merged.reason = answer.reason;
        merged.reason_operand = answer.reason_operand;
      }
      continue;
    }
    const bool first = merged.level == RT_SUPPORT_REFUSED;
    if (!first && answer.post_ops_fused < merged.post_ops_fused) continue;
    if (first) {
      merged.level = answer.level;
      merged.post_ops_fused = answer.post_ops_fused;
      merged.tolerance = answer.tolerance;
      merged.reason.clear();
      merged.reason_operand = -1;
    }
    merged.tolerance = std::max(merged.tolerance, answer.tolerance);
    for (Candidate& c : answer.candidates) {
      merged.candidates.push_back(std::move(c));
      merged.algorithms.push_back(global_algorithm(i, merged.candidates.back().algorithm));
    }
  }
  if (merged.level == RT_SUPPORT_REFUSED && merged.reason.empty()) {
    merged.reason = std::string(op.name()) +
                    ": the cpu backend does not know this operation with these layouts; the list "
                    "is in plugins/operations.md";
  }
  return merged;
}

EngineAnswer Engine::query_part(const Operation& op, uint32_t post_ops) {
  const rt_op_desc part = rt::sdk::with_post_ops(op, post_ops);
  EngineAnswer answer = query(Operation(&part));
  for (Candidate& c : answer.candidates) {
    for (uint32_t i = part.input_count; i < op.input_count(); ++i) {
      const uint64_t layout = op.input(i).layout;
      c.input_layouts[i] = layout == RT_LAYOUT_ANY ? RT_LAYOUT_CANONICAL : layout;
    }
  }
  return answer;
}

std::unique_ptr<Plan> Engine::create(const Operation& op) {
  const Team::Use use = use_team();
  require_headroom();
  if (const int32_t operand = unsupported_operand(op, bfloat16_obstacle_.empty()); operand >= 0) {
    throw rt::sdk::Error(RT_ERROR_UNSUPPORTED, refuse_type(op, operand, bfloat16_obstacle_).reason);
  }
  const bool bfloat16 = has_bfloat16_operand(op);
  const uint64_t algorithm = op.desc().algorithm;
  if (algorithm != 0) {
    const uint64_t provider = (algorithm >> 32) - 1;
    if ((algorithm >> 32) == 0 || provider >= providers_.size()) {
      op.fail(rt::sdk::format("algorithm %lu is not one that a query listed", algorithm));
    }
    auto plan = providers_[provider]->create(op, static_cast<uint32_t>(algorithm));
    if (plan) return plan;
  }
  for (const auto& provider : providers_) {
    if (algorithm != 0) break;
    if (bfloat16 && !provider->takes_bfloat16()) continue;
    if (auto plan = provider->create(op, 0)) return plan;
  }
  throw rt::sdk::Error(RT_ERROR_UNSUPPORTED, query(op).reason);
}

uint64_t Engine::layout_bytes(const rt_tensor_desc& tensor) const {
  if (tensor.layout == RT_LAYOUT_CANONICAL) {
    return static_cast<uint64_t>(rt::sdk::element_count(tensor)) *
           rt::sdk::dtype_bytes(tensor.dtype);
  }
  for (const auto& provider : providers_) {
    if (const auto bytes = provider->layout_bytes(tensor)) return *bytes;
  }
  throw rt::sdk::Error(
      RT_ERROR_INVALID_ARGUMENT,
      rt::sdk::format("layout %016lx of ", tensor.layout) + rt::sdk::to_string(tensor) +
          " is unknown to this opened device; query the operation that uses it first");
}

std::string Engine::layout_name(const rt_tensor_desc& tensor) const {
  if (tensor.layout == RT_LAYOUT_CANONICAL) return "canonical";
  for (const auto& provider : providers_) {
    if (const auto name = provider->layout_name(tensor)) return *name;
  }
  layout_bytes(tensor);  // throws
  return {};
}

bool Engine::layout_is_elementwise(const rt_tensor_desc& tensor) const {
  if (tensor.layout == RT_LAYOUT_CANONICAL) return true;
  for (const auto& provider : providers_) {
    if (provider->layout_bytes(tensor)) return provider->layout_is_elementwise(tensor);
  }
  return false;
}

std::optional<ChannelOrder> Engine::channel_order(const rt_tensor_desc& tensor) const {
  if (tensor.layout == RT_LAYOUT_CANONICAL || tensor.layout == RT_LAYOUT_ANY) {
    return ChannelOrder::innermost(tensor.rank > 0 ? tensor.dims[tensor.rank - 1] : 1);
  }
  for (const auto& provider : providers_) {
    if (const auto order = provider->channel_order(tensor)) return order;
  }
  return {};
}

}  // namespace backends::cpu
