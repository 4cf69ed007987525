// The answer of rt_kernel_api.query: support or a refusal, and candidates.
#ifndef RT_SDK_ANSWER_H_
#define RT_SDK_ANSWER_H_

#include <algorithm>
#include <span>
#include <string>

#include "rt/sdk/canonical_layout.h"
#include "rt/sdk/operation.h"
#include "rt/sdk/post_ops.h"
#include "rt/sdk/refusal.h"
#include "rt/sdk/structs.h"

namespace rt::sdk {

// The algorithm of the only candidate of a plugin with one implementation per operation.
inline constexpr uint64_t kOnlyAlgorithm = 1;

// What a plugin with one implementation per operation answers for one that it supports.
struct Offer {
  const char* implementation = "";    // its name for people
  uint32_t post_ops_fused = 0;        // the first ones of the description
  int32_t level = RT_SUPPORT_NATIVE;  // or RT_SUPPORT_EMULATED
  bool deterministic = true;          // whether results have the same bits every time
  double tolerance = 0.0;             // relative error to the reference, in each output's norm
};

// The candidate that has all operands in the canonical layout. RT_LAYOUT_ANY becomes canonical.
inline rt_candidate canonical_candidate(const Operation& op, const char* implementation,
                                        uint64_t algorithm = kOnlyAlgorithm) {
  rt_candidate candidate{};
  candidate.algorithm = algorithm;
  for (uint32_t i = 0; i < op.input_count(); ++i)
    candidate.input_bytes[i] = tensor_bytes(op.input(i));
  for (uint32_t i = 0; i < op.output_count(); ++i)
    candidate.output_bytes[i] = tensor_bytes(op.output(i));
  copy_text(candidate.implementation, implementation);
  return candidate;
}

// Writes as many candidates as the host has room for, and their number. A plugin that supports an
// operation lists at least one.
inline void list_candidates(std::span<const rt_candidate> candidates, rt_support* support) {
  support->candidate_count = static_cast<uint32_t>(candidates.size());
  if (support->candidates == nullptr) return;
  const uint32_t count = std::min(support->candidate_count, support->candidate_capacity);
  for (uint32_t i = 0; i < count; ++i) write_element(support->candidates, i, candidates[i]);
}

// Writes the answer that refuses.
inline void write_refusal(int32_t operand, std::string_view reason, rt_support* support) {
  support->level = RT_SUPPORT_REFUSED;
  support->post_ops_fused = 0;
  support->deterministic = 0;
  support->tolerance = 0.0;
  support->reason_operand = operand;
  support->candidate_count = 0;
  copy_text(support->reason, reason);
}

// Fills the whole answer of a plugin that knows the canonical layout only. `make` is called with
// the operation and the post-operations that the plugin fuses, and throws what creating the plan
// would throw. Any error with the code RT_ERROR_UNSUPPORTED becomes a refusal; a Refusal names its
// operand. Everything else is thrown on.
template <typename Make>
void answer_query(const Operation& op, const Offer& offer, rt_support* support, Make&& make) {
  check_size(support);
  write_refusal(-1, "", support);
  try {
    const rt_op_desc part = with_post_ops(op, offer.post_ops_fused);
    const Operation fused(&part);
    expect_canonical(fused, true);
    make(fused);
    support->level = offer.level;
    support->post_ops_fused = offer.post_ops_fused;
    support->deterministic = offer.deterministic ? 1 : 0;
    support->tolerance = offer.tolerance;
    const rt_candidate candidate = canonical_candidate(fused, offer.implementation);
    list_candidates({&candidate, 1}, support);
  } catch (const Refusal& refusal) {
    write_refusal(refusal.operand(), refusal.what(), support);
  } catch (const Error& error) {
    if (error.code() != RT_ERROR_UNSUPPORTED) throw;
    write_refusal(-1, error.what(), support);
  }
}

// Throws Error (RT_ERROR_INVALID_ARGUMENT) unless a plan can be made of the description: its
// layouts are canonical, and its algorithm is kOnlyAlgorithm or left to the plugin.
inline void expect_plannable(const Operation& op) {
  expect_canonical(op, false);
  if (op.desc().algorithm <= kOnlyAlgorithm) return;
  op.fail(format("algorithm %llu is not one of the candidates (1)",
                 static_cast<unsigned long long>(op.desc().algorithm)));
}

}  // namespace rt::sdk

#endif  // RT_SDK_ANSWER_H_
