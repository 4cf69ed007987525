// Folders of images, which the tests write with libpng and libjpeg.
#include <gmock/gmock.h>
#include <png.h>
#include <zlib.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <random>
#include <set>
// jpeglib.h needs <cstdio> before it.
#include <jpeglib.h>

#include "runtime/data/image_file.h"
#include "runtime/data/loader.h"
#include "runtime/data/open.h"
#include "runtime/data/orientation.h"
#include "tests/runtime/data/files.h"

namespace runtime::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Pixels whose red counts up from `first` along the rows, whose green is the row, and whose blue is
// 200.
std::vector<uint8_t> colours(int height, int width, int first = 0) {
  std::vector<uint8_t> pixels;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (const int value : {first + x, y, 200}) pixels.push_back(static_cast<uint8_t>(value));
    }
  }
  return pixels;
}

std::string png(int height, int width, int first = 0, uint32_t format = PNG_FORMAT_RGB,
                std::vector<uint8_t> pixels = {}) {
  if (pixels.empty()) pixels = colours(height, width, first);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.height = height;
  image.width = width;
  image.format = format;
  png_alloc_size_t size = 0;
  png_image_write_to_memory(&image, nullptr, &size, 0, pixels.data(), 0, nullptr);
  std::string bytes(size, '\0');
  png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.data(), 0, nullptr);
  bytes.resize(size);
  return bytes;
}

// How a JPEG file stores colours: a value for `across` x `down` pixels each.
struct Coding {
  int across = 2, down = 2;
  bool progressive = false;
  J_COLOR_SPACE in = JCS_RGB, stored = JCS_YCbCr;
};

std::string jpeg(int height, int width, const std::vector<uint8_t>& pixels, Coding coding = {}) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* out = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &out, &size);
  info.image_height = height;
  info.image_width = width;
  const int channels = coding.in == JCS_CMYK ? 4 : 3;
  info.input_components = channels;
  info.in_color_space = coding.in;
  jpeg_set_defaults(&info);
  jpeg_set_colorspace(&info, coding.stored);
  jpeg_set_quality(&info, 100, TRUE);
  info.comp_info[0].h_samp_factor = coding.across;
  info.comp_info[0].v_samp_factor = coding.down;
  if (coding.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  for (int y = 0; y < height; ++y) {
    JSAMPROW row =
        const_cast<JSAMPROW>(pixels.data()) + static_cast<std::size_t>(channels) * y * width;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string bytes(reinterpret_cast<char*>(out), size);
  std::free(out);
  return bytes;
}

std::string jpeg(int height, int width) { return jpeg(height, width, colours(height, width)); }

// Pixels without any pattern, so that no two regions look alike.
std::vector<uint8_t> noise(int height, int width) {
  std::mt19937 random(5);
  std::vector<uint8_t> pixels(std::size_t{3} * height * width);
  for (uint8_t& pixel : pixels) pixel = static_cast<uint8_t>(random());
  return pixels;
}

std::span<const uint8_t> bytes_of(const std::string& file) {
  return {reinterpret_cast<const uint8_t*>(file.data()), file.size()};
}

Image decode(const std::string& bytes, int channels = 3) {
  return decode_image(bytes_of(bytes), "x.img", channels);
}

RegionImage decode(const std::string& bytes, const Region& region, ImageSize least,
                   int channels = 3) {
  const auto choose = [&](ImageSize) { return region; };
  return decode_region(bytes_of(bytes), "x.img", channels, choose, least);
}

// The pixels of a region, which must be whole pixels of the image.
std::vector<uint8_t> pixels_of(const Image& image, const Box& box) {
  std::vector<uint8_t> pixels;
  const auto left = static_cast<int64_t>(box.left), width = static_cast<int64_t>(box.width);
  for (auto y = static_cast<int64_t>(box.top); y < static_cast<int64_t>(box.top + box.height);
       ++y) {
    const auto begin = image.pixels.begin() + (y * image.size.width + left) * image.channels;
    pixels.insert(pixels.end(), begin, begin + width * image.channels);
  }
  return pixels;
}

// A chunk of a PNG file.
std::string chunk(const std::string& name, const std::string& data) {
  const auto big_endian = [](std::size_t number) {
    std::string bytes;
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift);
    return bytes;
  };
  const std::string body = name + data;
  return big_endian(data.size()) + body +
         big_endian(::crc32(0, reinterpret_cast<const Bytef*>(body.data()),
                            static_cast<uInt>(body.size())));
}

constexpr std::size_t kHeaderEnd = 33;  // of a PNG file: its signature and its first chunk

// A block of EXIF data whose only entry is the orientation, with its most significant bytes first.
std::string exif(int orientation) {
  std::string block("MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\0\0\0\0\0\0\0", 26);
  block[19] = static_cast<char>(orientation);
  return block;
}

std::string turned_png(std::string file, int orientation, bool behind = false) {
  return file.insert(behind ? file.size() - 12 : kHeaderEnd, chunk("eXIf", exif(orientation)));
}

std::string turned_jpeg(std::string file, int orientation) {
  const std::string data = std::string("Exif\0\0", 6) + exif(orientation);
  const std::string begin{'\xff', '\xe1', 0, static_cast<char>(data.size() + 2)};
  return file.insert(2, begin + data);
}

TEST(ImageFile, PngIsExact) {
  const Image image = decode(png(5, 7, 10));
  EXPECT_EQ(image.size, (ImageSize{5, 7}));
  EXPECT_EQ(image.pixels, colours(5, 7, 10));
}

TEST(ImageFile, JpegIsNearlyExact) {
  const Image image = decode(jpeg(40, 24));
  EXPECT_EQ(image.size, (ImageSize{40, 24}));
  const std::vector<uint8_t> expected = colours(40, 24);
  ASSERT_EQ(image.pixels.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(image.pixels[i], expected[i], 4) << i;
}

TEST(ImageFile, GreyColourAndTransparencyAreConverted) {
  const std::string grey = png(1, 2, 0, PNG_FORMAT_GRAY, {50, 90});
  EXPECT_THAT(decode(grey).pixels, ElementsAre(50, 50, 50, 90, 90, 90));
  EXPECT_THAT(decode(png(1, 1, 0, PNG_FORMAT_RGB, {70, 70, 70}), 1).pixels, ElementsAre(70));
  EXPECT_EQ(decode(jpeg(16, 8), 1).pixels.size(), 128u);
  const std::string clear = png(1, 2, 0, PNG_FORMAT_RGBA, {9, 8, 7, 255, 90, 80, 70, 0});
  EXPECT_THAT(decode(clear).pixels, ElementsAre(9, 8, 7, 90, 80, 70));
}

constexpr ImageSize kAsItIs{1000, 1000};  // larger than any region, so that nothing is scaled

// Gamma and the standard's colour space change no sample.
TEST(ImageFile, SamplesAreNotCorrected) {
  const std::string red = png(1, 1, 0, PNG_FORMAT_RGB, {255, 0, 0});
  const std::string colour = png(1, 1, 0, PNG_FORMAT_RGB, {200, 120, 40});
  EXPECT_THAT(decode(red, 1).pixels, ElementsAre(76));
  for (const std::string& hint : {chunk("gAMA", {0, 1, '\x86', '\xa0'}), chunk("sRGB", {0})}) {
    EXPECT_THAT(decode(std::string(red).insert(kHeaderEnd, hint), 1).pixels, ElementsAre(76));
    EXPECT_THAT(decode(std::string(colour).insert(kHeaderEnd, hint)).pixels,
                ElementsAre(200, 120, 40));
  }
}

// Rows of one picture as a PNG file of any bit depth and kind (0: grey, 2: colour, 4: grey with
// alpha, 6: colour with alpha).
std::string raw_png(uint32_t width, uint32_t height, int depth, int kind, std::string rows) {
  const std::string header{0,
                           0,
                           0,
                           static_cast<char>(width),
                           0,
                           0,
                           0,
                           static_cast<char>(height),
                           static_cast<char>(depth),
                           static_cast<char>(kind),
                           0,
                           0,
                           0};
  uLongf size = compressBound(rows.size());
  std::string packed(size, '\0');
  compress(reinterpret_cast<Bytef*>(packed.data()), &size,
           reinterpret_cast<const Bytef*>(rows.data()), rows.size());
  packed.resize(size);
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + chunk("IDAT", packed) + chunk("IEND", "");
}

TEST(ImageFile, SixteenBitsAreDividedBy257) {
  const std::string grey = raw_png(3, 1, 16, 0, {0, '\x80', 0, 0, '\x80', '\xff', '\xff'});
  EXPECT_THAT(decode(grey, 1).pixels, ElementsAre(128, 0, 255));
  // 0x0180 / 257 is 1.49, 0x0181 / 257 is 1.498, 0x0182 / 257 is 1.502.
  const std::string colour = raw_png(1, 1, 16, 2, {0, 1, '\x80', 1, '\x81', 1, '\x82'});
  EXPECT_THAT(decode(colour).pixels, ElementsAre(1, 1, 2));
  const std::string clear = raw_png(1, 1, 16, 4, {0, '\x80', 0, 0, 0});
  EXPECT_THAT(decode(clear).pixels, ElementsAre(128, 128, 128));
}

TEST(ImageFile, FewBitsOfGreyReachFromBlackToWhite) {
  EXPECT_THAT(decode(raw_png(2, 1, 1, 0, {0, '\x40'}), 1).pixels, ElementsAre(0, 255));
  EXPECT_THAT(decode(raw_png(4, 1, 2, 0, {0, '\x1b'}), 1).pixels, ElementsAre(0, 85, 170, 255));
  EXPECT_THAT(decode(raw_png(2, 1, 4, 0, {0, '\x2f'}), 1).pixels, ElementsAre(34, 255));
}

// Cyan, magenta, yellow and black as Adobe's programs store them, of which 255 is no ink.
TEST(ImageFile, FourInksBecomeColours) {
  EXPECT_EQ(with_channels({{1, 1}, 4, {255, 128, 0, 255}}, 3).pixels,
            (std::vector<uint8_t>{255, 128, 0}));
  std::vector<uint8_t> inks;
  for (int i = 0; i < 64; ++i) inks.insert(inks.end(), {200, 100, 50, 128});
  for (const J_COLOR_SPACE stored : {JCS_CMYK, JCS_YCCK}) {
    const std::string file = jpeg(8, 8, inks, {1, 1, false, JCS_CMYK, stored});
    const Image colour = decode(file), grey = decode(file, 1);
    ASSERT_EQ(colour.pixels.size(), 192u);
    EXPECT_NEAR(colour.pixels[0], 100, 2);
    EXPECT_NEAR(colour.pixels[1], 50, 2);
    EXPECT_NEAR(colour.pixels[2], 25, 2);
    ASSERT_EQ(grey.pixels.size(), 64u);
    EXPECT_NEAR(grey.pixels[0], 0.299 * 100 + 0.587 * 50 + 0.114 * 25, 2);
  }
}

// The corners of an image of 2x3 pixels that count up from 1, as each orientation shows them.
TEST(ImageFile, OrientationTurnsTheImage) {
  const std::vector<std::vector<uint8_t>> expected{
      {1, 2, 3, 4, 5, 6}, {3, 2, 1, 6, 5, 4}, {6, 5, 4, 3, 2, 1}, {4, 5, 6, 1, 2, 3},
      {1, 4, 2, 5, 3, 6}, {4, 1, 5, 2, 6, 3}, {6, 3, 5, 2, 4, 1}, {3, 6, 2, 5, 1, 4}};
  const std::string stored = png(2, 3, 0, PNG_FORMAT_GRAY, {1, 2, 3, 4, 5, 6});
  for (int i = 0; i < 8; ++i) {
    for (const bool behind : {false, true}) {
      const Image seen = decode(turned_png(stored, i + 1, behind), 1);
      EXPECT_EQ(seen.size, (i < 4 ? ImageSize{2, 3} : ImageSize{3, 2})) << i + 1;
      EXPECT_EQ(seen.pixels, expected[static_cast<std::size_t>(i)]) << i + 1;
    }
  }
  EXPECT_EQ(decode(turned_png(stored, 9), 1).pixels, expected[0]);
}

TEST(ImageFile, DamagedExifSaysNothing) {
  const std::string whole = exif(6);
  EXPECT_NE(orientation_of(bytes_of(whole)), Orientation{});
  for (std::size_t size = 0; size < 20; ++size) {
    const std::string cut = whole.substr(0, size);
    EXPECT_EQ(orientation_of(bytes_of(cut)), Orientation{}) << size;
  }
  std::string far = whole;
  far[4] = '\xff';  // the directory lies 4 GiB behind the beginning
  EXPECT_EQ(orientation_of(bytes_of(far)), Orientation{});
  const std::string little("II*\0\x08\0\0\0\x01\0\x12\x01\x04\0\x01\0\0\0\x06\0\0\0", 22);
  EXPECT_EQ(orientation_of(bytes_of(little)), orientation_of(bytes_of(whole)));
}

TEST(ImageFile, OrientationTurnsRegionsToo) {
  constexpr int kHeight = 61, kWidth = 101;
  const std::string plain = jpeg(kHeight, kWidth, noise(kHeight, kWidth));
  const RegionImage stored{decode(plain), {}};
  for (int number = 1; number <= 8; ++number) {
    const std::string file = turned_jpeg(plain, number);
    const Image whole = decode(file);
    const auto bytes = exif(number);
    EXPECT_EQ(whole.pixels, orientation_of(bytes_of(bytes)).seen(stored).image.pixels);
    for (int64_t i = 0; i < 30; ++i) {
      const Region region = RandomRegion{0.0001, 3, i, 7}.choose(whole.size);
      const RegionImage part = decode(file, region, kAsItIs);
      ASSERT_EQ(pixels_of(part.image, part.box), pixels_of(whole, box_of(region)))
          << "orientation " << number << ", region " << i;
    }
  }
}

// A quarter of a turned image is at the same place as the whole one: a shift by one pixel of the
// quarter changes green by 4 or blue and red by 1 to 2, rounding and smoothing by about 1.1.
TEST(ImageFile, AFractionOfATurnedImageIsAtTheRightPlace) {
  std::vector<uint8_t> pixels;  // slow changes, which no scaling loses
  for (int y = 0; y < 200; ++y) {
    for (int x = 0; x < 300; ++x) {
      for (const int value : {x / 2, y, (x + y) / 4}) pixels.push_back(static_cast<uint8_t>(value));
    }
  }
  for (int number = 1; number <= 8; ++number) {
    const std::string file = turned_jpeg(jpeg(200, 300, pixels), number);
    const auto scaled = [&](ImageSize least) {
      const RegionImage part = decode(file, {21, 17, {160, 150}}, least);
      std::vector<float> out(std::size_t{3} * 20 * 25);
      Resampler(part.image.size, part.box, {20, 25}).apply(part.image.pixels.data(), 3, out.data());
      return out;
    };
    EXPECT_THAT(scaled({40, 37}), testing::Pointwise(testing::FloatNear(1.5f), scaled(kAsItIs)))
        << number;
  }
}

// The borders of blocks, of the image, and regions of one pixel are where a decoder could differ.
TEST(ImageFile, ARegionHasThePixelsOfTheWholeImage) {
  constexpr int kHeight = 83, kWidth = 101;
  std::vector<std::string> files = {
      png(kHeight, kWidth, 0, PNG_FORMAT_RGB, noise(kHeight, kWidth))};
  for (const auto& [across, down] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}}) {
    for (const bool progressive : {false, true})
      files.push_back(jpeg(kHeight, kWidth, noise(kHeight, kWidth), {across, down, progressive}));
  }
  for (std::size_t file = 0; file < files.size(); ++file) {
    for (const int channels : {1, 3}) {
      const Image whole = decode(files[file], channels);
      for (int64_t i = 0; i < 300; ++i) {
        const Region region = RandomRegion{0.0001, 3, i, 7}.choose(whole.size);
        const RegionImage part = decode(files[file], region, kAsItIs, channels);
        ASSERT_EQ(pixels_of(part.image, part.box), pixels_of(whole, box_of(region)))
            << "file " << file << ", " << channels << " channels, region " << i;
      }
    }
  }
}

TEST(ImageFile, ARegionIsDecodedNoLargerThanItIs) {
  const std::string file = jpeg(400, 600, noise(400, 600));
  const RegionImage part = decode(file, {208, 300, {50, 60}}, kAsItIs);
  EXPECT_EQ(part.image.size.height, 50);
  EXPECT_LE(part.image.size.width, 60 + 2 * 4 + 16);  // with the margin, from the border of a block
}

TEST(ImageFile, ALargeRegionIsDecodedAtAFractionOfItsSize) {
  const std::string file = jpeg(400, 600, colours(400, 600));
  const Region region{20, 101, {360, 410}};
  const struct {
    ImageSize least;
    double shrink;
  } cases[] = {{{181, 100}, 1}, {{180, 205}, 2}, {{180, 206}, 1}, {{46, 10}, 4}, {{45, 51}, 8}};
  for (const auto& [least, shrink] : cases) {
    const RegionImage part = decode(file, region, least);
    EXPECT_EQ(part.box.height, 360 / shrink);
    EXPECT_EQ(part.box.width, 410 / shrink);
    EXPECT_LE(static_cast<double>(part.image.size.height), part.box.height + 2);
    EXPECT_GE(part.box.left, 0);
    EXPECT_LE(part.box.left + part.box.width, static_cast<double>(part.image.size.width));
    EXPECT_LE(part.box.top + part.box.height, static_cast<double>(part.image.size.height));
  }
}

// Scaled to the same size, a fraction of an image looks like the whole one.
TEST(ImageFile, AFractionIsAtTheRightPlace) {
  constexpr int kHeight = 300, kWidth = 500;
  std::vector<uint8_t> pixels;  // slow changes, which no scaling loses
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) {
      for (const int value : {x / 2, y / 2, (x + y) / 4})
        pixels.push_back(static_cast<uint8_t>(value));
    }
  }
  const std::string file = jpeg(kHeight, kWidth, pixels);
  const Region region{33, 59, {250, 403}};
  const auto scaled = [&](ImageSize least) {
    const RegionImage part = decode(file, region, least);
    std::vector<float> out(std::size_t{3} * 20 * 30);
    Resampler(part.image.size, part.box, {20, 30}).apply(part.image.pixels.data(), 3, out.data());
    return out;
  };
  const std::vector<float> whole = scaled(kAsItIs);
  for (const ImageSize least : {ImageSize{125, 201}, {62, 100}, {31, 50}})
    EXPECT_THAT(scaled(least), testing::Pointwise(testing::FloatNear(1.0f), whole));
}

TEST(ImageFile, DamagedFilesAreRefused) {
  for (const std::string& whole : {png(30, 30), jpeg(30, 30)}) {
    for (std::size_t size = 0; size + 12 < whole.size(); size += 7) {
      EXPECT_THAT(test::message_of([&] { decode(whole.substr(0, size)); }), HasSubstr("x.img"));
    }
    for (std::size_t at = 0; at < whole.size(); at += 5) {
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ 0x5a);
      try {
        decode(flipped);
      } catch (const DataError&) {
      }
      try {
        decode(flipped, {3, 5, {20, 20}}, {10, 10});
      } catch (const DataError&) {
      }
    }
  }
  EXPECT_THAT(test::message_of([] { decode("GIF89a..."); }), HasSubstr("neither"));
}

TEST(ImageFile, ASmallFileThatClaimsAHugeImageIsRefused) {
  std::string bomb = png(1, 1);
  // Overwrites width and height at byte 16, and their checksum at byte 29.
  const unsigned char header[] = {'I', 'H',  'D',  'R', 0, 0, 0xff, 0xff, 0,
                                  0,   0xff, 0xff, 8,   2, 0, 0,    0};
  std::copy(std::begin(header), std::end(header), bomb.begin() + 12);
  uint32_t crc = 0xffffffff;
  for (const unsigned char byte : header) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  for (int i = 0; i < 4; ++i) bomb[29 + i] = static_cast<char>(~crc >> (24 - 8 * i));
  EXPECT_THAT(test::message_of([&] { decode(bomb); }), HasSubstr("65535x65535"));
  std::string jpeg_bomb = jpeg(16, 16);
  const std::size_t frame = jpeg_bomb.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  for (int i = 5; i < 9; ++i) jpeg_bomb[frame + i] = '\xff';
  EXPECT_THAT(test::message_of([&] { decode(jpeg_bomb); }), HasSubstr("x.img"));
}

class ImageFolderTest : public testing::Test {
 protected:
  ImageFolderTest() {
    options_.format = "images";
    options_.path = folder_.path("root");
  }
  void write(const std::string& name, const std::string& bytes) const {
    folder_.write("root/" + name, bytes);
  }
  std::vector<float> read(const Dataset& dataset, int64_t index) const {
    const std::vector<int64_t>& shape = dataset.spec().shape;
    std::vector<float> out(static_cast<std::size_t>(shape[0] * shape[1] * shape[2]));
    dataset.read_features(index, out.data());
    return out;
  }
  std::string refusal() const {
    return test::message_of([&] { open_dataset(options_); });
  }
  test::TempFolder folder_;
  DatasetOptions options_;
};

TEST_F(ImageFolderTest, TrainAndValidationFolders) {
  for (const char* name : {"train/cat/b.PNG", "train/cat/a.png", "train/dog/deep/c.png"})
    write(name, png(2, 2, name[10]));
  write("val/dog/x.jpeg", jpeg(2, 2));
  write("train/cat/notes.txt", "no image");
  const DatasetPair pair = open_dataset(options_);
  EXPECT_THAT(pair.train->description(), HasSubstr("3 samples of 2x2x3, 2 classes"));
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < 3; ++i) labels.push_back(pair.train->label(i));
  EXPECT_THAT(labels, ElementsAre(0, 1, 0));
  ASSERT_EQ(pair.validation->size(), 1);
  EXPECT_EQ(pair.validation->label(0), 1);
  EXPECT_FLOAT_EQ(read(*pair.train, 0)[0], static_cast<float>('a') / 255);
}

TEST_F(ImageFolderTest, ASplitHoldsEachClass) {
  for (int i = 0; i < 8; ++i) write("b/" + std::to_string(i) + ".png", png(2, 2));
  for (int i = 0; i < 4; ++i) write("a/" + std::to_string(i) + ".png", png(2, 2));
  options_.validation_split = 0.25;
  const DatasetPair pair = open_dataset(options_);
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < pair.validation->size(); ++i) labels.push_back(pair.validation->label(i));
  EXPECT_THAT(labels, testing::UnorderedElementsAre(0, 1, 1));
}

TEST_F(ImageFolderTest, ResizedAndCutFromTheCentre) {
  write("a/wide.png", png(4, 12));
  write("a/zoom.png", png(8, 10));
  options_.resize = {2, 2};
  options_.resize_shorter = 4;
  options_.mean = {0, 0, 0.5};
  options_.std = {1, 1, 0.5};
  const auto train = open_dataset(options_).train;
  // The wide image needs no scaling; columns 5 and 6 and rows 1 and 2 are cut out.
  std::vector<float> expected;
  for (const float row : {1.f, 2.f}) {
    for (const float column : {5.f, 6.f})
      expected.insert(expected.end(), {column / 255, row / 255, (200 / 255.f - 0.5f) / 0.5f});
  }
  EXPECT_THAT(read(*train, 0), testing::Pointwise(testing::FloatNear(1e-6f), expected));
  // The image of 8x10 (height x width) is scaled to 4x5; the column at which its crop of 2x2
  // begins, (5-2)/2 = 1.5, is rounded to 2.
  EXPECT_NEAR(read(*train, 1)[0] * 255, 2 * (2 + 0.5) - 0.5, 1e-4);
  options_.resize_shorter = 1;
  EXPECT_THROW(open_dataset(options_), ConfigurationError);
}

// A region of a JPEG file and of a PNG file, too small to be decoded at a fraction, scaled and
// normalised.
TEST_F(ImageFolderTest, RandomRegionsAreScaledToTheSize) {
  write("a/1.png", png(40, 60, 0, PNG_FORMAT_RGB, noise(40, 60)));
  write("a/2.jpg", jpeg(90, 70, noise(90, 70)));
  options_.resize = {48, 44};
  options_.mean = {0.25, 0.5, 0.75};
  options_.std = {0.5, 1, 2};
  const auto train = open_dataset(options_).train;
  for (int64_t index = 0; index < 2; ++index) {
    const RandomRegion region{0.3, 1, 2, index};
    std::vector<float> out(std::size_t{48} * 44 * 3), expected(out.size());
    train->read_region(index, region, out.data(), nullptr);
    const Image whole = decode(index == 0 ? png(40, 60, 0, PNG_FORMAT_RGB, noise(40, 60))
                                          : jpeg(90, 70, noise(90, 70)));
    Resampler(whole.size, box_of(region.choose(whole.size)), {48, 44})
        .apply(whole.pixels.data(), 3, expected.data());
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto c = i % 3;
      const double normal =
          (static_cast<double>(expected[i]) / 255 - options_.mean[c]) / options_.std[c];
      ASSERT_NEAR(static_cast<double>(out[i]), normal, 1e-5) << i;
    }
  }
}

TEST_F(ImageFolderTest, BatchesHaveTheSameBitsForAnyNumberOfWorkers) {
  for (int i = 0; i < 13; ++i) {
    const int height = 30 + 3 * i, width = 90 - 4 * i;
    const std::string name = std::to_string(i % 3) + "/" + std::to_string(i);
    write(name + ".jpg", jpeg(height, width, noise(height, width)));
  }
  options_.resize = {16, 16};
  const auto train = open_dataset(options_).train;
  LoaderOptions o{.batch_size = 5, .seed = 3, .prefetch = 0};
  o.augmentation = {.flip = true, .least_area = 0.08};
  Loader expected(train, o);
  o.prefetch = 2;
  Loader one(train, o);
  o.workers = 4;
  Loader four(train, o);
  std::set<std::pmr::vector<float>> different;
  for (int batch = 0; batch < 9; ++batch) {
    const Batch& e = expected.next();
    EXPECT_EQ(one.next().features, e.features);
    const Batch& b = four.next();
    EXPECT_EQ(b.features, e.features);
    EXPECT_EQ(b.labels, e.labels);
    different.insert(b.features);
  }
  EXPECT_EQ(different.size(), 9u);
}

TEST_F(ImageFolderTest, WhatIsWrongIsNamed) {
  std::filesystem::create_directories(folder_.path("root"));
  EXPECT_THAT(refusal(), HasSubstr("no folders"));
  write("train/a/1.png", png(2, 2));
  write("train/a/2.png", png(2, 3));
  const auto train = open_dataset(options_).train;
  EXPECT_THAT(test::message_of([&] { read(*train, 1); }),
              AllOf(HasSubstr("2.png"), HasSubstr("2x3"), HasSubstr("dataset.resize")));
  write("val/b/1.png", png(2, 2));
  EXPECT_THAT(refusal(), HasSubstr("no class of the training part is called \"b\""));
  std::filesystem::create_directories(folder_.path("root/train/empty"));
  EXPECT_THAT(refusal(), HasSubstr("has no file *.png"));
  options_.path = folder_.path("nowhere");
  EXPECT_THAT(refusal(), HasSubstr("cannot be read"));
}

TEST_F(ImageFolderTest, ADamagedFileEndsTheLoaderWithItsName) {
  for (int i = 0; i < 6; ++i) write("a/" + std::to_string(i) + ".png", png(4, 4));
  write("a/4.png", png(4, 4).substr(0, 60));
  LoaderOptions options;
  options.batch_size = 2;
  options.shuffle = false;
  for (const int workers : {1, 4}) {
    options.workers = workers;
    Loader loader(open_dataset(options_).train, options);
    loader.next();
    loader.next();
    EXPECT_THAT(test::message_of([&] { loader.next(); }), HasSubstr("4.png: libpng"));
  }
}

}  // namespace
}  // namespace runtime::data
