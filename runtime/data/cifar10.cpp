// CIFAR-10's binary version (https://www.cs.toronto.edu/~kriz/cifar.html): each record is one label
// byte and 3x32x32 pixels, plane by plane.
#include <filesystem>

#include "runtime/data/formats.h"
#include "runtime/data/source.h"
#include "runtime/system/available_memory.h"

namespace runtime::data {
namespace {

constexpr int64_t kSide = 32, kChannels = 3, kClasses = 10;
constexpr int64_t kPixels = kSide * kSide;
constexpr int64_t kImage = kPixels * kChannels;
constexpr int64_t kRecord = kImage + 1;

int64_t count_records(const Source& source) {
  const auto size = static_cast<int64_t>(source.limit());
  if (size == 0 || size % kRecord != 0) {
    fail_at(source.name(), static_cast<uint64_t>(size - size % kRecord),
            "the file has " + std::to_string(size) + " bytes; expected a multiple of " +
                std::to_string(kRecord) +
                " (one label and 3x32x32 pixels); the file is cut or not "
                "CIFAR-10's binary version");
  }
  return size / kRecord;
}

int32_t checked_label(const Source& source, uint8_t label) {
  if (label >= kClasses) {
    fail_at(source.name(), source.offset() - kRecord,
            "label " + std::to_string(label) + "; expected 0..9");
  }
  return label;
}

void to_interleaved(const uint8_t* planes, uint8_t* pixels) {
  for (int64_t pixel = 0; pixel < kPixels; ++pixel) {
    for (int64_t channel = 0; channel < kChannels; ++channel) {
      pixels[pixel * kChannels + channel] = planes[channel * kPixels + pixel];
    }
  }
}

void read_records(Source& source, int64_t count, uint8_t* pixels, int32_t* labels) {
  uint8_t record[kRecord];
  for (int64_t i = 0; i < count; ++i) {
    source.read_exactly(record, kRecord, "a record");
    labels[i] = checked_label(source, record[0]);
    to_interleaved(record + 1, pixels + i * kImage);
  }
  source.expect_end();
}

Part load_part(const std::string& folder, const std::vector<std::string>& files) {
  std::vector<std::unique_ptr<RawSource>> sources;
  std::vector<int64_t> counts;
  Part part;
  part.title = "CIFAR-10";
  part.shape = {kSide, kSide, kChannels};
  for (const std::string& file : files) {
    sources.push_back(open_file((std::filesystem::path(folder) / file).string()));
    counts.push_back(count_records(*sources.back()));
    part.samples += counts.back();
  }
  system::require_memory(static_cast<uint64_t>(part.samples * kImage), folder + ": CIFAR-10",
                         "use a machine with more memory");
  part.bytes = make_bytes(static_cast<std::size_t>(part.samples * kImage));
  part.targets.classes = kClasses;
  part.targets.labels.resize(static_cast<std::size_t>(part.samples));
  int64_t first = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    read_records(*sources[i], counts[i], part.bytes.data.get() + first * kImage,
                 part.targets.labels.data() + first);
    first += counts[i];
  }
  return part;
}

}  // namespace

Parts load_cifar10(const std::string& folder, bool with_validation) {
  Parts parts;
  parts.train = load_part(folder, {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                   "data_batch_4.bin", "data_batch_5.bin"});
  if (with_validation) parts.validation = load_part(folder, {"test_batch.bin"});
  return parts;
}

}  // namespace runtime::data
