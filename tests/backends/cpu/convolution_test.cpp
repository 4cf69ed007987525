// Compares convolutions with post-operations with the reference, in every candidate and in every
// layout that the layout pass may ask for. CMakeLists.txt runs these tests again with oneDNN
// limited to older instruction sets, for which oneDNN has other implementations.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "plugins/conformance/builder.h"
#include "plugins/conformance/execution.h"

namespace {

namespace host = plugins::host;
using plugins::conformance::Builder;
using plugins::conformance::Bytes;
using plugins::conformance::Case;
using plugins::conformance::Dims;
using plugins::conformance::Execution;
using plugins::conformance::relative_error;

std::shared_ptr<host::Device> open(const char* library, const host::DeviceOptions& options = {}) {
  return host::Device::open(host::Plugin::load(library, {}), 0, options);
}

// The sizes, padding, strides and dilation of one convolution.
struct Shape {
  int64_t n = 2, h = 9, w = 9, c = 8, o = 8, groups = 1;
  int64_t kernel_h = 3, kernel_w = 3, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  int64_t top = 1, bottom = 1, left = 1, right = 1;

  int64_t reach_h() const { return (kernel_h - 1) * dilation_h + 1; }
  int64_t reach_w() const { return (kernel_w - 1) * dilation_w + 1; }
  int64_t out_h() const { return (h + top + bottom - reach_h()) / stride_h + 1; }
  int64_t out_w() const { return (w + left + right - reach_w()) / stride_w + 1; }
  bool is_valid() const { return h + top + bottom >= reach_h() && w + left + right >= reach_w(); }
};

// Post-operations as letters: b(ias), r(esidual), activations relu '1' to sigmoid '5', their
// backward relu 'A' to sigmoid 'E'.
void add_post_ops(Builder& builder, const std::string& letters) {
  for (const char letter : letters) {
    if (letter == 'b') builder.bias();
    if (letter == 'r') builder.residual();
    if (letter >= '1' && letter <= '5') builder.activation(letter - '0');
    if (letter >= 'A' && letter <= 'E') builder.activation_backward(letter - 'A' + 1);
  }
}

Case convolution(const std::string& operation, const Shape& s, const std::string& post_ops = "") {
  const Dims x = {s.n, s.h, s.w, s.c}, w = {s.o, s.kernel_h, s.kernel_w, s.c / s.groups};
  const Dims y = {s.n, s.out_h(), s.out_w(), s.o};
  Builder builder(operation, RT_FLOAT32, "");
  if (operation == RT_OP_CONV2D) builder.in(x).in(w).out(y);
  if (operation == RT_OP_CONV2D_BACKWARD_DATA) builder.in(y).in(w).out(x);
  if (operation == RT_OP_CONV2D_BACKWARD_WEIGHTS) builder.in(x).in(y).out(w).out({s.o});
  builder.integer(RT_ATTR_STRIDE_H, s.stride_h).integer(RT_ATTR_STRIDE_W, s.stride_w);
  builder.integer(RT_ATTR_DILATION_H, s.dilation_h).integer(RT_ATTR_DILATION_W, s.dilation_w);
  builder.integer(RT_ATTR_PAD_TOP, s.top).integer(RT_ATTR_PAD_BOTTOM, s.bottom);
  builder.integer(RT_ATTR_PAD_LEFT, s.left).integer(RT_ATTR_PAD_RIGHT, s.right);
  builder.integer(RT_ATTR_GROUPS, s.groups);
  add_post_ops(builder, post_ops);
  return builder;
}

std::string describe(const Case& c, const std::string& post_ops) {
  std::string text = c.operation.name + " of";
  for (const rt_tensor_desc& t : c.operation.inputs) text += " " + rt::sdk::to_string(t);
  for (const host::Attribute& a : c.operation.attributes) {
    text += " " + a.name + "=" + std::to_string(std::get<int64_t>(a.value));
  }
  return text + " post-operations '" + post_ops + "'";
}

// The layouts of an image with these dimensions that neighbouring convolutions prefer.
std::set<uint64_t> image_layouts(host::Device& device, const rt_tensor_desc& image) {
  std::set<uint64_t> layouts = {RT_LAYOUT_CANONICAL, RT_LAYOUT_ANY};
  for (const bool reads : {true, false}) {
    Shape s{image.dims[0], image.dims[1], image.dims[2], image.dims[3], 16};
    if (!reads) s.c = 16, s.o = image.dims[3];
    host::Operation op = convolution(RT_OP_CONV2D, s).operation;
    for (auto* list : {&op.inputs, &op.outputs}) {
      for (rt_tensor_desc& t : *list) t.layout = RT_LAYOUT_ANY;
    }
    for (const rt_candidate& c : device.query(op).candidates) {
      layouts.insert(reads ? c.input_layouts[0] : c.output_layouts[0]);
    }
  }
  return layouts;
}

class CpuConvolution : public testing::Test {
 protected:
  // Runs every candidate for every pair of layouts of the first input and the first output.
  void check(const Case& c, const std::string& text) {
    SCOPED_TRACE(text);
    std::vector<Bytes> inputs;
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      inputs.push_back(make_values(c.operation.inputs[i], c.inputs[i]));
    }
    const std::vector<Bytes> expected = Execution(*reference_, c.operation, nullptr).run(inputs);
    std::set<std::vector<uint64_t>> seen;
    const bool weights = c.operation.name == RT_OP_CONV2D_BACKWARD_WEIGHTS;
    for (const uint64_t in : image_layouts(*device_, c.operation.inputs[0])) {
      const auto outs = weights ? std::set<uint64_t>{RT_LAYOUT_ANY}
                                : image_layouts(*device_, c.operation.outputs[0]);
      for (const uint64_t out : outs) check_layouts(c, in, out, inputs, expected, seen);
    }
    EXPECT_FALSE(seen.empty());
  }

  std::shared_ptr<host::Device> device_ = open(CPU_PLUGIN, {2, {}});
  std::shared_ptr<host::Device> reference_ = open(REFERENCE_PLUGIN);
  int candidates_ = 0;

 private:
  void check_layouts(const Case& c, uint64_t in, uint64_t out, const std::vector<Bytes>& inputs,
                     const std::vector<Bytes>& expected, std::set<std::vector<uint64_t>>& seen) {
    host::Operation op = c.operation;
    for (auto* list : {&op.inputs, &op.outputs}) {
      for (rt_tensor_desc& t : *list) t.layout = RT_LAYOUT_ANY;
    }
    op.inputs[0].layout = in;
    op.outputs[0].layout = out;
    const host::Support support = device_->query(op);
    if (support.level == RT_SUPPORT_REFUSED) return;
    EXPECT_EQ(support.post_ops_fused, op.post_ops.size()) << "every layout of an image fuses all";
    if (support.post_ops_fused < op.post_ops.size()) return;
    for (const rt_candidate& candidate : support.candidates) {
      std::vector<uint64_t> key(candidate.input_layouts, candidate.input_layouts + RT_MAX_INPUTS);
      key.push_back(candidate.output_layouts[0]);
      key.push_back(candidate.algorithm);
      if (!seen.insert(key).second) continue;
      host::Operation chosen = c.operation;
      for (size_t i = 0; i < chosen.inputs.size(); ++i) {
        chosen.inputs[i].layout = candidate.input_layouts[i];
      }
      for (size_t i = 0; i < chosen.outputs.size(); ++i) {
        chosen.outputs[i].layout = candidate.output_layouts[i];
      }
      chosen.algorithm = candidate.algorithm;
      run(chosen, candidate.implementation, support.tolerance, inputs, expected);
    }
  }

  void run(const host::Operation& op, const std::string& implementation, double tolerance,
           const std::vector<Bytes>& inputs, const std::vector<Bytes>& expected) {
    ++candidates_;
    SCOPED_TRACE(implementation + " " + device_->layout_name(op.inputs[0]) + " to " +
                 device_->layout_name(op.outputs[0]));
    try {
      const std::vector<Bytes> actual = Execution(*device_, op, nullptr).run(inputs);
      for (size_t i = 0; i < actual.size(); ++i) {
        EXPECT_LE(relative_error(RT_FLOAT32, actual[i], expected[i]), std::max(tolerance, 1e-5));
      }
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what();
    }
  }
};

int64_t pick(std::mt19937& random, std::initializer_list<int64_t> list) {
  return *(list.begin() + random() % list.size());
}

Shape random_shape(std::mt19937& random) {
  Shape s;
  do {
    s.n = pick(random, {1, 2, 3, 17});
    s.h = 1 + static_cast<int64_t>(random() % 9), s.w = 1 + static_cast<int64_t>(random() % 9);
    s.groups = pick(random, {1, 1, 1, 2, 3, 4});
    s.c = s.groups * pick(random, {1, 3, 5, 8, 16, 20});
    s.o = s.groups * pick(random, {1, 3, 6, 8, 16, 20});
    s.kernel_h = pick(random, {1, 2, 3, 3, 5, 7}), s.kernel_w = pick(random, {1, 2, 3, 3, 5});
    s.stride_h = pick(random, {1, 1, 2}), s.stride_w = pick(random, {1, 1, 3});
    s.dilation_h = pick(random, {1, 1, 2}), s.dilation_w = pick(random, {1, 1, 2});
    const int64_t most = random() % 4 == 0 ? 2 : 0;  // sometimes more padding than the filter spans
    for (int64_t* side : {&s.top, &s.bottom}) {
      *side = static_cast<int64_t>(random() % static_cast<uint64_t>(s.reach_h() + most));
    }
    for (int64_t* side : {&s.left, &s.right}) {
      *side = static_cast<int64_t>(random() % static_cast<uint64_t>(s.reach_w() + most));
    }
  } while (!s.is_valid());
  return s;
}

// Post-operations in a random order: fuse.cpp keeps the order of the nodes in the graph, which may
// be any.
std::string random_post_ops(std::mt19937& random, const std::string& letters) {
  std::string text = random() % 2 ? "b" : "";
  for (size_t i = random() % 4; i > 0; --i) text += letters[random() % letters.size()];
  return text;
}

// Shapes for which oneDNN 2.6 computes a fused residual add wrong, with the instruction set that is
// affected.
TEST_F(CpuConvolution, ResidualWithGroups) {
  const Shape shapes[] = {{2, 9, 1, 21, 3, 3, 7, 7, 1, 1, 1, 1, 3, 3, 3, 3},
                          {1, 8, 1, 4, 64, 4, 7, 7, 1, 1, 1, 1, 3, 3, 3, 3},
                          {2, 3, 1, 16, 64, 8, 5, 5, 2, 2, 1, 1, 2, 2, 2, 2},
                          {2, 9, 10, 48, 48, 4, 3, 3, 1, 1, 1, 1, 4, 4, 1, 1}};
  for (const Shape& shape : shapes) {
    for (const char* post_ops : {"r", "br", "br1", "rb", "r3", "2r"}) {
      const Case c = convolution(RT_OP_CONV2D, shape, post_ops);
      check(c, describe(c, post_ops));
    }
  }
}

TEST_F(CpuConvolution, ResidualOfManyPlainShapes) {
  struct Channels {
    int64_t in, out, groups;
  };
  for (const auto& [in, out, groups] :
       {Channels{20, 20, 4}, {24, 24, 4}, {64, 32, 1}, {12, 12, 3}, {48, 16, 1}, {4, 32, 1}}) {
    for (const char* post_ops : {"r", "br1", "4r"}) {
      const Case c = convolution(RT_OP_CONV2D, {2, 9, 9, in, out, groups}, post_ops);
      check(c, describe(c, post_ops));
    }
  }
}

// Some output rows depend on no input row; a ReLU after them caused a segmentation fault.
TEST_F(CpuConvolution, ResidualWherePaddingReachesTheKernel) {
  for (const char* post_ops : {"r", "br", "r1", "br1", "4r"}) {
    for (const int64_t channels : {8, 24}) {
      Shape s{2, 9, 9, channels, channels, 1, 2, 2, 1, 1, 1, 1, 2, 0, 0, 0};
      const Case c = convolution(RT_OP_CONV2D, s, post_ops);
      check(c, describe(c, post_ops));
      s = {3, 4, 11, 4, 24, 1, 1, 2, 1, 1, 3, 3, 2, 3, 1, 1};
      check(convolution(RT_OP_CONV2D, s, post_ops), "1x2 " + std::string(post_ops));
    }
  }
}

// oneDNN's Winograd data gradient, with more padding above than below and the reverse.
TEST_F(CpuConvolution, GradientsWithAsymmetricPadding) {
  for (const char* operation :
       {RT_OP_CONV2D, RT_OP_CONV2D_BACKWARD_DATA, RT_OP_CONV2D_BACKWARD_WEIGHTS}) {
    for (int sides = 0; sides < 16; ++sides) {
      const Shape s{
          2,         13, 11, 16, 24, 1, 3, 3, 1, 1, 1, 1, sides & 1, sides >> 1 & 1, sides >> 2 & 1,
          sides >> 3};
      const Case c = convolution(operation, s);
      check(c, describe(c, ""));
    }
  }
}

// oneDNN's 1x1 kernels copy the strided pixels to a buffer; some kernels wrote past its end.
TEST_F(CpuConvolution, WeightGradientsOfStridedOneByOne) {
  for (const int64_t channels : {1, 3, 7, 8, 15, 16, 17, 24, 40, 200}) {
    for (Shape s : {Shape{2, 24, 6}, Shape{2, 48, 48}, Shape{2, 1, 96}}) {
      s.c = channels, s.o = 5, s.kernel_h = s.kernel_w = 1;
      s.top = s.bottom = s.left = s.right = 0;
      s.stride_h = s.h > 1 ? 2 : 1, s.stride_w = s.w == 48 ? 2 : s.w == 96 ? 3 : 1;
      const Case c = convolution(RT_OP_CONV2D_BACKWARD_WEIGHTS, s);
      check(c, describe(c, ""));
    }
  }
}

constexpr uint32_t kSeeds = 60;

TEST_F(CpuConvolution, RandomForward) {
  for (uint32_t seed = 0; seed < kSeeds; ++seed) {
    std::mt19937 random(seed);
    const Shape s = random_shape(random);
    const std::string post_ops = random_post_ops(random, "rrr12345bABCDE");
    const Case c = convolution(RT_OP_CONV2D, s, post_ops);
    check(c, "seed " + std::to_string(seed) + ": " + describe(c, post_ops));
  }
  EXPECT_GT(candidates_, static_cast<int>(4 * kSeeds));
}

TEST_F(CpuConvolution, RandomGradients) {
  for (uint32_t seed = 1000; seed < 1000 + kSeeds; ++seed) {
    std::mt19937 random(seed);
    const Shape s = random_shape(random);
    const std::string post_ops = random_post_ops(random, "rr15bABCDE");
    const Case data = convolution(RT_OP_CONV2D_BACKWARD_DATA, s, post_ops);
    check(data, "seed " + std::to_string(seed) + ": " + describe(data, post_ops));
    const Case weights = convolution(RT_OP_CONV2D_BACKWARD_WEIGHTS, s);
    check(weights, "seed " + std::to_string(seed) + ": " + describe(weights, ""));
  }
  EXPECT_GT(candidates_, static_cast<int>(4 * kSeeds));
}

// Average poolings and additions run in our own kernels, not in those of oneDNN, and also on images
// in the blocked layouts of convolutions.
TEST_F(CpuConvolution, RandomPoolingsAndSums) {
  for (uint32_t seed = 2000; seed < 2000 + kSeeds; ++seed) {
    std::mt19937 random(seed);
    const Dims x = {pick(random, {1, 2, 17}), 4, 6, pick(random, {1, 5, 16, 20})};
    const std::string post_ops = random_post_ops(random, "r12345bABCDE");
    const std::string operation = random() % 2 ? RT_OP_AVG_POOL2D : RT_OP_ADD;
    Builder builder(operation, RT_FLOAT32, "");
    builder.in(x);
    if (operation == RT_OP_ADD) {
      builder.in(x).out(x);
    } else {
      builder.out({x[0], 2, 3, x[3]});
      builder.integer(RT_ATTR_KERNEL_H, 2).integer(RT_ATTR_KERNEL_W, 2);
      builder.integer(RT_ATTR_STRIDE_H, 2).integer(RT_ATTR_STRIDE_W, 2);
    }
    add_post_ops(builder, post_ops);
    check(builder.get(), "seed " + std::to_string(seed) + ": " + describe(builder.get(), post_ops));
  }
  EXPECT_GT(candidates_, static_cast<int>(2 * kSeeds));
}

}  // namespace
