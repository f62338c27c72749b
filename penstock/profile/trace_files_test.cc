#include "penstock/profile/trace_files.h"

#include <map>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/io/memory/memory_file_system.h"
#include "penstock/record/compression.h"
#include "penstock/record/wire.h"

namespace penstock::profile {
namespace trace_files_test {

using base::TraceRecording;
using Json = nlohmann::json;
using record::WireScanner;
using record::WireType;

// A trace with two groups, and names that need escaping.
TraceRecording Sample() {
  return {.tracks = {{"host", "training loop"}, {"devices", "cpu 0"}, {"host", "data \"1\"\n"}},
          .names = {"step \\ \"x\"", "read"},
          .spans = {{.track = 0, .name = 0, .begin = 10.5, .end = 10.75, .argument = {"step", -7}},
                    {.track = 0, .name = 1, .begin = 10.5, .end = 10.6, .argument = {}},
                    {.track = 1, .name = 0, .begin = 12, .end = 13, .argument = {"step", 3}},
                    {.track = 2, .name = 1, .begin = 11, .end = 11.000001, .argument = {}}},
          .dropped = 5,
          .began = 10,
          .began_unix_seconds = 1.7e9};
}

TEST(ChromeTrace, HasOneEventPerSpan) {
  const Json json = Json::parse(ChromeTrace(Sample()));
  EXPECT_EQ(json["otherData"]["dropped_spans"], "5");
  std::map<std::pair<int, int>, std::string> threads;
  std::map<int, std::string> processes;
  std::vector<Json> spans;
  for (const Json& event : json["traceEvents"]) {
    if (event["name"] == "process_name") processes[event["pid"]] = event["args"]["name"];
    if (event["name"] == "thread_name") {
      threads[{event["pid"], event["tid"]}] = event["args"]["name"];
    }
    if (event["ph"] == "X") spans.push_back(event);
  }
  EXPECT_EQ(processes, (std::map<int, std::string>{{1, "host"}, {2, "devices"}}));
  EXPECT_EQ(threads, (std::map<std::pair<int, int>, std::string>{
                         {{1, 1}, "training loop"}, {{2, 1}, "cpu 0"}, {{1, 2}, "data \"1\"\n"}}));
  ASSERT_EQ(spans.size(), 4u);
  EXPECT_EQ(spans[0], Json({{"ph", "X"},
                            {"pid", 1},
                            {"tid", 1},
                            {"ts", 500000.0},
                            {"dur", 250000.0},
                            {"name", "step \\ \"x\""},
                            {"args", {{"step", -7}}}}));
  EXPECT_EQ(spans[3]["tid"], 2);
  EXPECT_DOUBLE_EQ(spans[3]["dur"], 1);
}

// Checked with a scanner of the protobuf wire format; the interop test reads it with TensorFlow.
TEST(XSpaceFile, DevicesAreSeparatePlanes) {
  const std::string bytes = XSpace(Sample(), "machine");
  std::vector<std::string> planes;
  std::string warning, host;
  WireScanner space(bytes);
  while (space.Next()) {
    if (space.Is(3, WireType::kBytes)) warning = std::string(space.bytes());
    if (space.Is(4, WireType::kBytes)) host = std::string(space.bytes());
    if (!space.Is(1, WireType::kBytes)) continue;
    WireScanner plane(space.bytes());
    std::string name;
    int lines = 0;
    while (plane.Next()) {
      if (plane.Is(2, WireType::kBytes)) name = std::string(plane.bytes());
      lines += plane.Is(3, WireType::kBytes) ? 1 : 0;
    }
    EXPECT_TRUE(plane.ok());
    planes.push_back(absl::StrCat(name, " ", lines));
  }
  EXPECT_TRUE(space.ok());
  EXPECT_EQ(planes, (std::vector<std::string>{"/device:CUSTOM:cpu 0 1", "/host:CPU 2"}));
  EXPECT_EQ(warning, "5 spans were dropped: the trace was full");
  EXPECT_EQ(host, "machine");
}

TEST(WriteTrace, WritesFilesWhereTensorBoardExpectsThem) {
  const auto fs = io::MakeMemoryFileSystem();
  const absl::Status status = WriteTrace(
      Sample(), {.folder = "memory://run/profile", .host = "machine", .file_system = fs});
  ASSERT_TRUE(status.ok()) << status;
  const auto json = io::ReadFile(*fs, "memory://run/profile/trace.json");
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(*json, ChromeTrace(Sample()));
  const std::string run = "memory://run/profile/plugins/profile/2023_11_14_22_13_20/machine";
  const auto space = io::ReadFile(*fs, run + ".xplane.pb");
  ASSERT_TRUE(space.ok()) << space.status();
  EXPECT_EQ(*space, XSpace(Sample(), "machine"));
  auto compressed = fs->OpenInput(run + ".trace.json.gz");
  ASSERT_TRUE(compressed.ok()) << compressed.status();
  auto inflated = record::Inflate(*std::move(compressed), record::Compression::kGzip);
  std::string text(json->size() + 1, ' ');
  const auto read = inflated->Read(absl::MakeSpan(text.data(), text.size()));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(text.substr(0, *read), *json);
}

}  // namespace trace_files_test
}  // namespace penstock::profile
