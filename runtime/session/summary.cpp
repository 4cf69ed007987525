// Words the last lines of a run: best and last validation, time, speed and energy.
#include "runtime/session/summary.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "runtime/train/formatted.h"

namespace runtime::session {

namespace {

using train::formatted;
using train::rate_text;

std::string spent_text(double seconds) {
  if (seconds < 1) return formatted("%.0f ms", seconds * 1e3);
  if (seconds < 60) return formatted("%.1f s", seconds);
  const long whole = std::lround(seconds);
  if (whole < 3600) return formatted("%ld min %ld s", whole / 60, whole % 60);
  return formatted("%ld h %ld min", whole / 3600, whole / 60 % 60);
}

// One watt-hour is 3600 joules.
std::string energy_text(double joules) {
  return joules < 3600 ? formatted("%.0f J", joules) : formatted("%.1f Wh", joules / 3600);
}

std::string time_line(const RunResult& r) {
  std::string text = "time: " + spent_text(r.seconds);
  if (r.epochs > 0) text += " (" + spent_text(r.epoch_seconds) + " an epoch)";
  if (r.cost.steps > 0) text += formatted(", %.3f ms a step", r.cost.seconds * 1e3);
  if (r.tokens_per_second) text += ", " + rate_text(*r.tokens_per_second) + " tokens/s";
  if (r.mfu) text += formatted(", MFU %.1f%%", *r.mfu * 100);
  if (r.joules) text += ", about " + energy_text(*r.joules) + " of the device";
  return text;
}

// Numbers that the line has already are left out.
std::string best_line(const RunResult& r, const std::string& monitor) {
  if (!r.best) return "";
  std::string text = formatted("best validation %s: %.4f", monitor.c_str(), r.best->value);
  if (r.best->loss && *r.best->loss != r.best->value)
    text += formatted(", loss %.4f", *r.best->loss);
  if (r.best->accuracy && *r.best->accuracy != r.best->value)
    text += formatted(", accuracy %.4f", *r.best->accuracy);
  text += formatted(", after step %ld", r.best->step);
  if (r.best_after > 0) text += formatted(" (of those after step %ld)", r.best_after);
  return text + "\n";
}

// The last validation, unless it is the best.
std::string last_line(const RunResult& r) {
  if (!r.validation || (r.best && r.best->step == r.validated)) return "";
  std::string text = formatted("last validation loss: %.4f", r.validation->loss);
  if (r.validation_accuracy) text += formatted(", accuracy %.4f", *r.validation_accuracy);
  return text + formatted(", after step %ld\n", r.validated);
}

std::string files_line(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
    names.push_back(entry.path().filename().string() + (entry.is_directory(ignored) ? "/" : ""));
  std::sort(names.begin(), names.end());
  std::string text = "files in " + folder.string() + ":";
  for (const std::string& name : names) {
    if (!name.starts_with('.')) text += " " + name;
  }
  return text;
}

}  // namespace

std::string unfinished_epoch(const RunResult& r) {
  if (!r.unfinished_loss) return "";
  return formatted("training loss: %.4f, the mean of steps %ld to %ld of an unfinished epoch\n",
                   *r.unfinished_loss, r.unfinished_after + 1, r.steps);
}

std::string summary(const RunResult& r, const std::string& monitor,
                    const std::filesystem::path& folder) {
  std::string text = unfinished_epoch(r);
  text += best_line(r, monitor) + last_line(r);
  return text + time_line(r) + "\n" + files_line(folder);
}

}  // namespace runtime::session
