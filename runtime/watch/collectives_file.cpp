// Writes JSON by hand: all but a few names are numbers.
#include "runtime/watch/collectives_file.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>

#include "plugins/host/text.h"

namespace runtime::watch {
namespace {

// Nanoseconds to add to a time of the monotonic clock.
int64_t wall_offset() {
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(wall).count() - monotonic_ns();
}

// A label may end within a character of several bytes, so other bytes than ASCII become '?'.
std::string in_quotes(std::string_view text) {
  std::string all = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') all += '\\';
    all += c >= ' ' && c <= '~' ? c : '?';
  }
  return all + '"';
}

std::string member(const char* name, const std::string& value) {
  return std::string(", \"") + name + "\": " + value;
}

std::string if_not(int64_t without, const char* name, int64_t value) {
  return value == without ? "" : member(name, std::to_string(value));
}

// Returns the members for what is known of a call before it starts.
std::string members_of(const CollectiveRecord& r) {
  std::string text = "\"communicator\": " + std::to_string(r.communicator);
  text += member("kind", in_quotes(plugins::host::collective_name(r.kind)));
  text += member("dtype", in_quotes(plugins::host::dtype_name(r.dtype)));
  text += member("count", std::to_string(r.count));
  if (r.reduction != 0)
    text += member("reduction", in_quotes(plugins::host::reduction_name(r.reduction)));
  text += if_not(-1, "peer", r.peer) + if_not(0, "micro_batch", r.micro_batch);
  if (!r.label_text().empty()) text += member("label", in_quotes(r.label_text()));
  return text;
}

std::string json_of(const CollectiveRecord& r) {
  std::string text = "{" + members_of(r);
  text += member("sequence", std::to_string(r.sequence));
  text += member("number", std::to_string(r.number));
  text += if_not(0, "step", r.step) + if_not(0, "position", r.position);
  text += member("start_ns", std::to_string(r.start_ns));
  return text + if_not(0, "wait_ns", r.wait_ns) + if_not(0, "end_ns", r.end_ns) + "}";
}

std::string json_of(const PlanItem& item) {
  if (item.waits) return "{\"wait\": " + std::to_string(item.call.position) + "}";
  return "{" + members_of(item.call) + "}";
}

std::string json_of(const CollectivesFile::Communicator& communicator) {
  std::string text = "{\"name\": " + in_quotes(communicator.name) + ", \"ranks\": [";
  for (const int rank : communicator.ranks)
    text += (text.back() == '[' ? "" : ", ") + std::to_string(rank);
  return text + "]}";
}

template <class Items>
std::string json_of_all(const Items& items) {
  std::string text;
  for (const auto& item : items) text += (text.empty() ? "\n  " : ",\n  ") + json_of(item);
  return "[" + text + "\n]";
}

}  // namespace

CollectivesFile file_of(const RankRecords& records, const Groups& groups, int world_size) {
  const int64_t offset = wall_offset();
  CollectivesFile file{.rank = records.rank, .world_size = world_size, .step = records.step};
  if (records.plan != nullptr) file.plan = *records.plan;
  file.written_ns = monotonic_ns() + offset;
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) == 0) file.host = host.data();
  for (size_t c = 0; c < groups.names.size() && groups.members; ++c)
    file.communicators.push_back({groups.names[c], groups.members(c, records.rank)});
  for (CollectiveRecord r : records.records) {
    for (int64_t* time : {&r.start_ns, &r.wait_ns, &r.end_ns}) *time += *time == 0 ? 0 : offset;
    file.records.push_back(r);
  }
  return file;
}

std::string to_json(const CollectivesFile& file) {
  return "{\"collectives_version\": " + std::to_string(CollectivesFile::kVersion) +
         member("rank", std::to_string(file.rank)) +
         member("world_size", std::to_string(file.world_size)) +
         member("host", in_quotes(file.host)) +
         member("written_ns", std::to_string(file.written_ns)) +
         member("lost", file.lost ? "true" : "false") +
         member("communicators", json_of_all(file.communicators)) +
         member("step", std::to_string(file.step)) + member("plan", json_of_all(file.plan)) +
         member("collectives", json_of_all(file.records)) + "}\n";
}

}  // namespace runtime::watch
