// Prints the profile as a table that fits the terminal, and writes profile.json and trace.json.
#include "runtime/session/profile.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/analysis/profile.h"
#include "runtime/analysis/roofline.h"
#include "runtime/analysis/trace.h"
#include "runtime/system/atomic_file.h"
#include "runtime/system/available_memory.h"
#include "runtime/terminal/table.h"
#include "runtime/terminal/terminal.h"

namespace runtime::session {

namespace {

using analysis::OperationProfile;
using analysis::RankProfile;
using system::mib;

// The most operations, values and other ranks that are printed; the files have all of them.
constexpr size_t kOperations = 12, kValues = 4, kRanks = 8;

// Names are short, so that a row fits most terminals.
std::string short_phase(const std::string& phase) {
  if (phase == "forward") return "fwd";
  if (phase == "backward") return "bwd";
  return phase == "update" ? "upd" : phase;
}

std::string share_text(double ns, double step_ns) {
  return fmt::format("{:.1f}%", step_ns > 0 ? 100 * ns / step_ns : 0);
}

void add_row(terminal::Table& table, const std::string& what, double ns, double step_ns) {
  table.add_wide(what, {fmt::format("{:.3f}", ns / 1e6), share_text(ns, step_ns), "", "", ""});
}

void add_row(terminal::Table& table, const OperationProfile& o, double step_ns) {
  const auto rate = [&](double amount) {
    return amount > 0 && o.ns > 0 ? fmt::format("{:.1f}", amount / o.ns) : std::string("-");
  };
  table.add({o.layer, o.name, short_phase(o.phase), o.implementation,
             fmt::format("{:.1f}", o.calls), fmt::format("{:.3f}", o.ns / 1e6),
             share_text(o.ns, step_ns), rate(o.flops), rate(o.bytes),
             o.roofline_share ? fmt::format("{:.0f}%", 100 * *o.roofline_share) : "-"});
}

// The rows below the operations, and what is left of the step.
void add_other_rows(terminal::Table& table, const RankProfile& p, double operations_ns,
                    bool is_inline) {
  double left = p.step_ns - operations_ns;
  // On a device with queues the host does this while the device computes.
  if (is_inline) {
    for (const auto& [name, ns] :
         {std::pair{"waiting for data", p.data_wait_ns},
          {"finding or making the programs", p.prepare_ns},
          {"upload of the batch", p.upload_ns},
          {"results and reports", p.report_ns},
          {"asynchronous updates: copies, and waiting for parameters", p.exchange_ns},
          {"between steps (validation, checkpoint, agreeing to go on)", p.between_ns}}) {
      if (ns > 0) add_row(table, name, ns, p.step_ns);
      left -= ns;
    }
  }
  add_row(table, is_inline ? "between these" : "idle", left, p.step_ns);
  add_row(table, "step", p.step_ns, p.step_ns);
}

terminal::Table table_of(const RankProfile& p, bool is_inline) {
  using Kind = terminal::Column::Kind;
  terminal::Table table({{"layer", Kind::kText, 0, terminal::Keep::kEnd},
                         {"operation"},
                         {"phase", Kind::kText, 5},
                         {"implementation", Kind::kText, 4, terminal::Keep::kEnd},
                         {"calls", Kind::kNumber, 1},
                         {"ms", Kind::kNumber},
                         {"share", Kind::kNumber},
                         {"GFLOP/s", Kind::kNumber, 3},
                         {"GB/s", Kind::kNumber, 2},
                         {"roof", Kind::kNumber, 6}});
  double all = 0, rest = 0;
  for (size_t i = 0; i < p.operations.size(); ++i) {
    all += p.operations[i].ns;
    if (i < kOperations)
      add_row(table, p.operations[i], p.step_ns);
    else
      rest += p.operations[i].ns;
  }
  if (p.operations.size() > kOperations)
    add_row(table, fmt::format("{} more operations", p.operations.size() - kOperations), rest,
            p.step_ns);
  add_other_rows(table, p, all, is_inline);
  return table;
}

std::string memory_line(const RankProfile& p) {
  std::string values;
  for (size_t i = 0; i < std::min(kValues, p.memory.alive_at_peak.size()); ++i) {
    const analysis::NamedBytes& value = p.memory.alive_at_peak[i];
    values += (i == 0 ? "" : ", ") + value.name + " " + mib(value.bytes);
  }
  return fmt::format("memory at the peak: {}, of which {} stay; the largest of {} values: {}",
                     mib(p.memory.peak), mib(p.memory.persistent), p.memory.alive_at_peak.size(),
                     values);
}

std::string summary(const RankProfile& p) {
  std::string phases;
  for (const char* name : {"forward", "backward", "update", "pack"}) {
    if (const auto phase = p.phases.find(name); phase != p.phases.end())
      phases +=
          fmt::format("{}{} {:.3f} ms", phases.empty() ? "" : ", ", name, phase->second / 1e6);
  }
  std::string text = phases + fmt::format("; {:.2f} cores busy", p.cpu_utilisation);
  if (p.device_utilisation)
    text += fmt::format(", device busy for {:.0f}% of the time", 100 * *p.device_utilisation);
  if (p.communication.bytes > 0 || p.communication.exposed_ns > 0)
    text += fmt::format("\ncommunication: {:.3f} ms exposed, {:.3f} ms hidden, {} sent",
                        p.communication.exposed_ns / 1e6, p.communication.hidden_ns / 1e6,
                        mib(static_cast<uint64_t>(p.communication.bytes)));
  text += "\n" + memory_line(p);
  if (p.limits)
    text += fmt::format(
        "\nroofline: {:.1f} GFLOP/s; {:.1f} GB/s for small operands, {:.1f} for large",
        p.limits->flops_per_second / 1e9, p.limits->bandwidths.front().bytes_per_second / 1e9,
        p.limits->bandwidths.back().bytes_per_second / 1e9);
  return text;
}

std::string other_ranks(const std::vector<std::string>& ranks, const launch::Rank& own) {
  std::string text;
  for (size_t r = 1; r < std::min(ranks.size(), kRanks); ++r) {
    const auto j = nlohmann::json::parse(ranks[r]);
    text += fmt::format(
        "\n{}: {:.3f} ms a step: {:.3f} exposed communication, {:.3f} waiting for data, "
        "{:.3f} "
        "between steps; clock +-{:.0f} us",
        own.collectives->watchdog().options().names.of(static_cast<int>(r)),
        j["step_ns"].get<double>() / 1e6, j["communication"]["exposed_ns"].get<double>() / 1e6,
        j["data_wait_ns"].get<double>() / 1e6, j["between_ns"].get<double>() / 1e6,
        j["clock"]["error_ns"].get<double>() / 1e3);
  }
  return text;
}

std::string profile_file(const std::vector<std::string>& ranks) {
  std::string text =
      "{\"format\": 1, \"world_size\": " + std::to_string(ranks.size()) + ", \"ranks\": [\n";
  for (size_t r = 0; r < ranks.size(); ++r) text += (r == 0 ? "" : ",\n") + ranks[r];
  return text + "\n]}\n";
}

// Notes are on the standard output if that is a terminal.
int columns_of_notes() {
  return terminal::columns(isatty(STDOUT_FILENO) != 0 ? STDOUT_FILENO : STDERR_FILENO);
}

// The operation types of the arithmetic that a step has most of.
rt_dtype arithmetic_type(const step::Precision& precision) {
  return precision.activations != 0 ? precision.activations : precision.parameters;
}

}  // namespace

void report_profile(const Session& s, const train::RunResult& result, train::Reporter& reporter) {
  const config::Profiling& profiling = s.config.profiling;
  if (!profiling.enabled) return;
  train::StepPrograms& programs = *s.programs;
  // In asynchronous training a rank may have made more steps than another one.
  if (programs.setup().maximum({result.recording.steps() == 0 ? 1.0 : 0.0})[0] != 0) {
    return reporter.note("profiling: a rank made fewer than " +
                         std::to_string(profiling.wait + profiling.warmup + 1) +
                         " steps, so that none was recorded; lower profiling.wait or warmup");
  }
  std::optional<analysis::Roofline> limits;
  if (result.signal == 0) {         // whoever stops a run does not wait for measurements
    programs.setup().maximum({0});  // so that ranks that share a processor measure together
    limits = analysis::measure_roofline(profiling, s.device,
                                        arithmetic_type(programs.setup().strategy.precision));
  }
  const RankProfile profile =
      analysis::make_profile(result.recording, programs, s.rank.place.rank, limits);
  const auto first = static_cast<double>(analysis::first_ns(result.recording));
  const auto origin = static_cast<int64_t>(-programs.setup().maximum({-first})[0]);
  const std::vector<std::string> ranks = s.rank.gather_texts(analysis::to_json(profile));
  const std::vector<std::string> events = s.rank.gather_texts(
      analysis::trace_events(result.recording, programs, s.rank.place.rank, origin));
  s.rank.on_main("writing the profile", [&] {
    system::write_file(s.rank.run_folder + "/profile.json", profile_file(ranks));
    system::write_file(s.rank.run_folder + "/trace.json", analysis::trace_file(events));
    const int columns = columns_of_notes();
    reporter.note(
        fmt::format("profile of rank 0, {} steps ({} to {}), for one step:\n", profile.steps,
                    profile.first_step, profile.last_step) +
        table_of(profile, s.device->is_inline()).text(columns) +
        terminal::folded(summary(profile) + other_ranks(ranks, s.rank) + "\nprofile: " +
                             s.rank.run_folder + "/profile.json, trace: " + s.rank.run_folder +
                             "/trace.json (open it in https://ui.perfetto.dev or chrome://tracing)",
                         columns));
  });
}

}  // namespace runtime::session
