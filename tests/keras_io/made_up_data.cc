#include "penstock/base/random.h"

#include "programs.h"

namespace penstock::keras_io {

LabelledRows SquareImages(int64_t count, int64_t side, int64_t classes, uint64_t seed) {
  base::Random random(seed);
  LabelledRows rows{Array::Zeros(DType::kU8, {count, side, side, 1}),
                    Array::Zeros(DType::kI64, {count})};
  for (int64_t i = 0; i < count; ++i) {
    const int64_t label = i % classes;
    rows.y.mutable_data<int64_t>()[i] = label;
    const int64_t cell = side / 4, top = label / 4 * cell, left = label % 4 * cell;
    uint8_t* pixels = rows.x.mutable_data<uint8_t>() + i * side * side;
    for (int64_t p = 0; p < side * side; ++p) pixels[p] = static_cast<uint8_t>(random.Below(60));
    for (int64_t y = top; y < top + cell; ++y) {
      for (int64_t x = left; x < left + cell; ++x) pixels[y * side + x] = 220;
    }
  }
  return rows;
}

LabelledRows TokenSequences(int64_t count, int64_t steps, int64_t vocabulary, uint64_t seed) {
  base::Random random(seed);
  LabelledRows rows{Array::Zeros(DType::kI64, {count, steps}), Array::Zeros(DType::kI64, {count})};
  for (int64_t i = 0; i < count; ++i) {
    int64_t* tokens = rows.x.mutable_data<int64_t>() + i * steps;
    for (int64_t s = 0; s < steps; ++s) {
      tokens[s] = 10 + static_cast<int64_t>(random.Below(static_cast<uint64_t>(vocabulary - 10)));
    }
    rows.y.mutable_data<int64_t>()[i] = i % 2;
    if (i % 2 == 1) {
      tokens[random.Below(static_cast<uint64_t>(steps))] =
          5 + static_cast<int64_t>(random.Below(5));
    }
  }
  return rows;
}

}  // namespace penstock::keras_io
