// The validation finds wrong uses of communicators and of the buffers of collectives.
#include "plugins/validate/collective.h"

#include <thread>

#include "plugins/host/communicator.h"
#include "tests/plugins/validate/validated.h"

namespace plugins::host::testing {
namespace {

using namespace std::chrono_literals;

class ValidatedCollective : public ValidatedTest {
 protected:
  // The host's store; the ranks of a test are made one after the other or meet in the plugin.
  HostServices services() {
    HostServices services;
    services.kv_set = [this](const std::string& key, const std::string& value) {
      const std::lock_guard lock(mutex_);
      values_[key] = value;
    };
    services.kv_get = [this](const std::string& key, std::chrono::nanoseconds) {
      for (;; std::this_thread::sleep_for(1ms)) {
        const std::lock_guard lock(mutex_);
        if (const auto found = values_.find(key); found != values_.end()) return found->second;
      }
    };
    return services;
  }
  std::shared_ptr<Communicator> join(int32_t rank, int32_t size) {
    CommunicatorOptions options;
    options.rank = rank;
    options.world_size = size;
    options.prefix = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    return Communicator::create(Plugin::load(fixture("fake_communicator"), services(), validation_),
                                options);
  }
  // Both ranks of a job of two.
  std::pair<std::shared_ptr<Communicator>, std::shared_ptr<Communicator>> join_two() {
    std::shared_ptr<Communicator> second;
    std::thread other([&] { second = join(1, 2); });
    auto first = join(0, 2);
    other.join();
    return {first, second};
  }
  rt_collective sum(const float* send, float* receive, uint64_t count) {
    return make_collective(RT_ALL_REDUCE, RT_FLOAT32, send, receive, count, RT_SUM);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> values_;
};

TEST_F(ValidatedCollective, AGoodCollectiveHasNoFinding) {
  {
    auto [first, second] = join_two();
    std::vector<float> a(kCount, 1), b(kCount, 2);
    Work one = first->enqueue(sum(a.data(), a.data(), kCount));
    Work two = second->enqueue(sum(b.data(), b.data(), kCount));
    one.wait(10s);
    two.wait(10s);
    EXPECT_EQ(a, std::vector<float>(kCount, 3));
    EXPECT_EQ(a, b);
  }
  expect_no_finding();
}

TEST_F(ValidatedCollective, BuffersThatOverlap) {
  const auto communicator = join(0, 1);
  std::vector<float> a(kCount + 1);
  expect_finding(kRuntimeAtFault, "overlap, and the collective is not in place",
                 [&] { communicator->enqueue(sum(a.data(), a.data() + 1, kCount)); });
}

TEST_F(ValidatedCollective, ABufferThatIsMissing) {
  const auto communicator = join(0, 1);
  std::vector<float> a(kCount);
  expect_finding(kRuntimeAtFault, "receive: is NULL",
                 [&] { communicator->enqueue(sum(a.data(), nullptr, kCount)); });
}

TEST_F(ValidatedCollective, AStreamThatNobodyMade) {
  const auto communicator = join(0, 1);
  std::vector<float> a(kCount);
  rt_collective collective = sum(a.data(), a.data(), kCount);
  int no_stream = 0;
  collective.stream = reinterpret_cast<rt_stream*>(&no_stream);
  expect_finding(kRuntimeAtFault, "got no stream that a plugin of this registry has made",
                 [&] { communicator->enqueue(collective); });
}

TEST_F(ValidatedCollective, AWriteToTheBufferOfACollectiveInFlight) {
  const auto device = open();
  Stream stream = device->create_stream();
  const Memory memory = device->allocate(kBytes, RT_MEMORY_PINNED_HOST);
  auto [first, second] = join_two();
  auto* const buffer = static_cast<float*>(memory.data());
  std::vector<float> other(kCount);
  Work one = first->enqueue(sum(buffer, buffer, kCount));  // the other rank has not come yet
  expect_finding(kRuntimeAtFault, "while a collective uses them",
                 [&] { stream.fill(buffer, 0, kBytes); });
  Work two = second->enqueue(sum(other.data(), other.data(), kCount));
  one.wait(10s);
  two.wait(10s);
}

TEST_F(ValidatedCollective, ACollectiveOnWhatQueuedWorkWrites) {
  const auto device = open();
  Stream stream = device->create_stream();
  const Memory memory = device->allocate(kBytes, RT_MEMORY_PINNED_HOST);
  const auto communicator = join(0, 1);
  auto* const buffer = static_cast<float*>(memory.data());
  stream.fill(buffer, 0, kBytes);
  expect_finding(kRuntimeAtFault, "no event and no synchronisation orders",
                 [&] { communicator->enqueue(sum(buffer, buffer, kCount)); });
  stream.synchronize();
}

TEST_F(ValidatedCollective, AUseAfterAbort) {
  const auto communicator = join(0, 1);
  std::vector<float> a(kCount);
  communicator->abort();
  expect_finding(kRuntimeAtFault, "this thread has aborted the communicator before",
                 [&] { communicator->enqueue(sum(a.data(), a.data(), kCount)); });
}

TEST_F(ValidatedCollective, AGroupThatIsNotOpen) {
  const auto communicator = join(0, 1);
  rt_error error = {};
  error.size = sizeof(error);
  expect_finding(kRuntimeAtFault, "no group is open", [&] {
    communicator->plugin().communicator_api()->group_end(communicator->get(), &error);
  });
}

TEST_F(ValidatedCollective, AWorkThatOutlivesItsCommunicator) {
  [[maybe_unused]] const LeavesObjectsBehind on_purpose;
  const auto plugin = Plugin::load(fixture("fake_communicator"), services(), validation_);
  const rt_communicator_api& api = *plugin->communicator_api();
  rt_error error = {};
  error.size = sizeof(error);
  rt_comm_options options{};
  options.size = sizeof(options);
  options.world_size = 1;
  options.prefix = "outlives";
  options.interface = "";
  options.timeout_ns = 10'000'000'000;
  rt_communicator* communicator = nullptr;
  ASSERT_EQ(api.create(plugin->self(), &options, &communicator, &error), RT_OK) << error.message;
  std::vector<float> a(kCount);
  const rt_collective collective = sum(a.data(), a.data(), kCount);
  rt_work* work = nullptr;
  ASSERT_EQ(api.enqueue(communicator, &collective, &work, &error), RT_OK) << error.message;
  ASSERT_EQ(api.work_wait(work, 10'000'000'000, &error), RT_OK) << error.message;
  expect_no_finding();
  expect_finding(kRuntimeAtFault, "a work of the communicator still lives",
                 [&] { api.destroy(communicator); });
}

TEST_F(ValidatedCollective, ADeviceThatNobodyMade) {
  const auto plugin = Plugin::load(fixture("fake_communicator"), services(), validation_);
  rt_error error = {};
  error.size = sizeof(error);
  rt_comm_options options{};
  options.size = sizeof(options);
  options.world_size = 1;
  options.prefix = "nobody";
  options.interface = "";
  options.timeout_ns = 10'000'000'000;
  int no_device = 0;
  options.device = reinterpret_cast<rt_device*>(&no_device);
  rt_communicator* communicator = nullptr;
  expect_finding(kRuntimeAtFault, "got no device that a plugin of this registry has made", [&] {
    plugin->communicator_api()->create(plugin->self(), &options, &communicator, &error);
  });
}

TEST_F(ValidatedCollective, AGroupInAGroup) {
  const auto communicator = join(0, 1);
  const rt_communicator_api& api = *communicator->plugin().communicator_api();
  rt_error error = {};
  error.size = sizeof(error);
  ASSERT_EQ(api.group_begin(communicator->get(), &error), RT_OK);
  expect_finding(kRuntimeAtFault, "a group is open already",
                 [&] { api.group_begin(communicator->get(), &error); });
  api.group_end(communicator->get(), &error);
}

TEST_F(ValidatedCollective, AWaitInAnOpenGroup) {
  const auto communicator = join(0, 1);
  const rt_communicator_api& api = *communicator->plugin().communicator_api();
  rt_error error = {};
  error.size = sizeof(error);
  std::vector<float> a(kCount);
  ASSERT_EQ(api.group_begin(communicator->get(), &error), RT_OK);
  Work work = communicator->enqueue(sum(a.data(), a.data(), kCount));
  expect_finding(kRuntimeAtFault, "the group of the collective is open; end it first",
                 [&] { work.wait(1s); });
  api.group_end(communicator->get(), &error);
}

TEST_F(ValidatedCollective, APluginThatWorksOnAfterAbort) {
  [[maybe_unused]] const LeavesObjectsBehind on_purpose;
  const auto good = Plugin::load(fixture("fake_communicator"), services());
  Tables tables;
  tables.communicator = *good->communicator_api();
  tables.communicator->abort = [](rt_communicator*, rt_error*) -> rt_status { return RT_OK; };
  const auto plugin = validation_->wrap("faulty", good->self(), tables, RT_ABI_MINOR);
  const rt_communicator_api& api = *plugin->tables().communicator;
  rt_error error = {};
  error.size = sizeof(error);
  rt_comm_options options{};
  options.size = sizeof(options);
  options.world_size = 1;
  options.prefix = "works on";
  options.interface = "";
  options.timeout_ns = 10'000'000'000;
  rt_communicator* communicator = nullptr;
  ASSERT_EQ(api.create(plugin->self(), &options, &communicator, &error), RT_OK) << error.message;
  std::thread([&] { api.abort(communicator, &error); }).join();
  std::vector<float> a(kCount);
  const rt_collective collective = sum(a.data(), a.data(), kCount);
  rt_work* work = nullptr;
  expect_finding(kPluginAtFault, "answers RT_OK, although the communicator was aborted before",
                 [&] { api.enqueue(communicator, &collective, &work, &error); });
}

}  // namespace
}  // namespace plugins::host::testing
