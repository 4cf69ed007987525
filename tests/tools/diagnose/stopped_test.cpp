// Stops a rank before each call of its plan, for the plans of random meshes, and checks that it is
// named with the call that it owes.
#include <gmock/gmock.h>

#include "runtime/exec/collectives.h"
#include "runtime/step/ranks.h"
#include "runtime/watch/call_plan.h"
#include "tests/runtime/train/random_meshes.h"
#include "tools/diagnose/diagnose.h"

namespace tools::diagnose {
namespace {

namespace watch = runtime::watch;
using runtime::parallel::Mesh;
using testing::StartsWith;

constexpr int64_t kSecond = 1'000'000'000, kNow = 2'000'000'000 * kSecond, kStep = 812;

// A Job has what the ranks have recorded when one of them has stopped and no other one can go on.
class Job {
 public:
  Job(const std::vector<watch::Plan>& plans, const Mesh& mesh, int stopped, int64_t before)
      : mesh_(mesh), stopped_(stopped), before_(before) {
    for (size_t r = 0; r < plans.size(); ++r) {
      watch::CollectivesFile file{.rank = static_cast<int>(r), .world_size = mesh.size()};
      file.written_ns = kNow;
      file.step = kStep;
      file.plan = plans[r];
      for (int c = 0; c < runtime::parallel::kCommunicators; ++c)
        file.communicators.push_back({"the axis " + std::to_string(c), mesh.members(c, file.rank)});
      files_.push_back(std::move(file));
    }
    at_.resize(plans.size());
    while (go_on()) {
    }
  }

  const Files& files() const { return files_; }
  bool somebody_waits() const {
    return std::ranges::any_of(files_, [](const auto& file) {
      return std::ranges::any_of(file.records,
                                 [](const auto& r) { return r.wait_ns != 0 && r.end_ns == 0; });
    });
  }

 private:
  bool go_on() {
    bool progress = false;
    for (size_t r = 0; r < files_.size(); ++r) {
      while (advance(r)) progress = true;
    }
    for (watch::CollectivesFile& file : files_) {
      for (watch::CollectiveRecord& record : file.records) progress |= complete(file.rank, record);
    }
    return progress;
  }

  bool advance(size_t r) {
    watch::CollectivesFile& file = files_[r];
    if (at_[r] == file.plan.size()) return false;
    const watch::PlanItem& item = file.plan[at_[r]];
    if (item.waits) {
      watch::CollectiveRecord& record = file.records[static_cast<size_t>(item.call.position - 1)];
      if (record.end_ns == 0) {
        if (record.wait_ns == 0) record.wait_ns = ++clock_;
        return false;
      }
    } else {
      if (file.rank == stopped_ && item.call.position == before_) return false;
      watch::CollectiveRecord record = item.call;
      record.sequence = file.records.size() + 1;
      record.number =
          1 + static_cast<uint64_t>(std::ranges::count_if(file.records, [&](const auto& before) {
            return before.channel() == record.channel();
          }));
      record.step = kStep;
      record.start_ns = ++clock_;
      file.records.push_back(record);
    }
    ++at_[r];
    return true;
  }

  // Completes a call, unless it is complete or somebody has not begun it.
  bool complete(int rank, watch::CollectiveRecord& record) {
    if (record.end_ns != 0) return false;
    std::vector<int> ranks = mesh_.members(static_cast<int>(record.communicator), rank);
    if (record.channel().direction != 0) ranks = {rank, ranks.at(static_cast<size_t>(record.peer))};
    std::vector<watch::CollectiveRecord*> all;
    for (const int member : ranks) {
      for (watch::CollectiveRecord& other : files_[static_cast<size_t>(member)].records)
        if (is_counterpart(rank, record, member, other)) all.push_back(&other);
    }
    if (all.size() != ranks.size()) return false;
    for (watch::CollectiveRecord* part : all) part->end_ns = ++clock_;
    return true;
  }

  bool is_counterpart(int rank, const watch::CollectiveRecord& call, int member,
                      const watch::CollectiveRecord& other) const {
    if (other.communicator != call.communicator || other.number != call.number) return false;
    const int direction = call.channel().direction;
    if (rank == member || direction == 0) return other.channel() == call.channel();
    const auto ranks = mesh_.members(static_cast<int>(call.communicator), member);
    return other.channel().direction == (direction == RT_SEND ? RT_RECEIVE : RT_SEND) &&
           ranks.at(static_cast<size_t>(other.peer)) == rank;
  }

  const Mesh mesh_;
  const int stopped_;
  const int64_t before_;
  Files files_;
  std::vector<size_t> at_;
  int64_t clock_ = kNow - 20 * kSecond;
};

// The plans of a random mesh; none if the mesh is not possible.
std::vector<watch::Plan> plans_of(const std::string& toml, const runtime::train::RandomMesh& m) {
  const runtime::config::Config config =
      runtime::step::resolve_ranks(runtime::test::parse(toml, m.settings), m.mesh.size());
  const auto device = runtime::test::open_device("reference");
  std::vector<runtime::graph::Graph> graphs;
  try {
    for (int r = 0; r < m.mesh.size(); ++r)
      graphs.push_back(runtime::train::program_of(config, {r, m.mesh.size()},
                                                  runtime::step::Purpose::kTraining, device));
  } catch (const runtime::ConfigurationError&) {
    return {};
  }
  std::vector<watch::Plan> plans;
  for (const runtime::graph::Graph& graph : graphs)
    plans.push_back(runtime::exec::plan_of({&graph}, m.mesh.size()));
  return plans;
}

TEST(Diagnose, NamesARankThatStopsBeforeAnyOfItsCalls) {
  const runtime::train::GptFile text;
  int stops = 0, waited_for = 0;
  for (int seed = 0; seed < 24; ++seed) {
    runtime::train::Random random(seed);
    const std::string toml = seed % 3 == 2 ? runtime::train::random_gpt(random, text.path())
                                           : runtime::train::random_net(random);
    const runtime::train::RandomMesh m(random);
    const std::vector<watch::Plan> plans = plans_of(toml, m);
    if (plans.empty()) continue;
    const int rank = random.number(0, m.mesh.size() - 1);
    const watch::Plan& plan = plans[static_cast<size_t>(rank)];
    const std::string name = "rank " + std::to_string(rank);
    for (int64_t position = 1; position <= calls_in(plan); ++position, ++stops) {
      const Job job(plans, m.mesh, rank, position);
      ASSERT_THAT(debts_of(job.files()),
                  StartsWith(name + " owes call " + std::to_string(position) + " of " +
                             std::to_string(calls_in(plan)) + " of step 812: "))
          << "seed " << seed << "\n"
          << table_of(job.files());
      if (!job.somebody_waits()) continue;
      ++waited_for;
      ASSERT_THAT(verdict_of(job.files()),
                  StartsWith(name + " of " + std::to_string(plans.size()) + " is stuck"))
          << "seed " << seed << ", position " << position;
    }
  }
  EXPECT_GT(stops, 500);
  EXPECT_GT(waited_for, stops / 2);
}

}  // namespace
}  // namespace tools::diagnose
