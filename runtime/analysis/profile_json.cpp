// Writes profile.json.
#include <nlohmann/json.hpp>

#include "runtime/analysis/profile.h"

namespace runtime::analysis {

namespace {

using nlohmann::ordered_json;

ordered_json optional(const std::optional<double>& number) {
  return number ? ordered_json(*number) : ordered_json(nullptr);
}

ordered_json bytes_json(const std::vector<NamedBytes>& list, const char* name) {
  ordered_json all = ordered_json::array();
  for (const NamedBytes& item : list) all.push_back({{name, item.name}, {"bytes", item.bytes}});
  return all;
}

ordered_json operations_json(const RankProfile& p) {
  ordered_json all = ordered_json::array();
  for (const OperationProfile& o : p.operations) {
    all.push_back({{"name", o.name},
                   {"layer", o.layer},
                   {"phase", o.phase},
                   {"implementation", o.implementation},
                   {"calls", o.calls},
                   {"time_ns", o.ns},
                   {"share", p.step_ns > 0 ? o.ns / p.step_ns : 0},
                   {"flops", o.flops},
                   {"bytes", o.bytes},
                   {"roofline_share", optional(o.roofline_share)}});
  }
  return all;
}

ordered_json phases_json(const RankProfile& p) {
  ordered_json all;
  for (const char* phase : {"forward", "backward", "update", "pack"}) {
    const auto found = p.phases.find(phase);
    all[std::string(phase) + "_ns"] = found == p.phases.end() ? 0 : found->second;
  }
  return all;
}

ordered_json limits_json(const std::optional<Roofline>& limits) {
  if (!limits) return nullptr;
  ordered_json bandwidths = ordered_json::array();
  for (const Bandwidth& b : limits->bandwidths)
    bandwidths.push_back({{"bytes", b.bytes}, {"bytes_per_second", b.bytes_per_second}});
  return {{"flops_per_second", limits->flops_per_second}, {"bandwidths", std::move(bandwidths)}};
}

}  // namespace

std::string to_json(const RankProfile& p) {
  ordered_json j;
  j["rank"] = p.rank;
  j["device"] = p.device;
  j["steps"] = {p.first_step, p.last_step};
  j["recorded_steps"] = p.steps;
  j["step_ns"] = p.step_ns;
  j["phases"] = phases_json(p);
  j["communication"] = {{"exposed_ns", p.communication.exposed_ns},
                        {"hidden_ns", p.communication.hidden_ns},
                        {"bytes", p.communication.bytes}};
  j["data_wait_ns"] = p.data_wait_ns;
  j["prepare_ns"] = p.prepare_ns;
  j["upload_ns"] = p.upload_ns;
  j["report_ns"] = p.report_ns;
  j["between_ns"] = p.between_ns;
  j["exchange_ns"] = p.exchange_ns;
  j["cpu_utilisation"] = p.cpu_utilisation;
  j["device_utilisation"] = optional(p.device_utilisation);
  j["clock"] = {{"offset_ns", p.clock.offset_ns}, {"error_ns", p.clock.error_ns}};
  j["limits"] = limits_json(p.limits);
  j["operations"] = operations_json(p);
  j["memory"] = {{"persistent_bytes", p.memory.persistent},
                 {"peak_bytes", p.memory.peak},
                 {"timeline", bytes_json(p.memory.timeline, "operation")},
                 {"alive_at_peak", bytes_json(p.memory.alive_at_peak, "name")}};
  return j.dump();
}

}  // namespace runtime::analysis
