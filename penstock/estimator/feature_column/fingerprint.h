// Fingerprint64 of FarmHash (farmhash.cc, farmhashna::Hash64; Pike and Alakuijala, 2014), the
// function of TensorFlow's string_to_hash_bucket_fast: ids of hash buckets equal TensorFlow's.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace penstock::feature_column {

uint64_t Fingerprint64(absl::string_view bytes);

// Fingerprint64(bytes) modulo `buckets`, which is at least 1.
inline int64_t HashBucket(absl::string_view bytes, int64_t buckets) {
  return static_cast<int64_t>(Fingerprint64(bytes) % static_cast<uint64_t>(buckets));
}

}  // namespace penstock::feature_column
