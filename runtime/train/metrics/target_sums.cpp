// Sums errors and deviations of a regression, and merges them in the order of batches.
#include "runtime/train/metrics/target_sums.h"

#include <algorithm>
#include <cmath>

#include "runtime/row_of.h"

namespace runtime::train {

namespace {

constexpr int64_t kHead = 2;     // numbers of a record before the sums: batch, rows
constexpr int64_t kNumbers = 4;  // numbers of Sums

double r2(double squared_errors, double deviations) {
  if (deviations > 0) return 1 - squared_errors / deviations;
  return squared_errors == 0 ? 1 : 0;
}

// A metric of one target, from its sums over `rows` samples.
struct OfTarget {
  std::string name;
  double (*value)(const TargetSums::Sums& sums, double rows);
};

const std::vector<OfTarget>& of_target() {
  using Sums = TargetSums::Sums;
  static const std::vector<OfTarget>& all = *new std::vector<OfTarget>{
      {"mse", [](const Sums& s, double rows) { return s.squared / rows; }},
      {"mae", [](const Sums& s, double rows) { return s.absolute / rows; }},
      {"r2", [](const Sums& s, double) { return r2(s.squared, s.deviations); }}};
  return all;
}

}  // namespace

// Chan, Golub and LeVeque, "Algorithms for computing the sample variance", 1983.
void TargetSums::Sums::merge(double rows, const Sums& other, double other_rows) {
  const double all = rows + other_rows, difference = other.mean - mean;
  absolute += other.absolute;
  squared += other.squared;
  mean += difference * other_rows / all;
  deviations += other.deviations + difference * difference * rows * other_rows / all;
}

TargetSums::TargetSums(const FamilyOptions& options)
    : targets_(options.targets), sums_(options.targets) {}

void TargetSums::add(const Predictions& p) {
  if (p.rows == 0) return;
  records_.insert(records_.end(), {static_cast<double>(p.batch), static_cast<double>(p.rows)});
  for (int64_t t = 0; t < targets_; ++t) {
    Sums s;
    for (int64_t i = t; i < p.rows * targets_; i += targets_) {
      const double error = p.outputs[i] - static_cast<double>(p.targets[i]);
      s.absolute += std::abs(error);
      s.squared += error * error;
      s.mean += static_cast<double>(p.targets[i]);
    }
    s.mean /= static_cast<double>(p.rows);
    for (int64_t i = t; i < p.rows * targets_; i += targets_)
      s.deviations += std::pow(static_cast<double>(p.targets[i]) - s.mean, 2);
    records_.insert(records_.end(), {s.absolute, s.squared, s.mean, s.deviations});
  }
}

void TargetSums::combine(const Gather& gather) {
  const std::vector<double> all = gather_list(gather, records_);
  std::vector<const double*> in_order;
  const auto size = static_cast<size_t>(kHead + kNumbers * targets_);
  for (size_t i = 0; i < all.size(); i += size) in_order.push_back(all.data() + i);
  std::sort(in_order.begin(), in_order.end(),
            [](const double* a, const double* b) { return a[0] < b[0]; });
  for (const double* record : in_order) take(record);
}

void TargetSums::take(const double* record) {
  const double rows = record[1];
  for (int64_t t = 0; t < targets_; ++t) {
    const double* const s = record + kHead + kNumbers * t;
    sums_[t].merge(rows_, {s[0], s[1], s[2], s[3]}, rows);
  }
  rows_ += rows;
}

double TargetSums::value(const std::string& name) const {
  const OfTarget& metric = find_row("validation.metrics", name, of_target());
  double total = 0;
  for (const Sums& s : sums_) total += metric.value(s, rows_);
  return total / static_cast<double>(targets_);
}

FamilyRow target_sums_row() { return {names_of_rows(of_target()), make_family<TargetSums>}; }

}  // namespace runtime::train
