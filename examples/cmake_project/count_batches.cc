// Counts the batches of a dataset. Links penstock::data alone.
#include <cstdio>

#include "penstock/data/dataset.h"

int main() {
  using penstock::base::Array;
  const auto dataset =
      penstock::data::Dataset::FromArrays({{"x", Array::Of<float>({5, 1}, {1, 2, 3, 4, 5})}})
          .Shuffle(5)
          .Batch(2);
  auto iterator = dataset.MakeIterator();
  if (!iterator.ok()) return 1;
  int batches = 0;
  penstock::base::NamedArrays batch;
  for (;; ++batches) {
    const absl::StatusOr<bool> more = (*iterator)->Next(&batch);
    if (!more.ok()) return 1;
    if (!*more) break;
  }
  std::printf("%d batches\n", batches);
  return batches == 3 ? 0 : 1;
}
