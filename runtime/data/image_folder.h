// Which files of a folder of images are read, and as what class.
#ifndef RUNTIME_DATA_IMAGE_FOLDER_H_
#define RUNTIME_DATA_IMAGE_FOLDER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace runtime::data {

// What was found in a folder and is not read, with the reasons.
class Skipped {
 public:
  void add(const char* reason, const std::string& path);
  // Returns, for example, "; skipped: 2 hidden (a/.x.png, ...), 1 behind a link to nothing
  // (b/y.png)", with the first path for each reason; "" if nothing was skipped.
  std::string text() const;

 private:
  struct Group {
    int64_t count = 0;
    std::string first;
  };
  std::map<std::string, Group> groups_;  // by reason
};

// The folders of the training part and of the validation part ("": there is none). Each holds one
// folder for each class.
struct ImageParts {
  std::string train, validation;
};

// Divides `folder` into its folders train and val, if it has a folder train and all other folders
// with images are called val, valid, validation or test; otherwise the whole folder is the training
// part, and "train" may be a class among others. Throws DataError if it could be meant in both
// ways, because train holds only folders. What neither part holds is added to `skipped`.
ImageParts find_parts(const std::string& folder, bool with_validation, Skipped& skipped);

// Returns the folders of classes in the order of their labels, which is that of their names; hidden
// ones are none.
std::vector<std::string> class_names(const std::string& folder);

// One image.
struct ImageSample {
  std::string path;
  int32_t label = 0;
};

// Lists the images *.png, *.jpg and *.jpeg in the folders of classes, at any depth, also behind
// links. A folder that links lead to several times is read once for each class; names that begin
// with a dot are left out. Classes take turns in proportion to their sizes, so that the last
// samples, which validation_split takes, include each class. What is left out is added to
// `skipped`. Throws DataError if a folder cannot be read, is not one of `classes` or has no image.
// Equivalent to: torchvision's ImageFolder, in another order and without hidden files.
std::vector<ImageSample> list_images(const std::string& folder,
                                     const std::vector<std::string>& classes, Skipped& skipped);

// Whether a path is one file, or a folder without folders of classes.
bool lacks_classes(const std::string& path);

// Lists the one file, or the images in the folder in the order of their names, with the label 0.
// Throws DataError if there is no image.
std::vector<ImageSample> list_unlabelled(const std::string& path, Skipped& skipped);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_IMAGE_FOLDER_H_
