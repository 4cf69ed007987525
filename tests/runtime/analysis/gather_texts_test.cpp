#include "runtime/analysis/gather_texts.h"

#include <gmock/gmock.h>

#include "tests/runtime/exec/local_ranks.h"

namespace runtime::analysis {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(GatherTexts, OfAllRanksOnRankZero) {
  EXPECT_THAT(exec::on_local_ranks(3,
                                   [](exec::LocalRank& r) {
                                     const std::string texts[] = {"zero", "", "two"};
                                     const auto all = gather_texts(texts[r.rank], &r.collectives);
                                     if (r.rank == 0) {
                                       EXPECT_THAT(all, ElementsAre("zero", "", "two"));
                                     } else {
                                       EXPECT_THAT(all, IsEmpty());
                                     }
                                   }),
              Each(""));
  EXPECT_THAT(gather_texts("own", nullptr), ElementsAre("own"));
}

}  // namespace
}  // namespace runtime::analysis
