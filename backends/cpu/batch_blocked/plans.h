// Plans over the batch-blocked kernels, and what each would cost.
#ifndef BACKENDS_CPU_BATCH_BLOCKED_PLANS_H_
#define BACKENDS_CPU_BATCH_BLOCKED_PLANS_H_

#include <memory>

#include "backends/cpu/batch_blocked/kernel_arguments.h"
#include "backends/cpu/engine.h"
#include "backends/cpu/provider.h"

namespace backends::cpu::batch_blocked {

// FNV-1a of the layout's name: the same in every process, and no small number.
constexpr uint64_t hash_name(const char* text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (; *text; ++text) hash = (hash ^ static_cast<unsigned char>(*text)) * 0x100000001b3u;
  return hash;
}
inline constexpr uint64_t kLayout = hash_name("batch_blocked float32 [N/16][H][W][C][16]");

// Where the channels of an image in kLayout lie. Samples that pad the batch do not count as padded
// channels.
inline ChannelOrder channel_order(int64_t channels) {
  return {.channels = channels, .block = 1, .step = kBlock, .blocks = channels};
}

// A plan that also tells its price.
struct Priced {
  std::unique_ptr<Plan> plan;
  double estimated_ns = 0;
};

// Algorithms of the convolutions; everything else has only the first.
inline constexpr uint32_t kDirect = 1, kWinogradAlgorithm = 2;
// May this convolution, checked as below, take kWinogradAlgorithm?
bool winograd_fits(const Engine& engine, const Operation& op);

// Shapes, types and groups were checked. Post-operations that no kernel does follow in a pass over
// the output.
// Of layouts only those of a copy are looked at. Convolutions: forward and data gradient.
Priced make_convolution(const Engine& engine, const Operation& op, uint32_t algorithm);
Priced make_weight_gradient(const Engine& engine, const Operation& op, uint32_t algorithm);
Priced make_pooling(const Engine& engine, const Operation& op);
Priced make_copy(const Engine& engine, const Operation& op);

// A pooling or its gradient that the kernels cannot do; empty: they can.
std::string pooling_refusal(const Operation& op);

}  // namespace backends::cpu::batch_blocked

#endif  // BACKENDS_CPU_BATCH_BLOCKED_PLANS_H_
