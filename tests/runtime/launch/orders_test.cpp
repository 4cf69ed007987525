// Launchers on several machines send each other orders: whole, in pieces and damaged.
#include "runtime/launch/orders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <random>

#include "plugins/host/spawn.h"

namespace runtime::launch {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Kind = Order::Kind;

const Order kStop{Kind::kSignal, SIGTERM, ""};
const Order kLostRank{Kind::kLost, 12, "the agent for b ended with exit code 255"};
const Order kToldRank{Kind::kTold, 3, "rank 3 on c ended with exit code 4"};

// The writing end, and the orders that are read from it.
struct Line {
  plugins::host::Pipe pipe = plugins::host::make_pipe();
  Orders orders = Orders(pipe.read.get());

  void write(std::string_view text) {
    EXPECT_EQ(::write(pipe.write.get(), text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
  }
};

TEST(LauncherOrders, AreReadAsTheyWereWritten) {
  Line line;
  line.write(line_of(kStop) + line_of(kLostRank) + line_of(kToldRank));
  EXPECT_THAT(line.orders.read(), ElementsAre(kStop, kLostRank, kToldRank));
  EXPECT_THAT(line.orders.read(), IsEmpty());
  EXPECT_NE(line.orders.fd(), -1);
  line.pipe.write.close();
  EXPECT_THAT(line.orders.read(), IsEmpty());
  EXPECT_EQ(line.orders.fd(), -1);
}

TEST(LauncherOrders, MayComeInPieces) {
  Line line;
  const std::string text = line_of(kLostRank);
  for (const char c : text.substr(0, text.size() - 1)) {
    line.write({&c, 1});
    EXPECT_THAT(line.orders.read(), IsEmpty());
  }
  line.write("\n");
  EXPECT_THAT(line.orders.read(), ElementsAre(kLostRank));
}

TEST(LauncherOrders, AnOrderIsOneLine) {
  Line line;
  line.write(line_of({Kind::kLost, 1, "a\nsignal 9"}));
  EXPECT_THAT(line.orders.read(), ElementsAre(Order{Kind::kLost, 1, "a signal 9"}));
}

TEST(LauncherOrders, WhatIsNoneIsLeftOut) {
  Line line;
  std::mt19937 random(3);
  for (const char* text :
       {"", " ", "signal", "signal x", "lost", "signals 9", "signal 99999999999"})
    line.write(std::string(text) + "\n");
  for (int i = 0; i < 100; ++i) {
    std::string noise;
    for (int n = 0; n < 30; ++n) noise += static_cast<char>(random() % 255 + 1);
    line.write(noise + "\n");
  }
  line.write(line_of(kStop));
  std::vector<Order> all;
  for (std::vector<Order> some; !(some = line.orders.read()).empty() || all.empty();)
    all.insert(all.end(), some.begin(), some.end());
  EXPECT_THAT(all, ElementsAre(kStop));
}

}  // namespace
}  // namespace runtime::launch
