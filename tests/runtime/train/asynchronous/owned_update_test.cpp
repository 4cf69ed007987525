// Compares updates of an owned range with loops written here.
#include "runtime/train/asynchronous/owned_update.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "runtime/exec/encode.h"
#include "runtime/train/weights.h"
#include "tests/runtime/support/devices.h"
#include "tests/runtime/support/graph_run.h"

namespace runtime::train {
namespace {

using test::Numbers;

Numbers decode(const std::vector<std::byte>& bytes) {
  Numbers numbers(bytes.size() / sizeof(double));
  std::copy_n(reinterpret_cast<const double*>(bytes.data()), numbers.size(), numbers.begin());
  return numbers;
}

class OwnedUpdateTest : public testing::TestWithParam<std::string> {
 protected:
  OwnedUpdate make(const config::Optimizer& optimizer, int items) {
    return {optimizer, exec::encode(start_, RT_FLOAT64), RT_FLOAT64,
            items,     test::open_device(GetParam()),    {{.tune = exec::Tune::kOff}}};
  }
  const Numbers start_ = test::random_numbers(40, 1);
};
INSTANTIATE_TEST_SUITE_P(Devices, OwnedUpdateTest, testing::Values("reference", "simulated"));

// v = mu v + (R g + wd w), w -= lr / R v, for each work item.
TEST_P(OwnedUpdateTest, Sgd) {
  config::Optimizer optimizer;
  optimizer.momentum = 0.9;
  optimizer.weight_decay = 0.01;
  constexpr int kItems = 4;
  OwnedUpdate range = make(optimizer, kItems);
  Numbers w = start_, v(w.size(), 0.0);
  for (int i = 0; i < 6; ++i) {
    const Numbers g = test::random_numbers(w.size(), 10 + i);
    const double lr = 0.1 * (i + 1);
    range.apply(exec::encode(g, RT_FLOAT64), lr);
    for (size_t k = 0; k < w.size(); ++k) {
      v[k] = 0.9 * v[k] + kItems * g[k] + 0.01 * w[k];
      w[k] -= lr / kItems * v[k];
    }
  }
  EXPECT_LT(test::relative_error(decode(range.parameters()), w), 1e-13);
}

// The formulas of Kingma and Ba with decoupled decay, on the gradient of the work item alone.
TEST_P(OwnedUpdateTest, AdamW) {
  config::Optimizer optimizer;
  optimizer.name = "adamw";
  optimizer.weight_decay = 0.1;
  constexpr int kItems = 3;
  OwnedUpdate range = make(optimizer, kItems);
  const double beta1 = 0.9, beta2 = 0.999, lr = 0.03 / kItems;
  Numbers w = start_, m(w.size(), 0.0), v(w.size(), 0.0);
  for (int i = 1; i <= 5; ++i) {
    const Numbers g = test::random_numbers(w.size(), 20 + i);
    range.apply(exec::encode(g, RT_FLOAT64), 0.03);
    for (size_t k = 0; k < w.size(); ++k) {
      const double whole = kItems * g[k];
      m[k] = beta1 * m[k] + (1 - beta1) * whole;
      v[k] = beta2 * v[k] + (1 - beta2) * whole * whole;
      const double m_hat = m[k] / (1 - std::pow(beta1, i));
      const double v_hat = v[k] / (1 - std::pow(beta2, i));
      w[k] = w[k] * (1 - lr * 0.1) - lr * m_hat / (std::sqrt(v_hat) + 1e-8);
    }
  }
  EXPECT_LT(test::relative_error(decode(range.parameters()), w), 1e-13);
}

// Adam's corrections depend on the number of updates, and the first update of momentum is another
// one.
TEST_P(OwnedUpdateTest, GoesOnWithTheSameBits) {
  config::Optimizer adamw, momentum;
  adamw.name = "adamw";
  momentum.momentum = 0.9;
  momentum.dampening = 0.5;
  for (const config::Optimizer& optimizer : {adamw, momentum}) {
    const auto gradient = [&](int i) {
      return exec::encode(test::random_numbers(start_.size(), 30 + i), RT_FLOAT64);
    };
    OwnedUpdate whole = make(optimizer, 2);
    for (int i = 0; i < 3; ++i) whole.apply(gradient(i), 0.1);
    const auto device = whole.storage().device();
    OwnedUpdate rest(optimizer, whole.parameters(), RT_FLOAT64, 2, device,
                     {{.tune = exec::Tune::kOff}});
    plugins::host::Stream stream = device->create_stream();
    for (const std::string& state : step::optimizer_state(optimizer))
      stream.copy(rest.storage().find(state), whole.storage().find(state), whole.bytes());
    stream.synchronize();
    rest.set_updates(whole.updates());
    for (OwnedUpdate* const range : {&whole, &rest}) range->apply(gradient(3), 0.1);
    EXPECT_EQ(rest.updates(), 4);
    EXPECT_EQ(rest.parameters(), whole.parameters()) << optimizer.name;
  }
}

// Two ranges of a buffer of two buckets. The last 32 numbers of the first bucket and the last 64 of
// the second are vectors; the ranges are cut inside the first bucket.
TEST_P(OwnedUpdateTest, VectorsHaveNoWeightDecay) {
  config::Optimizer optimizer;
  optimizer.weight_decay = 0.5;
  optimizer.weight_decay_on = "matrices";
  parallel::FlatLayout whole;
  whole.bytes = 320 * sizeof(double);
  whole.buckets = {{0, 192 * 8, {160 * 8}}, {192 * 8, 320 * 8, {256 * 8}}};
  const Numbers start = test::random_numbers(160, 4);
  for (const int rank : {0, 1}) {
    const parallel::FlatLayout layout = parallel::owned_range(whole, rank, 2);
    OwnedUpdate range(optimizer, exec::encode(start, RT_FLOAT64), RT_FLOAT64, 1,
                      test::open_device(GetParam()), {{.tune = exec::Tune::kOff}}, layout);
    const Numbers g = test::random_numbers(160, 5);
    range.apply(exec::encode(g, RT_FLOAT64), 0.1);
    Numbers w = start;
    for (int k = 0; k < 160; ++k) {
      const int at = rank * 160 + k;
      const bool vector = (at >= 160 && at < 192) || at >= 256;
      w[k] -= 0.1 * (g[k] + (vector ? 0 : 0.5 * w[k]));
    }
    EXPECT_LT(test::relative_error(decode(range.parameters()), w), 1e-15) << rank;
  }
}

// The updates of the work items of a step add up to the update of the step; without momentum only
// rounding differs.
TEST_P(OwnedUpdateTest, ItemsAddUpToAStep) {
  const Numbers g = test::random_numbers(start_.size(), 3);
  Numbers half = g;
  for (double& x : half) x /= 2;
  OwnedUpdate whole = make({}, 1), items = make({}, 2);
  whole.apply(exec::encode(g, RT_FLOAT64), 0.5);
  for (int i = 0; i < 2; ++i) items.apply(exec::encode(half, RT_FLOAT64), 0.5);
  EXPECT_LT(test::relative_error(decode(items.parameters()), decode(whole.parameters())), 1e-15);
}

}  // namespace
}  // namespace runtime::train
