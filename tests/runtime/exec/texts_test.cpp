// Checks texts between ranks, also those of many pieces.
#include "runtime/exec/texts.h"

#include <gmock/gmock.h>

#include "tests/runtime/exec/local_ranks.h"

namespace runtime::exec {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(GatherTexts, OfAllRanksOnRankZero) {
  EXPECT_THAT(on_local_ranks(3,
                             [](LocalRank& r) {
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

// Texts of several pieces, the last of which is not full.
std::string long_text(int rank) {
  std::string text((size_t{9} << 20) + static_cast<size_t>(rank), '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i % 251 + rank);
  return text;
}

TEST(GatherTexts, OfManyPieces) {
  EXPECT_THAT(on_local_ranks(3,
                             [](LocalRank& r) {
                               const auto all = gather_texts(long_text(r.rank), &r.collectives);
                               for (size_t i = 0; i < all.size(); ++i)
                                 EXPECT_TRUE(all[i] == long_text(static_cast<int>(i)));
                             }),
              Each(""));
}

TEST(BroadcastText, IsThatOfRankZeroOnEveryRank) {
  EXPECT_THAT(on_local_ranks(
                  3,
                  [](LocalRank& r) {
                    EXPECT_TRUE(broadcast_text(long_text(r.rank), &r.collectives) == long_text(0));
                    EXPECT_EQ(broadcast_text(r.rank == 0 ? "" : "other", &r.collectives), "");
                  }),
              Each(""));
  EXPECT_EQ(broadcast_text("own", nullptr), "own");
}

}  // namespace
}  // namespace runtime::exec
