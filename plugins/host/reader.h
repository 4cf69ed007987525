// Handles over the reader table: the formats of a plugin, and the data sets that it opens. Every
// function throws plugins::host::Error.
#ifndef PLUGINS_HOST_READER_H_
#define PLUGINS_HOST_READER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plugins/host/options.h"
#include "plugins/host/plugin.h"

namespace plugins::host {

// A format of data sets that a plugin reads; see rt_reader_format.
struct ReaderFormat {
  std::string name, description;
  uint32_t flags = 0;                       // RT_READER_*
  std::vector<Plugin::OptionSpec> options;  // keys of [dataset.<plugin>]
};

// Returns the formats of the plugin, checked and copied; empty if it reads none.
std::vector<ReaderFormat> list_formats(const Plugin& plugin);

class ReaderDataset;

// What a run wants of a data set; see rt_dataset_request.
struct ReaderRequest {
  int32_t split = RT_SPLIT_TRAINING;
  std::string path;
  int32_t target = RT_TARGET_LABELS;
  std::vector<int64_t> shape = {};                          // at most RT_MAX_RANK numbers
  std::shared_ptr<const ReaderDataset> training = nullptr;  // for RT_SPLIT_VALIDATION
  Options options = {};
};

// A further input of the samples; see rt_sample_input.
struct ReaderInput {
  std::string name;
  rt_dtype dtype = RT_FLOAT32;  // or RT_INT32
  int32_t least = 0, most = 0;
  std::vector<int64_t> shape;
  // Bytes in one sample.
  uint64_t bytes() const;
};

// An open split of a data set of a plugin. Immutable, and so thread-safe. Keeps the plugin, and the
// training samples that it was opened with, until it is closed by the destructor.
class ReaderDataset {
 public:
  // Opens a split of the format `format`, one of list_formats(). The plugin may read whole files.
  static std::shared_ptr<const ReaderDataset> open(const std::shared_ptr<Plugin>& plugin,
                                                   const std::string& format,
                                                   const ReaderRequest& request);
  ~ReaderDataset();
  ReaderDataset(const ReaderDataset&) = delete;
  ReaderDataset& operator=(const ReaderDataset&) = delete;

  // What is known of the samples, within the limits of limits.h.
  const rt_dataset_info& info() const { return info_; }
  // The further inputs, checked and copied.
  const std::vector<ReaderInput>& inputs() const { return inputs_; }
  // Numbers in the features of one sample.
  int64_t features() const { return features_; }
  // Bytes of the features, and of the target, of one sample.
  uint64_t feature_bytes() const;
  uint64_t target_bytes() const;

  // Reads the samples of these indices, 0..samples-1, into dense arrays of [indices, shape...] of
  // the feature type, and of [indices, target_count]. Either array may be null, if it is not
  // wanted. Allocates nothing.
  void read(std::span<const int64_t> indices, void* features, void* targets) const;
  // Reads one of the further inputs of the samples of these indices, [indices, shape...] of its
  // type.
  void read_input(std::span<const int64_t> indices, std::size_t input, void* out) const;

 private:
  void read(rt_samples& samples) const;

  ReaderDataset(std::shared_ptr<Plugin> plugin, std::string what,
                std::shared_ptr<const ReaderDataset> training, rt_dataset* dataset);

  std::shared_ptr<Plugin> plugin_;
  std::string what_;  // "libsvm.text, /data/a.txt"
  std::shared_ptr<const ReaderDataset> training_;
  rt_dataset* dataset_;
  rt_dataset_info info_{};
  int64_t features_ = 1;
  std::vector<ReaderInput> inputs_;
};

}  // namespace plugins::host

#endif  // PLUGINS_HOST_READER_H_
