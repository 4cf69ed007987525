#include "runtime/train/reporter.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <ostream>

#include "runtime/error.h"
#include "runtime/train/write_failure.h"

namespace runtime::train {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kRedrawInterval = std::chrono::milliseconds(100);
constexpr int kBarWidth = 24;

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

class ProgressBar : public Reporter {
 public:
  ProgressBar(std::ostream& out, std::ostream& warnings, int64_t epochs, int64_t total_steps)
      : out_(out), failure_(kProgress, warnings), epochs_(epochs), total_steps_(total_steps) {}

  ~ProgressBar() override { clear(); }

  void note(const std::string& text) override {
    clear();
    out_ << text << std::endl;
    failure_.look(out_);
  }

  void finish() override { failure_.throw_if_any(); }

  void step(const Metrics& m, int64_t step_in_epoch, int64_t steps_per_epoch) override {
    const Clock::time_point now = Clock::now();
    if (now - last_ < kRedrawInterval) return;
    last_ = now;
    const auto filled =
        static_cast<int>(kBarWidth * step_in_epoch / std::max<int64_t>(steps_per_epoch, 1));
    const std::chrono::duration<double> elapsed = now - begin_;
    const double remaining = elapsed.count() / static_cast<double>(std::max<int64_t>(m.step, 1)) *
                             static_cast<double>(total_steps_ - m.step);
    char text[256];
    std::snprintf(
        text, sizeof(text), "epoch %ld/%ld [%s%s] %ld/%ld  loss %.4f  %.0f samples/s%s  ETA %s",
        m.epoch + 1, epochs_, std::string(filled, '=').c_str(),
        std::string(kBarWidth - filled, ' ').c_str(), step_in_epoch, steps_per_epoch, m.loss,
        m.samples_per_second, load_text(m.device).c_str(), duration_text(remaining).c_str());
    out_ << '\r' << text << "\x1b[K" << std::flush;
    failure_.look(out_);
    drawn_ = true;
  }

  // Lines during an epoch are not kept on the screen.
  void line(const Metrics& m) override {
    if (!m.validation_loss) return;
    clear();
    char text[256];
    std::snprintf(text, sizeof(text), "epoch %ld/%ld  step %ld  loss %.4f  validation loss %.4f",
                  m.epoch + 1, epochs_, m.step, m.loss, *m.validation_loss);
    out_ << text;
    if (m.validation_accuracy) {
      std::snprintf(text, sizeof(text), "  accuracy %.4f", *m.validation_accuracy);
      out_ << text;
    }
    std::snprintf(text, sizeof(text), "  %.0f samples/s", m.samples_per_second);
    out_ << text << std::endl;
    failure_.look(out_);
  }

 private:
  void clear() {
    if (drawn_) out_ << "\r\x1b[K" << std::flush;
    drawn_ = false;
  }

  std::ostream& out_;
  WriteFailure failure_;
  int64_t epochs_, total_steps_;
  Clock::time_point begin_ = Clock::now(), last_{};
  bool drawn_ = false;
};

class JsonLines : public Reporter {
 public:
  JsonLines(std::ostream& out, std::ostream& notes)
      : out_(out), notes_(notes), failure_(kProgress, notes) {}
  void note(const std::string& text) override { notes_ << text << std::endl; }
  void step(const Metrics&, int64_t, int64_t) override {}
  void line(const Metrics& metrics) override {
    out_ << to_json(metrics) << std::endl;
    failure_.look(out_);
  }
  void finish() override { failure_.throw_if_any(); }

 private:
  std::ostream& out_;
  std::ostream& notes_;
  WriteFailure failure_;
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
  void line(const Metrics& m) override {
    for (auto& r : reporters_) r->line(m);
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
  j["epoch"] = m.epoch;
  j["loss"] = m.loss;
  j["lr"] = m.lr;
  j["samples_per_second"] = m.samples_per_second;
  if (m.validation_loss) j["validation_loss"] = *m.validation_loss;
  if (m.validation_accuracy) j["validation_accuracy"] = *m.validation_accuracy;
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
                                            int64_t epochs, int64_t total_steps) {
  return std::make_unique<ProgressBar>(out, warnings, epochs, total_steps);
}

std::unique_ptr<Reporter> make_json_lines(std::ostream& out, std::ostream& notes) {
  return std::make_unique<JsonLines>(out, notes);
}

std::unique_ptr<Reporter> make_tee(std::vector<std::unique_ptr<Reporter>> reporters) {
  return std::make_unique<Tee>(std::move(reporters));
}

}  // namespace runtime::train
