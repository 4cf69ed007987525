// Checks that addresses lead to their objects, count as no memory, and can be given back.
#include "rt/sdk/address_map.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace rt::sdk {
namespace {

TEST(AddressMap, FindsTheObjectAndTheOffset) {
  AddressMap<int> map;
  auto* const first = static_cast<char*>(map.add(1, 100));
  auto* const second = static_cast<char*>(map.add(2, 5000));
  EXPECT_EQ(map.find(first).object, 1);
  EXPECT_EQ(map.find(first + 99).offset, 99u);
  EXPECT_EQ(map.find(first + 99).room, 1u);
  EXPECT_FALSE(map.find(first + 100)) << "behind the object, though on its page";
  EXPECT_EQ(map.find(second + 4096).object, 2);
  EXPECT_EQ(map.find(second + 4096).offset, 4096u);
  EXPECT_FALSE(map.find(nullptr));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(second) % 4096, 0u);
}

TEST(AddressMap, CountsBytes) {
  AddressMap<int> map;
  EXPECT_EQ(map.bytes(), 0u);
  void* const first = map.add(1, 100);
  char host[16];
  map.add_at(host, 2, sizeof(host));
  map.add_at(host, 3, sizeof(host));  // is there already
  EXPECT_EQ(map.bytes(), 116u);
  map.remove(first);
  map.remove(first);
  EXPECT_EQ(map.bytes(), 16u);
}

TEST(AddressMap, AddressesAreNoMemoryOfTheHost) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        AddressMap<int> map;
        std::fputs("will read", stderr);
        static_cast<void>(*static_cast<volatile char*>(map.add(1, 64)));
        std::exit(0);
      },
      "will read");
}

TEST(AddressMap, RemovesByTheFirstAddressOnly) {
  AddressMap<std::shared_ptr<int>> map;
  const auto object = std::make_shared<int>(7);
  auto* const begin = static_cast<char*>(map.add(object, 64));
  EXPECT_EQ(map.remove(begin + 1), nullptr);
  EXPECT_EQ(map.remove(begin), object);
  EXPECT_EQ(map.remove(begin), nullptr);
  EXPECT_FALSE(map.find(begin));
  EXPECT_EQ(object.use_count(), 1);
}

TEST(AddressMap, KeepsAddressesThatObjectsHave) {
  std::vector<char> memory(64);
  AddressMap<int> map;
  map.add_at(memory.data(), 3, memory.size());
  EXPECT_EQ(map.find(memory.data() + 10).offset, 10u);
  EXPECT_EQ(map.remove(memory.data()), 3);
  memory[0] = 1;  // was not given back to the system
}

// 1 TiB of addresses needs no memory.
TEST(AddressMap, ReservesMoreThanThereIsMemory) {
  AddressMap<int> map;
  auto* const begin = static_cast<char*>(map.add(1, uint64_t{1} << 40));
  EXPECT_EQ(map.find(begin + (uint64_t{1} << 39)).room, uint64_t{1} << 39);
}

TEST(AddressMap, ManyThreadsMayUseIt) {
  AddressMap<int> map;
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 1; t <= 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        void* const address = map.add(t, 64);
        if (map.find(address).object != t || map.remove(address) != t) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace rt::sdk
