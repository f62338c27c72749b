// EXIF orientation: reading the tag, and rotating and mirroring pixels accordingly. Source: Exif
// 2.32 (CIPA DC-008), section 4.6.4, tag 274; TIFF 6.0 for the structure.
#pragma once

#include "absl/strings/string_view.h"

#include "penstock/image/resize.h"
#include "penstock/image/view.h"

namespace penstock::image {

// The orientation tag (1 to 8) in EXIF data; `tiff` begins with the TIFF header ("II*\0" or
// "MM\0*"). 1 (upright) if the tag is missing or the data is malformed, because invalid metadata
// should not make an image unusable.
int ExifOrientation(absl::string_view tiff);

// Size of the upright image; `orientation` is 1 to 8.
Size OrientedSize(Size stored, int orientation);
// Maps a box of the upright image to the stored image.
Box StoredBox(const Box& oriented, Size stored, int orientation);
// Maps a window of the stored image to the upright image; `stored` is the stored image's size.
Window OrientedWindow(const Window& window, Size stored, int orientation);
// Rotates and mirrors `stored` into `out`, whose size must be OrientedSize.
void Orient(ImageView stored, int orientation, const MutableImageView& out);

}  // namespace penstock::image
