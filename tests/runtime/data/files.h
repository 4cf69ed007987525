// Makes data files for the tests.
#ifndef TESTS_RUNTIME_DATA_FILES_H_
#define TESTS_RUNTIME_DATA_FILES_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/data/loader.h"
#include "runtime/data/order.h"
#include "runtime/error.h"

namespace runtime::data::test {

// A temporary folder for one test, which the destructor removes.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  std::string path(const std::string& name = "") const { return (folder_ / name).string(); }
  // Writes a file and returns its path.
  std::string write(const std::string& name, const std::string& content) const;

 private:
  std::filesystem::path folder_;
};

// An IDX file; type 0x08 is uint8.
std::string idx(uint8_t type, const std::vector<uint32_t>& dims, const std::string& elements);
// `count` bytes 0, 1, 2, ... 255, 0, ...
std::string counting(std::size_t count);
std::string gzip(const std::string& content);
// An NPY file of version 1.
std::string npy(const std::string& header, const std::string& elements);
std::string npy_header(const std::string& descr, const std::string& shape);

template <class Number>
std::string raw(const std::vector<Number>& numbers) {
  return std::string(reinterpret_cast<const char*>(numbers.data()),
                     numbers.size() * sizeof(Number));
}

// One record of CIFAR-10: red counts up from `first`, green is 100, blue is 200.
std::string cifar_record(uint8_t label, uint8_t first);

// A safetensors file from the text of its header and its data.
std::string safetensors(const std::string& header, const std::string& data);

// The order of the samples in an epoch.
inline std::vector<int64_t> epoch_order(int64_t size, bool shuffle, uint64_t seed, int64_t epoch) {
  std::vector<int64_t> order(static_cast<std::size_t>(size));
  fill_epoch_order(order, shuffle, seed, epoch);
  return order;
}

// The features of one sample.
std::vector<float> features_of(const Dataset& dataset, int64_t index);

// Runs `action`, which must throw DataError, and returns the message.
template <class Action>
std::string message_of(const Action& action) {
  try {
    action();
  } catch (const DataError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kData);
    return error.what();
  }
  ADD_FAILURE() << "no DataError was thrown";
  return "";
}

}  // namespace runtime::data::test

#endif  // TESTS_RUNTIME_DATA_FILES_H_
