// Decoding of PNG files with libpng.
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <new>

#include "runtime/data/image_decoders.h"
#include "runtime/data/orientation.h"

namespace runtime::data {
namespace {

// What libpng reads from, and where it reports errors. An error leaves the library by longjmp,
// because libpng is written in C.
struct PngSource {
  std::span<const uint8_t> rest;  // what has not been read
  std::jmp_buf escape;
  char message[200];
};

void png_failed(png_structp png, png_const_charp message) {
  auto* source = static_cast<PngSource*>(png_get_error_ptr(png));
  std::snprintf(source->message, sizeof(source->message), "%s", message);
  std::longjmp(source->escape, 1);
}

// libpng warns about chunks that nobody needs here and leaves them out.
void png_warned(png_structp, png_const_charp) {}

void png_copy(png_structp png, png_bytep out, std::size_t count) {
  auto* source = static_cast<PngSource*>(png_get_io_ptr(png));
  if (source->rest.size() < count) png_error(png, "the file ends too early");
  std::copy_n(source->rest.begin(), count, out);
  source->rest = source->rest.subspan(count);
}

// No object with a destructor may be created in the functions that call setjmp, because longjmp
// would skip the destructor.
bool read_header(png_structp png, png_infop info, PngSource& source) {
  if (setjmp(source.escape) != 0) return false;
  png_set_benign_errors(png, 1);
  png_read_info(png, info);
  return true;
}

// Asks for the samples as they are in the file, as 8 bits: libpng corrects no gamma unless it is
// asked to, and its conversion to grey, which does, is not used.
bool start(png_structp png, png_infop info, PngSource& source, int channels, int& passes) {
  if (setjmp(source.escape) != 0) return false;
  png_set_expand(png);  // palettes become colours; 1, 2 and 4 bits of grey become 8
  png_set_scale_16(png);
  png_set_strip_alpha(png);
  if (channels == 3) png_set_gray_to_rgb(png);
  passes = png_set_interlace_handling(png);
  png_read_update_info(png, info);
  return true;
}

bool read_rows(png_structp png, PngSource& source, int passes, Image& image) {
  if (setjmp(source.escape) != 0) return false;
  const int64_t row_bytes = image.size.width * image.channels;
  for (int pass = 0; pass < passes; ++pass) {
    for (int64_t y = 0; y < image.size.height; ++y)
      png_read_row(png, image.pixels.data() + y * row_bytes, nullptr);
  }
  return true;
}

// Reads the chunks behind the pixels.
bool read_end(png_structp png, png_infop end, PngSource& source) {
  if (setjmp(source.escape) != 0) return false;
  png_read_end(png, end);
  return true;
}

// A decoder with its errors, which end in DataError.
class PngDecoder {
 public:
  explicit PngDecoder(const ImageRequest& request) : request_(request) {
    source_.rest = request.file;
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source_, png_failed, png_warned);
    if (png_ == nullptr) throw std::bad_alloc();
    info_ = png_create_info_struct(png_);
    end_ = png_create_info_struct(png_);
    png_set_read_fn(png_, &source_, png_copy);
  }
  ~PngDecoder() { png_destroy_read_struct(&png_, &info_, &end_); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  Image decode() {
    check(read_header(png_, info_, source_));
    const int64_t height = png_get_image_height(png_, info_);
    const int64_t width = png_get_image_width(png_, info_);
    check_size(height, width, request_.name);
    int passes = 1;
    check(start(png_, info_, source_, request_.channels, passes));
    Image image;
    allocate(image, height, width, png_get_channels(png_, info_));
    check(read_rows(png_, source_, passes, image));
    return with_channels(std::move(image), request_.channels);
  }

  // Returns what the file says before or behind the pixels, which must have been decoded.
  Orientation orientation() {
    // The pixels are whole, so damage behind them does no harm.
    static_cast<void>(read_end(png_, end_, source_));
    for (const png_infop info : {info_, end_}) {
      png_uint_32 size = 0;
      png_bytep exif = nullptr;
      if (png_get_eXIf_1(png_, info, &size, &exif) != 0) return orientation_of({exif, size});
    }
    return {};
  }

 private:
  void check(bool read) const {
    if (!read) refuse_image(request_.name, std::string("libpng: ") + source_.message);
  }

  const ImageRequest& request_;
  PngSource source_{};
  png_structp png_ = nullptr;
  png_infop info_ = nullptr, end_ = nullptr;
};

}  // namespace

RegionImage decode_png(const ImageRequest& request) {
  PngDecoder decoder(request);
  RegionImage whole{decoder.decode(), {}};
  const ImageSize stored = whole.image.size;
  const Orientation orientation = decoder.orientation();
  whole.box = box_of(orientation.stored(request.choose(orientation.turned(stored)), stored));
  return orientation.seen(std::move(whole));
}

}  // namespace runtime::data
