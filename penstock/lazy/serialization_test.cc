#include "penstock/lazy/serialization.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

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

// Files of other people, half-written ones, and wrong paths.
TEST_F(SerializationTest, FilesThatAreNoneAreErrors) {
  StateDict state;
  state.Set("w", Make({1, 2, 3}));
  ASSERT_TRUE(lazy::save(state, *this / "net.pt").ok());
  std::ifstream in(*this / "net.pt", std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  const auto load = [&](const std::string& contents) {
    std::ofstream(*this / "bad.pt", std::ios::binary) << contents;
    return lazy::load(*this / "bad.pt").status();
  };
  ASSERT_TRUE(load(bytes).ok());
  for (size_t size = 0; size < bytes.size(); size += 37) {
    EXPECT_FALSE(load(bytes.substr(0, size)).ok()) << "truncated to " << size << " bytes";
  }
  // A byte changed anywhere: an error, or values of the same names (checksums are the archive's).
  for (size_t at = 0; at < bytes.size(); at += 11) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 0x5a);
    (void)load(changed);
  }
  // safetensors: a header that is longer than the file, and tensors outside of it.
  EXPECT_FALSE(load(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10)).ok());
  const std::string header =
      R"({"w":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,16]}})";
  std::string length(8, '\0');
  length[0] = static_cast<char>(header.size());
  std::ofstream(*this / "bad.safetensors", std::ios::binary)
      << length << header << "0123456789abcdef";
  EXPECT_FALSE(lazy::load(*this / "bad.safetensors").ok());
  std::filesystem::create_directories(*this / "folder.pt");
  EXPECT_FALSE(lazy::load(*this / "folder.pt").ok());
  EXPECT_FALSE(lazy::load(*this / "absent.pt").ok());
}

TEST_F(SerializationTest, SaveToPathsThatCannotBeWrittenIsAnError) {
  StateDict state;
  state.Set("w", Make({1, 2, 3}));
  std::filesystem::create_directories(*this / "folder");
  ASSERT_TRUE(lazy::save(state, *this / "file").ok());
  for (const std::string& path : {*this / "folder", *this / "file/net.pt", std::string()}) {
    EXPECT_FALSE(lazy::save(state, path).ok()) << path;
    EXPECT_FALSE(xm::save(state, path).ok()) << path;
    EXPECT_FALSE(xser::save(state, path).ok()) << path;
    EXPECT_FALSE(std::filesystem::exists(path + ".tensors")) << path;
  }
  EXPECT_TRUE(lazy::load(*this / "file").ok()) << "the file is what it was";
}

// A full device, and a pipe, which cannot be replaced by a new file: another program reads it.
TEST_F(SerializationTest, SaveToDevicesAndPipes) {
  StateDict state;
  state.Set("w", Make(std::vector<float>(1 << 17, 2)));
  EXPECT_THAT(xm::save(state, "/dev/full").message(), HasSubstr("No space left on device"));
  const std::string pipe = *this / "pipe", copy = *this / "copy.pt";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(xm::save(state, pipe).message(), HasSubstr("no process is reading from it"));
  // Opened before the writer does, and blocking from then on.
  const int in = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(in, 0);
  ASSERT_EQ(::fcntl(in, F_SETFL, 0), 0);
  std::thread reader([&] {
    std::ofstream out(copy, std::ios::binary);
    pollfd ready = {.fd = in, .events = POLLIN, .revents = 0};
    ::poll(&ready, 1, /*timeout=*/60000);  // until there is a writer
    char bytes[4096];
    ssize_t size = 0;
    while ((size = ::read(in, bytes, sizeof(bytes))) > 0) out.write(bytes, size);
  });
  const absl::Status saved = xm::save(state, pipe);
  reader.join();
  ::close(in);
  EXPECT_TRUE(saved.ok()) << saved;
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  const auto loaded = lazy::load(copy);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->Find("w")->values<float>()[1 << 16], 2);
}

// What one ordinal cannot save is an error of all, also of those that already wait for it.
TEST_F(SerializationTest, ErrorOfOneOrdinalsValuesIsReturnedToAll) {
  for (const bool master_only : {true, false}) {
    std::vector<absl::Status> statuses(2);
    const absl::Status status = xmp::spawn(
        [&](int index) {
          StateDict state;
          state.Set("x", index == 0 ? Tensor() : Make({1}));
          statuses[index] = xm::save(state, *this / absl::StrCat("net", index, ".pt"), master_only);
          return xm::rendezvous("after an error that was ignored").status();
        },
        {.nprocs = 2, .client = runtime::TestClient(8), .timeout_seconds = 3600});
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_THAT(statuses[0].message(), HasSubstr("'x'"));
    EXPECT_EQ(statuses[0], statuses[1]);
    EXPECT_FALSE(std::filesystem::exists(*this / "net1.pt"));
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
