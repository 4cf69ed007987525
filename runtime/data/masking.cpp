// Draws the hidden tokens of a sample, each from a block of random numbers of its own.
#include "runtime/data/masking.h"

#include "runtime/data/philox.h"

namespace runtime::data {
namespace {

// A random number from 0 to below 1.
double unit(uint32_t word) { return word * 0x1p-32; }

}  // namespace

void mask_tokens(const TokenMasking& masking, uint64_t seed, int64_t epoch, int64_t sample,
                 std::span<float> tokens, float* hidden) {
  constexpr double kMasked = 0.8, kRandom = 0.9;  // sums of the shares
  const uint64_t first = static_cast<uint64_t>(sample) * tokens.size();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const PhiloxCounter random =
        random_block(seed, RandomUse::kMasking, static_cast<uint32_t>(epoch), first + i);
    const auto token = static_cast<std::size_t>(tokens[i]);
    const bool kept = !masking.kept.empty() && masking.kept[token];
    const bool hides = !kept && unit(random[0]) < masking.share;
    hidden[i] = hides ? 1 : 0;
    if (!hides) continue;
    const double way = unit(random[1]);
    if (way < kMasked)
      tokens[i] = static_cast<float>(masking.mask);
    else if (way < kRandom)
      tokens[i] = static_cast<float>(uint64_t{random[2]} * masking.vocabulary >> 32);
  }
}

}  // namespace runtime::data
