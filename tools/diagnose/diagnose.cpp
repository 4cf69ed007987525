// Makes evidence of files, as a watchdog has it of notes and recorders.
#include "tools/diagnose/diagnose.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>

#include "plugins/host/text.h"
#include "runtime/error.h"
#include "runtime/watch/call_plan.h"
#include "runtime/watch/diagnose.h"
#include "tools/diagnose/read.h"

namespace tools::diagnose {
namespace {

namespace fs = std::filesystem;
namespace watch = runtime::watch;
using watch::CollectiveRecord;
using watch::CollectivesFile;

bool is_collectives_file(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with("rank-") && name.ends_with("-collectives.json");
}

CollectivesFile read(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(stream), {});
  if (!stream) throw runtime::DataError(path.string() + ": cannot be read");
  try {
    return read_collectives(text);
  } catch (const runtime::DataError& error) {
    throw runtime::DataError(path.string() + " holds no collectives of a rank: " + error.what() +
                             "; give the folder of a run that has failed");
  }
}

watch::RankRecords records_of(const CollectivesFile& file) {
  watch::RankRecords records{.rank = file.rank, .origin_ns = 0, .records = file.records};
  if (!file.records.empty()) records.origin_ns = file.records[0].start_ns;
  return records;
}

// The call for which the thread of the rank waits, or nothing.
std::optional<CollectiveRecord> waits_in(const CollectivesFile& file) {
  const auto at = std::ranges::find_if(
      file.records, [](const CollectiveRecord& r) { return r.end_ns == 0 && r.wait_ns != 0; });
  return at == file.records.end() ? std::nullopt : std::optional(*at);
}

// The step and the position of the call that the rank has to begin next, by its plan.
std::pair<int64_t, int64_t> next_of(const CollectivesFile& file) {
  int64_t last = 0;
  for (const CollectiveRecord& r : file.records) {
    if (r.step == file.step) last = std::max(last, r.position);
  }
  if (last >= calls_in(file.plan)) return {file.step + 1, 1};
  return {file.step, last + 1};
}

// The communicators of each rank, as its own file says.
watch::Groups groups_of(const Files& files) {
  watch::Groups groups;
  std::map<int, std::vector<CollectivesFile::Communicator>> by_rank;
  for (const CollectivesFile& file : files) by_rank[file.rank] = file.communicators;
  for (const auto& c : files[0].communicators) groups.names.push_back(c.name);
  const int world_size = files[0].world_size;
  groups.members = [by_rank, world_size](uint64_t communicator, int rank) {
    const auto found = by_rank.find(rank);
    if (found != by_rank.end() && communicator < found->second.size())
      return found->second[communicator].ranks;
    std::vector<int> all;
    for (int r = 0; r < world_size; ++r) all.push_back(r);
    return all;
  };
  return groups;
}

// With hosts if there are several.
watch::RankNames names_of(const Files& files) {
  std::vector<std::string> hosts(static_cast<size_t>(files[0].world_size), "unknown machine");
  bool several = false;
  for (const CollectivesFile& file : files) {
    hosts[static_cast<size_t>(file.rank)] = file.host;
    several = several || file.host != files[0].host;
  }
  return watch::RankNames(several ? hosts : std::vector<std::string>());
}

// All ranks write within seconds, by clocks that may differ a little.
void leave_out_old(Files& files, std::string& left_out) {
  constexpr std::chrono::minutes kOld{1};
  const int64_t newest = std::ranges::max(files, {}, &CollectivesFile::written_ns).written_ns;
  std::erase_if(files, [&](const CollectivesFile& file) {
    const std::chrono::nanoseconds age{newest - file.written_ns};
    if (age < kOld) return false;
    left_out += "rank " + std::to_string(file.rank) + " has written its file " +
                plugins::host::seconds_text(age) +
                " before the newest one (by the clocks of the machines), so that it is left out\n";
    return true;
  });
}

std::string waited(const CollectivesFile& file, const CollectiveRecord& call) {
  return plugins::host::seconds_text(std::chrono::duration<double, std::nano>(
      static_cast<double>(file.written_ns - call.wait_ns)));
}

}  // namespace

Files read_folder(const fs::path& folder, std::string& left_out) {
  Files files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; entry != end; entry.increment(error))
    if (is_collectives_file(entry->path())) files.push_back(read(entry->path()));
  if (error)
    throw runtime::DataError(folder.string() + ": cannot be read: " + error.message() +
                             "; give the folder of a run");
  if (files.empty())
    throw runtime::DataError(folder.string() +
                             " has no rank-*-collectives.json: ranks leave them in the folder of "
                             "the run when their job cannot go on");
  leave_out_old(files, left_out);
  std::ranges::sort(files, {}, &CollectivesFile::rank);
  for (size_t i = 1; i < files.size(); ++i) {
    if (files[i].world_size != files[0].world_size || files[i].rank == files[i - 1].rank)
      throw runtime::DataError(folder.string() + ": rank " + std::to_string(files[i].rank) +
                               " of " + std::to_string(files[i].world_size) + " beside rank " +
                               std::to_string(files[i - 1].rank) + " of " +
                               std::to_string(files[0].world_size) +
                               ": the files are of several jobs; remove those of the others");
  }
  return files;
}

std::string verdict_of(const Files& files) {
  watch::Evidence evidence{.self = -1, .world_size = files[0].world_size};
  evidence.groups = groups_of(files);
  evidence.names = names_of(files);
  watch::Incident incident;
  for (const CollectivesFile& file : files) {
    evidence.now_ns = std::max(evidence.now_ns, file.written_ns);
    const watch::RankRecords records = records_of(file);
    if (file.lost) {
      evidence.recorders[file.rank] = records;
      continue;
    }
    watch::Note note{.rank = file.rank, .kind = watch::Note::Kind::kTold};
    note.channels = records.channels();
    if (const auto call = waits_in(file)) {
      note.kind = watch::Note::Kind::kLate;
      note.text = describe(*call, evidence.groups, file.rank) + " was not complete after " +
                  waited(file, *call);
    }
    evidence.notes.push_back(std::move(note));
  }
  return watch::diagnose(incident, evidence);
}

std::string debts_of(const Files& files) {
  const watch::Groups groups = groups_of(files);
  const watch::RankNames names = names_of(files);
  std::map<int, watch::Plan> plans;
  for (const CollectivesFile& file : files) {
    if (!file.plan.empty()) plans[file.rank] = file.plan;
  }
  std::string text;
  if (plans.size() == static_cast<size_t>(files[0].world_size)) {
    const std::string standstill =
        watch::find_standstill(plans, groups, [&](int rank) { return names.of(rank); });
    if (!standstill.empty()) text = "the plans of the ranks do not fit: " + standstill + "\n";
  }
  std::map<std::pair<int64_t, int64_t>, std::string> debts;  // by step and position
  for (const CollectivesFile& file : files) {
    if (file.plan.empty() || waits_in(file)) continue;
    const auto [step, position] = next_of(file);
    debts[{step, position}] += names.of(file.rank) + " owes call " + std::to_string(position) +
                               " of " + std::to_string(calls_in(file.plan)) + " of step " +
                               std::to_string(step) + ": " +
                               describe(*call_at(file.plan, position), groups, file.rank) + "\n";
  }
  return debts.empty() ? text : text + debts.begin()->second;
}

std::string table_of(const Files& files) {
  const watch::Groups groups = groups_of(files);
  const watch::RankNames names = names_of(files);
  std::string text;
  for (const CollectivesFile& file : files) {
    text += names.of(file.rank) + (file.lost ? " (lost): " : ": ");
    if (const auto call = waits_in(file)) {
      text +=
          "waits in " + describe(*call, groups, file.rank) + " for " + waited(file, *call) + "\n";
      continue;
    }
    const auto last = std::find_if(file.records.rbegin(), file.records.rend(),
                                   [](const CollectiveRecord& r) { return r.end_ns != 0; });
    text += last == file.records.rend()
                ? "has completed no collective\n"
                : "waits for nobody; has completed " + describe(*last, groups, file.rank) + "\n";
  }
  return text;
}

}  // namespace tools::diagnose
