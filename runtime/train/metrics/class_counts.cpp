// Counts labels and predictions, and computes accuracy, precision, recall, F1 and top-k.
#include "runtime/train/metrics/class_counts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/config/metrics.h"
#include "runtime/row_of.h"

namespace runtime::train {

namespace {

bool is_larger(double a, double b) { return std::isnan(a) ? !std::isnan(b) : a > b; }

double quotient(int64_t numerator, int64_t denominator) {
  return denominator == 0 ? 0 : static_cast<double>(numerator) / static_cast<double>(denominator);
}

int64_t sum(const std::vector<int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

// The number of logits that come before that of the label.
int64_t place_of(const double* logits, int64_t width, int64_t label) {
  int64_t place = 0;
  for (int64_t i = 0; i < width; ++i) {
    const bool before = i < label && !is_larger(logits[label], logits[i]);
    place += static_cast<int64_t>(before || is_larger(logits[i], logits[label]));
  }
  return place;
}

}  // namespace

int64_t predicted_class(const double* logits, int64_t width) {
  int64_t largest = 0;
  for (int64_t i = 1; i < width; ++i) {
    if (is_larger(logits[i], logits[largest])) largest = i;
  }
  return largest;
}

ClassCounts::ClassCounts(int64_t classes, int64_t outputs, bool matrix)
    : classes_(classes),
      outputs_(outputs),
      hits_(classes),
      labels_(classes),
      predicted_(classes),
      matrix_(matrix ? classes * outputs : 0) {}

void ClassCounts::add(const Predictions& p) {
  for (int64_t row = 0; row < p.rows; ++row) {
    const int64_t label = p.labels[row];
    const int64_t predicted = predicted_class(p.outputs + row * p.width, p.width);
    ++labels_[label];
    if (predicted < classes_) ++predicted_[predicted];
    if (predicted == label) ++hits_[label];
    if (!matrix_.empty()) ++matrix_[label * outputs_ + predicted];
  }
}

void ClassCounts::combine(const Gather& gather) {
  for (std::vector<int64_t>* counts : {&hits_, &labels_, &predicted_, &matrix_})
    *counts = gather_sum(gather, *counts);
}

double ClassCounts::ratio(const std::string& metric, int64_t hits, int64_t labels,
                          int64_t predicted) const {
  return row_of<double>("validation.metrics", metric,
                        {{"precision", quotient(hits, predicted)},
                         {"recall", quotient(hits, labels)},
                         {"f1", quotient(2 * hits, labels + predicted)}});
}

double ClassCounts::value(const std::string& name) const {
  const size_t micro = name.find("_micro");
  const std::string metric = name.substr(0, micro);
  if (micro != std::string::npos) return ratio(metric, sum(hits_), sum(labels_), sum(predicted_));
  double total = 0;
  for (int64_t c = 0; c < classes_; ++c)
    total += ratio(metric, hits_[c], labels_[c], predicted_[c]);
  return total / static_cast<double>(classes_);
}

ConfusionMatrix ClassCounts::matrix() const {
  ConfusionMatrix rows;
  for (auto row = matrix_.begin(); row != matrix_.end(); row += outputs_)
    rows.emplace_back(row, row + outputs_);
  return rows;
}

TopK::TopK(const std::vector<int64_t>& ks) {
  for (const int64_t k : ks) hits_[k] = 0;
}

void TopK::add(const Predictions& p) {
  rows_ += p.rows;
  for (int64_t row = 0; row < p.rows; ++row) {
    const int64_t place = place_of(p.outputs + row * p.width, p.width, p.labels[row]);
    for (auto& [k, hits] : hits_) hits += static_cast<int64_t>(place < k);
  }
}

void TopK::combine(const Gather& gather) {
  std::vector<int64_t> counts = {rows_};
  for (const auto& [k, hits] : hits_) counts.push_back(hits);
  counts = gather_sum(gather, counts);
  rows_ = counts[0];
  auto next = counts.begin() + 1;
  for (auto& [k, hits] : hits_) hits = *next++;
}

double TopK::value(const std::string& name) const {
  return quotient(hits_.at(config::k_of(name)), rows_);
}

}  // namespace runtime::train
