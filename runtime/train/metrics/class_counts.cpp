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

// A metric of one class, or (`micro`) of the sums over all classes.
struct Ratio {
  std::string name;
  double (*of)(int64_t hits, int64_t labels, int64_t predicted);
  bool micro = false;
};

const std::vector<Ratio>& ratios() {
  const auto precision = [](int64_t hits, int64_t, int64_t predicted) {
    return quotient(hits, predicted);
  };
  const auto recall = [](int64_t hits, int64_t labels, int64_t) { return quotient(hits, labels); };
  const auto f1 = [](int64_t hits, int64_t labels, int64_t predicted) {
    return quotient(2 * hits, labels + predicted);
  };
  static const std::vector<Ratio>& all =
      *new std::vector<Ratio>{{"precision", precision},
                              {"precision_micro", precision, true},
                              {"recall", recall},
                              {"recall_micro", recall, true},
                              {"f1", f1},
                              {"f1_micro", f1, true}};
  return all;
}

constexpr const char* kConfusion = "confusion";

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

ClassCounts::ClassCounts(const FamilyOptions& o)
    : classes_(o.classes),
      outputs_(o.outputs),
      hits_(classes_),
      labels_(classes_),
      predicted_(classes_),
      matrix_(std::count(o.names.begin(), o.names.end(), kConfusion) * classes_ * outputs_) {}

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

double ClassCounts::value(const std::string& name) const {
  const Ratio& ratio = find_row("validation.metrics", name, ratios());
  if (ratio.micro) return ratio.of(sum(hits_), sum(labels_), sum(predicted_));
  double total = 0;
  for (int64_t c = 0; c < classes_; ++c) total += ratio.of(hits_[c], labels_[c], predicted_[c]);
  return total / static_cast<double>(classes_);
}

FamilyRow class_counts_row() {
  FamilyRow row = {names_of_rows(ratios()), make_family<ClassCounts>};
  row.metrics.emplace_back(kConfusion);
  return row;
}

ConfusionMatrix ClassCounts::table() const {
  ConfusionMatrix rows;
  for (auto row = matrix_.begin(); row != matrix_.end(); row += outputs_)
    rows.emplace_back(row, row + outputs_);
  return rows;
}

TopK::TopK(const FamilyOptions& options) {
  for (const std::string& name : options.names) hits_[config::k_of(name)] = 0;
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

FamilyRow top_k_row() { return {{"top_k"}, make_family<TopK>}; }

}  // namespace runtime::train
