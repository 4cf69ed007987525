// Keeps the scores of all samples, and computes the area under the curve by ranks.
#include "runtime/train/metrics/class_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace runtime::train {

namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

// log(sum over all classes but `c` of exp(logit)).
double log_sum_of_others(const double* logits, int64_t width, int64_t c) {
  double largest = -std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < width; ++i) {
    if (i != c) largest = std::max(largest, logits[i]);
  }
  double sum = 0;
  for (int64_t i = 0; i < width; ++i) {
    if (i != c) sum += std::exp(logits[i] - largest);
  }
  return largest + std::log(sum);
}

}  // namespace

double area_under_roc(const std::vector<float>& scores, const std::vector<bool>& positive) {
  std::vector<std::pair<float, bool>> ranked;
  ranked.reserve(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    if (std::isnan(scores[i])) return kUndefined;
    ranked.emplace_back(scores[i], positive[i]);
  }
  std::sort(ranked.begin(), ranked.end());
  uint64_t positives = 0, negatives = 0, twice_larger = 0;
  for (size_t begin = 0; begin < ranked.size();) {
    uint64_t count[2] = {0, 0};  // rows of this score: negative, positive
    size_t end = begin;
    while (end < ranked.size() && ranked[end].first == ranked[begin].first)
      ++count[static_cast<int>(ranked[end++].second)];
    twice_larger += count[1] * (2 * negatives + count[0]);
    negatives += count[0];
    positives += count[1];
    begin = end;
  }
  if (positives == 0 || negatives == 0) return kUndefined;
  return static_cast<double>(twice_larger) / 2 /
         (static_cast<double>(positives) * static_cast<double>(negatives));
}

void log_odds(const double* logits, int64_t width, double* odds) {
  if (width == 2) {
    odds[0] = logits[0] - logits[1];
    odds[1] = -odds[0];
    return;
  }
  const int64_t first = std::max_element(logits, logits + width) - logits;
  double sum = 0;
  for (int64_t i = 0; i < width; ++i) sum += odds[i] = std::exp(logits[i] - logits[first]);
  // The sum of the others has the largest term, 1, and so loses no digits, except for the largest.
  for (int64_t i = 0; i < width; ++i) odds[i] = logits[i] - logits[first] - std::log(sum - odds[i]);
  odds[first] = logits[first] - log_sum_of_others(logits, width, first);
}

ClassScores::ClassScores(const FamilyOptions& options) {
  for (int64_t c = options.classes == 2 ? 1 : 0; c < options.classes; ++c)
    classes_.push_back(static_cast<int32_t>(c));
  scores_.resize(classes_.size());
}

void ClassScores::add(const Predictions& p) {
  labels_.insert(labels_.end(), p.labels, p.labels + p.rows);
  std::vector<double> odds(p.width);
  for (int64_t row = 0; row < p.rows; ++row) {
    log_odds(p.outputs + row * p.width, p.width, odds.data());
    for (size_t i = 0; i < classes_.size(); ++i)
      scores_[i].push_back(static_cast<float>(odds[classes_[i]]));
  }
}

void ClassScores::combine(const Gather& gather) {
  const std::vector<int32_t> labels = gather_list(gather, labels_);
  std::vector<bool> positive(labels.size());
  double total = 0;
  int64_t defined = 0;
  for (size_t i = 0; i < classes_.size(); ++i) {
    std::transform(labels.begin(), labels.end(), positive.begin(),
                   [&](int32_t label) { return label == classes_[i]; });
    const auto positives = std::count(positive.begin(), positive.end(), true);
    const double area = area_under_roc(gather_list(gather, scores_[i]), positive);
    if (positives == 0 || positives == static_cast<int64_t>(labels.size())) continue;
    total += area;
    ++defined;
  }
  area_ = defined == 0 ? kUndefined : total / static_cast<double>(defined);
}

double ClassScores::value(const std::string&) const { return area_; }

FamilyRow class_scores_row() { return {{"auroc"}, make_family<ClassScores>}; }

}  // namespace runtime::train
