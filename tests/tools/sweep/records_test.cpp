// Checks lines of sweep.jsonl, also torn ones.
#include "tools/sweep/records.h"

#include <gmock/gmock.h>

#include "runtime/error.h"
#include "tests/tools/sweep/files.h"

namespace tools::sweep {
namespace {

using trials::Json;

Record record(int64_t trial, int64_t rung, std::optional<double> value) {
  Record r;
  r.trial = trial;
  r.rung = rung;
  r.settings = {{"optimizer.lr", 0.1}, {"model.preset", "mlp"}};
  r.run = "runs/00" + std::to_string(trial);
  r.status = value ? "done" : "failed";
  r.monitor = "validation_loss";
  r.value = value;
  r.seconds = 1.5;
  if (!value) r.error = "a \"bad\" \xff byte\nand a line";
  return r;
}

TEST(Records, AreLinesOfJson) {
  const Folder folder;
  {
    Records records(folder.path("sweep.jsonl"));
    records.add(record(3, 1, 0.25));
    records.add(record(4, 0, std::nullopt));
  }
  const std::string text = folder.read("sweep.jsonl");
  const std::string first = text.substr(0, text.find('\n'));
  EXPECT_EQ(first,
            R"({"trial":3,"settings":{"optimizer.lr":0.1,"model.preset":"mlp"},"run":"runs/003",)"
            R"("rung":1,"status":"done","monitor":"validation_loss","value":0.25,"seconds":1.5})");
  const Json second = Json::parse(text.substr(first.size() + 1));
  EXPECT_TRUE(second["value"].is_null());
  EXPECT_EQ(second["status"], "failed");
  EXPECT_THAT(second["error"].get<std::string>(), testing::HasSubstr("and a line"));
}

TEST(Records, AreReadAgain) {
  const Folder folder;
  {
    Records records(folder.path("sweep.jsonl"));
    records.add(record(3, 1, 1.0 / 3));
    records.add(record(4, 0, std::nullopt));
  }
  Records records(folder.path("sweep.jsonl"));
  ASSERT_EQ(records.all().size(), 2u);
  EXPECT_EQ(records.all()[0].to_json(), record(3, 1, 1.0 / 3).to_json());
  EXPECT_FALSE(records.all()[1].done());
  EXPECT_EQ(records.find(3, 1)->value, 1.0 / 3);
  EXPECT_EQ(records.find(3, 0), nullptr);
  records.add(record(3, 1, 7));
  EXPECT_EQ(records.find(3, 1)->value, 7);
}

// Whatever of the last line a killed sweep has written.
TEST(Records, ATornLineIsCutOff) {
  const Folder folder;
  { Records(folder.path("whole.jsonl")).add(record(0, 0, 1)); }
  const std::string line = folder.read("whole.jsonl");
  for (size_t length = 0; length < line.size(); ++length) {
    const std::string path = folder.write("sweep.jsonl", line + line.substr(0, length));
    Records records(path);
    EXPECT_EQ(records.all().size(), 1u);
    EXPECT_EQ(folder.read("sweep.jsonl"), line);
    records.add(record(1, 0, 2));
    EXPECT_EQ(Records(path).all().size(), 2u);
  }
}

TEST(Records, ALineThatIsNoRecordIsAnError) {
  const Folder folder;
  for (const char* text : {"{}\n", "not json\n", "[1]\n", "{\"trial\":\"x\"}\n"}) {
    try {
      const Records records(folder.write("sweep.jsonl", text));
      ADD_FAILURE() << text;
    } catch (const runtime::DataError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("sweep.jsonl:1: is no record")) << text;
    }
  }
}

TEST(Records, AFileThatCannotBeWrittenIsAnError) {
  EXPECT_THROW(Records("/dev/null/folder/sweep.jsonl"), runtime::DataError);
}

}  // namespace
}  // namespace tools::sweep
