// The validation finds wrong uses of memory, and devices that hand out or count it wrongly.
#include "plugins/validate/memory.h"

#include "tests/plugins/validate/validated.h"

namespace plugins::host::testing {
namespace {

using ValidatedMemory = ValidatedTest;

// Calls the table, as code without the handles of this room would.
void* allocate(Device& device, uint64_t bytes, int32_t kind = RT_MEMORY_DEVICE) {
  void* address = nullptr;
  rt_error error = new_error();
  device.plugin().device_api()->allocate(device.get(), bytes, kind, &address, &error);
  return address;
}
void free_memory(Device& device, void* address, int32_t kind = RT_MEMORY_DEVICE) {
  device.plugin().device_api()->free(device.get(), address, kind);
}

TEST_F(ValidatedMemory, GoodUseHasNoFinding) {
  {
    const auto device = open();
    Stream stream = device->create_stream();
    const Memory memory = device->allocate(kBytes);
    const Memory pinned = device->allocate(kBytes, RT_MEMORY_PINNED_HOST);
    stream.fill(memory.data(), 1, kBytes);
    stream.copy(pinned.data(), memory.data(), kBytes);
    stream.synchronize();
    EXPECT_EQ(static_cast<const unsigned char*>(pinned.data())[kBytes - 1], 1);
    EXPECT_GE(device->memory_info().allocated_bytes, kBytes);
  }
  expect_no_finding();
  EXPECT_NO_THROW(validation_->throw_findings());
}

TEST_F(ValidatedMemory, AByteBehindAnAllocation) {
  const auto device = open();
  Stream stream = device->create_stream();
  const Memory pinned = device->allocate(kBytes, RT_MEMORY_PINNED_HOST);
  static_cast<char*>(pinned.data())[kBytes + 4] = 1;
  expect_finding(kPluginAtFault, "a byte was written 5 behind the end",
                 [&] { stream.synchronize(); });
}

TEST_F(ValidatedMemory, AByteInFrontOfAnAllocation) {
  const auto device = open();
  Stream stream = device->create_stream();
  const Memory pinned = device->allocate(kBytes, RT_MEMORY_PINNED_HOST);
  static_cast<char*>(pinned.data())[-2] = 1;
  expect_finding(kPluginAtFault, "a byte was written 2 in front", [&] { stream.synchronize(); });
}

TEST_F(ValidatedMemory, ASecondFree) {
  const auto device = open();
  void* const address = allocate(*device, kBytes);
  free_memory(*device, address);
  expect_no_finding();
  expect_finding(kRuntimeAtFault, "were freed before", [&] { free_memory(*device, address); });
}

TEST_F(ValidatedMemory, AFreeOfTheMiddle) {
  const auto device = open();
  const Memory memory = device->allocate(kBytes);
  expect_finding(kRuntimeAtFault, "are not the begin of an allocation",
                 [&] { free_memory(*device, static_cast<char*>(memory.data()) + 64); });
}

TEST_F(ValidatedMemory, AFreeWithAnotherKind) {
  const auto device = open();
  const Memory memory = device->allocate(kBytes);
  expect_finding(kRuntimeAtFault, "allocated with memory kind",
                 [&] { free_memory(*device, memory.data(), RT_MEMORY_PINNED_HOST); });
}

TEST_F(ValidatedMemory, AFreeOfWhatQueuedWorkUses) {
  [[maybe_unused]] const LeavesObjectsBehind on_purpose;
  const auto device = open();
  Stream stream = device->create_stream();
  void* const address = allocate(*device, kBytes);
  stream.fill(address, 0, kBytes);
  expect_finding(kRuntimeAtFault, "stream 0: fill", [&] {
    free_memory(*device, address);
    stream.synchronize();  // the first call that can fail after it
  });
}

TEST_F(ValidatedMemory, AUseAfterFree) {
  const auto device = open();
  Stream stream = device->create_stream();
  void* const address = allocate(*device, kBytes);
  free_memory(*device, address);
  expect_finding(kRuntimeAtFault, "freed", [&] { stream.fill(address, 0, kBytes); });
}

TEST_F(ValidatedMemory, AUseBeyondAnAllocation) {
  const auto device = open();
  Stream stream = device->create_stream();
  const Memory memory = device->allocate(kBytes);
  expect_finding(kRuntimeAtFault, "reach beyond the allocation",
                 [&] { stream.fill(memory.data(), 0, kBytes + 1); });
}

TEST_F(ValidatedMemory, NothingIsAllocated) {
  const auto device = open();
  expect_finding(kRuntimeAtFault, "0 bytes", [&] { allocate(*device, 0); });
}

TEST_F(ValidatedMemory, ALeakAtClose) {
  [[maybe_unused]] const LeavesObjectsBehind on_purpose;
  expect_finding(kRuntimeAtFault, "close: destroy everything first",
                 [&] { allocate(*open(), kBytes); });
  EXPECT_EQ(error_of([&] { validation_->throw_findings(); }).code(), RT_ERROR_INVALID_ARGUMENT);
}

TEST_F(ValidatedMemory, ADeviceThatAlignsToEight) {
  const auto device = open_mutant("aligns_to_eight");
  expect_finding(kPluginAtFault, "are not aligned", [&] { device->allocate(kBytes); });
  EXPECT_EQ(error_of([&] { validation_->throw_findings(); }).code(), RT_ERROR_INTERNAL);
}

TEST_F(ValidatedMemory, ADeviceThatCountsNoBytes) {
  const auto device = open_mutant("counts_no_bytes");
  const Memory memory = device->allocate(kBytes);
  expect_finding(kPluginAtFault, "allocated_bytes is 0", [&] { device->memory_info(); });
}

TEST_F(ValidatedMemory, ADeviceWithMoreFreeThanTotal) {
  const auto device = open_mutant("has_more_free_than_total");
  expect_finding(kPluginAtFault, "more than total_bytes", [&] { device->memory_info(); });
}

TEST_F(ValidatedMemory, ACopyOutOfAnotherDevice) {
  const auto device = open(), other = open({}, 1);
  Stream stream = device->create_stream();
  const Memory here = device->allocate(kBytes), there = other->allocate(kBytes);
  expect_finding(kRuntimeAtFault, "are memory of simulated:1",
                 [&] { stream.copy(here.data(), there.data(), kBytes); });
}

}  // namespace
}  // namespace plugins::host::testing
