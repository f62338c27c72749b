// NumPy's .npz as a file of weights: a zip archive with one .npy file per array (formats/npy.h).
//
//   Weights weights{.arrays = {{"dense/kernel", kernel}}};
//   PENSTOCK_RETURN_IF_ERROR(WriteWeights(fs, "gs://bucket/digits.npz", weights));
//
// `numpy.load("digits.npz")["dense/kernel"]` reads it. Arrays are stored uncompressed; compressed
// ones (numpy.savez_compressed) are read. NumPy has no bfloat16, float8 or narrower types and the
// format no metadata: weights with these are rejected.
#pragma once

#include "penstock/save/format.h"

namespace penstock::save {

Format NpzFormat();

}  // namespace penstock::save
