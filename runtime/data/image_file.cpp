#include "runtime/data/image_file.h"

#include <png.h>

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

void allocate(Image& image, int64_t height, int64_t width, const std::string& name) {
  if (height < 1 || width < 1 || height > kMaxPixels / width) {
    fail(name, "the header says " + std::to_string(height) + "x" + std::to_string(width) +
                   " pixels, at most " + std::to_string(kMaxPixels) + " are read");
  }
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
      allocate(image, png.height, png.width, name);
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

bool read_pixels(jpeg_decompress_struct& jpeg, JpegErrors& errors, uint8_t* pixels) {
  if (setjmp(errors.escape) != 0) return false;
  jpeg_start_decompress(&jpeg);
  const std::size_t row_bytes = std::size_t{jpeg.output_width} * jpeg.output_components;
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW row = pixels + jpeg.output_scanline * row_bytes;
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_decompress(&jpeg);
  return true;
}

Image decode_jpeg(std::span<const uint8_t> file, const std::string& name, int channels) {
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
  Image image{{}, channels, {}};
  check(read_header(decoder.jpeg, decoder.errors, file, channels));
  allocate(image, decoder.jpeg.image_height, decoder.jpeg.image_width, name);
  check(read_pixels(decoder.jpeg, decoder.errors, image.pixels.data()));
  return image;
}

bool begins_with(std::span<const uint8_t> file, const char* bytes, std::size_t count) {
  return file.size() >= count && std::memcmp(file.data(), bytes, count) == 0;
}

}  // namespace

void require_image_decoders() {}

Image decode_image(std::span<const uint8_t> file, const std::string& name, int channels) {
  if (begins_with(file, "\x89PNG\r\n\x1a\n", 8)) return decode_png(file, name, channels);
  if (begins_with(file, "\xff\xd8\xff", 3)) return decode_jpeg(file, name, channels);
  fail(name, "it begins like neither");
}

}  // namespace runtime::data
