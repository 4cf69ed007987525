// Structs of a caller that are shorter or longer than those of the plugin.
#include "rt/sdk/structs.h"

#include <gtest/gtest.h>

#include <functional>

#include "rt/sdk/communicator.h"
#include "rt/sdk/operation.h"
#include "rt/sdk/plugin.h"

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

void write(rt_device_properties* output) { write_output(output, answer()); }

void expect_error(rt_status code, const char* words, const std::function<void()>& body) {
  try {
    body();
    ADD_FAILURE() << "expected: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    EXPECT_STREQ(error.what(), words);
  }
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
  expect_error(RT_ERROR_INVALID_ARGUMENT,
               "rt_device_properties has 480 bytes; expected at least 488",
               [&] { write(caller.properties()); });
  expect_error(RT_ERROR_INVALID_ARGUMENT, "rt_device_properties is missing",
               [&] { write(nullptr); });
}

// A struct of a later host: the fields of this version and one more.
template <typename T>
struct Later {
  explicit Later(T value) : known(value) { known.size = sizeof(*this); }
  T known;
  uint64_t appended = 0;
};

TEST(CheckInput, TakesATailThatIsZero) {
  Later<rt_tensor_desc> tensor({});
  EXPECT_NO_THROW(check_input(&tensor.known));
  tensor.appended = 1;
  expect_error(RT_ERROR_TOO_NEW,
               "rt_tensor_desc has 96 bytes and uses what lies behind the 88 bytes of version 1.2 "
               "of the contract, which this plugin was built for; use a plugin that was built for "
               "the version of this host",
               [&] { check_input(&tensor.known); });
}

TEST(CheckInput, RefusesAStructThatIsTooShort) {
  rt_collective call{};
  call.size = RT_COLLECTIVE_SIZE_V1 - 1;
  expect_error(RT_ERROR_INVALID_ARGUMENT, "rt_collective has 55 bytes; expected at least 56",
               [&] { check_input(&call); });
}

TEST(CheckInput, ChecksEveryOption) {
  Later<rt_option> option({});
  const rt_option* const options[] = {&option.known};
  rt_comm_options given{};
  given.size = sizeof(given);
  given.options = options;
  given.option_count = 1;
  EXPECT_NO_THROW(check_input(&given));
  option.appended = 1;
  EXPECT_THROW(check_input(&given), Error);
}

TEST(ReadInput, TakesNoMoreThanTheCallerHas) {
  rt_device_properties given{};
  given.size = RT_DEVICE_PROPERTIES_SIZE_V1;
  given.alignment = 64;
  given.priority = 7;  // lies behind the struct
  const rt_device_properties copy = read_input(&given);
  EXPECT_EQ(copy.size, given.size);
  EXPECT_EQ(copy.alignment, 64u);
  EXPECT_EQ(copy.priority, 0);
}

TEST(ReadInput, NeverSaysMoreThanTheCopyHas) {
  const Later<rt_tensor_desc> tensor({});
  EXPECT_EQ(read_input(&tensor.known).size, sizeof(rt_tensor_desc));
}

TEST(WriteElement, KeepsTheDistanceOfTheCaller) {
  for (const uint32_t stride : {uint32_t{RT_COMM_CAPABILITY_SIZE_V1}, uint32_t{64}}) {
    alignas(8) unsigned char bytes[10 * 64];
    std::memset(bytes, kUntouched, sizeof(bytes));
    auto* rows = reinterpret_cast<rt_comm_capability*>(bytes);
    rows->size = stride;
    constexpr uint32_t count = 9;
    for (uint32_t i = 0; i < count; ++i) {
      rt_comm_capability value{};
      value.collective = static_cast<int32_t>(i) + 1;
      write_element(rows, i, value);
      const auto* row = reinterpret_cast<rt_comm_capability*>(bytes + i * stride);
      EXPECT_EQ(row->size, stride);
      EXPECT_EQ(row->collective, static_cast<int32_t>(i) + 1);
    }
    EXPECT_EQ(bytes[count * stride], kUntouched);
  }
}

TEST(Operation, ChecksAndCopiesWhatTheDescriptionPointsTo) {
  Later<rt_tensor_desc> tensor({});
  Later<rt_attribute> attribute({});
  attribute.known.name = "alpha";
  Later<rt_post_op> post_op({});
  const rt_tensor_desc* const tensors[] = {&tensor.known};
  const rt_attribute* const attributes[] = {&attribute.known};
  const rt_post_op* const post_ops[] = {&post_op.known};
  Later<rt_op_desc> op({});
  op.known.name = "scale";
  op.known.inputs = op.known.outputs = tensors;
  op.known.attributes = attributes;
  op.known.post_ops = post_ops;
  op.known.input_count = op.known.output_count = 1;
  op.known.attribute_count = op.known.post_op_count = 1;
  const Operation taken(&op.known);
  EXPECT_NE(&taken.input(0), &tensor.known);
  EXPECT_EQ(taken.input(0).size, sizeof(rt_tensor_desc));
  for (uint64_t* appended :
       {&tensor.appended, &attribute.appended, &post_op.appended, &op.appended}) {
    *appended = 1;
    EXPECT_THROW(Operation{&op.known}, Error);
    *appended = 0;
  }
}

TEST(Negotiate, WritesTheMinorVersionWhereThereIsRoom) {
  rt_negotiation n{};
  n.host_major_min = n.host_major_max = RT_ABI_MAJOR;
  n.size = RT_NEGOTIATION_SIZE_V1;
  negotiate(&n, "mine");
  EXPECT_EQ(n.plugin_major, static_cast<uint32_t>(RT_ABI_MAJOR));
  EXPECT_EQ(n.plugin_minor, 0u);
  n.size = sizeof(n);
  negotiate(&n, "mine");
  EXPECT_EQ(n.plugin_minor, static_cast<uint32_t>(RT_ABI_MINOR));
}

TEST(Negotiate, RefusesAHostOfAnotherMajorVersionAndStillNamesItsOwn) {
  rt_negotiation n{};
  n.size = sizeof(n);
  n.host_major_min = n.host_major_max = RT_ABI_MAJOR + 1;
  expect_error(RT_ERROR_VERSION,
               "plugin mine was built for version 1.2 of the contract, the host speaks 2 to 2; "
               "rebuild one of them",
               [&] { negotiate(&n, "mine"); });
  EXPECT_EQ(n.plugin_major, static_cast<uint32_t>(RT_ABI_MAJOR));
}

}  // namespace
}  // namespace rt::sdk
