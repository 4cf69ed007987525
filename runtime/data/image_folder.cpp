// Walks the folders of classes, follows links once, and counts what it skips and why.
#include "runtime/data/image_folder.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <set>
#include <tuple>

#include "runtime/error.h"

namespace runtime::data {
namespace {

namespace fs = std::filesystem;

constexpr char kHidden[] = "hidden";
constexpr char kOther[] = "not *.png, *.jpg or *.jpeg";
constexpr char kDangling[] = "behind a link to nothing";
constexpr char kNoFile[] = "neither file nor folder";
constexpr char kAgain[] = "again behind a link";
constexpr char kOutside[] = "outside of the folders of classes";
constexpr char kNoPart[] = "beside the parts that are read";
constexpr std::array<const char*, 5> kPartNames{"train", "val", "valid", "validation", "test"};

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

bool has_name_of_image(const fs::path& path) {
  std::string end = path.extension().string();
  std::transform(end.begin(), end.end(), end.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return end == ".png" || end == ".jpg" || end == ".jpeg";
}

// Calls visit(entry) for each entry in a folder, in the order of their names.
template <class Visit>
void walk(const fs::path& folder, const Visit& visit) {
  try {
    std::vector<fs::directory_entry> entries;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder))
      entries.push_back(entry);
    std::sort(entries.begin(), entries.end());
    for (const fs::directory_entry& entry : entries) visit(entry);
  } catch (const fs::filesystem_error& error) {
    throw DataError(folder.string() + ": the folder cannot be read: " + error.code().message() +
                    "; correct dataset.path, or its permissions");
  }
}

// Links may lead anywhere, also to where they lie, so each folder is read once.
class ClassReader {
 public:
  explicit ClassReader(Skipped& skipped) : skipped_(skipped) {}

  void read(const fs::path& folder) {
    if (!seen_.insert(fs::canonical(folder)).second) return skipped_.add(kAgain, folder.string());
    walk(folder, [this](const fs::directory_entry& entry) { visit(entry); });
  }
  std::vector<std::string> files;

 private:
  void visit(const fs::directory_entry& entry) {
    const std::string path = entry.path().string();
    std::error_code none;  // what cannot be asked for is a link to nothing
    if (is_hidden(entry.path())) return skipped_.add(kHidden, path);
    if (entry.is_directory(none)) return read(entry.path());
    if (!entry.exists(none)) return skipped_.add(kDangling, path);
    if (!has_name_of_image(entry.path())) return skipped_.add(kOther, path);
    if (!entry.is_regular_file(none)) return skipped_.add(kNoFile, path);
    files.push_back(path);
  }

  Skipped& skipped_;
  std::set<fs::path> seen_;
};

bool holds_images(const fs::path& folder) {
  Skipped ignored;
  ClassReader reader(ignored);
  reader.read(folder);
  return !reader.files.empty();
}

bool holds_images_itself(const fs::path& folder) {
  bool found = false;
  walk(folder, [&](const fs::directory_entry& entry) {
    found |= !is_hidden(entry.path()) && has_name_of_image(entry.path()) && !entry.is_directory();
  });
  return found;
}

// Returns the name of a folder with images that is no part; "" if there is none.
std::string class_beside_parts(const std::string& folder) {
  for (const std::string& name : class_names(folder)) {
    const bool part = std::find(kPartNames.begin(), kPartNames.end(), name) != kPartNames.end();
    if (!part && holds_images(fs::path(folder) / name)) return name;
  }
  return {};
}

bool has_parts(const std::string& folder) {
  const fs::path train = fs::path(folder) / "train";
  if (!fs::is_directory(train)) return false;
  const std::string beside = class_beside_parts(folder);
  if (beside.empty()) return true;
  if (holds_images_itself(train)) return false;
  throw DataError(folder + ": \"train\" holds only folders, as the training part would, but \"" +
                  beside +
                  "\" beside it holds images, as a class would; expected train and val alone, or "
                  "folders of classes alone: set dataset.path = \"" +
                  train.string() + "\" if that is the training part, or move one of them away");
}

// Returns the images below a folder, which messages call `what`, in the order of their names.
std::vector<std::string> images_below(const std::string& path, const std::string& what,
                                      Skipped& skipped) {
  ClassReader reader(skipped);
  reader.read(path);
  if (reader.files.empty())
    throw DataError(path + ": " + what + " has no file *.png, *.jpg or *.jpeg" + skipped.text());
  std::sort(reader.files.begin(), reader.files.end());
  return std::move(reader.files);
}

// Adds what lies beside the folders of classes.
void skip_outside(const std::string& folder, Skipped& skipped) {
  walk(folder, [&](const fs::directory_entry& entry) {
    if (is_hidden(entry.path()))
      skipped.add(kHidden, entry.path().string());
    else if (std::error_code none; !entry.is_directory(none))
      skipped.add(entry.exists(none) ? kOutside : kDangling, entry.path().string());
  });
}

}  // namespace

void Skipped::add(const char* reason, const std::string& path) {
  Group& group = groups_[reason];
  if (++group.count == 1) group.first = path;
}

std::string Skipped::text() const {
  std::string text;
  for (const auto& [reason, group] : groups_) {
    text += (text.empty() ? "; skipped: " : ", ") + std::to_string(group.count) + " " + reason +
            " (" + group.first + (group.count > 1 ? ", ...)" : ")");
  }
  return text;
}

std::vector<std::string> class_names(const std::string& folder) {
  std::vector<std::string> names;
  walk(folder, [&](const fs::directory_entry& entry) {
    std::error_code none;
    if (entry.is_directory(none) && !is_hidden(entry.path()))
      names.push_back(entry.path().filename().string());
  });
  return names;
}

ImageParts find_parts(const std::string& folder, bool with_validation, Skipped& skipped) {
  if (!has_parts(folder)) return {folder, ""};
  const fs::path train = fs::path(folder) / "train", validation = fs::path(folder) / "val";
  with_validation = with_validation && fs::is_directory(validation);
  walk(folder, [&](const fs::directory_entry& entry) {
    if (entry.path() != train && !(with_validation && entry.path() == validation))
      skipped.add(kNoPart, entry.path().string());
  });
  return {train.string(), with_validation ? validation.string() : ""};
}

std::vector<ImageSample> list_images(const std::string& folder,
                                     const std::vector<std::string>& classes, Skipped& skipped) {
  std::vector<std::tuple<double, int32_t, std::string>> order;
  for (const std::string& name : class_names(folder)) {
    const auto found = std::lower_bound(classes.begin(), classes.end(), name);
    const std::string path = (fs::path(folder) / name).string();
    if (found == classes.end() || *found != name)
      throw DataError(path + ": no class of the training part is called \"" + name + "\"");
    std::vector<std::string> files = images_below(path, "the folder of a class", skipped);
    for (std::size_t i = 0; i < files.size(); ++i) {
      const double place = (static_cast<double>(i) + 0.5) / static_cast<double>(files.size());
      order.emplace_back(place, static_cast<int32_t>(found - classes.begin()), std::move(files[i]));
    }
  }
  skip_outside(folder, skipped);
  if (order.empty()) {
    throw DataError(folder + ": no folders; expected one for each class, or train and val" +
                    skipped.text());
  }
  std::sort(order.begin(), order.end());
  std::vector<ImageSample> result;
  for (auto& [place, label, path] : order) result.push_back({std::move(path), label});
  return result;
}

bool lacks_classes(const std::string& path) {
  std::error_code none;
  return fs::is_regular_file(path, none) ||
         (fs::is_directory(path, none) && class_names(path).empty());
}

std::vector<ImageSample> list_unlabelled(const std::string& path, Skipped& skipped) {
  if (fs::is_regular_file(path)) return {{path, 0}};
  std::vector<ImageSample> result;
  for (std::string& file : images_below(path, "the folder", skipped))
    result.push_back({std::move(file), 0});
  return result;
}

}  // namespace runtime::data
