// Folders whose files nobody decodes, so that their content does not matter.
#include "runtime/data/image_folder.h"

#include <gmock/gmock.h>

#include "tests/runtime/data/files.h"

namespace runtime::data {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class FolderTest : public testing::Test {
 protected:
  void write(std::initializer_list<const char*> names) const {
    for (const char* name : names) folder_.write(name, "");
  }
  void link(const std::string& to, const std::string& name) const {
    fs::create_directories(fs::path(folder_.path(name)).parent_path());
    fs::create_symlink(to, folder_.path(name));
  }
  // The images of the whole folder, without the name of the folder.
  std::vector<std::string> images() {
    std::vector<std::string> names;
    for (const ImageSample& image :
         list_images(folder_.path(), class_names(folder_.path()), skipped_))
      names.push_back(image.path.substr(folder_.path().size()));
    return names;
  }
  ImageParts parts() { return find_parts(folder_.path(), true, skipped_); }
  test::TempFolder folder_;
  Skipped skipped_;
};

TEST_F(FolderTest, LinksAreFollowed) {
  write({"a/1.png", "elsewhere.d/2.jpg", "elsewhere.d/deep/3.JPEG"});
  link("../elsewhere.d", "a/link");
  link("../elsewhere.d/2.jpg", "a/4.jpg");
  link("elsewhere.d", "b");
  EXPECT_THAT(images(), testing::UnorderedElementsAre(
                            "a/1.png", "a/4.jpg", "a/link/2.jpg", "a/link/deep/3.JPEG", "b/2.jpg",
                            "b/deep/3.JPEG", "elsewhere.d/2.jpg", "elsewhere.d/deep/3.JPEG"));
  EXPECT_EQ(skipped_.text(), "");
}

TEST_F(FolderTest, AFolderBehindSeveralLinksIsReadOnce) {
  write({"a/1.png", "a/z/2.png"});
  link("..", "a/z/up");
  link("z", "a/k");
  link("loop", "a/loop");
  EXPECT_THAT(images(), ElementsAre("a/1.png", "a/k/2.png"));
  EXPECT_THAT(skipped_.text(), AllOf(HasSubstr("2 again behind a link (" + folder_.path("a/k/up")),
                                     HasSubstr("1 behind a link to nothing")));
}

TEST_F(FolderTest, WhatIsSkippedIsCounted) {
  write({"a/1.png", "a/._1.png", "a/.thumbnails/1.png", "a/notes.txt", "a/3.webp", "7.png",
         ".git/b/1.png"});
  link("gone.png", "a/2.png");
  EXPECT_THAT(images(), ElementsAre("a/1.png"));
  EXPECT_THAT(skipped_.text(),
              AllOf(HasSubstr("; skipped: "), HasSubstr("3 hidden (" + folder_.path("a/._1.png")),
                    HasSubstr("2 not *.png, *.jpg or *.jpeg (" + folder_.path("a/3.webp, ...)")),
                    HasSubstr("1 behind a link to nothing (" + folder_.path("a/2.png)")),
                    HasSubstr("1 outside of the folders of classes")));
}

TEST_F(FolderTest, AClassWithoutImagesSaysWhatItHas) {
  write({"a/1.png", "b/.hidden.png"});
  EXPECT_THAT(test::message_of([&] { images(); }),
              AllOf(HasSubstr("/b: the folder of a class has no file *.png"),
                    HasSubstr("skipped: 1 hidden (")));
}

TEST_F(FolderTest, PartsAreTrainAndValAlone) {
  write({"train/cat/1.png", "val/cat/2.png", "test/cat/3.png", "devkit/labels.txt"});
  EXPECT_EQ(parts().train, folder_.path("train"));
  EXPECT_THAT(skipped_.text(), HasSubstr("2 beside the parts that are read"));
  EXPECT_EQ(parts().validation, folder_.path("val"));
  EXPECT_EQ(find_parts(folder_.path(), false, skipped_).validation, "");
}

TEST_F(FolderTest, AClassMayBeCalledTrain) {
  write({"train/1.png", "car/2.png", "plane/3.png", "test/4.png", "val/5.png"});
  EXPECT_EQ(parts().train, folder_.path());
  EXPECT_EQ(parts().validation, "");
  EXPECT_EQ(skipped_.text(), "");
  EXPECT_EQ(images().size(), 5u);
}

TEST_F(FolderTest, WhatCouldBeAPartOrAClassIsRefused) {
  write({"train/steam/1.png", "car/2.png"});
  EXPECT_THAT(test::message_of([&] { parts(); }),
              AllOf(HasSubstr("\"car\" beside it"),
                    HasSubstr("dataset.path = \"" + folder_.path("train") + "\"")));
}

}  // namespace
}  // namespace runtime::data
