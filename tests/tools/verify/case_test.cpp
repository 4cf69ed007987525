// A case can be written, read and run again; a damaged or hostile folder is refused with a message.
#include "tools/verify/case.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/error.h"
#include "tests/runtime/support/devices.h"
#include "tests/tools/verify/operations.h"
#include "tools/verify/candidates.h"
#include "tools/verify/replay.h"
#include "tools/verify/shrink.h"

namespace runtime::verify {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

// A case of an operation, with the results that `device` computes, right or wrong.
Case make_case(const std::shared_ptr<plugins::host::Device>& device, IsolatedOperation isolated) {
  const Judge judge(test::open_device("reference"));
  Case c;
  c.actual = run_isolated(device, isolated).outputs;
  c.expected = judge.expect(isolated);
  c.bounds = judge.bounds(isolated, c.expected, 0);
  c.candidate.implementation = "some kernel";
  c.definition = "reference:0";
  c.device = {device->id(), "a device", device->plugin().name(),  "1",
              "build",      0,          device->options().options};
  c.origin = {"net", "conv1", "forward", "reference:0", 2, 8, 4, 9, {"x", "w"}, {"y"}};
  c.isolated = std::move(isolated);
  return c;
}

class CaseFolder : public testing::Test {
 protected:
  std::string path() const { return (folder_.path() / "case").string(); }
  std::string file(const char* name) const { return path() + "/" + name; }
  std::string error() const {
    return test::message_of<DataError>([&] { read_case(path()); });
  }
  // The message for case.json with one value replaced.
  std::string error_with(const char* pointer, const json& value) const {
    json j = json::parse(test::read_text(file("case.json")));
    const json before = j;
    j[json::json_pointer(pointer)] = value;
    std::ofstream(file("case.json")) << j.dump();
    std::string message = error();
    std::ofstream(file("case.json")) << before.dump();
    return message;
  }
  void write(IsolatedOperation isolated) {
    write_case(path(), make_case(test::open_device("simulated"), std::move(isolated)));
  }

  test::TemporaryFolder folder_;
};

TEST_F(CaseFolder, ComesBackAsItWas) {
  IsolatedOperation isolated = test::pooling_gradient(2);
  isolated.in_place = {{0, 0}};
  const Case before = make_case(test::open_device("simulated"), isolated);
  write_case(path(), before);
  const Case after = read_case(path());
  EXPECT_EQ(case_to_json(after), case_to_json(before));
  EXPECT_EQ(after.isolated.inputs[0].bytes, before.isolated.inputs[0].bytes);
  EXPECT_EQ(after.isolated.forward_inputs[0].bytes, before.isolated.forward_inputs[0].bytes);
  EXPECT_EQ(after.expected[0].bytes, before.expected[0].bytes);
  EXPECT_EQ(after.actual[0].bytes, before.actual[0].bytes);
  EXPECT_EQ(after.isolated.operation.attributes, before.isolated.operation.attributes);
}

TEST_F(CaseFolder, ReplaysOnOtherDevices) {
  const auto wrong = test::open_device("simulated", {{"wrong", "conv2d"}});
  const Judge judge(test::open_device("reference"));
  auto reproduced = reproduce(judge, wrong, test::convolution(2));
  ASSERT_TRUE(reproduced);
  write_case(path(), make_case(wrong, reproduced->isolated));
  const Case c = read_case(path());
  EXPECT_FALSE(replay(wrong, judge, c, "").right());
  const Replay healthy = replay(test::open_device("reference"), judge, c, "");
  EXPECT_TRUE(healthy.right());
  EXPECT_THAT(healthy.note, HasSubstr("reference:0 does not offer the recorded candidate"));
  EXPECT_THAT(test::message_of<ConfigurationError>(
                  [&] { replay(test::open_device("reference"), judge, c, "fast"); }),
              AllOf(HasSubstr("--candidate fast"), HasSubstr("reference")));
}

TEST_F(CaseFolder, RunsInTheRecordedCandidate) {
  if (!test::has_backend("cpu")) GTEST_SKIP() << "the cpu plugin was not built";
  const auto cpu = test::open_device("cpu");
  const Judge judge(test::open_device("reference"));
  for (const Candidate& way : list_candidates(*cpu, test::convolution(4), false, nullptr)) {
    write_case(path(), make_case(cpu, way.isolated));
    const Replay result = replay(cpu, judge, read_case(path()), "");
    EXPECT_EQ(result.note, "");
    ASSERT_EQ(result.candidates.size(), 1u);
    EXPECT_TRUE(result.candidates[0].recorded);
    EXPECT_EQ(result.candidates[0].candidate, describe(*cpu, way));
  }
}

TEST_F(CaseFolder, AnUnknownLayoutIsNoCandidate) {
  const auto cpu = test::open_device("simulated");
  const Judge judge(test::open_device("reference"));
  Case c = make_case(cpu, test::convolution(2));
  c.isolated.operation.inputs[0].layout = 77;
  write_case(path(), c);
  EXPECT_THAT(replay(cpu, judge, read_case(path()), "").note, HasSubstr("does not offer"));
}

TEST_F(CaseFolder, OnlyNewOrEmptyFoldersAreWrittenTo) {
  check_case_folder(path());
  fs::create_directory(path());
  check_case_folder(path());
  write(test::convolution(1));
  EXPECT_THAT(test::message_of<ConfigurationError>([&] { check_case_folder(path()); }),
              HasSubstr("there is something already"));
}

TEST_F(CaseFolder, WhatIsTornOrMissing) {
  EXPECT_THAT(error(), HasSubstr("is no folder"));
  fs::create_directory(path());
  EXPECT_THAT(error(), HasSubstr("case.json"));
  write(test::convolution(2));
  for (const char* name :
       {"case.json", "operands.safetensors", "expected.safetensors", "actual.safetensors"}) {
    const std::string whole = test::read_text(file(name));
    for (const size_t keep : {size_t{0}, size_t{7}, whole.size() / 2, whole.size() - 3}) {
      std::ofstream(file(name), std::ios::binary) << whole.substr(0, keep);
      EXPECT_THAT(error(), HasSubstr(name)) << keep << " bytes of " << name;
    }
    fs::remove(file(name));
    EXPECT_THAT(error(), HasSubstr(name));
    std::ofstream(file(name), std::ios::binary) << whole;
  }
  EXPECT_EQ(error(), "");
}

TEST_F(CaseFolder, WhatIsNoCase) {
  write(test::convolution(2));
  EXPECT_THAT(error_with("/format", "weights"), HasSubstr("format is \"weights\"; expected"));
  EXPECT_THAT(error_with("/version", 2), HasSubstr("version is 2; expected"));
  EXPECT_THAT(error_with("/inputs/0/shape/0", 3),
              HasSubstr("case.json says float32 [3, 8, 8, 16]"));
  EXPECT_THAT(error_with("/inputs/0/shape/0", -1), HasSubstr("shape[0] is -1; expected"));
  EXPECT_THAT(error_with("/inputs/0/shape", {1 << 30, 1 << 30, 1 << 30}), HasSubstr("elements"));
  EXPECT_THAT(error_with("/inputs/0/shape", json::array({1, 1, 1, 1, 1, 1, 1, 1, 1})),
              HasSubstr("a list of at most 8"));
  EXPECT_THAT(error_with("/inputs/0/dtype", "float8"), HasSubstr("expected one of float32"));
  EXPECT_THAT(error_with("/inputs/0/layout_id", UINT64_MAX), HasSubstr("layout of a candidate"));
  EXPECT_THAT(error_with("/outputs/0/shape/3", 8), HasSubstr("expected.safetensors"));
  EXPECT_THAT(error_with("/post_operations/0/operand", 9), HasSubstr("expected a whole number"));
  EXPECT_THAT(error_with("/post_operations/0/kind", "pow"), HasSubstr("expected one of bias"));
  EXPECT_THAT(error_with("/attributes/stride_h", "two"), HasSubstr("expected a number"));
  EXPECT_THAT(error_with("/in_place", {{{"output", 0}, {"input", 5}}}), HasSubstr("in_place[0]"));
  EXPECT_THAT(error_with("/bounds", json::array()), HasSubstr("one for each output"));
  EXPECT_THAT(error_with("/device/threads", 100000), HasSubstr("device.threads"));
  EXPECT_THAT(error_with("/inputs", 5), HasSubstr("inputs is 5; expected a list"));
  EXPECT_THAT(error_with("/found", nullptr), HasSubstr("found is null; expected an object"));
  std::ofstream(file("case.json")) << std::string(100000, '[');
  EXPECT_NE(error(), "");
}

TEST_F(CaseFolder, IndicesThatLeadOutOfATable) {
  plugins::host::Operation op;
  op.name = RT_OP_EMBEDDING;
  op.inputs = {test::make_tensor_desc(RT_INT32, {2}), test::make_tensor_desc(RT_FLOAT32, {4, 3})};
  op.outputs = {test::make_tensor_desc(RT_FLOAT32, {2, 3})};
  IsolatedOperation isolated = test::with_random_inputs(op);
  const std::vector<int32_t> indices = {0, 3};
  isolated.inputs[0].bytes.resize(sizeof(int32_t) * 2);
  std::memcpy(isolated.inputs[0].bytes.data(), indices.data(), sizeof(int32_t) * 2);
  write(isolated);
  EXPECT_EQ(error(), "");
  data::TensorFile operands = data::read_safetensors(file("operands.safetensors"));
  operands.tensors.at("input.0").bytes[0] = std::byte{4};
  data::write_safetensors(file("operands.safetensors"), operands);
  EXPECT_THAT(error(), HasSubstr("has the index 4, expected 0..3"));
}

TEST_F(CaseFolder, LabelsOfTheForwardThatLeadOutOfTheLogits) {
  plugins::host::Operation forward;
  forward.name = RT_OP_CROSS_ENTROPY;
  forward.inputs = {test::make_tensor_desc(RT_FLOAT32, {1, 3}),
                    test::make_tensor_desc(RT_INT32, {1})};
  forward.outputs = {test::make_tensor_desc(RT_FLOAT32, {1})};
  Case c = make_case(test::open_device("simulated"), test::pooling_gradient(2));
  c.isolated.forward_inputs = {test::random_tensor(forward.inputs[0], 1),
                               {RT_INT32, {1}, std::vector<std::byte>(4, std::byte{0x7f})}};
  c.isolated.forward = forward;
  write_case(path(), c);
  EXPECT_THAT(error(), AllOf(HasSubstr("tensor 'forward.input.1'"), HasSubstr("expected 0..2")));
}

TEST_F(CaseFolder, OfACastComesBackToo) {
  plugins::host::Operation op;
  op.name = RT_OP_CAST;
  op.inputs = {test::make_tensor_desc(RT_FLOAT32, {3})};
  op.outputs = {test::make_tensor_desc(RT_FLOAT16, {3})};
  Case before = make_case(test::open_device("reference"), test::with_random_inputs(std::move(op)));
  write_case(path(), before);
  EXPECT_EQ(error(), "");
  EXPECT_EQ(read_case(path()).expected[0].bytes, before.expected[0].bytes);
}

}  // namespace
}  // namespace runtime::verify
