// runtime::Tensor on three kinds of devices: "reference:0", the C example plugin "example:0", and
// the simulated accelerator, whose memory the host cannot access and whose streams run later.
#include "runtime/tensor/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <thread>

#include "runtime/error.h"

namespace runtime {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

const std::string kReference = "reference";
const std::string kExample = "example";
const std::string kSimulated = "simulated:1";
const std::vector<std::string> kDevices = {"reference:0", "example:0", kSimulated};

Context make_context() { return Context({EXAMPLE_PLUGIN, SIMULATED_PLUGIN}); }

template <typename Body>
std::string message_of(Body&& body) {
  try {
    body();
  } catch (const DeviceError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no DeviceError was thrown";
  return "";
}

class TensorTest : public ::testing::Test {
 protected:
  Tensor floats(const std::vector<float>& values, const Shape& shape,
                const std::string& device = kSimulated) {
    return Tensor::from_vector(context_, values, shape, device);
  }
  Context context_ = make_context();
};

TEST_F(TensorTest, DevicesAreListedAndCounted) {
  std::vector<std::string> ids;
  for (const DeviceSummary& device : context_.devices()) ids.push_back(device.id);
  EXPECT_THAT(ids, AllOf(Contains("reference:0"), Contains("example:0")));
  EXPECT_EQ(context_.device_count(kExample), 1);
  EXPECT_EQ(context_.device_count("cuda_of_another_machine"), 0);
  EXPECT_GE(context_.device_count(), 2);
}

TEST_F(TensorTest, LibrariesThatWereNotLoadedAreNamed) {
  const Context context({"/dev/null/plugins"});
  EXPECT_THAT(context.rejections(), Contains(HasSubstr("/dev/null/plugins: does not exist")));
}

TEST_F(TensorTest, IsCreatedOnADevice) {
  const Tensor x = floats({1, 2, 3, 4, 5, 6}, {2, 3}, "example:0");
  EXPECT_EQ(x.device(), "example:0");
  EXPECT_EQ(x.dtype(), Dtype::kFloat32);
  EXPECT_EQ(x.shape(), (Shape{2, 3}));
  EXPECT_EQ(x.size(), 6);
  EXPECT_THAT(x.to_vector<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(Tensor::zeros(context_, {3}, kExample).to_vector<float>(), ElementsAre(0, 0, 0));
  const Tensor full = Tensor::full(context_, {2}, 0.1, kReference, Dtype::kFloat64);
  EXPECT_THAT(full.to_vector<double>(), ElementsAre(0.1, 0.1));
  EXPECT_EQ(Tensor::full(context_, {}, 3.0, kExample).item(), 3.0);
}

TEST_F(TensorTest, ADeviceWithoutAnIndexIsTheFirst) {
  const Tensor x = floats({1}, {1}, "example"), y = floats({2}, {1}, "example:0");
  EXPECT_EQ(x.device(), "example:0");
  EXPECT_EQ((x + y).item(), 3.0);
}

TEST_F(TensorTest, MovesByCopyUnlessItIsThereAlready) {
  const Tensor x = floats({1, 2, 3}, {3}, kReference);
  const Tensor same = x.to("reference:0");
  EXPECT_TRUE(same.shares_memory_with(x));
  const Tensor moved = x.to(kExample);
  EXPECT_EQ(moved.device(), "example:0");
  EXPECT_FALSE(moved.shares_memory_with(x));
  EXPECT_THAT(moved.to_vector<float>(), ElementsAre(1, 2, 3));
  const Tensor around = moved.to("simulated:0").to("simulated:1").to(kReference);
  EXPECT_THAT(around.to_vector<float>(), ElementsAre(1, 2, 3));
}

TEST_F(TensorTest, CpuMovesToThePluginOfThatNameOrSaysThatThereIsNone) {
  const Tensor x = floats({1, 2}, {2}, kExample);
  if (context_.device_count("cpu") > 0) {
    EXPECT_EQ(x.cpu().device(), "cpu:0");
    EXPECT_THAT(x.cpu().to_vector<float>(), ElementsAre(1, 2));
  } else {
    EXPECT_THAT(message_of([&] { x.cpu(); }),
                AllOf(HasSubstr("no plugin named 'cpu'"), HasSubstr("to_vector()")));
  }
}

TEST_F(TensorTest, TensorsOfTwoDevicesAreAnErrorThatNamesBoth) {
  const Tensor x = floats({1}, {1}, kReference), y = floats({1}, {1}, kExample);
  EXPECT_THAT(
      message_of([&] { x + y; }),
      HasSubstr("expected all tensors on the same device, found reference:0 and example:0"));
  EXPECT_THAT(message_of([&] {
                matmul(y.reshape({1, 1}), x.reshape({1, 1}));
              }),
              HasSubstr("found example:0 and reference:0"));
}

TEST_F(TensorTest, ADeviceThatDoesNotExistListsThoseThatDo) {
  EXPECT_THAT(message_of([&] { floats({1}, {1}, "example:7"); }),
              AllOf(HasSubstr("no device example:7"), HasSubstr("example:0")));
  EXPECT_THAT(message_of([&] { floats({1}, {1}).to("exampel"); }),
              AllOf(HasSubstr("'exampel'"), HasSubstr("did you mean \"example\"?")));
}

TEST_F(TensorTest, ANameThatIsNoDeviceIsRefused) {
  for (const char* name :
       {"", ":0", "example:", "example:x", "example:-1", "example:0:0", "example:99999999999"}) {
    EXPECT_THAT(message_of([&] { floats({1}, {1}, name); }), HasSubstr("is no device")) << name;
  }
}

TEST_F(TensorTest, ArithmeticBroadcastsAndStaysOnItsDevice) {
  for (const std::string& device : kDevices) {
    const Tensor column = floats({10, 20}, {2, 1}, device), row = floats({1, 2, 4}, {3}, device);
    const Tensor sum = column + row;
    EXPECT_EQ(sum.device(), device);
    EXPECT_EQ(sum.shape(), (Shape{2, 3}));
    EXPECT_THAT(sum.to_vector<float>(), ElementsAre(11, 12, 14, 21, 22, 24));
    EXPECT_THAT((column - row).to_vector<float>(), ElementsAre(9, 8, 6, 19, 18, 16));
    EXPECT_THAT((column * row).to_vector<float>(), ElementsAre(10, 20, 40, 20, 40, 80));
    EXPECT_THAT((column / row).to_vector<float>(), ElementsAre(10, 5, 2.5, 20, 10, 5));
    EXPECT_THAT((1.0 - row * 2.0 + 3.0).to_vector<float>(), ElementsAre(2, 0, -4));
    EXPECT_THAT((-row / 2.0 - 1.0).to_vector<float>(), ElementsAre(-1.5, -2, -3));
    EXPECT_THAT((2.0 * (1.0 + row)).to_vector<float>(), ElementsAre(4, 6, 10));
    EXPECT_THAT(column.to_vector<float>(), ElementsAre(10, 20));  // operands keep their values
  }
}

TEST_F(TensorTest, MultipliesMatrices) {
  for (const std::string& device : kDevices) {
    const Tensor a = floats({1, 2, 3, 4}, {2, 2}, device), b = floats({5, 6}, {2, 1}, device);
    EXPECT_THAT(matmul(a, b).to_vector<float>(), ElementsAre(17, 39));
    const Tensor batch = a.reshape({2, 1, 2});
    EXPECT_EQ(matmul(batch, b).shape(), (Shape{2, 1, 1}));
    EXPECT_THAT(matmul(batch, b).to_vector<float>(), ElementsAre(17, 39));
  }
}

TEST_F(TensorTest, ExampleOfTheHeader) {
  const Tensor a = floats({1, 2, 3, 4}, {2, 2});
  const Tensor b = Tensor::full(context_, {2}, -5.0, kSimulated);
  EXPECT_THAT(relu(matmul(a, a) + b).to_vector<float>(), ElementsAre(2, 5, 10, 17));
}

TEST_F(TensorTest, Reduces) {
  for (const std::string& device : kDevices) {
    const Tensor x = floats({1, 2, 3, 4, 5, 6}, {2, 3}, device);
    EXPECT_EQ(x.sum().item(), 21.0);
    EXPECT_EQ(x.mean().shape(), Shape{});
    EXPECT_THAT(x.sum({0}).to_vector<float>(), ElementsAre(5, 7, 9));
    EXPECT_EQ(x.mean({-1}, true).shape(), (Shape{2, 1}));
    EXPECT_THAT(x.mean({-1}, true).to_vector<float>(), ElementsAre(2, 5));
    EXPECT_THAT(x.max({1}).to_vector<float>(), ElementsAre(3, 6));
  }
}

TEST_F(TensorTest, AppliesFunctions) {
  const Tensor x = floats({-1, 0, 2}, {3});
  EXPECT_THAT(relu(x).to_vector<float>(), ElementsAre(0, 0, 2));
  EXPECT_THAT(tanh(x).to_vector<float>(),
              Pointwise(FloatNear(1e-6f), {std::tanh(-1.0f), 0.0f, std::tanh(2.0f)}));
  EXPECT_NEAR(sigmoid(x).to_vector<float>()[1], 0.5f, 1e-6);
  EXPECT_NEAR(gelu(x).to_vector<float>()[2], 1.9544997f, 1e-5);
  const auto p = softmax(x).to_vector<float>();
  EXPECT_NEAR(p[0] + p[1] + p[2], 1.0f, 1e-6);
  EXPECT_NEAR(p[2] / p[1], std::exp(2.0f), 1e-4);
  EXPECT_NEAR(log_softmax(x).to_vector<float>()[2], std::log(p[2]), 1e-5);
}

TEST_F(TensorTest, ComputesInFloat64) {
  const Tensor third = Tensor::from_vector<double>(context_, {1.0}, {1}, kSimulated) /
                       Tensor::from_vector<double>(context_, {3.0}, {1}, kSimulated);
  EXPECT_EQ(third.dtype(), Dtype::kFloat64);
  EXPECT_EQ(third.to_vector<double>()[0], 1.0 / 3.0);
  EXPECT_THAT(message_of([&] { third.to_vector<float>(); }), HasSubstr("float64"));
  EXPECT_THAT(message_of([&] { third + floats({1}, {1}); }),
              HasSubstr("found float64 and float32"));
  EXPECT_THAT(message_of([&] { third.to(kExample); }), HasSubstr("cannot hold float64"));
}

TEST_F(TensorTest, AnOperationThatTheDeviceLacksIsAnErrorWithItsReason) {
  EXPECT_THAT(message_of([&] {
                softmax(floats({1, 2}, {2}, kExample));
              }),
              AllOf(HasSubstr("example:0"), HasSubstr("softmax"), HasSubstr("mandatory")));
}

TEST_F(TensorTest, ShapesThatDoNotFitAreRefused) {
  const Tensor x = floats({1, 2, 3}, {3}), y = floats({1, 2}, {2});
  EXPECT_THAT(message_of([&] { x + y; }), HasSubstr("shapes [3] and [2] cannot be broadcast"));
  EXPECT_THAT(message_of([&] { matmul(x, y); }), HasSubstr("matmul: shapes [3] and [2]"));
  EXPECT_THAT(message_of([&] { floats({1, 2}, {3}); }), HasSubstr("2 values for shape [3]"));
  EXPECT_THAT(message_of([&] { x.reshape({2}); }), HasSubstr("3 elements"));
  EXPECT_THAT(message_of([&] { x.sum({1}); }), HasSubstr("axis 1"));
  EXPECT_THAT(message_of([&] { x.item(); }), HasSubstr("expected one element"));
  EXPECT_THAT(message_of([&] { softmax(x.sum()); }), HasSubstr("scalar"));
  EXPECT_THAT(message_of([&] { Tensor::zeros(context_, {-1}, kReference); }),
              HasSubstr("negative"));
  const int64_t huge = int64_t{1} << 40;
  EXPECT_THAT(message_of([&] {
                Tensor::zeros(context_, {huge, huge}, kReference);
              }),
              HasSubstr("more elements than can be addressed"));
  EXPECT_THAT(message_of([&] { Tensor::zeros(context_, Shape(9, 1), kReference); }),
              HasSubstr("at most 8"));
}

TEST_F(TensorTest, MoreMemoryThanTheDeviceHasIsAnErrorWithBothSizes) {
  EXPECT_THAT(message_of([&] { Tensor::zeros(context_, {int64_t{2} << 30}, kExample); }),
              AllOf(HasSubstr("example:0: allocate 8589934592 bytes"), HasSubstr("free")));
}

TEST_F(TensorTest, MayBeEmpty) {
  const Tensor x = floats({}, {0, 3});
  EXPECT_TRUE((x * x + 1.0).to_vector<float>().empty());
  EXPECT_TRUE(relu(x).to(kExample).to_vector<float>().empty());
  EXPECT_THAT(message_of([&] { x.sum(); }), HasSubstr("no elements"));
}

TEST(TensorLifetime, ATensorOutlivesItsContext) {
  auto context = std::make_unique<Context>(make_context());
  const Tensor x = Tensor::full(*context, {4}, 2.0, kSimulated);
  context.reset();
  EXPECT_EQ((x * x).sum().item(), 16.0);
}

TEST(TensorLifetime, TensorsOfTwoContextsDoNotMix) {
  const Context a = make_context(), b = make_context();
  const Tensor x = Tensor::full(a, {1}, 1.0, kReference), y = Tensor::full(b, {1}, 1.0, kReference);
  EXPECT_THAT(message_of([&] { x + y; }), HasSubstr("two Contexts"));
}

// Memory of destroyed tensors is reused; results must not depend on its old content.
TEST_F(TensorTest, ReusedMemoryHoldsNoOldValues) {
  Tensor x = Tensor::zeros(context_, {1000}, kSimulated);
  for (int i = 0; i < 200; ++i) x = x + Tensor::full(context_, {1000}, 1.0, kSimulated);
  EXPECT_EQ(x.mean().item(), 200.0);
}

TEST_F(TensorTest, MayBeUsedByThreads) {
  const Tensor x = Tensor::full(context_, {100}, 1.0, kSimulated);
  std::vector<std::thread> threads;
  for (int t = 1; t <= 4; ++t) {
    threads.emplace_back([&, t] {
      Tensor y = x;
      for (int i = 0; i < 50; ++i) y = y + x * static_cast<double>(t);
      EXPECT_EQ(y.mean().item(), 1.0 + 50.0 * t);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace runtime
