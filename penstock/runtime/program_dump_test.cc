#include "penstock/runtime/program_dump.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>

#include "penstock/runtime/client.h"
#include "penstock/runtime/testing/cache_folder.h"
#include "penstock/runtime/testing/test_program.h"

namespace penstock::runtime {
namespace program_dump_test {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

ir::Program Tanh(const char* name, const char* line = "%0 = stablehlo.tanh %p0 : tensor<4xf32>") {
  const TensorType type{base::DType::kF32, {4}};
  return Print(
      {.name = name, .parameters = {type}, .results = {type}, .body = {line}, .returns = {"%0"}});
}

class Dump : public testing::Test {
 protected:
  std::shared_ptr<Client> Open(const std::string& dump) {
    auto client = OpenClient({.device = "cpu",
                              .compile_cache = folder_.path() + "/cache",
                              .dump_hlo = dump,
                              .log_path = folder_.path() + "/plugins.log"});
    EXPECT_TRUE(client.ok()) << client.status();
    return *client;
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(dump_)) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  std::string Contents(const char* name) const {
    std::ifstream file(dump_ + "/" + name);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  const CacheFolder folder_;
  const std::string dump_ = folder_.path() + "/new/dump";
};

TEST_F(Dump, DumpsStableHloAndOptimizedHlo) {
  const auto client = Open(dump_);
  ASSERT_TRUE(client->Compile(Tanh("one")).ok());
  ASSERT_TRUE(client->Compile(Tanh("two")).ok());
  EXPECT_THAT(Files(), ElementsAre("001-one.buffers.txt", "001-one.optimized.hlo.txt",
                                   "001-one.stablehlo.mlir", "002-two.buffers.txt",
                                   "002-two.optimized.hlo.txt", "002-two.stablehlo.mlir"));
  EXPECT_EQ(Contents("001-one.stablehlo.mlir"), Tanh("one").text);
  EXPECT_THAT(Contents("001-one.optimized.hlo.txt"),
              testing::AllOf(HasSubstr("HloModule"), HasSubstr("tanh")));
  EXPECT_THAT(Contents("001-one.buffers.txt"), HasSubstr("BufferAssignment"));
}

TEST_F(Dump, ConsistsOfCacheKeyParts) {
  ASSERT_TRUE(Open("")->Compile(Tanh("one")).ok());
  ASSERT_TRUE((*Open("")->Compile(Tanh("one")))->from_cache());
  ASSERT_TRUE(Open(dump_)->Compile(Tanh("one")).ok());
  EXPECT_EQ(Files().size(), 3u);
  ASSERT_TRUE(Open(dump_)->Compile(Tanh("one")).ok());
  EXPECT_EQ(Files().size(), 3u) << "written over";
}

TEST_F(Dump, DumpsProgramThatDoesNotCompile) {
  const auto client = Open(dump_);
  EXPECT_FALSE(client->Compile(Tanh("wrong", "%0 = stablehlo.none %p0 : tensor<4xf32>")).ok());
  EXPECT_THAT(Files(), ElementsAre("001-wrong.stablehlo.mlir"));
}

TEST_F(Dump, EnvironmentVariableEnablesDump) {
  ::setenv("PENSTOCK_DUMP_HLO", dump_.c_str(), 1);
  const auto client = Open("");
  ::unsetenv("PENSTOCK_DUMP_HLO");
  ASSERT_TRUE(client->Compile(Tanh("one")).ok());
  EXPECT_EQ(Files().size(), 3u);
}

TEST_F(Dump, MakesValidFileNames) {
  auto dump = *ProgramDump::Open(dump_);
  ir::Program program = Tanh("x");
  program.name = "../a b/\n\xC3";
  ASSERT_TRUE(dump->WriteText(program).ok());
  EXPECT_THAT(Files(), ElementsAre("001-.._a_b___.stablehlo.mlir"));
}

TEST_F(Dump, RejectsFolderThatCannotBeCreated) {
  const auto client = OpenClient({.device = "cpu", .dump_hlo = "/proc/none/here"});
  EXPECT_THAT(std::string(client.status().message()), HasSubstr("/proc/none/here"));
}

}  // namespace program_dump_test
}  // namespace penstock::runtime
