// Converts pixels between grey, colour and the inks of printers.
#include "runtime/data/image.h"

namespace runtime::data {
namespace {

// Replaces each pixel, which has `image.channels` numbers, with the `channels` numbers that
// convert(from, to) writes. `to` may be `from`.
template <class Convert>
void convert_pixels(Image& image, int channels, const Convert& convert) {
  uint8_t* to = image.pixels.data();
  const uint8_t* const end = to + image.pixels.size();
  for (const uint8_t* from = to; from < end; from += image.channels, to += channels)
    convert(from, to);
  image.pixels.resize(static_cast<std::size_t>(to - image.pixels.data()));
  image.channels = channels;
}

void inks_to_colour(const uint8_t* inks, uint8_t* colour) {
  const unsigned black = inks[3];
  for (int i = 0; i < 3; ++i) colour[i] = static_cast<uint8_t>((inks[i] * black + 127) / 255);
}

// The weights in units of 1 / 65536; their sum is 65536, so that white stays white.
void colour_to_grey(const uint8_t* colour, uint8_t* grey) {
  constexpr unsigned kRed = 19595, kGreen = 38470, kBlue = 7471, kHalf = 32768;
  *grey = static_cast<uint8_t>(
      (kRed * colour[0] + kGreen * colour[1] + kBlue * colour[2] + kHalf) >> 16);
}

}  // namespace

Image with_channels(Image image, int channels) {
  if (image.channels == 4) convert_pixels(image, 3, inks_to_colour);
  if (image.channels > channels) convert_pixels(image, 1, colour_to_grey);
  return image;
}

}  // namespace runtime::data
