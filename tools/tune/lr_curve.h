// The curve of a learning-rate range test.
#ifndef TOOLS_TUNE_LR_CURVE_H_
#define TOOLS_TUNE_LR_CURVE_H_

#include <cstddef>
#include <optional>
#include <vector>

namespace tools::tune {

// One step: its learning rate and its loss.
struct LrPoint {
  double lr = 0, loss = 0;
};

// Watches the losses while they arrive. The running mean is the exponential one of Lightning and
// fast.ai, with factor 0.98 and without the bias to zero of its first steps.
class DivergenceWatch {
 public:
  // `factor`: the loss has diverged when its running mean is so many times the lowest one.
  explicit DivergenceWatch(double factor) : factor_(factor) {}
  // Adds the loss of the next step; returns true if it has diverged or is not finite.
  bool add(double loss);

 private:
  double factor_, average_ = 0, lowest_ = 0, weight_ = 1;
};

// What the curve says. Rates are those of the points.
struct LrSuggestion {
  double steepest = 0;  // where the loss falls fastest per decade of the rate
  double lowest = 0;    // where the loss is lowest
  double fall = 0;      // how far the smoothed loss has fallen there from its first value
  double tenth() const { return lowest / 10; }  // the other rule of thumb
  // Rates to try, the first one first: a run has to bear a rate for longer than the one step of the
  // range test. It is the smaller of the two rules of thumb; then half a decade more, if so few
  // steps show nothing at that rate; then ever less.
  std::vector<double> rates_to_try() const;
};

// Returns whether training at one rate was good enough to suggest the rate: the loss has fallen by
// at least half of `fall`, that of the range test, from its first steps to its last ones. Losses
// must be finite.
bool is_usable(const std::vector<LrPoint>& points, double fall);

// Returns the mean of each loss and its neighbours, up to `radius` on either side, the same number
// on both. Unlike the running mean it does not lag behind, so that the rates belong to the losses.
std::vector<double> smoothed(const std::vector<LrPoint>& points, size_t radius);

// Returns how many neighbours on either side are averaged, for so many points: a thirtieth of them.
size_t radius_for(size_t points);

// Returns what the smoothed curve says; nullopt if the loss falls nowhere, or for fewer than ten
// points. The first tenth is left out, because the loss of a network that has just begun falls at
// any rate; so is what comes after the lowest loss, and after a loss that has jumped up again by
// half of its whole fall: it may fall once more, but not because of a good rate. Rates must ascend,
// and losses must be finite.
std::optional<LrSuggestion> suggest(const std::vector<LrPoint>& points);

}  // namespace tools::tune

#endif  // TOOLS_TUNE_LR_CURVE_H_
