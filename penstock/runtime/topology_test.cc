#include "penstock/runtime/topology.h"

#include <gmock/gmock.h>

#include "penstock/runtime/pjrt/plugin.h"
#include "penstock/runtime/testing/test_program.h"

namespace penstock::runtime {
namespace topology_test {

using testing::AllOf;
using testing::HasSubstr;

std::string LogFile() { return testing::TempDir() + "/topology_test.log"; }

absl::Status OpenError(const TopologyOptions& options) { return Topology::Open(options).status(); }

TEST(Topology, RejectsEmptyTopologyName) {
  EXPECT_EQ(OpenError({.device = "cpu"}).code(), absl::StatusCode::kInvalidArgument);
}

TEST(Topology, PluginWithoutTopologiesIsAnError) {
  EXPECT_THAT(
      std::string(
          OpenError({.device = "cpu", .name = "v2:2x2x1", .log_path = LogFile()}).message()),
      AllOf(HasSubstr("topology 'v2:2x2x1'"), HasSubstr("xla_cpu_pjrt.so")));
}

// Compiles for TPUs on a machine without one.
class TpuTopology : public testing::Test {
 protected:
  void SetUp() override {
    if (!FindPlugin("tpu", "").ok()) GTEST_SKIP() << "no libtpu.so: tools/setup tpu fetches it";
    auto opened = Topology::Open({.device = "tpu", .name = "v2:2x2x1", .log_path = LogFile()});
    ASSERT_TRUE(opened.ok()) << opened.status();
    topology_ = *std::move(opened);
  }

  std::unique_ptr<Topology> topology_;
};

const TensorType kRow{base::DType::kF32, {512}}, kSquare{base::DType::kF32, {512, 512}};

// r0 = p0 p1, summed over the replicas, written to the donated p0
ir::Program SummedProduct(int replicas) {
  std::string group = "0";
  for (int i = 1; i < replicas; ++i) group += ", " + std::to_string(i);
  return Print({.parameters = {kSquare, kSquare},
                .results = {kSquare},
                .body = {"%0 = stablehlo.dot_general %p0, %p1, contracting_dims = [1] x [0] : "
                         "(tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>",
                         "%1 = \"stablehlo.all_reduce\"(%0) ({ ^bb0(%a: tensor<f32>, %b: "
                         "tensor<f32>): %s = stablehlo.add %a, %b : tensor<f32> stablehlo.return "
                         "%s : tensor<f32> }) {replica_groups = dense<[[" +
                             group + "]]> : tensor<1x" + std::to_string(replicas) +
                             "xi64>} : (tensor<512x512xf32>) -> tensor<512x512xf32>"},
                .returns = {"%1"},
                .alias = {0},
                .num_replicas = replicas});
}

TEST_F(TpuTopology, DescribesCoresAndMemoryOfSlice) {
  EXPECT_EQ(topology_->platform(), "tpu");
  ASSERT_EQ(topology_->devices().size(), 8u);  // 4 chips of 2 cores
  for (const Device& device : topology_->devices()) {
    EXPECT_EQ(device.kind, "TPU v2");
    EXPECT_NEAR(static_cast<double>(device.memory_bytes), 8e9, 0.6e9);
  }
}

TEST_F(TpuTopology, EstimatesProgramOfAllReplicas) {
  const auto estimate = topology_->Compile(SummedProduct(8));
  ASSERT_TRUE(estimate.ok()) << estimate.status();
  constexpr int64_t kBytes = 4 * 512 * 512;
  EXPECT_GE(estimate->memory.arguments, 2 * kBytes);
  EXPECT_GE(estimate->memory.aliased, kBytes);
  EXPECT_GE(estimate->cost.flops, 2.0 * 512 * 512 * 512);
  EXPECT_GT(estimate->cost.optimal_seconds, 0);
}

TEST_F(TpuTopology, RejectsMoreReplicasThanCores) {
  EXPECT_THAT(std::string(topology_->Compile(SummedProduct(16)).status().message()),
              AllOf(HasSubstr("16 replicas"), HasSubstr("8 devices")));
}

TEST_F(TpuTopology, OutOfMemoryErrorNamesLargestValues) {
  const TensorType large{base::DType::kF32, {1 << 17, 1 << 17}};  // 64 GiB
  ir::Program program = Print({.parameters = {kRow},
                               .results = {large},
                               .body = {"%0 = stablehlo.constant dense<1.0> : "
                                        "tensor<131072x131072xf32>"},
                               .returns = {"%0"}});
  program.large_values = {
      {.type = large, .operation = "stablehlo.constant", .origin = {}, .count = 1}};
  const absl::Status status = topology_->Compile(program).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("f32[131072,131072]"));
}

TEST_F(TpuTopology, CompileErrorNamesUsersLine) {
  ir::Program program = Print({.parameters = {kRow},
                               .results = {kRow},
                               .body = {"%0 = stablehlo.add %p0, %p0 : tensor<513xf32>"},
                               .returns = {"%0"}});
  EXPECT_THAT(std::string(topology_->Compile(program).status().message()),
              HasSubstr("model.cc:10"));
}

}  // namespace topology_test
}  // namespace penstock::runtime
