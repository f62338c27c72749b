// The compile cache with the CPU plugin: which programs hit it, and which must not.
#include "penstock/runtime/cache/program_cache.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/base/random.h"
#include "penstock/ir/ops.h"
#include "penstock/runtime/cache/cache_key.h"
#include "penstock/runtime/pjrt/pjrt_api.h"
#include "penstock/runtime/testing/cache_folder.h"
#include "penstock/runtime/testing/test_program.h"

namespace penstock::runtime {
namespace program_cache_test {

namespace fs = std::filesystem;
using testing::HasSubstr;

const TensorType kMatrix{base::DType::kF32, {64, 64}};

// r0 = tanh(p0 . p1), written to the donated p0
TestProgram Layer() {
  return {.name = "layer",
          .parameters = {kMatrix, kMatrix},
          .results = {kMatrix},
          .body = {"%0 = stablehlo.dot_general %p0, %p1, contracting_dims = [1] x [0] : "
                   "(tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>",
                   "%1 = stablehlo.tanh %0 : tensor<64x64xf32>"},
          .returns = {"%1"},
          .alias = {0}};
}

Array Numbers(uint64_t seed) {
  base::Random random(seed);
  Array out = Array::Uninitialized(kMatrix.dtype, kMatrix.shape);
  float* number = out.mutable_data<float>();
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    number[i] = static_cast<float>(random.Uniform() - 0.5);
  }
  return out;
}

class CachedPrograms : public testing::Test {
 protected:
  std::shared_ptr<Client> Open(int devices = 1, const std::string& cache = "") {
    auto client = OpenClient({.device = "cpu",
                              .cpu_devices = devices,
                              .compile_cache = cache.empty() ? cache_ : cache,
                              .log_path = log_});
    EXPECT_TRUE(client.ok()) << client.status();
    return *client;
  }
  // Compiles the program with a new client and returns whether the cache was hit.
  bool Hits(const ir::Program& program, const CompileOptions& options = {}, int devices = 1) {
    const auto executable = Open(devices)->Compile(program, options);
    EXPECT_TRUE(executable.ok()) << executable.status();
    return (*executable)->from_cache();
  }
  std::vector<std::string> Entries() const {
    std::vector<std::string> paths;
    for (const auto& entry : fs::directory_iterator(cache_)) paths.push_back(entry.path());
    return paths;
  }
  // Entries of programs; the smaller ones are hashes of plugins.
  std::vector<std::string> LargeEntries() const {
    std::vector<std::string> paths;
    for (const std::string& path : Entries()) {
      if (fs::file_size(path) > 1000) paths.push_back(path);
    }
    return paths;
  }
  std::string Log() const {
    std::ifstream file(log_);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  const CacheFolder folder_;
  const std::string cache_ = folder_.path() + "/cache", log_ = folder_.path() + "/plugins.log";
};

TEST_F(CachedPrograms, SecondClientLoadsFromCacheAndComputesSameBits) {
  const auto run = [&](bool cached) {
    const auto client = Open();
    const auto layer = *client->Compile(Print(Layer()));
    EXPECT_EQ(layer->from_cache(), cached);
    const Buffer x = *client->Put(Numbers(1), client->devices()[0]),
                 w = *client->Put(Numbers(2), client->devices()[0]);
    const auto out = layer->Execute({{x, w}});
    EXPECT_TRUE(out.ok()) << out.status();
    EXPECT_TRUE(x.donated());
    return *(*out)[0][0].Get();
  };
  const Array compiled = run(false), loaded = run(true);
  EXPECT_TRUE(base::BitwiseEqual(compiled, loaded));
}

TEST_F(CachedPrograms, LoadedProgramReportsSameMemory) {
  const MemoryStats compiled = *(*Open()->Compile(Print(Layer())))->Memory();
  const auto executable = *Open()->Compile(Print(Layer()));
  ASSERT_TRUE(executable->from_cache());
  const MemoryStats loaded = *executable->Memory();
  EXPECT_EQ(loaded.arguments, compiled.arguments);
  EXPECT_EQ(loaded.outputs, compiled.outputs);
  EXPECT_EQ(loaded.aliased, compiled.aliased);
  EXPECT_EQ(loaded.temporary, compiled.temporary);
  EXPECT_GT(loaded.aliased, 0);
}

TEST_F(CachedPrograms, ReplicasRunFromTheCache) {
  const TensorType scalar{base::DType::kF32, {}};
  const ir::Program program = Print(
      {.name = "sum",
       .parameters = {scalar},
       .results = {scalar},
       .body = {"%0 = \"stablehlo.all_reduce\"(%p0) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): %s "
                "= stablehlo.add %a, %b : tensor<f32> stablehlo.return %s : tensor<f32> }) "
                "{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>} : (tensor<f32>) -> "
                "tensor<f32>"},
       .returns = {"%0"},
       .num_replicas = 4});
  EXPECT_FALSE(Hits(program, {}, 4));
  const auto client = Open(4);
  const auto sum = *client->Compile(program);
  ASSERT_TRUE(sum->from_cache());
  std::vector<Buffers> arguments;
  for (int i = 0; i < 4; ++i) {
    arguments.push_back({*client->Put(Array::Scalar<float>(1 << i), client->devices()[i])});
  }
  const auto out = sum->Execute(arguments);
  ASSERT_TRUE(out.ok()) << out.status();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(*(*out)[i][0].Get()->data<float>(), 15);
}

TEST_F(CachedPrograms, KeyIgnoresLocationsButNotContent) {
  const auto program = [](const char* layer, int line, bool negate) {
    ir::Graph graph("step");
    ir::Value x = graph.Parameter(kMatrix, "x");
    const ir::Scope scope(graph, layer, base::SourceLocation{"net.cc", line});
    x = ir::Tanh(x);
    graph.SetResults({negate ? ir::Negate(x) : x});
    return *ir::PrintStableHlo(graph);
  };
  ASSERT_NE(program("a", 1, false).text, program("b) loc(", 2, false).text);
  EXPECT_FALSE(Hits(program("a", 1, false)));
  EXPECT_TRUE(Hits(program("b) loc(", 2, false)));
  EXPECT_FALSE(Hits(program("a", 1, true)));
}

TEST_F(CachedPrograms, ChangedOptionIsCacheMiss) {
  EXPECT_FALSE(Hits(Print(Layer())));
  EXPECT_FALSE(Hits(Print(Layer()), {.xla_flags = {{"xla_cpu_enable_fast_min_max", "true"}}}));
  EXPECT_FALSE(Hits(Print(Layer()), {}, 2)) << "another number of devices";
  EXPECT_FALSE(Hits(Print(Layer()), {.devices = {1}}, 2)) << "another device";
  EXPECT_TRUE(Hits(Print(Layer())));
  EXPECT_TRUE(Hits(Print(Layer()), {.xla_flags = {{"xla_cpu_enable_fast_min_max", "true"}}}));
  EXPECT_TRUE(Hits(Print(Layer()), {.devices = {1}}, 2));
}

// Tests the key only, with a few bytes in place of the plugin's file.
class KeyOfAPlugin : public CachedPrograms {
 protected:
  Plugin Fake(const char* name, const char* contents) {
    Plugin plugin = *LoadPlugin("cpu", *FindPlugin("cpu", ""), log_);
    plugin.path = absl::StrCat(folder_.path(), "/", name);
    std::ofstream(plugin.path) << contents;
    plugin.identity = FileIdentity(plugin.path);
    return plugin;
  }
  std::string KeyOf(const Plugin& plugin, std::vector<std::string> facts = {}) {
    ProgramCache cache(plugin, std::move(facts), {.folder = cache_});
    return cache.Key(Print(Layer()), "options");
  }
};

TEST_F(KeyOfAPlugin, DependsOnContentsOfFile) {
  const std::string key = KeyOf(Fake("a.so", "one version"));
  EXPECT_EQ(key.size(), kKeyDigits);
  EXPECT_EQ(KeyOf(Fake("elsewhere.so", "one version")), key);
  EXPECT_NE(KeyOf(Fake("a.so", "two version")), key);
  EXPECT_NE(KeyOf(Fake("a.so", "one version"), {"another kind of device"}), key);
}

TEST_F(KeyOfAPlugin, ReplacedPluginIsNotCached) {
  const Plugin loaded = Fake("a.so", "old");
  Fake("a.so", "new");
  EXPECT_EQ(KeyOf(loaded), "");
  EXPECT_EQ(Entries().size(), 0u);
  EXPECT_THAT(Log(), HasSubstr("changed after it was loaded"));
}

TEST_F(CachedPrograms, CorruptEntryIsRecompiledAndReplaced) {
  ASSERT_FALSE(Hits(Print(Layer())));
  ASSERT_EQ(LargeEntries().size(), 1u);
  const std::string path = LargeEntries()[0];
  const int64_t size = fs::file_size(path);
  // The header, its checksum, the first and last byte of the executable, and some in between.
  for (const int64_t at :
       {int64_t{0}, int64_t{80}, int64_t{140}, int64_t{144}, size / 3, size / 2, size - 1}) {
    {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(at);
      file.put('\xA5');
      file.seekp(at / 2 + 72);
      file.put('\x5A');
    }
    EXPECT_FALSE(Hits(Print(Layer()))) << at;
    EXPECT_TRUE(Hits(Print(Layer()))) << at;
  }
  fs::resize_file(path, size / 2);
  EXPECT_FALSE(Hits(Print(Layer())));
  EXPECT_TRUE(Hits(Print(Layer())));
}

// A valid entry whose executable the plugin rejects, or which holds another program.
TEST_F(CachedPrograms, ReplacesEntryThatPluginRejects) {
  ASSERT_FALSE(Hits(Print(Layer())));
  const std::string path = LargeEntries()[0];
  const std::string key = fs::path(path).stem();
  const auto cache = *CompileCache::Open({.folder = cache_});
  cache->Store(key, "no executable");
  testing::internal::CaptureStderr();
  EXPECT_FALSE(Hits(Print(Layer())));
  testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Hits(Print(Layer())));

  TestProgram two = Layer();
  two.results.push_back(kMatrix);
  two.returns.push_back("%0");
  ASSERT_FALSE(Hits(Print(two)));
  for (const std::string& other : LargeEntries()) {
    if (other == path) continue;
    cache->Store(key, *cache->Find(fs::path(other).stem()));
  }
  EXPECT_FALSE(Hits(Print(Layer())));
  EXPECT_TRUE(Hits(Print(Layer())));
}

TEST_F(CachedPrograms, EvictsToSizeLimit) {
  ASSERT_FALSE(Hits(Print(Layer())));
  const int64_t one = fs::file_size(LargeEntries()[0]);
  for (int i = 0; i < 5; ++i) {
    const auto client = *OpenClient({.device = "cpu",
                                     .compile_cache = cache_,
                                     .compile_cache_bytes = 3 * one,
                                     .log_path = log_});
    TestProgram program = Layer();
    program.name = absl::StrCat("layer", i);
    ASSERT_TRUE(client->Compile(Print(program)).ok());
  }
  int64_t bytes = 0;
  for (const std::string& path : Entries()) bytes += fs::file_size(path);
  EXPECT_LE(bytes, 3 * one);
  EXPECT_EQ(LargeEntries().size(), 2u);
}

TEST_F(CachedPrograms, ZeroDisablesCache) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE((*Open(1, "0")->Compile(Print(Layer())))->from_cache());
  }
  EXPECT_FALSE(fs::exists(cache_));
}

TEST_F(CachedPrograms, LogsUnusableFolderOnce) {
  const auto client = Open(1, "/proc/none/here");
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(client->Compile(Print(Layer())).ok());
  const std::string log = Log();
  const size_t first = log.find("there is no compile cache");
  ASSERT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find("there is no compile cache", first + 1), std::string::npos) << log;
}

// Simulates an older plugin, whose function table ends before serialization.
TEST_F(CachedPrograms, LogsPluginWithoutSerializationOnce) {
  Plugin plugin = *LoadPlugin("cpu", *FindPlugin("cpu", ""), log_);
  PJRT_Api older = *plugin.api;
  older.struct_size = offsetof(PJRT_Api, PJRT_Executable_Serialize);
  plugin.api = &older;
  ProgramCache cache(plugin, {}, {.folder = cache_});
  EXPECT_EQ(cache.Key(Print(Layer()), ""), "");
  EXPECT_EQ(cache.Key(Print(Layer()), ""), "");
  EXPECT_THAT(Log(), HasSubstr("has no serialization of executables"));
}

TEST_F(CachedPrograms, CompilesWhenDumpIsRequested) {
  const CompileOptions dump{.xla_flags = {{"xla_dump_to", folder_.path() + "/dump"}}};
  EXPECT_FALSE(Hits(Print(Layer()), dump));
  EXPECT_FALSE(Hits(Print(Layer()), dump));
}

TEST_F(CachedPrograms, TwoProcessesCompileConcurrently) {
  std::vector<pid_t> children;
  for (int i = 0; i < 2; ++i) {
    // Executes this test program again, because a client does not survive fork().
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::setenv("CACHED_PROGRAMS_FOLDER", folder_.path().c_str(), 1);
      ::execl("/proc/self/exe", "child", "--gtest_filter=Child.*",
              "--gtest_also_run_disabled_tests", static_cast<char*>(nullptr));
      ::_exit(127);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_TRUE(Hits(Print(Layer())));
}

// Runs in the child processes of TwoProcessesCompileConcurrently.
TEST(Child, DISABLED_CompilesInAFolder) {
  const char* folder = std::getenv("CACHED_PROGRAMS_FOLDER");
  ASSERT_NE(folder, nullptr);
  const auto client = OpenClient({.device = "cpu",
                                  .compile_cache = absl::StrCat(folder, "/cache"),
                                  .log_path = absl::StrCat(folder, "/plugins.log")});
  ASSERT_TRUE(client.ok()) << client.status();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE((*client)->Compile(Print(Layer())).ok());
}

}  // namespace program_cache_test
}  // namespace penstock::runtime
