// Reads profile.json into operations, phases and memory of each rank.
#include "tools/report/read_profile.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/error.h"
#include "tools/report/json_input.h"

namespace tools::report {

namespace {

constexpr double kFormat = 1;

// A number of the object `key`; NaN if there is none.
double inner_number(const Fields& fields, const char* object, const char* key) {
  const std::optional<Fields> inner = fields.object(object);
  return inner ? inner->number(key) : std::numeric_limits<double>::quiet_NaN();
}

ProfiledOperation read_operation(const Fields& f) {
  return {f.required_text("name"),   f.text("layer"),   f.text("phase"),
          f.text("implementation"),  f.number("calls"), f.required_number("time_ns"),
          f.number("share"),         f.number("flops"), f.number("bytes"),
          f.number("roofline_share")};
}

// The operation is a name, or a number.
std::string operation_of(const Fields& f, size_t index) {
  if (!f.has("operation")) return std::to_string(index);
  const Json& value = f.json().at("operation");
  return value.is_string() ? value.get<std::string>() : value.dump();
}

void read_memory(const Fields& rank, RankProfile& out) {
  out.persistent_bytes = inner_number(rank, "memory", "persistent_bytes");
  out.peak_bytes = inner_number(rank, "memory", "peak_bytes");
  const std::optional<Fields> memory = rank.object("memory");
  if (!memory) return;
  for (const Fields& f : memory->list("timeline"))
    out.timeline.push_back({operation_of(f, out.timeline.size()), f.required_number("bytes")});
  for (const Fields& f : memory->list("alive_at_peak"))
    out.alive_at_peak.push_back({f.required_text("name"), f.required_number("bytes")});
  std::stable_sort(out.alive_at_peak.begin(), out.alive_at_peak.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
}

void read_steps(const Fields& f, RankProfile& out) {
  out.first_step = out.last_step = std::numeric_limits<double>::quiet_NaN();
  if (!f.has("steps")) return;
  const Json& steps = f.json().at("steps");
  if (!steps.is_array() || steps.size() != 2 || !steps[0].is_number() || !steps[1].is_number())
    f.fail("steps", "expected the first and the last step, got " + steps.dump());
  out.first_step = steps[0].get<double>();
  out.last_step = steps[1].get<double>();
}

RankProfile read_rank(const Fields& f) {
  RankProfile out;
  const double rank = f.required_number("rank");
  if (!(rank >= 0 && rank < 1e9)) f.fail("rank", "expected a number from 0");
  out.rank = static_cast<int>(rank);
  out.device = f.text("device");
  read_steps(f, out);
  out.step_ns = f.required_number("step_ns");
  out.forward_ns = inner_number(f, "phases", "forward_ns");
  out.backward_ns = inner_number(f, "phases", "backward_ns");
  out.update_ns = inner_number(f, "phases", "update_ns");
  out.pack_ns = inner_number(f, "phases", "pack_ns");
  out.exposed_ns = inner_number(f, "communication", "exposed_ns");
  out.hidden_ns = inner_number(f, "communication", "hidden_ns");
  out.communicated_bytes = inner_number(f, "communication", "bytes");
  out.data_wait_ns = f.number("data_wait_ns");
  out.prepare_ns = f.number("prepare_ns");
  out.upload_ns = f.number("upload_ns");
  out.report_ns = f.number("report_ns");
  out.between_ns = f.number("between_ns");
  out.exchange_ns = f.number("exchange_ns");
  out.cpu_utilisation = f.number("cpu_utilisation");
  out.device_utilisation = f.number("device_utilisation");
  for (const Fields& operation : f.list("operations"))
    out.operations.push_back(read_operation(operation));
  std::stable_sort(out.operations.begin(), out.operations.end(),
                   [](const auto& a, const auto& b) { return a.time_ns > b.time_ns; });
  read_memory(f, out);
  return out;
}

}  // namespace

Profile read_profile(const std::filesystem::path& file) {
  const Json json = read_json(file);
  const Fields f(json, file.string() + ": profile");
  if (f.required_number("format") != kFormat)
    f.fail("format", "expected 1, got " + json.at("format").dump());
  Profile profile;
  for (const Fields& rank : f.list("ranks")) profile.ranks.push_back(read_rank(rank));
  if (profile.ranks.empty()) f.fail("ranks", "expected at least one rank, got none");
  const double world = f.number("world_size");
  profile.world_size =
      world >= 1 && world < 1e9 ? static_cast<int>(world) : static_cast<int>(profile.ranks.size());
  return profile;
}

}  // namespace tools::report
