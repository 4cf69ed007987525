// Reads scaling and bench results into pairs of predicted and measured numbers.
#include "tools/report/read_bench.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/error.h"
#include "tools/plot/units.h"
#include "tools/report/json_input.h"

namespace tools::report {

namespace {

using Kind = Comparison::Kind;

// Adds a pair of which both are known, unless there is nothing of it: an axis of one rank.
void add(std::vector<Comparison>& list, const std::string& what, Kind kind, double predicted,
         double measured) {
  if (std::isfinite(predicted) && std::isfinite(measured) && (predicted != 0 || measured != 0))
    list.push_back({what, kind, predicted, measured});
}

std::string mesh_of(const Fields& f) {
  const std::optional<Fields> mesh = f.object("mesh");
  if (!mesh) return "";
  std::string text;
  for (const char* axis : {"data", "tensor", "pipeline"}) {
    text += (text.empty() ? "" : " x ") + to_text(mesh->number(axis), plot::Unit::kCount);
  }
  return text;
}

void add_memory(const Fields& f, std::vector<Comparison>& list) {
  for (const Fields& rank : f.list("memory")) {
    add(list, "memory of rank " + to_text(rank.required_number("rank"), plot::Unit::kCount),
        Kind::kBytes, rank.number("planned_bytes"), rank.number("allocated_bytes"));
  }
}

// The axes whose waiting was predicted.
void add_exposed(const Fields& f, std::vector<Comparison>& list) {
  const std::optional<Fields> predicted = f.object("predicted_exposed_t_sync_ms_by_axis");
  const std::optional<Fields> measured = f.object("exposed_t_sync_ms_by_axis");
  if (!predicted || !measured) return;
  for (const auto& [axis, value] : predicted->json().items()) {
    add(list, "waiting for collectives, axis " + axis, Kind::kSeconds,
        predicted->number(axis) * 1e-3, measured->number(axis) * 1e-3);
  }
}

// scaling.json, and the object "scaling" of bench --json.
void add_scaling(const Fields& f, std::vector<Comparison>& list) {
  add(list, "step", Kind::kSeconds, f.number("predicted_step_ms") * 1e-3,
      f.number("step_ms") * 1e-3);
  add(list, "computing", Kind::kSeconds, f.number("predicted_t_comp_ms") * 1e-3,
      f.number("t_comp_ms") * 1e-3);
  add_exposed(f, list);
  add(list, "bubble", Kind::kFraction, f.number("predicted_bubble"), f.number("bubble"));
  add(list, "efficiency", Kind::kFraction, f.number("predicted_efficiency"),
      f.number("efficiency"));
  add_memory(f, list);
}

ScalingRow read_row(const Fields& f) {
  ScalingRow row{f.required_number("ranks"),
                 f.number("global_batch_size"),
                 f.required_number("step_ms"),
                 f.number("samples_per_second"),
                 f.number("speed_up"),
                 f.number("efficiency"),
                 f.number("predicted_efficiency"),
                 f.number("t_comp_ms"),
                 f.number("t_sync_ms"),
                 f.number("exposed_t_sync_ms"),
                 f.number("bubble"),
                 mesh_of(f),
                 std::nullopt};
  if (!f.has("pays")) return row;
  const Json& pays = f.json().at("pays");
  if (!pays.is_boolean()) f.fail("pays", "expected true or false");
  row.pays = pays.get<bool>();
  return row;
}

void read_rows(const Fields& f, Bench& bench) {
  bench.mode = f.text("mode");
  for (const Fields& run : f.list("runs")) {
    bench.rows.push_back(read_row(run));
    const std::string ranks = to_text(bench.rows.back().ranks, plot::Unit::kCount) + " ranks";
    add(bench.comparisons, "step, " + ranks, Kind::kSeconds, run.number("predicted_step_ms") * 1e-3,
        run.number("step_ms") * 1e-3);
    if (bench.rows.back().ranks == 1) continue;  // to which the others are compared
    add(bench.comparisons, "efficiency, " + ranks, Kind::kFraction,
        run.number("predicted_efficiency"), run.number("efficiency"));
  }
  if (bench.rows.empty()) f.fail("runs", "expected at least one run, got none");
}

std::string source_of(const Fields& f, const std::filesystem::path& file) {
  std::string text = file.filename().string();
  if (f.has("config")) text += ": " + f.text("config");
  if (f.has("device")) text += " on " + f.text("device");
  if (f.has("backend")) text += " over " + f.text("backend");
  if (f.has("ranks") && f.json().at("ranks").is_number())
    text += ", " + to_text(f.number("ranks"), plot::Unit::kCount) + " ranks";
  return text;
}

}  // namespace

Bench read_bench(const std::filesystem::path& file) {
  const Json json = read_json(file);
  const Fields f(json, file.string() + ": bench");
  Bench bench;
  bench.source = source_of(f, file);
  if (f.has("runs")) {
    read_rows(f, bench);
  } else if (f.has("step_ms_median")) {
    add(bench.comparisons, "step", Kind::kSeconds, f.number("predicted_step_ms") * 1e-3,
        f.number("step_ms_median") * 1e-3);
    if (const auto scaling = f.object("scaling")) {
      bench.comparisons.clear();
      add_scaling(*scaling, bench.comparisons);
    } else {
      add_memory(f, bench.comparisons);
    }
  } else if (f.has("t_comp_ms")) {
    add_scaling(f, bench.comparisons);
  } else {
    throw runtime::DataError(
        file.string() +
        ": expected the output of runtime bench --json, of runtime bench --scaling --json, or a "
        "run's scaling.json, but it has neither \"step_ms_median\", \"runs\" nor \"t_comp_ms\"; "
        "write it again with one of these commands");
  }
  return bench;
}

}  // namespace tools::report
