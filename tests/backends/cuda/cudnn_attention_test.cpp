// Attention by cuDNN in slices of the batch, with a stand-in for the library (tests/doubles). The
// stand-in computes each head by itself, so the slices must give the bits of the whole batch.
#include "backends/cuda/cudnn_attention.h"

#include <gmock/gmock.h>

#include <limits>
#include <numeric>
#include <random>

#include "plugins/host/operation.h"
#include "rt/sdk/float16.h"

namespace {

namespace host = plugins::host;
using backends::cuda::attention_kernels;
using backends::cuda::kMostAttentionWorkspace;
using backends::cuda::Session;
using backends::gpu::Kernel;
using ::testing::HasSubstr;
using Numbers = std::vector<uint16_t>;

constexpr int64_t kSamples = 5, kLength = 6, kHeads = 5, kColumns = 8;
// Bytes of workspace that the stand-in asks for that many heads of one sample, and for samples.
constexpr int64_t workspace_of_heads(int64_t heads) { return 64 + 2 * heads * kLength * kLength; }
constexpr int64_t workspace_of(int64_t samples) { return workspace_of_heads(samples * kHeads); }

host::Operation attention(bool backward, int64_t columns = kColumns) {
  const auto tensor = [&](int64_t thirds) {
    return host::make_tensor_desc(RT_BFLOAT16, {kSamples, kLength, thirds * kHeads * columns});
  };
  host::Operation op;
  op.name = backward ? RT_OP_ATTENTION_BACKWARD : RT_OP_ATTENTION;
  op.attributes = {{RT_ATTR_HEADS, kHeads}, {RT_ATTR_CAUSAL, int64_t{1}}};
  op.inputs = {tensor(3)};
  op.outputs = {tensor(1)};
  if (backward) {
    op.inputs = {tensor(1), tensor(3), tensor(1)};
    op.outputs = {tensor(3)};
  }
  return op;
}

// q of two heads for each of the five key heads; values of twice as many columns; a window.
host::Operation general(bool backward) {
  const auto tensor = [&](int64_t heads, int64_t columns) {
    return host::make_tensor_desc(RT_BFLOAT16, {kSamples, kLength, heads * columns});
  };
  const rt_tensor_desc q = tensor(2 * kHeads, kColumns), k = tensor(kHeads, kColumns),
                       v = tensor(kHeads, 2 * kColumns), y = tensor(2 * kHeads, 2 * kColumns);
  host::Operation op;
  op.name = backward ? RT_OP_DOT_PRODUCT_ATTENTION_BACKWARD : RT_OP_DOT_PRODUCT_ATTENTION;
  op.attributes = {{RT_ATTR_HEADS, 2 * kHeads},
                   {RT_ATTR_KEY_HEADS, kHeads},
                   {RT_ATTR_CAUSAL, int64_t{1}},
                   {RT_ATTR_WINDOW, int64_t{3}},
                   {RT_ATTR_SCALE, 0.5}};
  op.inputs = {q, k, v};
  op.outputs = {y};
  if (backward) {
    op.inputs = {y, q, k, v, y};
    op.outputs = {q, k, v};
  }
  return op;
}

struct Answer {
  std::vector<Kernel> kernels;
  std::string without;
};
Answer ask(const host::Operation& op, int64_t most_workspace, int64_t of_one_head = 0) {
  const host::OperationView view(op);
  Answer answer;
  answer.kernels = attention_kernels(std::make_shared<Session>(), rt::sdk::Operation(view.get()), 2,
                                     {most_workspace, of_one_head}, &answer.without);
  return answer;
}

Numbers random_numbers(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  Numbers numbers(static_cast<size_t>(count));
  for (uint16_t& x : numbers) x = rt::sdk::to_bfloat16(uniform(random));
  return numbers;
}

// Runs the kernel on random operands with exactly the workspace that it asks for, and returns its
// outputs, one behind the other. `saved` is written by the forward and read by the backward
// operation.
Numbers run(const Kernel& kernel, const host::Operation& op, std::vector<float>& saved) {
  std::vector<Numbers> operands;
  std::vector<const void*> inputs;
  for (const rt_tensor_desc& input : op.inputs) {
    const auto seed = static_cast<unsigned>(operands.size());
    operands.push_back(random_numbers(rt::sdk::element_count(input), seed));
  }
  for (const Numbers& operand : operands) inputs.push_back(operand.data());
  Numbers result;
  std::vector<size_t> firsts;
  for (const rt_tensor_desc& output : op.outputs) {
    firsts.push_back(result.size());
    result.resize(result.size() + static_cast<size_t>(rt::sdk::element_count(output)));
  }
  std::vector<void*> outputs;
  for (const size_t first : firsts) outputs.push_back(result.data() + first);
  std::vector<std::byte> workspace(kernel.workspace_bytes + 1, std::byte{7});
  saved.resize(std::max(kernel.saved_bytes, kernel.reads_saved) / sizeof(float));
  kernel.run({inputs.data(), outputs.data(), workspace.data(), saved.data(), nullptr});
  EXPECT_EQ(workspace.back(), std::byte{7});
  return result;
}

double flops_of(const Kernel& kernel) {
  return std::accumulate(kernel.work.begin(), kernel.work.end(), 0.0,
                         [](double sum, const auto& work) { return sum + work.flops; });
}

// The heads, of one or several samples, whose workspace the limit allows, and how many slices the
// batch then has.
struct Limit {
  int64_t heads;
  size_t slices;
};
std::ostream& operator<<(std::ostream& to, const Limit& limit) {
  return to << "at most " << limit.heads;
}
class CudnnAttentionSlices : public testing::TestWithParam<Limit> {
 protected:
  // Runs both engines in slices and for the whole batch at once. `saved` is as for run().
  static void compare(const host::Operation& op, std::vector<float>& saved,
                      int64_t queries_of_a_key_head = 1) {
    const int64_t limit = workspace_of_heads(GetParam().heads * queries_of_a_key_head);
    const size_t slices = GetParam().slices;
    const auto whole = ask(op, kMostAttentionWorkspace).kernels;
    const Answer sliced = ask(op, limit);
    ASSERT_EQ(sliced.kernels.size(), 2u) << sliced.without;
    EXPECT_EQ(sliced.without, "");
    for (size_t i = 0; i < 2; ++i) {
      const Kernel& kernel = sliced.kernels[i];
      EXPECT_EQ(kernel.work.size(), slices);
      EXPECT_LE(kernel.workspace_bytes, static_cast<uint64_t>(limit));
      EXPECT_DOUBLE_EQ(flops_of(kernel), flops_of(whole.at(i)));
      std::vector<float> whole_saved = saved;
      const Numbers result = run(kernel, op, saved);
      EXPECT_EQ(result, run(whole.at(i), op, whole_saved));
      EXPECT_EQ(saved, whole_saved);
      const std::string words = std::to_string(slices) + " slices";
      EXPECT_EQ(kernel.implementation.find(words) != std::string::npos, slices > 1);
    }
  }
};

TEST_P(CudnnAttentionSlices, AreTheWholeBatch) {
  std::vector<float> saved;
  compare(attention(false), saved);
  compare(attention(true), saved);
}
TEST_P(CudnnAttentionSlices, TakeKeyHeadsWithTheirQueries) {
  std::vector<float> saved;
  compare(general(false), saved, 2);
  compare(general(true), saved, 2);
}

// Slices are as equal as possible: where 4 of the 5 samples would fit, they are of 3 and 2; so are
// those of the 5 heads of each sample where one sample does not fit.
INSTANTIATE_TEST_SUITE_P(Limits, CudnnAttentionSlices,
                         testing::Values(Limit{5 * kHeads, 1}, Limit{4 * kHeads, 2},
                                         Limit{3 * kHeads, 2}, Limit{2 * kHeads, 3},
                                         Limit{kHeads, 5}, Limit{4, 10}, Limit{3, 10}, Limit{2, 15},
                                         Limit{1, 25}),
                         [](const auto& info) { return std::to_string(info.param.heads); });

// One head cannot be cut, so that it may have more.
TEST(CudnnAttention, AHeadOfALongContextMayTakeMoreWorkspace) {
  const int64_t one = workspace_of_heads(1);
  const Answer answer = ask(attention(true), one - 1, one);
  ASSERT_EQ(answer.kernels.size(), 2u) << answer.without;
  EXPECT_EQ(answer.kernels[0].work.size(), static_cast<size_t>(kSamples * kHeads));
  EXPECT_EQ(answer.kernels[0].workspace_bytes, static_cast<uint64_t>(one));
}

// 341 samples of 1024 positions and 2048 columns, three times each, are below 2^31 elements.
TEST(CudnnAttention, SlicesHaveNoMoreElementsThanAreCounted) {
  const auto with = [](int64_t samples, int64_t length) {
    host::Operation op = attention(false);
    op.inputs = {host::make_tensor_desc(RT_BFLOAT16, {samples, length, 3 * 2048})};
    op.outputs = {host::make_tensor_desc(RT_BFLOAT16, {samples, length, 2048})};
    op.attributes = {{RT_ATTR_HEADS, int64_t{16}}, {RT_ATTR_CAUSAL, int64_t{1}}};
    return ask(op, std::numeric_limits<int64_t>::max());
  };
  EXPECT_EQ(with(341, 1024).kernels.at(0).work.size(), 1u);
  EXPECT_EQ(with(342, 1024).kernels.at(0).work.size(), 2u);
  EXPECT_EQ(with(1000, 1024).kernels.at(0).work.size(), 3u);
  EXPECT_EQ(with(1, 349525).kernels.size(), 2u);
  const Answer none = with(1, 349526);
  EXPECT_TRUE(none.kernels.empty());
  EXPECT_THAT(none.without, HasSubstr("at most 2147483647 elements, and one sample has more"));
}

TEST(CudnnAttention, WithoutItTheReasonSaysHowMuchSlowerOursIs) {
  const Answer none = ask(attention(true), workspace_of_heads(1) - 1);
  EXPECT_TRUE(none.kernels.empty());
  EXPECT_THAT(none.without, HasSubstr("workspace for one key head of one sample"));
  EXPECT_THAT(none.without, HasSubstr("times as long"));
  const Answer odd = ask(attention(false, 9), kMostAttentionWorkspace);
  EXPECT_THAT(odd.without, HasSubstr("multiple of 8 columns, not 9"));
  EXPECT_THAT(odd.without, HasSubstr("times as long"));
}

TEST(CudnnAttention, IsNotAskedForWhatItDoesOtherwise) {
  const auto without = [](const host::Operation& op) {
    const Answer answer = ask(op, kMostAttentionWorkspace);
    EXPECT_TRUE(answer.kernels.empty());
    return answer.without;
  };
  const rt_tensor_desc number = host::make_tensor_desc(RT_INT64, {1});
  host::Operation dropout = general(false);
  dropout.attributes.push_back({RT_ATTR_PROBABILITY, 0.1});
  dropout.inputs.insert(dropout.inputs.end(), {number, number});
  EXPECT_THAT(without(dropout), HasSubstr("other random numbers for dropout"));
  host::Operation documents = general(true);
  documents.inputs.insert(documents.inputs.end(),
                          {number, number, host::make_tensor_desc(RT_INT32, {kSamples, kLength})});
  EXPECT_THAT(without(documents), HasSubstr("within documents"));
  host::Operation fewer = general(false);
  fewer.inputs[0].dims[1] = fewer.outputs[0].dims[1] = kLength - 1;
  EXPECT_THAT(without(fewer), HasSubstr("fewer queries than keys"));
}

// Two products forward, five backward; each query sees (t + 1) / 2 keys on average.
TEST(CudnnAttention, WorkIsThatOfTheOperands) {
  const double rows = kSamples * kHeads * kLength, y = rows * kColumns * 2, row = rows * 4,
               product = 2 * rows * kColumns * (kLength + 1) / 2;
  const Kernel forward = ask(attention(false), kMostAttentionWorkspace).kernels.at(0),
               backward = ask(attention(true), kMostAttentionWorkspace).kernels.at(0);
  ASSERT_EQ(forward.work.size(), 1u);
  EXPECT_DOUBLE_EQ(forward.work[0].bytes, 4 * y + row);
  EXPECT_DOUBLE_EQ(forward.work[0].flops, 2 * product);
  ASSERT_EQ(backward.work.size(), 1u);
  EXPECT_DOUBLE_EQ(backward.work[0].bytes, 8 * y + 3 * row);
  EXPECT_DOUBLE_EQ(backward.work[0].flops, 5 * product);
}

}  // namespace
