// Reads JSON; the names of kinds, types and reductions are those of the contract.
#include "tools/diagnose/read.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plugins/host/text.h"
#include "runtime/error.h"

namespace tools::diagnose {
namespace {

using plugins::host::collective_name;
using plugins::host::dtype_name;
using plugins::host::reduction_name;
using runtime::DataError;
using runtime::watch::CollectiveRecord;
using runtime::watch::CollectivesFile;
using runtime::watch::Plan;
using runtime::watch::PlanItem;
using Json = nlohmann::json;

constexpr int kMostRanks = 1 << 20;

// The number that has this name.
template <class Name>
int32_t number_of(const std::string& text, const Name& name) {
  constexpr int32_t kMost = 32;
  for (int32_t number = 0; number < kMost; ++number)
    if (name(number) == text) return number;
  throw DataError("'" + text + "' is not known");
}

// Reads what is known of a call before it starts.
CollectiveRecord call_of(const Json& j) {
  CollectiveRecord r;
  j.at("communicator").get_to(r.communicator);
  r.kind = number_of(j.at("kind").get<std::string>(), collective_name);
  r.dtype = number_of(j.at("dtype").get<std::string>(), dtype_name);
  j.at("count").get_to(r.count);
  if (j.contains("reduction"))
    r.reduction = number_of(j.at("reduction").get<std::string>(), reduction_name);
  r.peer = j.value("peer", -1);
  r.micro_batch = j.value("micro_batch", int64_t{0});
  r.set_label(j.value("label", ""));
  return r;
}

CollectiveRecord record_of(const Json& j) {
  CollectiveRecord r = call_of(j);
  j.at("sequence").get_to(r.sequence);
  j.at("number").get_to(r.number);
  r.step = j.value("step", int64_t{0});
  r.position = j.value("position", int64_t{0});
  j.at("start_ns").get_to(r.start_ns);
  r.wait_ns = j.value("wait_ns", int64_t{0});
  r.end_ns = j.value("end_ns", int64_t{0});
  return r;
}

// The calls have their positions in the order of the file.
Plan plan_of(const Json& items) {
  Plan plan;
  int64_t calls = 0;
  for (const Json& j : items) {
    const bool waits = j.contains("wait");
    PlanItem item{waits ? CollectiveRecord{} : call_of(j), waits};
    item.call.position = waits ? j.at("wait").get<int64_t>() : ++calls;
    if (item.call.position < 1 || item.call.position > calls)
      throw DataError("the plan waits for call " + std::to_string(item.call.position) +
                      ", expected one of the " + std::to_string(calls) + " before");
    plan.push_back(item);
  }
  return plan;
}

}  // namespace

CollectivesFile read_collectives(const std::string& text) try {
  const Json j = Json::parse(text);
  CollectivesFile file;
  if (j.at("collectives_version") != CollectivesFile::kVersion)
    throw DataError("collectives_version is " + j.at("collectives_version").dump() + ", expected " +
                    std::to_string(CollectivesFile::kVersion));
  j.at("rank").get_to(file.rank);
  j.at("world_size").get_to(file.world_size);
  if (file.world_size < 1 || file.world_size > kMostRanks || file.rank < 0 ||
      file.rank >= file.world_size)
    throw DataError("rank " + std::to_string(file.rank) + " of " + std::to_string(file.world_size) +
                    " is no rank");
  j.at("host").get_to(file.host);
  j.at("written_ns").get_to(file.written_ns);
  j.at("lost").get_to(file.lost);
  for (const Json& c : j.at("communicators")) {
    auto& communicator = file.communicators.emplace_back();
    c.at("name").get_to(communicator.name);
    c.at("ranks").get_to(communicator.ranks);
    std::vector<int> sorted = communicator.ranks;
    std::ranges::sort(sorted);
    if (std::ranges::adjacent_find(sorted) != sorted.end())
      throw DataError(communicator.name + " has a rank twice");
    for (const int rank : communicator.ranks)
      if (rank < 0 || rank >= file.world_size)
        throw DataError(communicator.name + " has rank " + std::to_string(rank) +
                        ", expected 0 to " + std::to_string(file.world_size - 1));
  }
  file.step = j.value("step", int64_t{0});
  file.plan = plan_of(j.value("plan", Json::array()));
  for (const Json& r : j.at("collectives")) file.records.push_back(record_of(r));
  std::ranges::sort(file.records, {}, &CollectiveRecord::sequence);
  return file;
} catch (const nlohmann::json::exception& error) {
  throw DataError(error.what());
}

}  // namespace tools::diagnose
