// Plans over the batch-blocked kernels, and what each of them would cost.
#ifndef BACKENDS_CPU_BATCH_BLOCKED_PLANS_H_
#define BACKENDS_CPU_BATCH_BLOCKED_PLANS_H_

#include <memory>

#include "backends/cpu/batch_blocked/kernel_arguments.h"
#include "backends/cpu/engine.h"
#include "backends/cpu/provider.h"

namespace backends::cpu::batch_blocked {

// FNV-1a of the layout's name. It is the same in every process and no small number, so it is not a
// reserved layout id.
constexpr uint64_t hash_name(const char* text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (; *text; ++text) hash = (hash ^ static_cast<unsigned char>(*text)) * 0x100000001b3u;
  return hash;
}
// The id of the layout.
inline constexpr uint64_t kLayout = hash_name("batch_blocked float32 [N/16][H][W][C][16]");

// Where the channels of an image in kLayout are. Samples that pad the batch are not padded
// channels.
inline ChannelOrder channel_order(int64_t channels) {
  return {.channels = channels, .block = 1, .step = kBlock, .blocks = channels};
}

// A plan and its estimated time.
struct Priced {
  std::unique_ptr<Plan> plan;
  double estimated_ns = 0;
};

// Algorithms of the convolutions. All other operations have only the first.
inline constexpr uint32_t kDirect = 1, kWinogradAlgorithm = 2, kMatrixUnitAlgorithm = 3;
// Weight gradients only.
inline constexpr uint32_t kPackedAlgorithm = 4;
// Can this convolution, whose description was checked, use kWinogradAlgorithm?
bool winograd_fits(const Engine& engine, const Operation& op);
// Can the device use kMatrixUnitAlgorithm?
bool matrix_unit_fits(const Engine& engine);

// Each of these makes a plan for an operation whose shapes, types and groups were checked. Of the
// layouts, only those of a copy matter. Post-operations that no kernel applies are done by a pass
// over the output. make_convolution makes forward and data gradient.
Priced make_convolution(const Engine& engine, const Operation& op, uint32_t algorithm);
Priced make_weight_gradient(const Engine& engine, const Operation& op, uint32_t algorithm);
Priced make_pooling(const Engine& engine, const Operation& op);
// conv2d_pool2d and its weight gradient.
Priced make_pooled(const Engine& engine, const Operation& op);
Priced make_copy(const Engine& engine, const Operation& op);

// Why the kernels cannot do this pooling or gradient of one; empty if they can.
std::string pooling_refusal(const Operation& op);
// The same for conv2d_pool2d and its weight gradient, or why two operations are faster.
std::string pooled_refusal(const Operation& op);

}  // namespace backends::cpu::batch_blocked

#endif  // BACKENDS_CPU_BATCH_BLOCKED_PLANS_H_
