// Gives the main thread a team, so that tests of kernels without the plugin compute with several
// threads.
#include <gtest/gtest.h>

#include <optional>

#include "backends/cpu/team/team.h"

namespace tests::cpu {
namespace {

class TeamEnvironment : public testing::Environment {
 public:
  void SetUp() override { use_.emplace(team_); }
  void TearDown() override { use_.reset(); }

 private:
  static constexpr int kThreads = 16;  // at least as many as any test asks for
  backends::cpu::Team team_{kThreads};
  std::optional<backends::cpu::Team::Use> use_;
};

// NOLINTNEXTLINE(cppcoreguidelines-owning-memory): GoogleTest deletes it.
testing::Environment* const kEnvironment = testing::AddGlobalTestEnvironment(new TeamEnvironment);

}  // namespace
}  // namespace tests::cpu
