// Penstock: trains networks on TPUs, GPUs and CPUs, with a fast input pipeline. This header has
// what most programs need: input pipelines (Dataset), networks (keras::, models::) and arrays.
//
//   #include "penstock/penstock.h"
//
//   int main() {
//     using namespace penstock;
//     Dataset train = Dataset::FromTfRecords({"shards/train/*.tfrec"})
//                         .Shuffle(2000)
//                         .ParseExample({.features = {{.name = "image", .dtype = DType::kString},
//                                                     {.name = "class", .dtype = DType::kI64}}})
//                         .DecodeImage({.channels = 3, .height = 32, .width = 32})
//                         .Batch(64)
//                         .Prefetch(2);
//     ...
//   }
//
// Programs that pack data or diagnose an input-bound training also include pack/pack.h and
// diagnose/diagnose.h. A program that links a single room (penstock::data) includes that room's
// header instead.
#pragma once

#include "penstock/base/array.h"
#include "penstock/base/dtype.h"
#include "penstock/base/shape.h"
#include "penstock/data/dataset.h"
#include "penstock/keras/keras.h"
#include "penstock/models/models.h"

namespace penstock {

using base::Array;
using base::DType;
using base::NamedArrays;
using base::Shape;
using data::Dataset;

}  // namespace penstock
