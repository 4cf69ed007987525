// Folders of PNG and JPEG files, one for each class.
#include <algorithm>
#include <array>

#include "runtime/data/formats.h"
#include "runtime/data/image_file.h"
#include "runtime/data/image_folder.h"
#include "runtime/data/memory_dataset.h"
#include "runtime/data/resample.h"
#include "runtime/error.h"

namespace runtime::data {
namespace {

class Images final : public Dataset {
 public:
  Images(std::string folder, std::vector<ImageSample> files, SampleSpec spec,
         const DatasetOptions& options)
      : folder_(std::move(folder)),
        files_(std::move(files)),
        spec_(std::move(spec)),
        resized_(!options.resize.empty()),
        shorter_(options.resize_shorter),
        scales_(scales_of<float>({options.mean, options.std}, spec_.shape[2])) {}
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
  const ImageSample& sample(int64_t index) const { return files_[static_cast<std::size_t>(index)]; }

  std::string folder_;
  std::vector<ImageSample> files_;
  SampleSpec spec_;
  bool resized_;
  int64_t shorter_;
  std::vector<ChannelScale> scales_;
};

SampleSpec spec_of(const std::vector<ImageSample>& files, const std::vector<std::string>& classes,
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
  Skipped skipped;
  const bool own_validation = options.validation_path.empty() && options.validation_split == 0;
  const bool labelled = options.needs_targets || !lacks_classes(options.path);
  ImageParts parts{options.path, ""};
  if (labelled) parts = find_parts(options.path, own_validation, skipped);
  if (!options.validation_path.empty()) parts.validation = options.validation_path;
  const std::vector<std::string> classes =
      options.preparation != nullptr ? options.preparation->class_names : class_names(parts.train);
  std::vector<ImageSample> files =
      labelled ? list_images(parts.train, classes, skipped) : list_unlabelled(parts.train, skipped);
  const SampleSpec spec = spec_of(files, classes, options);
  DatasetPair pair{};
  const auto add = [&](const std::string& folder, std::vector<ImageSample> found) {
    auto part = std::make_shared<Images>(folder, std::move(found), spec, options);
    const std::string left_out = skipped.text();
    if (!left_out.empty()) pair.notes.push_back(part->description() + left_out);
    skipped = {};
    return part;
  };
  pair.train = add(parts.train, std::move(files));
  if (!parts.validation.empty())
    pair.validation = add(parts.validation, list_images(parts.validation, classes, skipped));
  pair.preparation.class_names = classes;
  pair.labelled = labelled;
  return pair;
}

}  // namespace runtime::data
