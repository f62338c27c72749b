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
      .tracks = {{"host", "training loop"},
                 {"devices", "cpu 0"},
                 {"threads", "data 1"},
                 {profile::kTraining, profile::kSteps}},
      .names = {"train_step", "DecodeImage", "epoch 1", profile::kTakeBatch, "299-300"},
      .spans = {{.track = 0, .name = 2, .begin = 100, .end = 103, .argument = {}},
                {.track = 0, .name = 3, .begin = 100.25, .end = 100.5, .argument = {}},
                {.track = 0, .name = 0, .begin = 100.5, .end = 101, .argument = {"step", 300}},
                {.track = 1, .name = 0, .begin = 100.75, .end = 102, .argument = {"step", -1}},
                {.track = 2, .name = 1, .begin = 101, .end = 101.000002, .argument = {}},
                {.track = 3, .name = 4, .begin = 100, .end = 102, .argument = {"step", 300}}},
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
  const std::string host = "/host:CPU\t", markers = host + "step markers\t";
  EXPECT_THAT(
      lines,
      ElementsAre(
          "machine",
          "/device:CUSTOM:cpu 0\tcpu 0\ttrain_step\t1700000000750000000000\t"
          "1700000002000000000000\tstep=-1",
          host + "training loop\tepoch 1\t1700000000000000000000\t1700000003000000000000\t",
          host + "training loop\ttake a batch\t1700000000250000000000\t1700000000500000000000\t",
          host + "training loop\ttrain_step\t1700000000500000000000\t1700000001000000000000\t"
                 "step=300",
          host + "data 1\tDecodeImage\t1700000001000000000000\t1700000001000002000000\t",
          host + "steps\t299-300\t1700000000000000000000\t1700000002000000000000\tstep=300",
          markers + "train\t1700000000000000000000\t1700000001375000000000\t_r=1,step_num=299",
          markers + "IteratorGetNext\t1700000000250000000000\t1700000000500000000000\t",
          markers + "execution\t1700000000750000000000\t1700000001375000000000\t",
          markers + "train\t1700000001375000000000\t1700000002000000000000\t_r=1,step_num=300",
          markers + "execution\t1700000001375000000000\t1700000002000000000000\t",
          "299-300,DecodeImage,IteratorGetNext,epoch 1,execution,take a batch,train,train_step",
          // TensorBoard's page Overview.
          "1000.0 ms, 625.0 to 1375.0", "train 299,train 300",
          "12.5% of the total step time sampled is waiting for input"));
}

}  // namespace
}  // namespace penstock::tests::profile_test
