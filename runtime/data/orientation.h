// How a camera was held when it took a picture.
#ifndef RUNTIME_DATA_ORIENTATION_H_
#define RUNTIME_DATA_ORIENTATION_H_

#include <cstdint>
#include <span>

#include "runtime/data/image.h"

namespace runtime::data {

// What turns an image as it is stored into the image that people see: the stored rows and columns
// are reversed first, and then rows become columns. The eight combinations are EXIF's orientations
// 1 to 8.
struct Orientation {
  bool rows_reversed = false, columns_reversed = false, transposed = false;
  bool operator==(const Orientation&) const = default;

  // Returns the seen size of an image with this stored size, or the stored size for a seen one.
  ImageSize turned(ImageSize size) const;
  // Returns where a region of the seen image lies in the stored image, whose size is `stored`.
  Region stored(Region seen, ImageSize stored) const;
  // Turns a part of the stored image, with its box, into that part of the seen image. Equivalent
  // to: Pillow's ImageOps.exif_transpose.
  RegionImage seen(RegionImage stored) const;
};

// Returns the orientation that a block of EXIF data (of JPEG's segment APP1 with its "Exif\0\0", or
// of PNG's chunk eXIf) says; of one that is empty, damaged or says nothing: the image as it is.
Orientation orientation_of(std::span<const uint8_t> exif);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_ORIENTATION_H_
