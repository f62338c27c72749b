#include "penstock/remote/resolver.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace penstock::remote {
namespace resolver_test {
namespace {

using ::testing::HasSubstr;

// "DEVICE from SOURCE", or the error.
std::string Resolve(absl::string_view requested, std::map<std::string, std::string> variables) {
  const absl::StatusOr<Resolved> resolved = ResolveDevice(requested, [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  });
  if (!resolved.ok()) return std::string(resolved.status().message());
  return resolved->device + " from " + resolved->source;
}

TEST(ResolverTest, TakesTheOptionBeforeTheEnvironment) {
  const std::map<std::string, std::string> set = {{"PENSTOCK_DEVICE", "gpu"},
                                                  {"COLAB_TPU_ADDR", "10.0.0.2:8470"}};
  EXPECT_EQ(Resolve("cpu", set), "cpu from the option");
  EXPECT_EQ(Resolve("local", set), "tpu from the option");
  EXPECT_EQ(Resolve("tpu1:8470", set), "grpc://tpu1:8470 from the option");
  EXPECT_EQ(Resolve("grpcs://tpu1:8470", set), "grpcs://tpu1:8470 from the option");
  EXPECT_EQ(Resolve("", set), "gpu from PENSTOCK_DEVICE");
  EXPECT_EQ(Resolve("auto", set), "gpu from PENSTOCK_DEVICE");
}

TEST(ResolverTest, LooksForTpusOnlyWhenAsked) {
  EXPECT_EQ(Resolve("", {{"COLAB_TPU_ADDR", "10.0.0.2:8470"}}), "cpu from the default");
  EXPECT_EQ(Resolve("", {{"PENSTOCK_DEVICE", "auto"}, {"COLAB_TPU_ADDR", "10.0.0.2:8470"}}),
            "grpc://10.0.0.2:8470 from COLAB_TPU_ADDR");
  EXPECT_EQ(Resolve("auto", {}), "cpu from the default");
}

TEST(ResolverTest, KnowsColabKaggleAndTpuMachines) {
  EXPECT_EQ(Resolve("auto", {{"COLAB_TPU_ADDR", "10.0.0.2:8470"}, {"TPU_NAME", "local"}}),
            "grpc://10.0.0.2:8470 from COLAB_TPU_ADDR");
  EXPECT_EQ(Resolve("auto", {{"TPU_NAME", "local"}}), "tpu from TPU_NAME");
  EXPECT_EQ(Resolve("auto", {{"TPU_NAME", "grpc://10.0.0.2:8470"}}),
            "grpc://10.0.0.2:8470 from TPU_NAME");
  EXPECT_EQ(Resolve("auto", {{"TPU_NAME", "[fd00::2]:8470"}}),
            "grpc://[fd00::2]:8470 from TPU_NAME");
  // As Kaggle's notebooks with TPU v5e-8 have them.
  EXPECT_EQ(
      Resolve("auto", {{"TPU_PROCESS_ADDRESSES", "local"}, {"TPU_WORKER_HOSTNAMES", "localhost"}}),
      "tpu from TPU_PROCESS_ADDRESSES");
  EXPECT_EQ(Resolve("auto", {{"TPU_WORKER_HOSTNAMES", "localhost"}}),
            "tpu from TPU_WORKER_HOSTNAMES");
  EXPECT_EQ(Resolve("auto", {{"TPU_PROCESS_ADDRESSES", "10.0.0.1:8476"}}),
            "tpu from TPU_PROCESS_ADDRESSES");
}

TEST(ResolverTest, SaysWhatToDoWithNamesAndSlices) {
  EXPECT_THAT(Resolve("auto", {{"TPU_NAME", "my-tpu"}}),
              testing::AllOf(HasSubstr("'my-tpu' is the name of a Cloud TPU"),
                             HasSubstr("penstock worker --device tpu")));
  EXPECT_THAT(Resolve("auto", {{"TPU_PROCESS_ADDRESSES", "10.0.0.1:8476,10.0.0.2:8476"}}),
              HasSubstr("a slice of several hosts"));
  EXPECT_THAT(Resolve("npu", {}), HasSubstr("the option: 'npu' is neither a device"));
  EXPECT_THAT(Resolve("", {{"PENSTOCK_DEVICE", "grpc://host"}}),
              HasSubstr("PENSTOCK_DEVICE: 'grpc://host' is no address: it has no port"));
}

TEST(ResolverTest, RejectsWhatIsNoAddress) {
  for (const auto& [address, reason] :
       std::map<std::string, std::string>{{"http://h:1", "its scheme"},
                                          {"h", "no port"},
                                          {"", "no port"},
                                          {"[::1]", "no port"},
                                          {"h:", "port is not a number"},
                                          {"h:0", "port is not a number"},
                                          {"h:65536", "port is not a number"},
                                          {"h:+1", "port is not a number"},
                                          {"h: 1", "port is not a number"},
                                          {":1", "its host"},
                                          {"::1:8470", "its host"},
                                          {"h\n:1", "its host"},
                                          {"user@h:1", "its host"},
                                          {std::string(400, 'a') + ":1", "too long"}}) {
    const absl::StatusOr<std::string> parsed = ParseAddress(address);
    ASSERT_FALSE(parsed.ok()) << address;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(reason)) << address;
  }
}

TEST(ResolverTest, ShutdownTellsWhoHoldsTheDevices) {
  absl::StatusOr<std::shared_ptr<runtime::Client>> client = Initialize("cpu");
  ASSERT_TRUE(client.ok()) << client.status();
  std::shared_ptr<runtime::Client> first = *client, second = *client;
  *client = nullptr;
  EXPECT_THAT(std::string(Shutdown(first).message()), HasSubstr("1 other object"));
  EXPECT_EQ(Shutdown(second), absl::OkStatus());
  EXPECT_EQ(second, nullptr);
}

}  // namespace
}  // namespace resolver_test
}  // namespace penstock::remote
