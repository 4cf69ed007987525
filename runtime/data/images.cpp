// Folders of PNG and JPEG files, one for each class.
#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <map>
#include <tuple>

#include "runtime/data/formats.h"
#include "runtime/data/image_file.h"
#include "runtime/data/memory_dataset.h"
#include "runtime/data/resample.h"
#include "runtime/error.h"

namespace runtime::data {
namespace {

namespace fs = std::filesystem;

struct Sample {
  std::string path;
  int32_t label = 0;
};

bool is_image(const fs::directory_entry& entry) {
  std::string end = entry.path().extension().string();
  std::transform(end.begin(), end.end(), end.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return (end == ".png" || end == ".jpg" || end == ".jpeg") && entry.is_regular_file();
}

// Calls visit(entry) for each entry in a folder; with the recursive iterator, also below it.
template <class Iterator, class Visit>
void walk(const std::string& folder, const Visit& visit) {
  try {
    for (const fs::directory_entry& entry : Iterator(folder)) visit(entry);
  } catch (const fs::filesystem_error& error) {
    throw DataError(folder + ": the folder cannot be read: " + error.code().message() +
                    "; correct dataset.path, or its permissions");
  }
}

std::vector<std::string> class_names(const std::string& folder) {
  std::vector<std::string> names;
  walk<fs::directory_iterator>(folder, [&](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory() && name[0] != '.') names.push_back(name);
  });
  std::sort(names.begin(), names.end());
  return names;
}

// Lists the files so that classes take turns in proportion to their sizes. The last samples, which
// validation_split takes, then include each class.
std::vector<Sample> list_files(const std::string& folder, const std::vector<std::string>& classes) {
  std::vector<std::tuple<double, int32_t, std::string>> order;
  for (const std::string& name : class_names(folder)) {
    const auto found = std::lower_bound(classes.begin(), classes.end(), name);
    const std::string path = (fs::path(folder) / name).string();
    if (found == classes.end() || *found != name)
      throw DataError(path + ": no class of the training part is called \"" + name + "\"");
    std::vector<std::string> files;
    walk<fs::recursive_directory_iterator>(path, [&](const fs::directory_entry& entry) {
      if (is_image(entry)) files.push_back(entry.path().string());
    });
    if (files.empty())
      throw DataError(path + ": the folder of a class has no file *.png, *.jpg or *.jpeg");
    std::sort(files.begin(), files.end());
    for (std::size_t i = 0; i < files.size(); ++i) {
      const double place = (static_cast<double>(i) + 0.5) / static_cast<double>(files.size());
      order.emplace_back(place, static_cast<int32_t>(found - classes.begin()), std::move(files[i]));
    }
  }
  std::sort(order.begin(), order.end());
  std::vector<Sample> result;
  for (auto& [place, label, path] : order) result.push_back({std::move(path), label});
  if (result.empty())
    throw DataError(folder + ": no folders; expected one for each class, or train and val");
  return result;
}

class Images final : public Dataset {
 public:
  Images(std::string folder, std::vector<Sample> files, SampleSpec spec,
         const DatasetOptions& options)
      : folder_(std::move(folder)),
        files_(std::move(files)),
        spec_(std::move(spec)),
        resized_(!options.resize.empty()),
        shorter_(options.resize_shorter),
        scales_(channel_scales({options.mean, options.std}, spec_.shape[2])) {}
  const SampleSpec& spec() const override { return spec_; }
  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  int32_t label(int64_t index) const override { return sample(index).label; }
  std::string file(int64_t index) const override { return sample(index).path; }
  void read_targets(int64_t, float*) const override {}
  std::string description() const override { return describe(folder_, size(), spec_); }

  void read_features(int64_t index, float* out) const override {
    const auto channels = static_cast<int>(spec_.shape[2]);
    const std::string& path = sample(index).path;
    const Image image = read_image(path, channels);
    const ImageSize size{spec_.shape[0], spec_.shape[1]};
    if (resized_) {
      Bilinear(image.size, size, shorter_).apply(image.pixels.data(), channels, out);
    } else if (image.size == size) {
      std::copy(image.pixels.begin(), image.pixels.end(), out);
    } else {
      throw DataError(path + ": the image has " +
                      shape_text({image.size.height, image.size.width}) + " pixels; expected " +
                      shape_text({size.height, size.width}) +
                      " as the first one, or set dataset.resize");
    }
    for (float* pixel = out; pixel < out + size.height * size.width * channels; pixel += channels) {
      for (int c = 0; c < channels; ++c) pixel[c] = scales_[c](pixel[c] / 255.0f);
    }
  }

  void read_region(int64_t index, const RandomRegion& region, float* out, float*) const override {
    const auto channels = static_cast<int>(spec_.shape[2]);
    const std::string& path = sample(index).path;
    const ImageSize size{spec_.shape[0], spec_.shape[1]};
    const std::string file = read_file(path);
    const RegionImage part = decode_region(
        bytes_of(file), path, channels, [&](ImageSize from) { return region.choose(from); }, size);
    Resampler(part.image.size, part.box, size).apply(part.image.pixels.data(), channels, out);
    std::array<float, 3> factor, offset;
    for (int c = 0; c < channels; ++c) {
      factor[c] = 1 / (255 * scales_[c].deviation);
      offset[c] = -scales_[c].mean / scales_[c].deviation;
    }
    for (float* pixel = out; pixel < out + size.height * size.width * channels; pixel += channels) {
      for (int c = 0; c < channels; ++c) pixel[c] = pixel[c] * factor[c] + offset[c];
    }
  }

  static Image read_image(const std::string& path, int channels) {
    const std::string file = read_file(path);
    return decode_image(bytes_of(file), path, channels);
  }

 private:
  static std::string read_file(const std::string& path) {
    // Even an uncompressed image of kMaxPixels pixels is smaller.
    constexpr uint64_t kMaxFile = uint64_t{4} * kMaxPixels;
    return read_text(path, kMaxFile);
  }
  static std::span<const uint8_t> bytes_of(const std::string& file) {
    return {reinterpret_cast<const uint8_t*>(file.data()), file.size()};
  }
  const Sample& sample(int64_t index) const { return files_[static_cast<std::size_t>(index)]; }

  std::string folder_;
  std::vector<Sample> files_;
  SampleSpec spec_;
  bool resized_;
  int64_t shorter_;
  std::vector<ChannelScale> scales_;
};

SampleSpec spec_of(const std::vector<Sample>& files, const std::vector<std::string>& classes,
                   const DatasetOptions& options) {
  const int64_t channels = options.shape.size() == 3 ? options.shape[2] : 3;
  if (channels != 1 && channels != 3) {
    throw ConfigurationError("model.input has " + std::to_string(channels) +
                             " channels; images of files have 3, or 1 (grey)");
  }
  SampleSpec spec;
  const auto found = static_cast<int64_t>(classes.size());
  spec.classes = options.classes > 0 ? options.classes : found;
  if (spec.classes < found) {
    throw DataError(options.path + ": there are " + std::to_string(found) +
                    " folders of classes; expected at most " + std::to_string(spec.classes) +
                    " (dataset.classes)");
  }
  spec.shape = options.resize;
  if (spec.shape.empty()) {
    const ImageSize first = Images::read_image(files[0].path, static_cast<int>(channels)).size;
    spec.shape = {first.height, first.width};
  }
  spec.shape.push_back(channels);
  return spec;
}

}  // namespace

DatasetPair open_images(const DatasetOptions& options) {
  require_image_decoders();
  const std::string inner = (fs::path(options.path) / "train").string();
  const bool parts = fs::is_directory(inner);
  const std::string train = parts ? inner : options.path;
  std::string validation = options.validation_path;
  const std::string val = (fs::path(options.path) / "val").string();
  if (validation.empty() && parts && options.validation_split == 0 && fs::is_directory(val))
    validation = val;
  const std::vector<std::string> classes =
      options.preparation != nullptr ? options.preparation->class_names : class_names(train);
  std::vector<Sample> files = list_files(train, classes);
  const SampleSpec spec = spec_of(files, classes, options);
  DatasetPair pair{std::make_shared<Images>(train, std::move(files), spec, options), nullptr};
  pair.preparation.class_names = classes;
  if (!validation.empty()) {
    pair.validation =
        std::make_shared<Images>(validation, list_files(validation, classes), spec, options);
  }
  return pair;
}

}  // namespace runtime::data
