// Where the files of [dataset] are searched for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "runtime/config/choices.h"
#include "runtime/config/config.h"
#include "runtime/data/open.h"
#include "runtime/data/tokenizer.h"
#include "runtime/error.h"
#include "runtime/model/layer_types.h"
#include "runtime/train/open.h"
#include "runtime/train/options.h"
#include "tests/runtime/support/names.h"

namespace runtime::train {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class OpenData : public testing::Test {
 public:
  ~OpenData() override { fs::remove_all(folder_); }

 protected:
  OpenData() : folder_(fs::temp_directory_path() / ("open_data_test_" + std::to_string(getpid()))) {
    fs::create_directories(folder_ / "first");
    fs::create_directories(folder_ / "second" / "tables");
    search_path_ = (folder_ / "first").string() + ":" + (folder_ / "second").string();
  }
  // Writes a table with so many rows.
  void write(const std::string& name, int rows) const {
    std::ofstream file(folder_ / name);
    file << "x,y\n";
    for (int i = 0; i < rows; ++i) file << i << "," << 2 * i << "\n";
  }

  static config::Config table(const std::string& path, const std::string& validation = "") {
    return config::load_text(
        "model = { input = [1], layers = [{ type = \"linear\", features = 1 }] }\n"
        "training.global_batch_size = 2\n[dataset]\nformat = \"csv\"\ntarget = \"y\"\n"
        "task = \"regression\"\npath = \"" +
            path + "\"\nvalidation_path = \"" + validation + "\"\n",
        "test", {}, "", model::layer_types());
  }

  std::string message_of(const config::Config& config) const {
    try {
      open_data(config, search_path_.c_str());
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  }

  fs::path folder_;
  std::string search_path_;
};

// A format, a data set and a tokenizer have two halves: what the configuration knows, and what
// opens them.
TEST(OpenDataNames, EachNameOfTheConfigurationIsWritten) {
  const auto same = [](const std::vector<std::string>& written, const auto& rows) {
    test::expect_both_halves(names_of_rows(rows), "runtime/config/formats.cpp", written,
                             "runtime/data");
  };
  same(data::format_names(), config::formats());
  same(data::well_known_names(), config::known_data());
  same(data::tokenizer_names(), config::tokenizers());
  for (const config::KnownData& known : config::known_data())
    EXPECT_NE(find_choice(config::formats(), known.format), nullptr) << known.name;
  for (const config::Tokenizer& tokenizer : config::tokenizers())
    EXPECT_EQ(data::learns_characters(tokenizer.name), tokenizer.learns);
}

TEST_F(OpenData, TargetsFarFromOneAreNamed) {
  const auto advice = [&](const std::string& targets) {
    std::ofstream(folder_ / "first" / "t.csv") << "x,y\n" << targets;
    const config::Config config = table("t.csv");
    return target_advice(config, *open_data(config, search_path_.c_str()).train);
  };
  EXPECT_THAT(advice("1,-200000\n2,200000\n"),
              AllOf(HasSubstr("about 200000"), HasSubstr("dataset.target = \"y\"")));
  EXPECT_THAT(advice("1,0.0001\n"), HasSubstr("expected 0.01 to 100"));
  EXPECT_EQ(advice("1,0\n2,0\n"), "");
  EXPECT_EQ(advice("1,99\n2,0\n"), "");
}

TEST_F(OpenData, SamplesMustFitTheInput) {
  EXPECT_NO_THROW(check_input({3, 4, 5}, {.shape = {4, 5, 3}}));
  EXPECT_THROW(check_input({2}, {.shape = {3}}), ConfigurationError);
}

TEST_F(OpenData, ABatchThatTheDataCannotFillGetsAdvice) {
  write("one.csv", 1);
  write("two.csv", 2);
  const auto advice = [&](const char* name) {
    const config::Config config = table((folder_ / name).string());
    return batch_advice(config, *open_data(config, nullptr).train);
  };
  EXPECT_EQ(advice("two.csv"), "");
  EXPECT_EQ(advice("one.csv"),
            "training.global_batch_size = 2, but there are 1 samples to train on, so that an epoch "
            "is one step with 1 of them; expected at most 1: set a smaller batch, or use more "
            "data");
}

TEST_F(OpenData, ImagesGetAsManyWorkersAsTheRankHasThreads) {
  config::Config config = table("a.csv");
  config.device.threads = 4;
  EXPECT_EQ(train_loader_options(config).workers, 1);
  config.dataset.format = "images";
  EXPECT_EQ(train_loader_options(config).workers, 4);
  EXPECT_EQ(validation_loader_options(config).workers, 4);
  config.device.threads = 64;
  EXPECT_EQ(train_loader_options(config).workers, 8);
  config.device.threads = 0;  // all cores
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  EXPECT_EQ(train_loader_options(config).workers, std::clamp(cores, 1, 8));
  config.dataset.workers = 12;
  EXPECT_EQ(train_loader_options(config).workers, 12);
}

TEST_F(OpenData, LossesOfProbabilitiesRefuseOtherTargets) {
  write("first/a.csv", 3);  // targets 0, 2, 4
  config::Config config = table("a.csv");
  config.training.loss = "binary_cross_entropy";
  EXPECT_THAT(message_of(config), AllOf(HasSubstr("sample 1: target 0 is 2.0"),
                                        HasSubstr("expected a probability, from 0 to 1")));
  write("first/a.csv", 1);
  EXPECT_EQ(message_of(config), "");
  config.training.loss = "kl_divergence";
  EXPECT_THAT(message_of(config), HasSubstr("its targets sum to 0.0"));
}

TEST_F(OpenData, RelativeFilesAreFoundInTheSearchPath) {
  write("second/tables/a.csv", 3);
  write("first/v.csv", 5);
  const data::DatasetPair pair = open_data(table("tables/a.csv", "v.csv"), search_path_.c_str());
  EXPECT_EQ(pair.train->size(), 3);
  EXPECT_EQ(pair.validation->size(), 5);
}

TEST_F(OpenData, TheFirstFolderWins) {
  write("second/a.csv", 3);
  write("first/a.csv", 4);
  EXPECT_EQ(open_data(table("a.csv"), search_path_.c_str()).train->size(), 4);
}

TEST_F(OpenData, TheWorkingFolderGoesBeforeTheSearchPath) {
  write("a.csv", 2);
  write("first/a.csv", 4);
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  const data::DatasetPair pair = open_data(table("a.csv"), search_path_.c_str());
  fs::current_path(before);
  EXPECT_EQ(pair.train->size(), 2);
}

TEST_F(OpenData, AnAbsolutePathIsTakenAsItIs) {
  write("a.csv", 6);
  EXPECT_EQ(open_data(table((folder_ / "a.csv").string()), "").train->size(), 6);
}

TEST_F(OpenData, AMissingFileNamesAllPlacesThatWereTried) {
  write("first/a.csv", 3);
  EXPECT_THAT(message_of(table("a.csv", "none.csv")),
              AllOf(HasSubstr("dataset.validation_path = \"none.csv\""),
                    HasSubstr("the configuration file's"), HasSubstr(fs::current_path().string()),
                    HasSubstr(folder_.string() + "/first"), HasSubstr(folder_.string() + "/second"),
                    HasSubstr("RUNTIME_DATA_PATH")));
}

}  // namespace
}  // namespace runtime::train
