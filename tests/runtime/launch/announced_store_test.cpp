// A store of rank 0 that another store announces, with announcements that are wrong in part.
#include "runtime/launch/announced_store.h"

#include "runtime/launch/memory_store.h"
#include "runtime/launch/rendezvous.h"
#include "runtime/launch/tcp_store.h"
#include "tests/runtime/launch/store_support.h"

namespace runtime::launch::test {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(AnnouncedStore, RanksMeetInIt) {
  const auto through = std::make_shared<MemoryStore>();
  const auto prefixes = in_threads(6, [&](int rank) {
    const auto store = open_announced(through, rank == 0, 60s);
    return join(*store, rank, 6, 60s);
  });
  EXPECT_THAT(prefixes, Each(AllOf(prefixes[0], StartsWith("run-"))));
}

// The store that announces has one key, which is all that it is asked for.
TEST(AnnouncedStore, KeepsWhatIsSetApart) {
  const auto through = std::make_shared<MemoryStore>();
  const auto leader = open_announced(through, true, 60s);
  const auto other = open_announced(through, false, 60s);
  other->set("key", "value");
  EXPECT_EQ(leader->try_get("key"), "value");
  EXPECT_EQ(through->try_get("key"), std::nullopt);
  EXPECT_THAT(other->description(), StartsWith("the store of rank 0 at "));
  EXPECT_FALSE(other->fresh());
}

// Addresses of rank 0's machine may be those of another machine here, or of none, and another
// store may listen there.
TEST(AnnouncedStore, TriesAllAddresses) {
  TcpStore stranger({.address = "127.0.0.1:0", .leads = true, .secret = "another"});
  const auto through = std::make_shared<MemoryStore>();
  const auto leader = open_announced(through, true, 60s);
  std::istringstream said(through->get("store/0", 0s));
  std::string secret, port;
  said >> secret >> port;
  EXPECT_EQ(secret.size(), 32u);
  through->set("store/0", secret + " " + port + " 127.0.0.2 no.such.host.invalid 127.0.0.1");
  EXPECT_NO_THROW(open_announced(through, false, 60s)->set("key", "value"));
  EXPECT_EQ(leader->try_get("key"), "value");
  through->set("store/0", secret + " " + std::to_string(stranger.port()) + " 127.0.0.1 127.0.0.2");
  EXPECT_THAT(message_of([&] { open_announced(through, false, 300ms); }),
              AllOf(HasSubstr("cannot connect"), HasSubstr("firewall")));
}

TEST(AnnouncedStore, WithoutAnAnnouncementRank0IsNamed) {
  const auto through = std::make_shared<MemoryStore>();
  EXPECT_THAT(message_of<StoreTimeout>([&] { open_announced(through, false, 50ms); }),
              HasSubstr("rank 0 does not answer"));
  through->set("store/0", "nothing");
  EXPECT_THAT(message_of([&] { open_announced(through, false, 50ms); }),
              HasSubstr("rank 0 has announced no store"));
}

TEST(AnnouncedStore, OwnAddressesAreThoseThatOthersReach) {
  EXPECT_THAT(own_addresses(),
              Each(AllOf(Not(StartsWith("127.")), Not("::1"), Not(StartsWith("fe80")))));
}

}  // namespace
}  // namespace runtime::launch::test
