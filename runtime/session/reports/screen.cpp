// Draws the progress bar, prints epochs, and writes JSON lines.
#include "runtime/session/reports/screen.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <ostream>

#include "runtime/error.h"
#include "runtime/output_error.h"
#include "runtime/session/reports/write_failure.h"
#include "runtime/terminal/text.h"
#include "runtime/train/formatted.h"

namespace runtime::session {

namespace {

using train::DeviceLoad;
using train::formatted;
using train::NamedValue;
using train::rate_text;

using Clock = std::chrono::steady_clock;

constexpr auto kRedrawInterval = std::chrono::milliseconds(100);
constexpr int kBarWidth = 24, kLeastBarWidth = 6;

std::string duration_text(double seconds) {
  const int64_t s = std::lround(seconds);
  char text[32];
  if (s >= 3600) {
    std::snprintf(text, sizeof(text), "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
  } else {
    std::snprintf(text, sizeof(text), "%ld:%02ld", s / 60, s % 60);
  }
  return text;
}

// "  device 87%, 212 W", with those numbers that are known.
std::string load_text(const DeviceLoad& load) {
  std::string text;
  if (load.utilisation) text = std::to_string(*load.utilisation) + "%";
  if (load.power_watts)
    text += (text.empty() ? "" : ", ") + std::to_string(std::lround(*load.power_watts)) + " W";
  return text.empty() ? "" : "  device " + text;
}

constexpr const char* kProgress = "the progress of training (standard output)";

std::string speed_text(const Metrics& m) {
  const std::string mfu = m.mfu ? formatted("  MFU %.1f%%", *m.mfu * 100) : "";
  if (m.tokens_per_second) return rate_text(*m.tokens_per_second) + " tokens/s" + mfu;
  return rate_text(m.samples_per_second) + " samples/s" + mfu;
}

// The first metrics of a validation; a line has no place for more.
constexpr size_t kShownMetrics = 4;

std::string validation_text(const Metrics& m) {
  if (!m.validation_loss) return "";
  std::string text = formatted("  validation loss %.4f", *m.validation_loss);
  if (m.validation_accuracy) text += formatted("  accuracy %.4f", *m.validation_accuracy);
  for (size_t i = 0; i < std::min(kShownMetrics, m.validation.numbers.size()); ++i) {
    const NamedValue& number = m.validation.numbers[i];
    text += formatted("  %s %.4f", number.name.c_str(), number.value);
  }
  return text;
}

// "epoch 1/10  step 235  loss 0.6730  validation loss 0.7119  accuracy 0.7199  3731 samples/s".
std::string line_text(const Metrics& m, int64_t epochs) {
  std::string text =
      formatted("epoch %ld/%ld  step %ld  loss %.4f", m.epoch + 1, epochs, m.step, m.loss);
  text += validation_text(m) + "  " + speed_text(m);
  if (m.epoch_seconds) text += formatted("  %.1f s", *m.epoch_seconds);
  return text;
}

// A person sees a validation in the middle of an epoch, or of one that the run has gone on in, ...
bool is_shown_line(const Metrics& m) { return m.validation_loss && !m.epoch_seconds; }
// ... and every other epoch at its end, with the mean loss and the rate of the epoch.
bool is_shown_epoch(const Metrics& m) { return !m.validation_loss || m.epoch_seconds; }

// A reporter on a stream that may fail.
class Printed : public Reporter {
 public:
  Printed(std::ostream& out, std::ostream& warnings) : out_(out), failure_(kProgress, warnings) {}
  void finish() override { failure_.throw_if_any<OutputError>(); }

 protected:
  void print(const std::string& text) {
    out_ << text << std::endl;
    failure_.look(out_);
  }

  std::ostream& out_;
  WriteFailure failure_;
};

// Notes, and a line for each validation and each epoch.
class EpochLines : public Printed {
 public:
  EpochLines(std::ostream& out, std::ostream& warnings, int64_t epochs)
      : Printed(out, warnings), epochs_(epochs) {}
  void note(const std::string& text) override { print(text); }
  void line(const Metrics& m) override {
    if (is_shown_line(m)) note(line_text(m, epochs_));
  }
  void epoch(const Metrics& m) override {
    if (is_shown_epoch(m)) note(line_text(m, epochs_));
  }

 protected:
  const int64_t epochs_;
};

// Draws the bar below them. Lines during an epoch are not kept on the screen, but for validations.
class ProgressBar : public EpochLines {
 public:
  ProgressBar(std::ostream& out, std::ostream& warnings, int64_t epochs, int64_t total_steps,
              TerminalStyle style)
      : EpochLines(out, warnings, epochs), total_steps_(total_steps), style_(std::move(style)) {}

  ~ProgressBar() override { clear(); }

  void note(const std::string& text) override {
    clear();
    const bool marked = style_.colour && text.starts_with("warning");
    print((marked ? "\x1b[33m" : "") + fitted(text) + (marked ? "\x1b[0m" : ""));
  }

  void step(const Metrics& m, int64_t step_in_epoch, int64_t steps_per_epoch) override {
    const Clock::time_point now = Clock::now();
    if (now - last_ < kRedrawInterval) return;
    last_ = now;
    if (first_step_ < 0) first_step_ = m.step - 1;
    const std::chrono::duration<double> elapsed = now - begin_;
    const double remaining = elapsed.count() /
                             static_cast<double>(std::max<int64_t>(m.step - first_step_, 1)) *
                             static_cast<double>(total_steps_ - m.step);
    // The run may end within the epoch.
    const int64_t steps = std::min(steps_per_epoch, total_steps_ - (m.step - step_in_epoch));
    draw(formatted("epoch %ld/%ld ", m.epoch + 1, epochs_), step_in_epoch, steps,
         formatted(" %ld/%ld  loss %.4f  ", step_in_epoch, steps, m.loss) + speed_text(m) +
             load_text(m.device) + "  ETA " + duration_text(remaining));
  }

  void validation(const Metrics& m, int64_t batch, int64_t batches) override {
    const Clock::time_point now = Clock::now();
    if (batch > 0 && now - last_ < kRedrawInterval) return;
    last_ = now;
    draw(formatted("epoch %ld/%ld ", m.epoch + 1, epochs_), batch, batches,
         formatted(" validation, batch %ld/%ld  training loss %.4f", batch + 1, batches, m.loss));
  }

 private:
  int columns() const { return style_.columns ? style_.columns() : 0; }
  std::string fitted(const std::string& text) const { return terminal::folded(text, columns()); }

  // The bar is as wide as the terminal leaves room for. A text that is wider than the terminal
  // would begin a new line, which cannot be drawn over, so it is cut.
  void draw(const std::string& before, int64_t done, int64_t all, std::string behind) {
    const int columns = this->columns();
    const int text = static_cast<int>(before.size() + behind.size());
    const int room = columns > 0 ? columns - 1 - text - 2 : kBarWidth;
    const int width = room < kLeastBarWidth ? 0 : std::min(room, kBarWidth);
    out_ << '\r' << before;
    if (width > 0) draw_bar(width, static_cast<int>(width * done / std::max<int64_t>(all, 1)));
    if (columns > 0 && width == 0) {
      const auto left = std::max(columns - 1 - static_cast<int>(before.size()), 0);
      behind.resize(std::min(behind.size(), static_cast<size_t>(left)));
    }
    out_ << behind << "\x1b[K" << std::flush;
    failure_.look(out_);
    drawn_ = true;
  }

  void draw_bar(int width, int filled) {
    out_ << (style_.colour ? "[\x1b[32m" : "[") << std::string(filled, '=')
         << std::string(width - filled, ' ') << (style_.colour ? "\x1b[0m]" : "]");
  }

  void clear() {
    if (drawn_) out_ << "\r\x1b[K" << std::flush;
    drawn_ = false;
  }

  int64_t total_steps_, first_step_ = -1;
  const TerminalStyle style_;
  Clock::time_point begin_ = Clock::now(), last_{};
  bool drawn_ = false;
};

class Silence : public Reporter {
 public:
  explicit Silence(std::ostream& warnings) : warnings_(warnings) {}
  void note(const std::string& text) override {
    if (text.starts_with("warning")) warnings_ << text << std::endl;
  }
  void line(const Metrics&) override {}

 private:
  std::ostream& warnings_;
};

class JsonLines : public Printed {
 public:
  JsonLines(std::ostream& out, std::ostream& notes) : Printed(out, notes), notes_(notes) {}
  void note(const std::string& text) override { notes_ << text << std::endl; }
  void line(const Metrics& metrics) override { print(to_json(metrics)); }

 private:
  std::ostream& notes_;
};

class Tee : public Reporter {
 public:
  explicit Tee(std::vector<std::unique_ptr<Reporter>> reporters)
      : reporters_(std::move(reporters)) {}
  void note(const std::string& text) override {
    for (auto& r : reporters_) r->note(text);
  }
  void step(const Metrics& m, int64_t step, int64_t steps) override {
    for (auto& r : reporters_) r->step(m, step, steps);
  }
  void validation(const Metrics& m, int64_t batch, int64_t batches) override {
    for (auto& r : reporters_) r->validation(m, batch, batches);
  }
  void line(const Metrics& m) override {
    for (auto& r : reporters_) r->line(m);
  }
  void epoch(const Metrics& m) override {
    for (auto& r : reporters_) r->epoch(m);
  }
  // Finishes all reporters, though one fails; throws the error of the first that failed.
  void finish() override {
    std::exception_ptr first;
    for (auto& r : reporters_) {
      try {
        r->finish();
      } catch (const DataError&) {
        if (!first) first = std::current_exception();
      }
    }
    if (first) std::rethrow_exception(first);
  }

 private:
  std::vector<std::unique_ptr<Reporter>> reporters_;
};

}  // namespace

std::string to_json(const Metrics& m) {
  nlohmann::ordered_json j;
  j["step"] = m.step;
  j["epoch"] = m.epoch + 1;
  j["loss"] = m.loss;
  j["lr"] = m.lr;
  j["samples_per_second"] = m.samples_per_second;
  if (m.validation_loss) j["validation_loss"] = *m.validation_loss;
  if (m.validation_accuracy) j["validation_accuracy"] = *m.validation_accuracy;
  for (const NamedValue& number : m.validation.numbers)
    j["validation_" + number.name] = number.value;
  if (!m.validation.confusion.empty()) j["validation_confusion"] = m.validation.confusion;
  if (m.tokens_per_second) j["tokens_per_second"] = *m.tokens_per_second;
  if (m.mfu) j["mfu"] = *m.mfu;
  if (m.epoch_seconds) j["epoch_seconds"] = *m.epoch_seconds;
  if (m.device.utilisation) j["device_utilisation"] = *m.device.utilisation;
  if (m.device.memory_bytes) j["device_memory_bytes"] = *m.device.memory_bytes;
  if (m.device.power_watts) j["device_power_watts"] = *m.device.power_watts;
  if (m.loss_scale) {
    j["loss_scale"] = *m.loss_scale;
    j["skipped_steps"] = m.skipped_steps;
  }
  return j.dump();
}

std::unique_ptr<Reporter> make_progress_bar(std::ostream& out, std::ostream& warnings,
                                            int64_t epochs, int64_t total_steps,
                                            TerminalStyle style) {
  return std::make_unique<ProgressBar>(out, warnings, epochs, total_steps, std::move(style));
}

std::unique_ptr<Reporter> make_epoch_lines(std::ostream& out, std::ostream& warnings,
                                           int64_t epochs) {
  return std::make_unique<EpochLines>(out, warnings, epochs);
}

std::unique_ptr<Reporter> make_silence(std::ostream& warnings) {
  return std::make_unique<Silence>(warnings);
}

std::unique_ptr<Reporter> make_json_lines(std::ostream& out, std::ostream& notes) {
  return std::make_unique<JsonLines>(out, notes);
}

std::unique_ptr<Reporter> make_tee(std::vector<std::unique_ptr<Reporter>> reporters) {
  return std::make_unique<Tee>(std::move(reporters));
}

}  // namespace runtime::session
