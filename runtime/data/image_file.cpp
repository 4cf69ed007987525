#include "runtime/data/image_file.h"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
// These headers need <cstdio> before them.
#include <jerror.h>
#include <jpeglib.h>

#include "runtime/error.h"

namespace runtime::data {
namespace {

[[noreturn]] void fail(const std::string& name, const std::string& what) {
  throw DataError(name + ": " + what +
                  "; expected a whole PNG or JPEG file: fetch it again, or remove it");
}

void check_size(int64_t height, int64_t width, const std::string& name) {
  if (height < 1 || width < 1 || height > kMaxPixels / width) {
    fail(name, "the header says " + std::to_string(height) + "x" + std::to_string(width) +
                   " pixels, at most " + std::to_string(kMaxPixels) + " are read");
  }
}

void allocate(Image& image, int64_t height, int64_t width) {
  image.size = {height, width};
  image.pixels.resize(static_cast<std::size_t>(height * width * image.channels));
}

Image decode_png(std::span<const uint8_t> file, const std::string& name, int channels) {
  Image image{{}, channels, {}};
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  bool read = png_image_begin_read_from_memory(&png, file.data(), file.size()) != 0;
  if (read) {
    png.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
    try {
      check_size(png.height, png.width, name);
      allocate(image, png.height, png.width);
    } catch (...) {
      png_image_free(&png);
      throw;
    }
    const png_color black{};
    read = png_image_finish_read(&png, &black, image.pixels.data(), 0, nullptr) != 0;
  }
  const std::string message = png.message;
  png_image_free(&png);
  if (!read) fail(name, "libpng: " + message);
  return image;
}

// libjpeg reports errors here. An error leaves the library by longjmp, because libjpeg is written
// in C.
struct JpegErrors {
  jpeg_error_mgr manager;  // must be first, because libjpeg passes a pointer to it
  std::jmp_buf escape;
  char message[JMSG_LENGTH_MAX];
};

void jpeg_failed(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  errors->manager.format_message(info, errors->message);
  std::longjmp(errors->escape, 1);
}

// libjpeg only warns about damaged data and invents the rest, so a warning is an error here. Extra
// bytes between two segments of a file are harmless and are ignored.
void jpeg_message(j_common_ptr info, int level) {
  if (level < 0 && info->err->msg_code != JWRN_EXTRANEOUS_DATA) jpeg_failed(info);
}

// No object with a destructor may be created here, because longjmp would skip the destructor.
bool read_header(jpeg_decompress_struct& jpeg, JpegErrors& errors, std::span<const uint8_t> file,
                 int channels) {
  if (setjmp(errors.escape) != 0) return false;
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, file.data(), file.size());
  jpeg_read_header(&jpeg, TRUE);
  jpeg.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  return true;
}

// Which rows and columns of the scaled image are decoded.
struct Window {
  JDIMENSION top = 0, bottom = 0, left = 0, width = 0;
};

// libjpeg-turbo interpolates colours between neighbouring pixels; so many more columns on each side
// of the region give its border the pixels of the whole image.
constexpr int64_t kMargin = 4;

Window window_of(const Region& region, int64_t shrink, const jpeg_decompress_struct& jpeg) {
  const auto dimension = [&](int64_t pixel, int64_t margin, JDIMENSION limit) {
    return static_cast<JDIMENSION>(std::clamp<int64_t>(pixel + margin, 0, limit));
  };
  const auto end = [&](int64_t pixel) { return (pixel + shrink - 1) / shrink; };
  Window window;
  window.top = dimension(region.top / shrink, 0, jpeg.output_height);
  window.bottom = dimension(end(region.top + region.size.height), 0, jpeg.output_height);
  window.left = dimension(region.left / shrink, -kMargin, jpeg.output_width);
  window.width = dimension(end(region.left + region.size.width), kMargin, jpeg.output_width);
  window.width -= window.left;
  return window;
}

// Moves the window's left side to where libjpeg can begin, or to 0.
bool start(jpeg_decompress_struct& jpeg, JpegErrors& errors, const Region& region, int64_t shrink,
           Window& window) {
  if (setjmp(errors.escape) != 0) return false;
  jpeg.scale_num = 1;
  jpeg.scale_denom = static_cast<unsigned>(shrink);
  jpeg_start_decompress(&jpeg);
  window = window_of(region, shrink, jpeg);
#if defined(LIBJPEG_TURBO_VERSION_NUMBER) && LIBJPEG_TURBO_VERSION_NUMBER >= 2001000
  jpeg_crop_scanline(&jpeg, &window.left, &window.width);
#else
  window.left = window.top = 0;
  window.width = jpeg.output_width;
#endif
  return true;
}

bool read_window(jpeg_decompress_struct& jpeg, JpegErrors& errors, const Window& window,
                 uint8_t* pixels) {
  if (setjmp(errors.escape) != 0) return false;
#if defined(LIBJPEG_TURBO_VERSION_NUMBER) && LIBJPEG_TURBO_VERSION_NUMBER >= 2001000
  if (window.top > 0) jpeg_skip_scanlines(&jpeg, window.top);
#endif
  const std::size_t row_bytes = std::size_t{jpeg.output_width} * jpeg.output_components;
  while (jpeg.output_scanline < window.bottom) {
    JSAMPROW row = pixels + (jpeg.output_scanline - window.top) * row_bytes;
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  if (jpeg.output_scanline == jpeg.output_height) jpeg_finish_decompress(&jpeg);
  return true;
}

// Returns how many times smaller an image may be decoded so that the region is not below `least`.
int64_t shrinkage(const Region& region, ImageSize least) {
  int64_t shrink = 8;
  while (shrink > 1 &&
         (region.size.height < shrink * least.height || region.size.width < shrink * least.width))
    shrink /= 2;
  return shrink;
}

RegionImage decode_jpeg(std::span<const uint8_t> file, const std::string& name, int channels,
                        const std::function<Region(ImageSize)>& choose, ImageSize least) {
  struct Decoder {
    jpeg_decompress_struct jpeg{};
    JpegErrors errors{};
    ~Decoder() { jpeg_destroy_decompress(&jpeg); }
  } decoder;
  decoder.jpeg.err = jpeg_std_error(&decoder.errors.manager);
  decoder.errors.manager.error_exit = jpeg_failed;
  decoder.errors.manager.emit_message = jpeg_message;
  const auto check = [&](bool read) {
    if (!read) fail(name, std::string("libjpeg: ") + decoder.errors.message);
  };
  RegionImage result{{{}, channels, {}}, {}};
  check(read_header(decoder.jpeg, decoder.errors, file, channels));
  check_size(decoder.jpeg.image_height, decoder.jpeg.image_width, name);
  const Region region = choose({decoder.jpeg.image_height, decoder.jpeg.image_width});
  const int64_t shrink = shrinkage(region, least);
  Window window;
  check(start(decoder.jpeg, decoder.errors, region, shrink, window));
  allocate(result.image, window.bottom - window.top, window.width);
  check(read_window(decoder.jpeg, decoder.errors, window, result.image.pixels.data()));
  result.box = box_of(region, shrink, window.top, window.left);
  return result;
}

bool begins_with(std::span<const uint8_t> file, const char* bytes, std::size_t count) {
  return file.size() >= count && std::memcmp(file.data(), bytes, count) == 0;
}

}  // namespace

void require_image_decoders() {}

RegionImage decode_region(std::span<const uint8_t> file, const std::string& name, int channels,
                          const std::function<Region(ImageSize)>& choose, ImageSize least) {
  if (begins_with(file, "\xff\xd8\xff", 3)) return decode_jpeg(file, name, channels, choose, least);
  if (!begins_with(file, "\x89PNG\r\n\x1a\n", 8)) fail(name, "it begins like neither");
  RegionImage result{decode_png(file, name, channels), {}};
  result.box = box_of(choose(result.image.size));
  return result;
}

Image decode_image(std::span<const uint8_t> file, const std::string& name, int channels) {
  const auto whole = [](ImageSize size) { return Region{0, 0, size}; };
  constexpr ImageSize kAsItIs{kMaxPixels, kMaxPixels};
  return decode_region(file, name, channels, whole, kAsItIs).image;
}

}  // namespace runtime::data
