#include "penstock/lazy/serialization.h"

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/io/file_system.h"
#include "penstock/lazy/xm.h"
#include "penstock/lazy/xm_collectives.h"
#include "penstock/lazy/xmp.h"
#include "penstock/runtime/testing/test_device.h"

namespace penstock::lazy {
namespace serialization_test {
namespace {

using testing::HasSubstr;

class SerializationTest : public testing::Test {
 protected:
  SerializationTest() { std::filesystem::create_directories(folder_); }
  ~SerializationTest() override { std::filesystem::remove_all(folder_); }
  std::string operator/(const std::string& name) const { return folder_ + "/" + name; }

 private:
  const std::string folder_ =
      testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name();
};

Tensor Make(const std::vector<float>& values) {
  return tensor(
      Array::Of<float>({static_cast<int64_t>(values.size())}, absl::MakeConstSpan(values)),
      Device(runtime::TestClient(8), xm::get_ordinal()));
}

TEST_F(SerializationTest, SavedTensorsAreLoadedUnderTheirNames) {
  StateDict state;
  state.Set("fc.weight", Make({1, 2}));
  state.Set("steps", Array::Scalar<int64_t>(7));
  StateDict checkpoint;
  checkpoint.Set("model", state);
  ASSERT_TRUE(lazy::save(state, *this / "net.anything").ok());
  ASSERT_TRUE(xm::save(checkpoint, *this / "net.pt").ok());
  ASSERT_TRUE(xser::save(state, *this / "net.xser").ok());
  EXPECT_TRUE(std::filesystem::exists(*this / "net.xser.tensors/tensor_0.pt"));
  for (const char* name : {"net.anything", "net.xser"}) {
    const auto loaded = lazy::load(*this / name);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ(loaded->ToString(), "{fc.weight: float32[2], steps: int64[]}");
    EXPECT_EQ(loaded->Find("fc.weight")->values<float>()[1], 2);
  }
  EXPECT_EQ(lazy::load(*this / "net.pt")->ToString(),
            "{model/fc.weight: float32[2], model/steps: int64[]}");
}

TEST_F(SerializationTest, RejectsUndefinedTensorsAndWritesNothing) {
  StateDict state;
  state.Set("x", Make({1}));
  state.Set("bad", Tensor());
  const absl::Status status = xm::save(state, *this / "net.pt");
  EXPECT_THAT(status.message(), HasSubstr("'bad'"));
  EXPECT_FALSE(std::filesystem::exists(*this / "net.pt"));
}

TEST_F(SerializationTest, MasterWritesTheValuesOfTheStepThatSaveEnds) {
  const absl::Status status = xmp::spawn(
      [&](int index) -> absl::Status {
        StateDict state;
        state.Set("sum", xm::all_reduce("sum", Make({static_cast<float>(index + 1)})));
        PENSTOCK_RETURN_IF_ERROR(xm::save(state, *this / "net.pt"));
        // Every ordinal sees the file, also those that did not write.
        PENSTOCK_ASSIGN_OR_RETURN(const auto loaded, lazy::load(*this / "net.pt"));
        EXPECT_EQ(loaded.Find("sum")->item<float>(), 10);
        return xser::save(state, *this / absl::StrCat("net", index, ".xser"),
                          /*master_only=*/false);
      },
      {.nprocs = 4, .client = runtime::TestClient(8), .timeout_seconds = 3600});
  EXPECT_TRUE(status.ok()) << status;
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(xser::load(*this / absl::StrCat("net", i, ".xser")).ok());
  }
}

TEST_F(SerializationTest, ErrorOfTheWriterIsReturnedToAll) {
  std::vector<absl::Status> statuses(2);
  ASSERT_TRUE(lazy::save(StateDict(), *this / "file").ok());
  const absl::Status status = xmp::spawn(
      [&](int index) {
        StateDict state;
        state.Set("x", Make({1}));
        return statuses[index] = xm::save(state, *this / "file/net.pt");
      },
      {.nprocs = 2, .client = runtime::TestClient(8), .timeout_seconds = 3600});
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(statuses[0], statuses[1]);
}

}  // namespace
}  // namespace serialization_test
}  // namespace penstock::lazy
