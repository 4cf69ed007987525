// Reads metrics.jsonl into curves by step, epoch and time, and notes damaged lines.
#include "tools/report/read_metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "runtime/error.h"
#include "tools/report/json_input.h"

namespace tools::report {

namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// Where the values of a key were no numbers.
struct NotFinite {
  int64_t count = 0, first_step = 0;
};

class Reader {
 public:
  explicit Reader(const RunSize& size) : size_(size) {}

  void take(const Json& line) {
    const double step = number_of(line, "step");
    if (!(step >= 0)) {
      ++without_step_;
      return;
    }
    // A writer that does not cut the file when the run goes on leaves steps that are made again.
    if (step < last_step_) forget_after(step);
    add_time(line, step);
    last_step_ = step;
    if (const auto table = line.find("validation_confusion"); table != line.end())
      add_confusion(*table, step);
    for (const auto& [key, value] : line.items()) {
      if (key != "step" && key != "epoch") add(key, value, step);
    }
  }

  Metrics finish(const std::filesystem::path& file, const std::vector<BadLine>& bad) {
    if (lines_ == 0) no_line(file, bad);
    note_bad_lines(bad);
    for (const auto& [key, what] : not_finite_) {
      note(key + " is not finite in " + std::to_string(what.count) +
           (what.count == 1 ? " line" : " lines") + ", the first time after step " +
           std::to_string(what.first_step));
    }
    if (other_keys_ > 0)
      note("more than " + std::to_string(kMostCurves) + " metrics: the others are left out");
    metrics_.steps = static_cast<int64_t>(std::clamp(last_step_, 0.0, 9e18));
    metrics_.steps_per_epoch = steps_per_epoch();
    metrics_.seconds = size_.batch > 0 && times_known_ ? seconds_ : kUnknown;
    finish_epochs();
    finish_points();
    return std::move(metrics_);
  }

 private:
  static double number_of(const Json& line, const char* key) {
    const auto found = line.find(key);
    return found != line.end() && found->is_number() ? found->get<double>() : kUnknown;
  }

  void note(const std::string& text) { metrics_.notes.push_back("metrics.jsonl: " + text); }

  [[noreturn]] void no_line(const std::filesystem::path& file, const std::vector<BadLine>& bad) {
    throw runtime::DataError(
        file.string() + ": expected lines of JSON objects with a number \"step\", got none" +
        (bad.empty() ? "" : "; line " + std::to_string(bad[0].line) + ": " + bad[0].reason) +
        "; wait for the first line of the run, or name another folder");
  }

  void note_bad_lines(const std::vector<BadLine>& bad) {
    int64_t damaged = without_step_;
    for (const BadLine& line : bad) {
      if (line.last)
        note("the last line is cut (the run was killed or is still writing) and left out");
      else
        ++damaged;
    }
    if (damaged == 0) return;
    note(std::to_string(damaged) + (damaged == 1 ? " damaged line is" : " damaged lines are") +
         " left out" +
         (bad.empty() ? ": no number \"step\""
                      : "; line " + std::to_string(bad[0].line) + ": " + bad[0].reason));
  }

  // Removes what follows a step, because it is made again.
  void forget_after(double step) {
    for (auto& [key, points] : metrics_.curves) {
      while (!points.empty() && points.back().x > step) points.pop_back();
    }
    std::erase_if(epoch_ends_, [&](const auto& end) { return end.second.step > step; });
    std::erase_if(line_ends_, [&](const End& end) { return end.step > step; });
    seconds_ = epoch_ends_.empty() ? 0 : epoch_ends_.rbegin()->second.seconds;
  }

  // The time from the line before, which a line gives as samples a second.
  void add_time(const Json& line, double step) {
    ++lines_;
    const double speed = number_of(line, "samples_per_second");
    const double steps = step - std::max(last_step_, 0.0);
    if (steps > 0) {
      if (speed > 0 && size_.batch > 0)
        seconds_ += steps * size_.batch / speed;
      else
        times_known_ = false;
    }
    line_ends_.push_back({step, seconds_});
    const double epoch = number_of(line, "epoch");
    if (epoch >= 0 && epoch < 1e9) epoch_ends_[static_cast<int64_t>(epoch)] = {step, seconds_};
  }

  void add(const std::string& key, const Json& value, double step) {
    if (!value.is_number() && !value.is_null()) return;
    if (!metrics_.curves.contains(key) && metrics_.curves.size() >= kMostCurves) {
      ++other_keys_;
      return;
    }
    std::vector<Point>& points = metrics_.curves[key];
    const double y = value.is_number() ? value.get<double>() : kUnknown;
    if (!std::isfinite(y)) {
      NotFinite& what = not_finite_[key];
      if (what.count++ == 0) what.first_step = static_cast<int64_t>(std::min(step, 9e18));
      return;
    }
    if (!points.empty() && points.back().x == step) points.pop_back();  // the line of a validation
    points.push_back({step, y, kUnknown, seconds_});
  }

  // A table that is no square of numbers is left out.
  void add_confusion(const Json& table, double step) {
    std::vector<std::vector<double>> rows;
    for (const Json& line : table) {
      if (!line.is_array() || line.size() != table.size()) return;
      rows.emplace_back();
      for (const Json& value : line) {
        if (!value.is_number()) return;
        rows.back().push_back(value.get<double>());
      }
    }
    metrics_.confusion = std::move(rows);
    metrics_.confusion_step = step;
  }

  // Epochs count from 1, but older programs have counted them from 0.
  int64_t first_epoch() const { return epoch_ends_.contains(0) ? 0 : 1; }

  // Without a known length, an epoch ends with a line; later epochs tell that the first one is
  // whole.
  double steps_per_epoch() const {
    if (size_.steps_per_epoch > 0) return size_.steps_per_epoch;
    if (epoch_ends_.size() < 2) return kUnknown;
    const auto first = epoch_ends_.begin(), second = std::next(first);
    if (first->first == first_epoch()) return first->second.step;
    return (second->second.step - first->second.step) /
           static_cast<double>(second->first - first->first);
  }

  // The time of training up to a step; between two lines all steps take equally long.
  double seconds_at(double step) const {
    const auto after =
        std::lower_bound(line_ends_.begin(), line_ends_.end(), step,
                         [](const End& end, double wanted) { return end.step < wanted; });
    if (after == line_ends_.end()) return seconds_;
    const End before = after == line_ends_.begin() ? End() : *std::prev(after);
    if (after->step <= before.step) return after->seconds;
    return before.seconds +
           (after->seconds - before.seconds) * (step - before.step) / (after->step - before.step);
  }

  void finish_epochs() {
    if (std::isnan(metrics_.seconds)) return;
    double before = 0;
    for (const auto& [epoch, last_line] : epoch_ends_) {
      const int64_t number = epoch - first_epoch();
      const double length = metrics_.steps_per_epoch;
      const double end = length > 0 ? length * static_cast<double>(number + 1) : last_line.step;
      const double after = seconds_at(end);
      metrics_.epochs.push_back({number, after - before, last_step_ >= end - 1e-9});
      before = after;
    }
  }

  void finish_points() {
    std::erase_if(metrics_.curves, [](const auto& curve) { return curve.second.empty(); });
    for (auto& [key, points] : metrics_.curves) {
      for (Point& point : points) {
        if (metrics_.steps_per_epoch > 0) point.epoch = point.x / metrics_.steps_per_epoch;
        if (std::isnan(metrics_.seconds)) point.seconds = kUnknown;
      }
    }
  }

  struct End {
    double step = 0, seconds = 0;
  };

  const RunSize size_;
  Metrics metrics_;
  std::map<std::string, NotFinite> not_finite_;
  std::map<int64_t, End> epoch_ends_;  // the last line of each epoch
  std::vector<End> line_ends_;         // of all lines, by step
  double last_step_ = -1, seconds_ = 0;
  bool times_known_ = true;
  int64_t lines_ = 0, without_step_ = 0, other_keys_ = 0;
};

}  // namespace

const std::vector<Point>& Metrics::curve(const std::string& key) const {
  static const std::vector<Point> none;
  const auto found = curves.find(key);
  return found == curves.end() ? none : found->second;
}

Metrics read_metrics(const std::filesystem::path& file, const RunSize& size) {
  Reader reader(size);
  const std::vector<BadLine> bad =
      read_json_lines(file, [&](const Json& line) { reader.take(line); });
  return reader.finish(file, bad);
}

}  // namespace tools::report
