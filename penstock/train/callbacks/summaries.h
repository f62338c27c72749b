// Summaries that TensorBoard shows, for an EventWriter: histograms, images, texts; graphs are those
// of graph_summaries.h. The callback TensorBoard writes them, and a program may write its own:
//
//   PENSTOCK_ASSIGN_OR_RETURN(auto events, EventWriter::Open({.folder = "logs/samples"}));
//   PENSTOCK_ASSIGN_OR_RETURN(const std::string image, ImageSummary("samples", images));
//   PENSTOCK_RETURN_IF_ERROR(events->Append(/*step=*/100, image));
//   PENSTOCK_RETURN_IF_ERROR(events->Append(100, TextSummary("notes", "**warm-up** has ended")));
//   PENSTOCK_RETURN_IF_ERROR(events->Flush());
//
// Each is a serialized tensorflow.Summary (framework/summary.proto); joined, they are one Summary.
// Formats are those of tf.compat.v1.summary, which every version of TensorBoard reads:
//   Value           1: string tag, 2: float simple_value, 4: Image, 5: HistogramProto,
//                   8: TensorProto tensor, 9: SummaryMetadata metadata
//   Image           1: int32 height, 2: int32 width, 3: int32 colorspace (channels), 4: bytes PNG
//   HistogramProto  1: double min, 2: max, 3: num, 4: sum, 5: sum_squares,
//                   6: repeated double bucket_limit, 7: repeated double bucket
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"

namespace penstock::train {

// The distribution of an array's finite elements, in TensorFlow's buckets
// (tensorflow/core/lib/histogram/): their limits grow by a tenth, from 1e-12 to 1e20 on both sides
// of 0. TensorFlow's operation fails for NaN and infinity; here they are left out, and their number
// is the scalar "TAG/not_finite". INVALID_ARGUMENT for strings and complex numbers.
absl::StatusOr<std::string> HistogramSummary(absl::string_view tag, const base::Array& values);

// Images [batch, height, width, channels] or one image [height, width, channels] or [height,
// width], of 1 or 3 channels: u8, or numbers, which are scaled as TensorFlow 1 does (each image:
// without negative values its maximum becomes 255; otherwise 0 becomes 127). A pixel with a number
// that is not finite is red, or white in a gray image. The first max_outputs have the tags
// "TAG/image/0", ..., or "TAG/image" if max_outputs is 1. INVALID_ARGUMENT for other arrays, and
// for more than 65,535 pixels a side.
absl::StatusOr<std::string> ImageSummary(absl::string_view tag, const base::Array& images,
                                         int max_outputs = 3);

// A text, which TensorBoard shows as Markdown.
std::string TextSummary(absl::string_view tag, absl::string_view markdown);

// ---- Confusion matrices ----

// The number of examples by true class (row) and predicted class (column): i64 [classes, classes].
// `labels`: classes [rows] or [rows, 1], or one-hot or soft labels [rows, classes]; `outputs`:
// probabilities or logits [rows, classes], or [rows, 1] of two classes (above 0.5: class 1), as
// Predict returns them. Ties are the first class's. INVALID_ARGUMENT for other shapes and for a
// label that is no class.
absl::StatusOr<base::Array> CountConfusion(const base::Array& labels, const base::Array& outputs);
// A confusion matrix as an image (brighter: a larger part of the true class; a square of 8 pixels
// or more for each pair), as a text with a table (up to 50 classes), and as the scalar
// "TAG/accuracy". `names` of the classes may be empty.
absl::StatusOr<std::string> ConfusionSummary(absl::string_view tag, const base::Array& counts,
                                             const std::vector<std::string>& names = {});

}  // namespace penstock::train
