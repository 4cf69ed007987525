// The folder of a new plugin.
#include "plugins/new/project.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

namespace plugins::create {
namespace {

namespace fs = std::filesystem;

class NewProject : public testing::Test {
 public:
  NewProject() { fs::create_directories(folder_); }
  ~NewProject() override { fs::remove_all(folder_); }

 protected:
  Project project(const std::string& kind, const std::string& name) const {
    return {kind, name, TEMPLATES, folder_ / name};
  }
  std::string refusal(const Project& project) const {
    try {
      make_project(project);
    } catch (const Refusal& refused) {
      return refused.what();
    }
    ADD_FAILURE() << "no refusal";
    return "";
  }

  const fs::path folder_ =
      fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
};

std::string text_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST_F(NewProject, HasItsNameEverywhere) {
  for (const Kind& kind : kinds()) {
    const Project made = project(kind.word, "night_owl_" + kind.word);
    const auto files = make_project(made);
    EXPECT_GE(files.size(), 5u) << kind.word;
    for (const fs::path& file : files) {
      const std::string text = text_of(made.output / file);
      EXPECT_EQ(text.find(kind.folder), std::string::npos) << file;
      EXPECT_EQ(file.string().find(kind.folder), std::string::npos) << file;
    }
    EXPECT_NE(text_of(made.output / "plugin.cpp").find("\"" + made.name + "\""), std::string::npos)
        << kind.word;
    EXPECT_NE(text_of(made.output / ".github/workflows/check.yml").find("lib" + made.name + ".so"),
              std::string::npos);
  }
}

TEST_F(NewProject, IsRefusedWithTheReason) {
  EXPECT_NE(refusal(project("devise", "owl")).find("did you mean \"device\"?"), std::string::npos);
  EXPECT_NE(refusal(project("device", "Night Owl")).find("[a-z][a-z0-9_]*"), std::string::npos);
  make_project(project("device", "owl"));
  EXPECT_NE(refusal(project("device", "owl")).find("exists"), std::string::npos);
  Project elsewhere = project("device", "barn_owl");
  elsewhere.templates = folder_ / "none";
  EXPECT_NE(refusal(elsewhere).find("runtime-dev"), std::string::npos);
  EXPECT_FALSE(fs::exists(elsewhere.output));
}

}  // namespace
}  // namespace plugins::create
