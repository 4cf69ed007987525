// The tensor-parallel pass: ranks that hold slices of the model compute what one rank computes.
#include "runtime/parallel/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"
#include "tests/runtime/parallel/shard_support.h"
#include "tests/runtime/support/devices.h"

namespace runtime::parallel {
namespace {

using graph::Dims;
using graph::kNone;
using graph::Node;
using graph::Phase;
using graph::ValueId;
using testing::AllOf;
using testing::HasSubstr;

constexpr double kTolerance = 1e-12;

void finish(TestModel& m, ValueId logits, const Dims& rows) {
  const ValueId labels = m.whole_numbers("labels", rows, m.graph.value(logits).dims.back());
  m.build.layer = "loss";
  const ValueId weight = m.weights(rows);
  m.loss = m.build.cross_entropy(logits, labels, weight);
  m.correct = m.build.correct_count(logits, labels, weight);
}

// The layers stand between normalisations, so that the gradient of their input is needed.
void mlp(TestModel& m) {
  ValueId x = m.layer_norm("ln", m.features({5, 6}));
  x = m.build.activation(m.linear("fc1", x, 11), RT_ACTIVATION_RELU);
  x = m.dropout("drop", x);
  x = m.layer_norm("ln2", m.linear("fc2", x, 6));
  finish(m, m.linear("out", x, 5), {5});
}

constexpr int64_t kLength = 3, kVocabulary = 7;

ValueId block(TestModel& m, const std::string& name, ValueId x, int64_t heads) {
  const int64_t width = m.graph.value(x).dims.back();
  ValueId y = m.linear(name + ".c_attn", m.layer_norm(name + ".ln_1", x), 3 * width);
  m.build.layer = name + ".attn";
  y = m.linear(name + ".c_proj", m.build.attention(y, heads, true), width);
  x = m.build.add(x, m.dropout(name + ".drop", y));
  y = m.linear(name + ".c_fc", m.layer_norm(name + ".ln_2", x), 4 * width);
  y = m.build.activation(y, RT_ACTIVATION_GELU_TANH);
  return m.build.add(x, m.linear(name + ".out", y, width));
}

// Two blocks; the token table also computes the logits.
Make gpt(int64_t heads) {
  return [=](TestModel& m) {
    const int64_t width = 2 * heads;
    const ValueId tokens = m.whole_numbers("tokens", {2, kLength}, kVocabulary);
    const ValueId table = m.parameter("wte.weight", {kVocabulary, width});
    m.build.layer = "wte";
    ValueId x = m.build.embedding(tokens, table);
    x = m.build.add(x, m.parameter("wpe.weight", {kLength, width}));
    for (const char* name : {"h.0", "h.1"}) x = block(m, name, m.dropout("drop", x), heads);
    x = m.layer_norm("ln_f", x);
    m.build.layer = "head";
    finish(m, m.build.matmul(x, table, false, true), {2, kLength});
  };
}

// A block whose heads of queries share heads of keys; values have more columns. It has a window,
// dropout and documents. Keys have no bias, whose gradient would consist of rounding errors.
// With `whole_keys` each rank has all of them.
Make shared_keys(int64_t heads, int64_t key_heads, bool whole_keys = false) {
  return [=](TestModel& m) {
    const int64_t n = 2, length = 4, depth = 2, columns = 3;
    const ValueId x = m.layer_norm("ln", m.features({n, length, 6}));
    const ValueId q = m.linear("q", x, heads * depth), v = m.linear("v", x, key_heads * columns);
    m.build.layer = "k";
    const ValueId weights = m.parameter("k.weight", {key_heads * depth, 6});
    ValueId k = m.build.matmul(x, weights, false, true);
    if (whole_keys) k = m.build.softmax(k);
    m.build.layer = "attn";
    graph::DotProductAttention form{.heads = heads, .key_heads = key_heads};
    form.causal = true;
    form.window = 3;
    form.probability = 0.25;
    form.stream = 5;
    form.step = m.input("step", {1}, RT_INT64, {3});
    form.base = m.input("base", {1}, RT_INT64, {7});
    form.documents = m.input("documents", {n, length}, RT_INT32, {0, 0, 0, 1, 2, 2, -1, 2});
    const ValueId y = m.linear("proj", m.build.dot_product_attention(q, k, v, form), 6);
    finish(m, m.linear("out", m.layer_norm("ln2", m.build.add(x, y)), 5), {n, length});
  };
}

// Convolutions (without bias before batch normalisation, whose gradient would consist of rounding
// errors), batch normalisation (ordinary and split), pooling, groups, a flattened image.
void image_layers(TestModel& m) {
  const ValueId rows = m.weights({4});
  graph::Pooling pool;
  pool.kernel_h = pool.kernel_w = pool.stride_h = pool.stride_w = 2;
  ValueId x = m.convolution("conv1", m.features({4, 4, 4, 3}), 10, 1, false);
  x = m.build.activation(m.batch_norm("bn1", x, kNone), RT_ACTIVATION_RELU);
  x = m.dropout("drop", m.build.max_pool2d(x, pool));
  x = m.batch_norm("bn2", m.convolution("conv2", x, 8, 1, false), rows);
  x = m.build.activation(m.convolution("conv3", x, 16, 4), RT_ACTIVATION_TANH);
  x = m.batch_norm("bn3", m.convolution("conv4", x, 8, 4, false), rows);
  const Dims image = m.graph.value(x).dims;
  x = m.graph.reshape(x, {4, image[1] * image[2] * image[3]});
  x = m.build.activation(m.linear("fc1", m.dropout("drop2", x), 9), RT_ACTIVATION_RELU);
  x = m.linear("fc2", x, 5);
  const ValueId labels = m.whole_numbers("labels", {4}, 5);
  m.build.layer = "loss";
  m.loss = m.build.cross_entropy(x, labels, rows);
}

TEST(Shard, MlpComputesWhatOneRankComputes) {
  const Results expected = run_whole(mlp);
  EXPECT_EQ(expected.size(), 12u);
  for (const int ranks : {2, 4}) EXPECT_LT(error(run_split(mlp, ranks), expected), kTolerance);
}

TEST(Shard, ATransformerComputesWhatOneRankComputes) {
  const Results expected = run_whole(gpt(4));
  for (const int ranks : {2, 4}) EXPECT_LT(error(run_split(gpt(4), ranks), expected), kTolerance);
}

const Node& attention_of(const Built& built) {
  return *std::find_if(built.graph.nodes.begin(), built.graph.nodes.end(), [](const Node& n) {
    return n.op == RT_OP_DOT_PRODUCT_ATTENTION || n.op == RT_OP_ATTENTION;
  });
}

// Each rank computes its heads of a packed attention; the layer behind it is cut by rows.
TEST(Shard, APackedAttentionIsSplitByHeads) {
  const Built b = build_split(gpt(4), {.rank = 1, .ranks = 2}, true);
  EXPECT_EQ(graph::integer_attribute(attention_of(b), RT_ATTR_HEADS, 0), 2);
}

// More heads of keys than ranks, as many, fewer, and one.
TEST(Shard, HeadsThatShareKeysComputeWhatOneRankComputes) {
  for (const int64_t key_heads : {8, 4, 2, 1}) {
    const Make make = shared_keys(8, key_heads);
    const Results expected = run_whole(make);
    for (const int ranks : {2, 4}) {
      EXPECT_LT(error(run_split(make, ranks), expected), kTolerance) << key_heads;
    }
    const Built b = build_split(make, {.rank = 1, .ranks = 4}, true);
    const auto attention =
        std::find_if(b.graph.nodes.begin(), b.graph.nodes.end(),
                     [](const Node& n) { return n.op == RT_OP_DOT_PRODUCT_ATTENTION; });
    ASSERT_NE(attention, b.graph.nodes.end());
    EXPECT_EQ(graph::integer_attribute(*attention, RT_ATTR_HEADS, 0), 2);
    EXPECT_EQ(graph::integer_attribute(*attention, RT_ATTR_FIRST_HEAD, 0), 2);
    EXPECT_EQ(graph::integer_attribute(*attention, RT_ATTR_KEY_HEADS, 0), key_heads == 8 ? 2 : 1);
  }
  EXPECT_LT(error(run_split(shared_keys(6, 3), 2), run_whole(shared_keys(6, 3))), kTolerance);
  // Each rank takes its part of whole keys; three heads on two ranks become two and one.
  for (const int64_t key_heads : {6, 3, 2, 1}) {
    const Make make = shared_keys(6, key_heads, true);
    for (const int ranks : {2, 4})
      EXPECT_LT(error(run_split(make, ranks), run_whole(make)), kTolerance) << key_heads;
  }
  EXPECT_LT(error(run_split(shared_keys(3, 3, true), 2), run_whole(shared_keys(3, 3, true))),
            kTolerance);
  const Built six = build_split(shared_keys(6, 6, true), {.rank = 1, .ranks = 2}, true);
  const Node& own = attention_of(six);
  EXPECT_EQ(graph::integer_attribute(own, RT_ATTR_HEADS, 0), 3);
  EXPECT_EQ(graph::integer_attribute(own, RT_ATTR_KEY_HEADS, 0), 3);
  // A hint may cut a head of keys in two; such keys are made whole.
  const ShardOptions halves{.rank = 0, .ranks = 4, .hints = {{"k", "column"}}};
  const Built cut = build_split(shared_keys(4, 2), halves, true);
  EXPECT_EQ(graph::integer_attribute(attention_of(cut), RT_ATTR_HEADS, 0), 4);
  // Heads that do not divide stay whole.
  EXPECT_LT(error(run_split(shared_keys(6, 2), 4), run_whole(shared_keys(6, 2))), kTolerance);
}

TEST(Shard, HeadsNeedNotDivide) {
  EXPECT_LT(error(run_split(gpt(3), 2), run_whole(gpt(3))), kTolerance);
}

TEST(Shard, AnImageNetworkComputesWhatOneRankComputes) {
  const Results expected = run_whole(image_layers);
  for (const int ranks : {2, 4})
    EXPECT_LT(error(run_split(image_layers, ranks), expected), kTolerance);
}

// The groups of both convolutions can be cut, but not at the same channels: those of conv1 are
// blocks of 5, those of conv2 blocks of 13.
void different_groups(TestModel& m) {
  ValueId x = m.convolution("conv1", m.features({2, 4, 4, 13}), 65, 13);
  x = m.convolution("conv2", x, 5, 5);
  const Dims image = m.graph.value(x).dims;
  x = m.linear("fc1", m.graph.reshape(x, {2, image[1] * image[2] * image[3]}), 5);
  const ValueId labels = m.whole_numbers("labels", {2}, 5);
  m.build.layer = "loss";
  m.loss = m.build.cross_entropy(x, labels, m.weights({2}));
}

TEST(Shard, GroupsThatDoNotFitEachOtherAreCutApart) {
  EXPECT_LT(error(run_split(different_groups, 2), run_whole(different_groups)), kTolerance);
}

// On cpu there are foreign layouts around the collectives.
TEST(Shard, TheSameOnCpu) {
  if (!test::has_backend("cpu")) GTEST_SKIP() << "the plugin cpu was not built";
  const RunOptions cpu = {.backend = "cpu", .dtype = RT_FLOAT32};
  EXPECT_LT(error(run_split(image_layers, 2, cpu), run_whole(image_layers)), 1e-4);
  EXPECT_LT(error(run_split(mlp, 2, cpu), run_whole(mlp)), 1e-4);
  EXPECT_LT(error(run_split(gpt(4), 2, cpu), run_whole(gpt(4))), 1e-4);
}

TEST(Shard, AFaultOfOneRankShows) {
  for (const Make& make : {Make(mlp), gpt(4), Make(image_layers)}) {
    const Results faulty = run_split(make, 2, {.broken_rank = 1});
    EXPECT_GT(error(faulty, run_whole(make)), 1e-9);
  }
}

TEST(Shard, HintsDecide) {
  const Results expected = run_whole(image_layers);
  const std::map<std::string, std::string> hints = {{"conv1", "none"},   {"conv2", "row"},
                                                    {"conv3", "column"}, {"conv4", "none"},
                                                    {"fc1", "column"},   {"fc2", "none"}};
  EXPECT_LT(error(run_split(image_layers, 2, {.hints = hints}), expected), kTolerance);
  const Built b = build_split(image_layers, {.rank = 0, .ranks = 2, .hints = hints}, false);
  const auto axis = [&](size_t i) { return b.sharded.parameters[i].split.axis; };
  EXPECT_EQ(axis(0), -1);  // conv1
  EXPECT_EQ(axis(5), 3);   // conv2, behind a batch normalisation
  EXPECT_EQ(axis(10), 0);  // conv3
}

// The image is flattened while its channels are split, and the next layer needs it whole.
TEST(Shard, AFlattenedImageIsPutTogether) {
  const RunOptions options = {.hints = {{"conv3", "column"}, {"fc1", "none"}}};
  const Results expected = run_whole(image_layers);
  for (const int ranks : {2, 4})
    EXPECT_LT(error(run_split(image_layers, ranks, options), expected), kTolerance);
}

// Two all-reduces per block and direction (Shoeybi et al., section 3) and one for the table; also
// those of the gradient of the last layer's input, and of the statistics of the loss.
TEST(Shard, ATransformerBlockHasTwoAllReducesForwardAndTwoBackward) {
  const Built b = build_split(gpt(4), {.rank = 1, .ranks = 2}, true);
  EXPECT_EQ(starts(b.graph, Phase::kForward), 2 * 2 + 2);
  EXPECT_EQ(starts(b.graph, Phase::kBackward), 2 * 2 + 1);
}

TEST(Shard, AnMlpHasOneAllReduceForwardAndOneBackward) {
  const auto make = [](TestModel& m) {
    ValueId x = m.layer_norm("ln", m.features({5, 6}));
    x = m.build.activation(m.linear("fc1", x, 12), RT_ACTIVATION_RELU);
    x = m.linear("fc2", x, 4);
    m.build.layer = "loss";
    const ValueId targets = m.input("targets", {5, 4}, m.dtype, Numbers(20, 0.5));
    m.loss = m.build.mean_squared_error(x, targets, m.weights({5}));
  };
  const Built b = build_split(make, {.rank = 0, .ranks = 2}, true);
  EXPECT_EQ(starts(b.graph, Phase::kForward), 1);
  EXPECT_EQ(starts(b.graph, Phase::kBackward), 1);
  EXPECT_LT(error(run_split(make, 2), run_whole(make)), kTolerance);
}

TEST(Shard, ReadersOfOneValueShareTheAllReduceOfItsGradient) {
  const auto make = [](TestModel& m) {
    const ValueId x = m.layer_norm("ln", m.features({5, 6}));
    const ValueId a = m.linear("a2", m.linear("a1", x, 8), 6);
    const ValueId b = m.linear("b2", m.linear("b1", x, 4), 6);
    finish(m, m.linear("out", m.layer_norm("ln2", m.build.add(a, b)), 5), {5});
  };
  const Built b = build_split(make, {.rank = 0, .ranks = 2}, true);
  EXPECT_EQ(starts(b.graph, Phase::kForward), 3);
  EXPECT_EQ(starts(b.graph, Phase::kBackward), 2);
  EXPECT_LT(error(run_split(make, 2), run_whole(make)), kTolerance);
}

// Operations that do not need the sum run while the all-reduce is under way.
TEST(Shard, WeightGradientsHideTheAllReduceOfTheBackwardPass) {
  const Built b = build_split(mlp, {.rank = 0, .ranks = 2}, true);
  int hidden = 0;
  for (size_t i = 0; i + 1 < b.graph.nodes.size(); ++i) {
    const Node& n = b.graph.nodes[i];
    if (n.phase == Phase::kBackward && n.collective && !n.collective->wait)
      hidden += b.graph.nodes[i + 1].op == RT_OP_MATMUL;
  }
  EXPECT_EQ(hidden, starts(b.graph, Phase::kBackward));
}

// Evaluation has other operations, and counts correct answers.
TEST(Shard, EvaluationSplitsTheSameParameters) {
  const auto evaluation = [](TestModel& m) {
    image_layers(m);
    std::vector<Node> nodes;
    for (Node& n : m.graph.nodes) {
      if (n.op == RT_OP_BATCH_NORM) {
        n.op = RT_OP_BATCH_NORM_INFERENCE;
        n.outputs.resize(1);
      }
      nodes.push_back(n);
    }
    m.graph.nodes = std::move(nodes);
    const std::vector<ValueId> loss = m.graph.nodes.back().inputs;
    m.build.correct_count(loss[0], loss[1], loss[2]);
  };
  const Built train = build_split(image_layers, {.rank = 1, .ranks = 2}, false);
  const Built evaluate = build_split(evaluation, {.rank = 1, .ranks = 2}, false);
  for (size_t i = 0; i < train.sharded.parameters.size(); ++i) {
    const Split &a = train.sharded.parameters[i].split, &b = evaluate.sharded.parameters[i].split;
    EXPECT_TRUE(a.axis == b.axis && a.is_like(b) && a.begin == b.begin && a.length == b.length);
  }
}

TEST(Shard, TheCallerReadsWholeOutputs) {
  const auto make = [](TestModel& m) {
    mlp(m);
    for (const Node& n : m.graph.nodes) {
      if (n.op == RT_OP_CROSS_ENTROPY) m.graph.value(n.inputs[0]).kind = graph::ValueKind::kOutput;
    }
  };
  EXPECT_LT(error(run_split(make, 2), run_whole(mlp)), kTolerance);
}

std::string message(const Make& make, const ShardOptions& options) {
  return test::message_of<ConfigurationError>([&] { build_split(make, options, false); });
}

TEST(Shard, RefusalsNameTheReasonAndTheNearestDegree) {
  EXPECT_THAT(message(mlp, {.rank = 0, .ranks = 8, .hints = {{"out", "column"}}}),
              AllOf(HasSubstr("'out' has 5 outputs"), HasSubstr("tensor to 5 or less")));
  EXPECT_THAT(message(mlp, {.rank = 0, .ranks = 2, .hints = {{"ln", "row"}}}),
              AllOf(HasSubstr("'ln'"), HasSubstr("for linear and conv2d")));
  EXPECT_THAT(message(mlp, {.rank = 0, .ranks = 64}),
              AllOf(HasSubstr("splits no layer"), HasSubstr("set it to 11 or less")));
}

TEST(Shard, NotesSayWhatIsNotSplit) {
  const Built b = build_split(gpt(3), {.rank = 0, .ranks = 4}, false);
  std::string text;
  for (const std::string& note : b.sharded.notes) text += note + "\n";
  EXPECT_THAT(text, AllOf(HasSubstr("'wte': its 7 rows are split unevenly"),
                          HasSubstr("'h.0.attn': not split: 3 heads or groups are fewer")));
}

}  // namespace
}  // namespace runtime::parallel
