// Decoding of JPEG files with libjpeg.
#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <string_view>
// These headers need <cstdio> before them.
#include <jerror.h>
#include <jpeglib.h>

#include "runtime/data/image_decoders.h"
#include "runtime/data/orientation.h"

namespace runtime::data {
namespace {

constexpr int kExifMarker = JPEG_APP0 + 1;

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
  constexpr unsigned kWhole = 0xffff;
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, file.data(), file.size());
  jpeg_save_markers(&jpeg, kExifMarker, kWhole);
  jpeg_read_header(&jpeg, TRUE);
  const bool inks = jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK;
  jpeg.out_color_space = inks ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  return true;
}

// Returns the first block of EXIF data before the pixels; other programs' segments may have the
// same marker.
std::span<const uint8_t> exif_of(const jpeg_decompress_struct& jpeg) {
  constexpr std::string_view kBegin("Exif\0\0", 6);
  for (const jpeg_marker_struct* saved = jpeg.marker_list; saved != nullptr; saved = saved->next) {
    const std::span<const uint8_t> data(saved->data, saved->data_length);
    if (data.size() > kBegin.size() && std::memcmp(data.data(), kBegin.data(), kBegin.size()) == 0)
      return data;
  }
  return {};
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

// A decoder with its errors, which end in DataError.
class JpegDecoder {
 public:
  explicit JpegDecoder(const ImageRequest& request) : request_(request) {
    jpeg_.err = jpeg_std_error(&errors_.manager);
    errors_.manager.error_exit = jpeg_failed;
    errors_.manager.emit_message = jpeg_message;
  }
  ~JpegDecoder() { jpeg_destroy_decompress(&jpeg_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  RegionImage decode() {
    check(read_header(jpeg_, errors_, request_.file, request_.channels));
    check_size(jpeg_.image_height, jpeg_.image_width, request_.name);
    const ImageSize size{jpeg_.image_height, jpeg_.image_width};
    const Orientation orientation = orientation_of(exif_of(jpeg_));
    const Region seen = request_.choose(orientation.turned(size));
    RegionImage part = decode(orientation.stored(seen, size), orientation.turned(request_.least));
    part.image = with_channels(std::move(part.image), request_.channels);
    return orientation.seen(std::move(part));
  }

 private:
  // Decodes a region of the stored image, in the channels that libjpeg gives.
  RegionImage decode(const Region& region, ImageSize least) {
    const int64_t shrink = shrinkage(region, least);
    Window window;
    check(start(jpeg_, errors_, region, shrink, window));
    RegionImage part;
    allocate(part.image, window.bottom - window.top, window.width, jpeg_.output_components);
    check(read_window(jpeg_, errors_, window, part.image.pixels.data()));
    part.box = box_of(region, shrink, window.top, window.left);
    return part;
  }
  void check(bool read) const {
    if (!read) refuse_image(request_.name, std::string("libjpeg: ") + errors_.message);
  }

  const ImageRequest& request_;
  jpeg_decompress_struct jpeg_{};
  JpegErrors errors_{};
};

}  // namespace

RegionImage decode_jpeg(const ImageRequest& request) { return JpegDecoder(request).decode(); }

}  // namespace runtime::data
