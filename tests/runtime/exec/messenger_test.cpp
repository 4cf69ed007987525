// Checks order, answers, errors and ends of messages between ranks.
#include "runtime/exec/messenger.h"

#include <gmock/gmock.h>

#include "tests/runtime/exec/local_ranks.h"

namespace runtime::exec {
namespace {

using testing::Each;
using testing::HasSubstr;

// The messages that a rank receives, by sender.
class Inbox {
 public:
  explicit Inbox(int ranks) : messages_(ranks) {}
  void add(int from, Message message) {
    const std::lock_guard lock(mutex_);
    messages_[from].push_back(std::move(message));
  }
  std::vector<std::vector<Message>> all() {
    const std::lock_guard lock(mutex_);
    return messages_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::vector<Message>> messages_;
};

std::vector<std::byte> payload(size_t bytes, int seed) {
  std::vector<std::byte> result(bytes);
  for (size_t i = 0; i < bytes; ++i) result[i] = static_cast<std::byte>(i * 7 + seed);
  return result;
}

TEST(Messenger, EverythingArrivesInOrder) {
  constexpr int kRanks = 3, kMessages = 40;
  const auto size = [](int i) { return i % 3 == 0 ? 0u : static_cast<size_t>(1) << (i % 20); };
  EXPECT_THAT(on_local_ranks(
                  kRanks,
                  [&](LocalRank& r) {
                    Inbox inbox(kRanks);
                    Messenger messenger(
                        r.collectives.communicator(1), r.rank, kRanks, 1 << 20, r.watchdog,
                        [&](int from, Message m) { inbox.add(from, std::move(m)); });
                    for (int i = 0; i < kMessages; ++i) {
                      for (int to = 0; to < kRanks; ++to)
                        messenger.send(to, {i % 5, i, r.rank, 0.5 * i, payload(size(i), r.rank)});
                    }
                    messenger.close();
                    const auto messages = inbox.all();
                    for (int from = 0; from < kRanks; ++from) {
                      ASSERT_EQ(messages[from].size(), kMessages);
                      for (int i = 0; i < kMessages; ++i) {
                        const Message& m = messages[from][i];
                        EXPECT_EQ(m.kind, i % 5);
                        EXPECT_EQ(m.number, i);
                        EXPECT_EQ(m.count, from);
                        EXPECT_EQ(m.value, 0.5 * i);
                        EXPECT_EQ(m.payload, payload(size(i), from));
                      }
                    }
                  }),
              Each(""));
}

// The receiver answers from its own thread while the rank does something else.
TEST(Messenger, AnswersByItself) {
  EXPECT_THAT(on_local_ranks(2,
                             [](LocalRank& r) {
                               std::atomic<int64_t> answer = 0;
                               Messenger* self = nullptr;
                               std::atomic<bool> ready = false;
                               Messenger messenger(
                                   r.collectives.communicator(1), r.rank, 2, 0, r.watchdog,
                                   [&](int from, const Message& m) {
                                     while (!ready) std::this_thread::yield();
                                     if (m.kind == 0)
                                       self->send(from, {.kind = 1, .number = m.number + 1});
                                     else
                                       answer = m.number;
                                   });
                               self = &messenger;
                               ready = true;
                               if (r.rank == 1) {
                                 messenger.send(0, {.kind = 0, .number = 41});
                                 EXPECT_TRUE(watch::becomes_true([&] { return answer == 42; }));
                               }
                               double all = 0;  // rank 0 may not leave before it has answered
                               r.collectives.all_reduce(&all, 1, RT_SUM);
                               messenger.close();
                             }),
              Each(""));
}

TEST(Messenger, APayloadThatIsTooLargeEndsTheJob) {
  const auto errors = on_local_ranks(2, [](LocalRank& r) {
    Messenger messenger(r.collectives.communicator(1), r.rank, 2, 100, r.watchdog,
                        [](int, const Message&) {});
    if (r.rank == 1) messenger.send(0, {.payload = payload(101, 0)});
    messenger.close();
  });
  EXPECT_THAT(errors[0], HasSubstr("rank 1 sent a message of 101 bytes, expected at most 100"));
  EXPECT_THAT(errors[1], HasSubstr("rank 0 of 2 ended with: rank 1 sent"));
}

TEST(Messenger, WhatTheReceiverThrowsIsSeenByTheRank) {
  const auto errors = on_local_ranks(2, [](LocalRank& r) {
    Messenger messenger(r.collectives.communicator(1), r.rank, 2, 100, r.watchdog,
                        [](int, const Message&) { throw DataError("no such thing"); });
    if (r.rank == 1) messenger.send(0, {});
    EXPECT_TRUE(r.rank == 1 || watch::becomes_true([&] {
                  messenger.check();
                  return false;
                }));
    messenger.close();
  });
  EXPECT_EQ(errors[0], "no such thing");
  EXPECT_THAT(errors[1], HasSubstr("rank 0 of 2 ended with: no such thing"));
}

TEST(Messenger, ARankThatLeavesEndsTheOthers) {
  const auto errors = on_local_ranks(3, [](LocalRank& r) {
    Messenger messenger(r.collectives.communicator(1), r.rank, 3, 100, r.watchdog,
                        [](int, const Message&) {});
    if (r.rank == 2) throw NumericError("nan");
    messenger.close();
  });
  EXPECT_EQ(errors[2], "nan");
  for (int rank : {0, 1}) EXPECT_THAT(errors[rank], HasSubstr("rank 2 of 3 ended with: nan"));
}

}  // namespace
}  // namespace runtime::exec
