// Checks that a rank reads the memory of the right process only, and not where that is forbidden.
#include "collectives/mesh/peer_memory.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

namespace collectives::mesh {
namespace {

// A child of this process that waits, with the same memory as this process at the time of the fork.
class Child {
 public:
  Child() : process_(::fork()) {
    if (process_ == 0) {
      ::pause();
      ::_exit(0);
    }
  }
  ~Child() { end(); }
  void end() {
    if (process_ > 0) ::kill(process_, SIGKILL);
    if (process_ > 0) ::waitpid(process_, nullptr, 0);
    process_ = 0;
  }
  pid_t process() const { return process_; }

 private:
  pid_t process_;
};

uint64_t address_of(const void* p) { return reinterpret_cast<uint64_t>(p); }

class PeerMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!PeerMemory(token_.card()).is_readable()) GTEST_SKIP() << "process_vm_readv is forbidden";
  }
  Token token_;
  std::vector<char> data_ = std::vector<char>(100000, 'x');
  std::vector<char> copy_ = std::vector<char>(100000);
};

TEST_F(PeerMemoryTest, OfAnotherProcess) {
  Child child;
  MemoryCard card = token_.card();
  card.process = child.process();
  const PeerMemory memory(card);
  ASSERT_TRUE(memory.is_readable());
  data_.assign(data_.size(), 'y');  // the child still has the old bytes
  ASSERT_TRUE(memory.read(address_of(data_.data()), copy_.data(), copy_.size()));
  EXPECT_EQ(copy_, std::vector<char>(copy_.size(), 'x'));
  child.end();
  EXPECT_FALSE(memory.read(address_of(data_.data()), copy_.data(), copy_.size()));
}

TEST_F(PeerMemoryTest, OfAnotherMachineOrProcess) {
  MemoryCard card = token_.card();
  card.machine ^= 1;
  EXPECT_FALSE(PeerMemory(card).is_readable());
  card = token_.card();
  card.token ^= 1;  // as if another process had the number
  EXPECT_FALSE(PeerMemory(card).is_readable());
  EXPECT_FALSE(PeerMemory().is_readable());
}

TEST_F(PeerMemoryTest, RevokedOrNotThere) {
  const PeerMemory memory(token_.card());
  EXPECT_TRUE(memory.read(address_of(data_.data()), copy_.data(), copy_.size()));
  EXPECT_FALSE(memory.read(64, copy_.data(), copy_.size()));
  token_.revoke();
  EXPECT_FALSE(memory.read(address_of(data_.data()), copy_.data(), copy_.size()));
  EXPECT_FALSE(PeerMemory(token_.card()).is_readable());
}

}  // namespace
}  // namespace collectives::mesh
