// The orientation that cameras write into EXIF, and turning pixels by it.
// Source: Exif 2.32 (CIPA DC-008), section 4.6.4, tag 274; TIFF 6.0 for the structure.
#pragma once

#include "absl/strings/string_view.h"

#include "penstock/image/resize.h"
#include "penstock/image/view.h"

namespace penstock::image {

// `tiff` begins with the TIFF header ("II*\0" or "MM\0*"). 1 (upright) when there is no such tag or
// the bytes make no sense: a picture is worth more than its metadata.
int ExifOrientation(absl::string_view tiff);

// Size of the turned image; orientation is 1 to 8.
Size OrientedSize(Size stored, int orientation);
// Where a box of the turned image lies in the image as stored.
Box StoredBox(const Box& oriented, Size stored, int orientation);
// Where a window of the stored image lies in the turned one; `stored` is that image's size.
Window OrientedWindow(const Window& window, Size stored, int orientation);
// Turns `stored` into `out`, whose size is OrientedSize (contract).
void Orient(ImageView stored, int orientation, const MutableImageView& out);

}  // namespace penstock::image
