// Structs that a caller asks to be filled, and that are shorter or longer than those of the plugin.
#include "rt/sdk/plugin.h"

#include <gtest/gtest.h>

#include "rt/device.h"

namespace rt::sdk {
namespace {

constexpr unsigned char kUntouched = 0xA5;

// A struct of a caller that knows `size` bytes, and bytes behind it.
struct Caller {
  alignas(8) unsigned char bytes[sizeof(rt_device_properties) + 64];
  explicit Caller(uint32_t size) {
    std::memset(bytes, kUntouched, sizeof(bytes));
    properties()->size = size;
  }
  rt_device_properties* properties() { return reinterpret_cast<rt_device_properties*>(bytes); }
  bool untouched_from(std::size_t first) const {
    return std::all_of(bytes + first, bytes + sizeof(bytes),
                       [](unsigned char b) { return b == kUntouched; });
  }
};

rt_device_properties answer() {
  rt_device_properties p{};
  p.alignment = 64;
  p.priority = 7;
  return p;
}

void write(rt_device_properties* output) {
  write_output(output, answer(), RT_DEVICE_PROPERTIES_SIZE_V1, "rt_device_properties");
}

TEST(WriteOutput, LeavesWhatTheCallerDoesNotKnow) {
  Caller caller(RT_DEVICE_PROPERTIES_SIZE_V1);
  write(caller.properties());
  EXPECT_EQ(caller.properties()->size, static_cast<uint32_t>(RT_DEVICE_PROPERTIES_SIZE_V1));
  EXPECT_EQ(caller.properties()->alignment, 64u);
  EXPECT_TRUE(caller.untouched_from(RT_DEVICE_PROPERTIES_SIZE_V1));
}

TEST(WriteOutput, LeavesWhatOnlyTheCallerKnows) {
  Caller caller(sizeof(caller.bytes));
  write(caller.properties());
  EXPECT_EQ(caller.properties()->size, sizeof(caller.bytes));
  EXPECT_EQ(caller.properties()->priority, 7);
  EXPECT_TRUE(caller.untouched_from(sizeof(rt_device_properties)));
}

TEST(WriteOutput, RefusesAStructThatIsTooShort) {
  Caller caller(RT_DEVICE_PROPERTIES_SIZE_V1 - 8);
  for (rt_device_properties* output :
       {caller.properties(), static_cast<rt_device_properties*>(nullptr)}) {
    try {
      write(output);
      ADD_FAILURE() << "was written";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), RT_ERROR_INVALID_ARGUMENT);
      EXPECT_STREQ(error.what(), "rt_device_properties is missing or shorter than 488 bytes");
    }
  }
}

}  // namespace
}  // namespace rt::sdk
