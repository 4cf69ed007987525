// A table of numbers with their descriptions, written as JSON and for Prometheus.
#include "runtime/session/reports/rank_numbers.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

namespace runtime::session {

namespace {

using train::Metrics;
using train::NamedValue;

struct RankNumber {
  const char* name;  // in JSON; for Prometheus "runtime_" stands before it
  const char* help;
  std::optional<double> (*of)(const Metrics&);
  bool counts = false;  // it only grows
};

template <class T>
std::optional<double> number(const std::optional<T>& value) {
  return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
}

// One part of the cost of a step.
template <double train::RankCost::*Part>
std::optional<double> cost(const Metrics& m) {
  return m.cost ? std::optional(*m.cost.*Part) : std::nullopt;
}

const RankNumber kRankNumbers[] = {
    {"steps", "Steps of training done.", [](const Metrics& m) { return number<int64_t>(m.step); },
     true},
    {"epoch", "The epoch, from 1.", [](const Metrics& m) { return number<int64_t>(m.epoch + 1); }},
    {"step_seconds", "Mean time of a step, waiting included.", cost<&train::RankCost::step>},
    {"waiting_seconds", "Part of a step in which the rank waits for other ranks.",
     cost<&train::RankCost::waiting>},
    {"data_seconds", "Part of a step in which the rank waits for its samples.",
     cost<&train::RankCost::data>},
    {"allocated_bytes", "Memory that the rank has from its device.",
     [](const Metrics& m) { return number<uint64_t>(m.device.allocated_bytes); }},
    {"device_memory_bytes", "Memory of the device in use, by all its users.",
     [](const Metrics& m) { return number(m.device.memory_bytes); }},
    {"device_utilisation", "Percent of the time in which the device computes.",
     [](const Metrics& m) { return number(m.device.utilisation); }},
    {"device_power_watts", "Power that the device draws.",
     [](const Metrics& m) { return m.device.power_watts; }},
    {"loss", "Mean loss of the steps since the line before, over all ranks.",
     [](const Metrics& m) { return number<double>(m.loss); }},
    {"lr", "Learning rate.", [](const Metrics& m) { return number<double>(m.lr); }},
    {"samples_per_second", "Samples a second of all ranks.",
     [](const Metrics& m) { return number<double>(m.samples_per_second); }},
    {"tokens_per_second", "Tokens a second of all ranks.",
     [](const Metrics& m) { return m.tokens_per_second; }},
    {"mfu", "Model FLOPs utilisation, from 0 to 1.", [](const Metrics& m) { return m.mfu; }},
    {"loss_scale", "Scale of the loss with float16.",
     [](const Metrics& m) { return m.loss_scale; }},
    {"skipped_steps", "Steps skipped because of their gradients with float16.",
     [](const Metrics& m) {
       return m.loss_scale ? number<int64_t>(m.skipped_steps) : std::nullopt;
     },
     true},
    {"epoch_seconds", "Time of the last epoch, its validation included.",
     [](const Metrics& m) { return m.epoch_seconds; }},
    {"validation_loss", "Loss of the last validation.",
     [](const Metrics& m) { return m.validation_loss; }},
    {"validation_accuracy", "Accuracy of the last validation.",
     [](const Metrics& m) { return m.validation_accuracy; }},
};

// The text of a label between its quotes.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

// Whole numbers have no ".0"; a number that is not finite becomes null.
nlohmann::json number_json(double value) {
  constexpr double kExact = 1LL << 53;
  if (std::abs(value) < kExact && value == std::floor(value)) return static_cast<int64_t>(value);
  return value;
}

std::string prometheus_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return number_json(value).dump();  // the shortest text that reads back as the same number
}

}  // namespace

std::string rank_json(const RankName& name, double time, const Metrics& metrics) {
  nlohmann::ordered_json j;
  j["time"] = time;
  j["rank"] = name.rank;
  if (!name.host.empty()) j["host"] = name.host;
  for (const RankNumber& row : kRankNumbers)
    if (const std::optional<double> value = row.of(metrics)) j[row.name] = number_json(*value);
  return j.dump();
}

RankPage::RankPage(const RankName& name)
    : labels_("{run=\"" + escaped(name.run) + "\",rank=\"" + std::to_string(name.rank) +
              "\",host=\"" + escaped(name.host) + "\"}") {}

void RankPage::add(const Metrics& metrics) {
  for (const RankNumber& row : kRankNumbers) {
    if (const std::optional<double> value = row.of(metrics))
      numbers_.insert_or_assign(row.name, Number{row.help, row.counts, *value});
  }
  for (const NamedValue& metric : metrics.validation.numbers)
    numbers_.insert_or_assign("validation_" + metric.name,
                              Number{"Of the last validation.", false, metric.value});
}

std::string RankPage::text() const {
  std::string page;
  for (const auto& [name, number] : numbers_) {
    const std::string full = "runtime_" + name + (number.counts ? "_total" : "");
    page += "# HELP " + full + " " + number.help + "\n# TYPE " + full +
            (number.counts ? " counter\n" : " gauge\n") + full + labels_ + " " +
            prometheus_text(number.value) + "\n";
  }
  return page;
}

}  // namespace runtime::session
