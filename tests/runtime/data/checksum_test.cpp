// The checksum in our safetensors files.
#include <gmock/gmock.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "runtime/data/safetensors.h"
#include "runtime/data/tensor_stream.h"
#include "tests/runtime/data/files.h"

namespace runtime::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Checksums : public testing::Test {
 protected:
  Checksums() {
    TensorFile file;
    file.metadata = {{"format", "pt"}, {"characters", " \"ab"}};
    for (const char* name : {"weight", "bias"}) {
      HostTensor tensor{RT_FLOAT32, {3}, std::vector<std::byte>(12)};
      const float values[] = {0.5f, -1.0f, 3e-5f};
      std::memcpy(tensor.bytes.data(), values, sizeof values);
      file.tensors[name] = tensor;
    }
    write_safetensors(folder_.path("w"), file);
    std::ifstream in(folder_.path("w"), std::ios::binary);
    content_ = {std::istreambuf_iterator<char>(in), {}};
  }

  static TensorFile parse(const std::string& content) {
    return parse_safetensors(reinterpret_cast<const std::byte*>(content.data()), content.size(),
                             "weights");
  }
  std::string replaced(const std::string& text, const std::string& by) const {
    std::string copy = content_;
    const size_t at = copy.find(text);
    EXPECT_NE(at, copy.npos) << text;
    EXPECT_EQ(text.size(), by.size());
    return copy.replace(at, text.size(), by);
  }

  test::TempFolder folder_;
  std::string content_;
};

TEST_F(Checksums, AreWrittenAndTakenAwayAgain) {
  EXPECT_THAT(content_, HasSubstr("\"runtime.checksum\":\"crc32:"));
  EXPECT_EQ(parse(content_).metadata,
            (std::map<std::string, std::string>{{"characters", " \"ab"}, {"format", "pt"}}));
}

TEST_F(Checksums, EveryByteThatIsChangedIsNoticed) {
  for (size_t at = 0; at < content_.size(); ++at) {
    std::string copy = content_;
    for (int flip = 1; flip < 256; ++flip) {
      copy[at] = static_cast<char>(content_[at] ^ flip);
      EXPECT_THROW(parse(copy), DataError) << "byte " << at << " became " << int{copy[at]};
    }
  }
}

TEST_F(Checksums, AStreamNoticesAByteThatIsChanged) {
  const std::string path = folder_.write("damaged", "");
  for (size_t at = 0; at < content_.size(); at += 7) {
    std::string copy = content_;
    copy[at] = static_cast<char>(content_[at] ^ 1);
    folder_.write("damaged", copy);
    EXPECT_THROW(TensorStream(path).read([](const std::string&, const HostTensor&) {}), DataError)
        << at;
  }
}

TEST_F(Checksums, EveryCutIsNoticed) {
  for (size_t size = 0; size < content_.size(); ++size)
    EXPECT_THROW(parse(content_.substr(0, size)), DataError) << size;
  EXPECT_THROW(parse(content_ + "x"), DataError);
}

TEST_F(Checksums, TheMessageHasFileExpectedAndActual) {
  std::string copy = content_;
  copy.back() ^= 1;
  EXPECT_THAT(test::message_of([&] { parse(copy); }),
              AllOf(HasSubstr("weights: the checksum of the content is crc32:"),
                    HasSubstr("expected crc32:"), HasSubstr("write it again")));
}

TEST_F(Checksums, FilesOfOtherProgramsHaveNone) {
  const std::string file = test::safetensors(
      R"({"__metadata__":{"format":"pt"},"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
      "x");
  EXPECT_EQ(parse(file).tensors.size(), 1u);
}

// Otherwise a damaged key would make the file look like one of another program, without a checksum.
TEST_F(Checksums, OneOfTheTwoKeysAloneIsRefused) {
  for (const char* key : {"\"runtime.checksum\"", "\"runtime.checksum_of\""}) {
    std::string other = key;
    other[3] = 'x';
    EXPECT_THAT(test::message_of([&] { parse(replaced(key, other)); }),
                HasSubstr("the metadata 'runtime.checksum'"))
        << key;
  }
}

TEST_F(Checksums, AreNotMistakenForTextThatLooksLikeOne) {
  TensorFile file;
  file.metadata = {{"a", "\"runtime.checksum\":\"crc32:00000000"}, {"b", "runtime.checksum"}};
  write_safetensors(folder_.path("tricky"), file);
  EXPECT_EQ(read_safetensors(folder_.path("tricky")).metadata, file.metadata);
}

}  // namespace
}  // namespace runtime::data
