// Makes and removes the folders and files of data tests.
#include "tests/runtime/data/files.h"

#include <stdlib.h>
#include <zlib.h>

#include <fstream>

namespace runtime::data::test {

TempFolder::TempFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "data_test_XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  folder_ = name;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string TempFolder::write(const std::string& name, const std::string& content) const {
  const std::string file = path(name);
  std::filesystem::create_directories(std::filesystem::path(file).parent_path());
  std::ofstream(file, std::ios::binary) << content;
  return file;
}

std::string idx(uint8_t type, const std::vector<uint32_t>& dims, const std::string& elements) {
  std::string file = {'\0', '\0', static_cast<char>(type), static_cast<char>(dims.size())};
  for (const uint32_t dim : dims) {
    for (int shift = 24; shift >= 0; shift -= 8) file += static_cast<char>(dim >> shift);
  }
  return file + elements;
}

std::string counting(std::size_t count) {
  std::string bytes(count, '\0');
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>(i);
  return bytes;
}

std::string gzip(const std::string& content) {
  z_stream stream = {};
  deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, content.size()) + 64, '\0');
  std::string in = content;
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string npy(const std::string& header, const std::string& elements) {
  const std::string magic("\x93NUMPY\x01\x00", 8);
  const std::string length = {static_cast<char>(header.size()),
                              static_cast<char>(header.size() >> 8)};
  return magic + length + header + elements;
}

std::string npy_header(const std::string& descr, const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
}

std::string cifar_record(uint8_t label, uint8_t first) {
  std::string record(1, static_cast<char>(label));
  for (int i = 0; i < 1024; ++i) record += static_cast<char>(first + i);
  return record + std::string(1024, static_cast<char>(100)) +
         std::string(1024, static_cast<char>(200));
}

std::string safetensors(const std::string& header, const std::string& data) {
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i));
  return length + header + data;
}

std::vector<float> features_of(const Dataset& dataset, int64_t index) {
  std::vector<float> features(static_cast<std::size_t>(dataset.spec().features()));
  dataset.read_features(index, features.data());
  return features;
}

}  // namespace runtime::data::test
