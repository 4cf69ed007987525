// Ranks as threads of one process, with each kind of parallelism. Built with ThreadSanitizer this
// is the test for data races: a report ends the program with exit code 66, and no report is
// suppressed.
#include "tests/end_to_end/faults/job.h"

namespace runtime::faults {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Way {
  const char* name;
  Words settings;
  int exit_code = 0;
};

void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

const std::string kBatchNorm =
    "model.layers=[{ type = \"linear\", features = 5 }, { type = \"batch_norm\", activation = "
    "\"relu\" }, { type = \"linear\", features = 3 }]";

const Way kWays[] = {
    {"Plain", {"training.global_batch_size=7"}},
    {"SyncBatchNorm", {kBatchNorm, "parallelism.sync_batch_norm=true"}},
    {"Sharded", {"parallelism.zero_stage=1", "optimizer.name=adamw"}},
    {"Asynchronous", {"parallelism.update=asynchronous", "parallelism.max_staleness=2"}},
    {"Checked", {"comm.check=true", "debug.check_replicas_every=2"}},
    {"Failing", {"optimizer.name=sgd", "optimizer.lr=1e30"}, 6},
};

class Threads : public JobTest, public testing::WithParamInterface<Way> {};

INSTANTIATE_TEST_SUITE_P(Ways, Threads, testing::ValuesIn(kWays),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(Threads, WorkTogetherWithoutARace) {
  for (const int count : {2, 3}) {
    Words settings = GetParam().settings;
    settings.push_back("training.epochs=3");
    const ProcessResult result = ranks("local", count, settings)->wait();
    EXPECT_EQ(result.exit_code, GetParam().exit_code) << result.err;
    EXPECT_THAT(result.err, Not(HasSubstr("ThreadSanitizer")));
  }
}

}  // namespace
}  // namespace runtime::faults
