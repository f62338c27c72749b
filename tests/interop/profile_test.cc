// Reads a trace in TensorBoard's format with TensorFlow's own protocol buffers.
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/profile/trace_files.h"

#include "tests/python.h"

namespace penstock::tests::profile_test {
namespace {

using ::testing::ElementsAre;

TEST(Profile, TensorFlowFindsTheSameSpans) {
  const base::TraceRecording recording = {
      .tracks = {{"host", "training loop"}, {"devices", "cpu 0"}, {"threads", "data 1"}},
      .names = {"train_step", "DecodeImage", "epoch 1"},
      .spans = {{.track = 0, .name = 2, .begin = 100, .end = 103, .argument = {}},
                {.track = 0, .name = 0, .begin = 100.5, .end = 101, .argument = {"step", 300}},
                {.track = 1, .name = 0, .begin = 100.75, .end = 102, .argument = {"step", -1}},
                {.track = 2, .name = 1, .begin = 101, .end = 101.000002, .argument = {}}},
      .dropped = 0,
      .began = 100,
      .began_unix_seconds = 1.7e9};
  const TemporaryFolder folder;
  {
    std::ofstream file(folder / "machine.xplane.pb", std::ios::binary);
    file << profile::XSpace(recording, "machine");
  }
  const absl::Status read =
      RunPython("interop/tensorflow_profile.py", {folder / "machine.xplane.pb", folder / "spans"});
  ASSERT_TRUE(read.ok()) << read;
  std::ifstream file(folder / "spans");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  EXPECT_THAT(lines, ElementsAre("machine",
                                 "/device:CUSTOM:cpu 0\tcpu 0\ttrain_step\t1700000000750000000000\t"
                                 "1700000002000000000000\tstep=-1",
                                 "/host:CPU\ttraining loop\tepoch 1\t1700000000000000000000\t"
                                 "1700000003000000000000\t",
                                 "/host:CPU\ttraining loop\ttrain_step\t1700000000500000000000\t"
                                 "1700000001000000000000\tstep=300",
                                 "/host:CPU\tdata 1\tDecodeImage\t1700000001000000000000\t"
                                 "1700000001000002000000\t",
                                 "DecodeImage,epoch 1,train_step"));
}

}  // namespace
}  // namespace penstock::tests::profile_test
