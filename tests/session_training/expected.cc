#include "tests/session_training/expected.h"

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "penstock/base/status.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/save/save.h"

namespace penstock::tests {

Expected::Expected() {
  ::setenv("XLA_FLAGS", "--xla_backend_optimization_level=0", /*overwrite=*/0);
  status_ = Run();
}

absl::Status Expected::Run() {
  PENSTOCK_RETURN_IF_ERROR(WriteFilesForTensorFlow(folder()));
  PENSTOCK_RETURN_IF_ERROR(RunPython("session_training/expect.py", {folder()}));
  std::ifstream file(folder_ / "rows.json");
  rows_ = json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (rows_.is_discarded()) return absl::InternalError("expect.py wrote no rows");
  PENSTOCK_ASSIGN_OR_RETURN(save::Weights weights,
                            save::ReadWeights(*io::FileSystem::Default(), folder_ / "arrays.npz"));
  arrays_ = std::move(weights.arrays);
  return absl::OkStatus();
}

const Expected& Expected::Get() {
  static const Expected expected;
  return expected;
}

Array Expected::array(const std::string& key) const {
  const absl::StatusOr<Array> found = arrays_.Get(key);
  EXPECT_TRUE(found.ok()) << found.status();
  return found.ok() ? *found : Array();
}

void ExpectClose(const Array& got, const Array& want, double tolerance, const std::string& what) {
  ASSERT_TRUE(got.valid() && want.valid()) << what;
  ASSERT_EQ(got.shape(), want.shape()) << what;
  const Array a = *got.Cast(DType::kF64), b = *want.Cast(DType::kF64);
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    const double x = a.data<double>()[i], y = b.data<double>()[i];
    const bool close = (std::isnan(x) && std::isnan(y)) || x == y ||
                       std::abs(x - y) <= tolerance * (1 + std::abs(y));
    ASSERT_TRUE(close) << what << ", element " << i << ": " << x << ", TensorFlow has " << y;
  }
}

tf::Session OpenSession() { return tf::Session("", {.client = runtime::TestClient(1)}); }

}  // namespace penstock::tests
