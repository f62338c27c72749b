#include "penstock/estimator/feature_column/fingerprint.h"

#include <string>

#include "gtest/gtest.h"

namespace penstock::feature_column {
namespace fingerprint_test {

// What tf.strings.to_hash_bucket_fast(text, 2**62) and (text, 1000) return in TensorFlow 2.21; a
// text for each of the function's cases by length.
TEST(Fingerprint64, EqualsTensorFlows) {
  struct Row {
    std::string text;
    int64_t wide, bucket;
  };
  const Row rows[] = {
      {"", 1936946117179621455, 263},
      {"a", 3694432073954588131, 939},
      {"wooden", 3958097406145430662, 566},
      {"the quick brown fox", 3343755477575298353, 161},
      {std::string(40, 'x'), 3168538174772821140, 852},
      {std::string(64, 'y'), 4471793200125962424, 424},
      {std::string(65, 'z'), 3688229565335330613, 517},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(HashBucket(row.text, int64_t{1} << 62), row.wide) << row.text;
    EXPECT_EQ(HashBucket(row.text, 1000), row.bucket) << row.text;
  }
}

TEST(Fingerprint64, EqualsTensorFlowsForSeveralBlocks) {
  std::string text;
  for (int i = 0; i < 20; ++i) text += "0123456789";
  EXPECT_EQ(HashBucket(text, int64_t{1} << 62), 439712990348739477);
}

}  // namespace fingerprint_test
}  // namespace penstock::feature_column
