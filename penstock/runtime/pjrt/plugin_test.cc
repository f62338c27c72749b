#include "penstock/runtime/pjrt/plugin.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "absl/strings/str_cat.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/runtime/folder/folder.h"

namespace penstock::runtime {
namespace plugin_test {

using testing::AllOf;
using testing::HasSubstr;

// Sets an environment variable (or removes it, without a value) during its lifetime.
class Environment {
 public:
  Environment(const char* name, std::optional<std::string> value) : name_(name) {
    if (const char* old = std::getenv(name); old != nullptr) old_ = old;
    Set(value);
  }
  ~Environment() { Set(old_); }

 private:
  void Set(const std::optional<std::string>& value) {
    value.has_value() ? ::setenv(name_, value->c_str(), 1) : ::unsetenv(name_);
  }

  const char* name_;
  std::optional<std::string> old_;
};

class FindPluginTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(testing::TempDir(), "/plugin_test.", ::getpid());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Touch(const std::string& path) {
    const std::filesystem::path full = folder_ + "/" + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << "not a library";
    return full;
  }

  std::string folder_;
  Environment venv_{"VIRTUAL_ENV", std::nullopt}, conda_{"CONDA_PREFIX", std::nullopt},
      home_{"HOME", std::nullopt}, cpu_{"PENSTOCK_CPU_PLUGIN", std::nullopt},
      tpu_{"PENSTOCK_TPU_PLUGIN", std::nullopt}, gpu_{"PENSTOCK_GPU_PLUGIN", std::nullopt};
};

TEST_F(FindPluginTest, FindsCpuPluginInPenstocksFolder) {
  const absl::StatusOr<std::string> path = FindPlugin("cpu", "");
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_EQ(*path, absl::StrCat(PenstockLibraryFolder(), "/xla_cpu_pjrt.so"));
  EXPECT_TRUE(
      std::filesystem::exists(absl::StrCat(PenstockLibraryFolder(), "/libpenstock_folder.so")));
}

TEST_F(FindPluginTest, OptionPrecedesEnvironmentAndDefaults) {
  const std::string asked = Touch("asked.so"), set = Touch("set.so");
  const Environment variable("PENSTOCK_CPU_PLUGIN", set);
  EXPECT_EQ(*FindPlugin("cpu", asked), asked);
  EXPECT_EQ(*FindPlugin("cpu", ""), set);
}

TEST_F(FindPluginTest, RequestedPathHasNoFallback) {
  EXPECT_THAT(std::string(FindPlugin("cpu", folder_ + "/none.so").status().message()),
              AllOf(HasSubstr("none.so"), HasSubstr("plugin_path")));
  const Environment variable("PENSTOCK_CPU_PLUGIN", folder_ + "/none.so");
  EXPECT_THAT(std::string(FindPlugin("cpu", "").status().message()),
              AllOf(HasSubstr("none.so"), HasSubstr("PENSTOCK_CPU_PLUGIN")));
}

TEST_F(FindPluginTest, FindsWheelsOfActivePythonEnvironment) {
  const std::string gpu =
      Touch("lib/python3.11/site-packages/jax_plugins/xla_cuda13/xla_cuda_plugin.so");
  const Environment venv("VIRTUAL_ENV", folder_);
  EXPECT_EQ(*FindPlugin("gpu", ""), gpu);
  EXPECT_THAT(FoundPlugins(), AllOf(HasSubstr("cpu ("), HasSubstr(gpu)));
}

// As in a build without a plugin, before tools/setup has downloaded one.
TEST_F(FindPluginTest, SkipsLinkToMissingFile) {
  const std::string older =
      Touch("lib/python3.10/site-packages/jax_plugins/xla_cuda13/xla_cuda_plugin.so");
  std::filesystem::remove(older);
  std::filesystem::create_symlink(folder_ + "/none.so", older);
  const std::string newer =
      Touch("lib/python3.11/site-packages/jax_plugins/xla_cuda13/xla_cuda_plugin.so");
  const Environment venv("VIRTUAL_ENV", folder_);
  EXPECT_EQ(*FindPlugin("gpu", ""), newer);
  std::filesystem::remove(newer);
  EXPECT_TRUE(absl::IsNotFound(FindPlugin("gpu", "").status()));
}

TEST_F(FindPluginTest, MissingPluginErrorListsSearchPathsInstallCommandAndFoundPlugins) {
  const Environment venv("VIRTUAL_ENV", folder_);
  const absl::Status status = FindPlugin("gpu", "").status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr("'gpu'"), HasSubstr(folder_ + "/lib/python3"), HasSubstr("jax-cuda13-plugin"),
            HasSubstr("PENSTOCK_GPU_PLUGIN"), HasSubstr("There are plugins for: cpu (")));
}

TEST_F(FindPluginTest, RejectsLibraryThatIsNotAPluginEachTime) {
  const std::string log = folder_ + "/log";
  const std::string text = Touch("text.so");
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(std::string(LoadPlugin("cpu", text, log).status().message()), HasSubstr(text));
    EXPECT_THAT(std::string(LoadPlugin("cpu", "libm.so.6", log).status().message()),
                HasSubstr("GetPjrtApi"));
  }
}

}  // namespace plugin_test
}  // namespace penstock::runtime
