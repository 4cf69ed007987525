// Answers which operations the batch-blocked kernels do, in which layouts, and makes their plans.
#include "backends/cpu/batch_blocked/provider.h"

#include <algorithm>

#include "backends/cpu/batch_blocked/kernel_table.h"
#include "backends/cpu/batch_blocked/plans.h"
#include "backends/cpu/post_chain.h"
#include "rt/operations.h"

namespace backends::cpu {

using batch_blocked::kBlock;
using batch_blocked::kLayout;
using batch_blocked::Priced;

namespace {

// The most elements of one sample, so that every offset within a sample block fits into 31 bits.
constexpr int64_t kMaxSampleElements = int64_t{1} << 26;

enum class Family {
  kNone,
  kConvolution,
  kWeightGradient,
  kPooling,
  kPooledConvolution,
  kPooledGradient,
  kCopy
};

Family family(const Operation& op) {
  if (op.is(RT_OP_CONV2D) || op.is(RT_OP_CONV2D_BACKWARD_DATA)) return Family::kConvolution;
  if (op.is(RT_OP_CONV2D_BACKWARD_WEIGHTS)) return Family::kWeightGradient;
  if (op.is(RT_OP_AVG_POOL2D) || op.is(RT_OP_AVG_POOL2D_BACKWARD) || op.is(RT_OP_MAX_POOL2D) ||
      op.is(RT_OP_MAX_POOL2D_BACKWARD)) {
    return Family::kPooling;
  }
  if (op.is(RT_OP_CONV2D_POOL2D)) return Family::kPooledConvolution;
  if (op.is(RT_OP_CONV2D_POOL2D_BACKWARD_WEIGHTS)) return Family::kPooledGradient;
  return op.is(RT_OP_COPY) ? Family::kCopy : Family::kNone;
}

// Does the operation have the number of inputs and outputs of its family, not counting those of
// post-operations?
bool counts_fit(const Operation& op, Family family) {
  const uint32_t inputs = op.own_input_count(), outputs = op.output_count();
  switch (family) {
    case Family::kConvolution:
      return inputs == 2 && outputs == 1;
    case Family::kWeightGradient:
      return inputs == 2 && (outputs == 1 || outputs == 2);
    case Family::kPooledConvolution:
      return inputs == 3 && outputs == 1;
    case Family::kPooledGradient:
      return inputs == 2 && outputs == 2;
    default:
      return inputs == 1 && outputs == 1;
  }
}

bool is_weight_gradient(Family family) {
  return family == Family::kWeightGradient || family == Family::kPooledGradient;
}

bool is_pooled(Family family) {
  return family == Family::kPooledConvolution || family == Family::kPooledGradient;
}

bool is_post_bias(const Operation& op, uint32_t input) {
  for (uint32_t i = 0; i < op.post_op_count(); ++i) {
    const rt_post_op& post = op.post_op(i);
    if (post.kind == RT_POST_BIAS && post.operand == static_cast<int32_t>(input)) return true;
  }
  return false;
}

// Does this input have the blocked layout? Weights and biases stay canonical.
bool is_blocked_input(const Operation& op, Family family, uint32_t i) {
  if (i < op.own_input_count()) return i == 0 || is_weight_gradient(family);
  return !is_post_bias(op, i);
}

std::optional<uint64_t> settle(const rt_tensor_desc& tensor, uint64_t wanted) {
  if (tensor.layout != RT_LAYOUT_ANY && tensor.layout != wanted) return std::nullopt;
  return wanted;
}

// Settles the layouts of the candidate, whose images are all in the layout `images`. Returns the
// index of the first operand (outputs from 100) whose layout is fixed to another one, or -1 if all
// fit.
int32_t settle_layouts(const Operation& op, Family family, uint64_t images, Candidate& c) {
  for (uint32_t i = 0; i < op.input_count(); ++i) {
    const uint64_t wanted = is_blocked_input(op, family, i) ? images : RT_LAYOUT_CANONICAL;
    const auto layout = settle(op.input(i), wanted);
    if (!layout) return static_cast<int32_t>(i);
    c.input_layouts[i] = *layout;
  }
  for (uint32_t i = 0; i < op.output_count(); ++i) {
    const auto layout =
        settle(op.output(i), is_weight_gradient(family) ? RT_LAYOUT_CANONICAL : images);
    if (!layout) return static_cast<int32_t>(100 + i);
    c.output_layouts[i] = *layout;
  }
  return -1;
}

// Is this a float32 image with at least one element whose samples are small enough for 32-bit
// offsets?
bool image_fits(const rt_tensor_desc& t) {
  if (t.dtype != RT_FLOAT32 || t.rank != 4) return false;
  int64_t sample = 1;
  for (int32_t i = 1; i < 4; ++i) {
    if (t.dims[i] < 1 || t.dims[i] > kMaxSampleElements) return false;
    sample *= t.dims[i];
    if (sample > kMaxSampleElements) return false;
  }
  return t.dims[0] >= 1;
}

// Are the offsets of all taps in the packed weights below 2^31? Forward, they count input channels,
// as image_fits does, and backward, output channels.
bool weights_fit(const rt_tensor_desc& w) {
  return w.dims[0] <= kMaxSampleElements / (w.dims[1] * w.dims[2]);
}

// Checks the shapes that no other check covers: both sides of a copy, and the bias gradient.
void check_dims(const Operation& op, Family family) {
  if (family == Family::kCopy && !rt::sdk::same_dims(op.input(0), op.output(0))) {
    op.fail("dims of " + rt::sdk::to_string(op.input(0)) + " and " +
            rt::sdk::to_string(op.output(0)) + " differ");
  }
  if (op.output_count() < 2) return;
  const rt_tensor_desc &db = op.output(1), &dy = op.input(1);
  if (db.rank != 1 || db.dims[0] != dy.dims[3]) {
    op.fail("bias gradient is " + rt::sdk::to_string(db) +
            ", expected one element for each of the " + std::to_string(dy.dims[3]) +
            " channels of " + rt::sdk::to_string(dy));
  }
}

std::string shape_refusal(const Operation& op, Family family) {
  if (!counts_fit(op, family)) return "another number of operands";
  const uint32_t images = std::min(op.own_input_count(), 2u);  // a third one is a bias
  for (uint32_t i = 0; i < images; ++i) {
    if (!image_fits(op.input(i))) return "input " + std::to_string(i) + " of this type or size";
  }
  if (!image_fits(op.output(0))) return "an output of this type or size";
  if (family == Family::kConvolution && !weights_fit(op.input(1))) return "weights of this size";
  if (op.output_count() > 1 && op.output(1).dtype != RT_FLOAT32) {
    return "a bias gradient of this type";
  }
  check_dims(op, family);
  if (family == Family::kPooling) return batch_blocked::pooling_refusal(op);
  if (family != Family::kCopy && op.integer(RT_ATTR_GROUPS, 1) != 1) return "groups";
  if (is_pooled(family)) return batch_blocked::pooled_refusal(op);
  return {};
}

Priced make(const Engine& engine, const Operation& op, Family family, uint32_t algorithm) {
  switch (family) {
    case Family::kConvolution:
      return batch_blocked::make_convolution(engine, op, algorithm);
    case Family::kWeightGradient:
      return batch_blocked::make_weight_gradient(engine, op, algorithm);
    case Family::kPooling:
      return batch_blocked::make_pooling(engine, op);
    case Family::kPooledConvolution:
    case Family::kPooledGradient:
      return batch_blocked::make_pooled(engine, op);
    default:
      return batch_blocked::make_copy(engine, op);
  }
}

// The direct algorithm comes first and is therefore the default, because it is more exact than
// Winograd's and has the same bits on every processor with the instruction set.
std::vector<uint32_t> algorithms(const Engine& engine, const Operation& op, Family family) {
  std::vector<uint32_t> result = {batch_blocked::kDirect};
  if (family != Family::kConvolution && family != Family::kWeightGradient) return result;
  if (engine.winograd() && batch_blocked::winograd_fits(engine, op)) {
    result.push_back(batch_blocked::kWinogradAlgorithm);
  }
  if (batch_blocked::matrix_unit_fits(engine)) {
    result.push_back(batch_blocked::kMatrixUnitAlgorithm);
  }
  if (family == Family::kWeightGradient) result.push_back(batch_blocked::kPackedAlgorithm);
  return result;
}

// Rounding errors relative to the norm of the result: the direct algorithm adds in another order
// than the reference, and Winograd's transforms add errors of their own.
constexpr double kDirectTolerance = 1e-5, kWinogradTolerance = 2e-5;

void add_candidates(const Engine& engine, const Operation& op, Family family, Candidate candidate,
                    Answer& answer) {
  for (const uint32_t algorithm : algorithms(engine, op, family)) {
    const Priced priced = make(engine, op, family, algorithm);
    candidate.algorithm = algorithm;
    candidate.estimated_ns = priced.estimated_ns;
    candidate.implementation = priced.plan->info().implementation;
    answer.candidates.push_back(candidate);
    if (algorithm == batch_blocked::kWinogradAlgorithm) answer.tolerance = kWinogradTolerance;
  }
}

bool mentions_layout(const Operation& op) {
  return op.input(0).layout == kLayout || op.output(0).layout == kLayout;
}

// Is one side of the copy in kLayout and the other canonical?
bool copy_fits(const Operation& op) {
  const uint64_t from = op.input(0).layout, to = op.output(0).layout;
  return (from == kLayout && to == RT_LAYOUT_CANONICAL) ||
         (from == RT_LAYOUT_CANONICAL && to == kLayout);
}

}  // namespace

Answer BatchBlockedProvider::query(const Operation& op) {
  Answer answer;
  const Family kind = family(op);
  if (kind == Family::kNone) return answer;
  if (kind == Family::kCopy &&
      (op.input_count() != 1 || op.output_count() != 1 || !copy_fits(op))) {
    return answer;
  }
  const std::string refusal = shape_refusal(op, kind);
  if (!refusal.empty()) {
    if (is_pooled(kind)) {
      answer.reason = rt::sdk::format(
          "%s: not for %s; nearest supported: the convolution and the pooling, one after the other",
          op.desc().name, refusal.c_str());
    } else if (mentions_layout(op)) {
      answer.reason = rt::sdk::format(
          "%s: the layout n16hwc16n does not take %s; nearest supported: "
          "canonical layouts",
          op.desc().name, refusal.c_str());
    }
    return answer;
  }
  check_post_ops(op);
  answer.tolerance = kDirectTolerance;
  Candidate candidate;
  if (kind == Family::kCopy) {
    candidate.input_layouts[0] = op.input(0).layout;
    candidate.output_layouts[0] = op.output(0).layout;
    answer.tolerance = 0;
  } else if (const int32_t operand = settle_layouts(op, kind, kLayout, candidate);
             operand >= 0 &&
             !(is_pooled(kind) && settle_layouts(op, kind, RT_LAYOUT_CANONICAL, candidate) < 0)) {
    if (!mentions_layout(op)) return answer;
    answer.reason_operand = operand;
    answer.reason = rt::sdk::format(
        "%s: %s %d has another layout than n16hwc16n images and canonical weights; nearest "
        "supported: "
        "images all in n16hwc16n or all canonical",
        op.desc().name, operand < 100 ? "input" : "output", operand % 100);
    return answer;
  }
  answer.level = RT_SUPPORT_NATIVE;
  const bool fuses = kind == Family::kConvolution || kind == Family::kPooling;
  answer.post_ops_fused = fuses ? op.post_op_count() : 0;
  add_candidates(engine_, op, kind, std::move(candidate), answer);
  return answer;
}

std::unique_ptr<Plan> BatchBlockedProvider::create(const Operation& op, uint32_t algorithm) {
  const Answer answer = query(op);
  if (answer.level == RT_SUPPORT_REFUSED) {
    if (algorithm == 0) return nullptr;
    throw rt::sdk::Error(RT_ERROR_UNSUPPORTED,
                         answer.reason.empty() ? std::string(op.desc().name) +
                                                     ": not an operation of the layout n16hwc16n; "
                                                     "take a candidate of query"
                                               : answer.reason);
  }
  check_prefix(op, answer.post_ops_fused);
  const bool offered =
      algorithm == 0 || std::any_of(answer.candidates.begin(), answer.candidates.end(),
                                    [&](const Candidate& c) { return c.algorithm == algorithm; });
  if (!offered) {
    throw rt::sdk::Error(
        RT_ERROR_UNSUPPORTED,
        rt::sdk::format("%s: algorithm %u of the layout n16hwc16n is not offered for these shapes; "
                        "take a candidate of query",
                        op.desc().name, algorithm));
  }
  return make(engine_, op, family(op), algorithm).plan;
}

std::optional<uint64_t> BatchBlockedProvider::layout_bytes(const rt_tensor_desc& tensor) const {
  if (tensor.layout != kLayout || tensor.rank != 4 || tensor.dtype != RT_FLOAT32) return {};
  const int64_t samples = (tensor.dims[0] + kBlock - 1) / kBlock * kBlock;
  return static_cast<uint64_t>(samples * tensor.dims[1] * tensor.dims[2] * tensor.dims[3]) * 4;
}

std::optional<std::string> BatchBlockedProvider::layout_name(const rt_tensor_desc& tensor) const {
  if (tensor.layout != kLayout) return {};
  return "n16hwc16n";
}

bool BatchBlockedProvider::layout_is_elementwise(const rt_tensor_desc& tensor) const {
  return layout_bytes(tensor).has_value();
}

std::optional<ChannelOrder> BatchBlockedProvider::channel_order(
    const rt_tensor_desc& tensor) const {
  if (!layout_bytes(tensor)) return {};
  return batch_blocked::channel_order(tensor.dims[3]);
}

}  // namespace backends::cpu
