#include <algorithm>
#include <limits>

#include <gmock/gmock.h>

#include "penstock/ir/ops.h"
#include "penstock/runtime/large_blocks.h"
#include "penstock/runtime/pjrt/plugin.h"
#include "penstock/runtime/testing/client_conformance.h"

// One test requests more memory than exists; the plugin then gets nullptr and reports it.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
extern "C" const char* __tsan_default_options() { return "allocator_may_return_null=1"; }

namespace penstock::runtime {
namespace pjrt_client_test {

using testing::AllOf;
using testing::HasSubstr;

std::string LogFile() { return testing::TempDir() + "/pjrt_client_test.log"; }

absl::StatusOr<std::shared_ptr<Client>> OpenCpu(int devices) {
  return OpenClient({.device = "cpu", .cpu_devices = devices, .log_path = LogFile()});
}

INSTANTIATE_TEST_SUITE_P(Pjrt, ClientConformance, testing::Values(ClientFactory{"cpu", OpenCpu}),
                         ClientFactoryName);

const TensorType kLarge{base::DType::kF32, {1 << 16}};

// r0 = p0 + p0, written to the donated p0
ir::Program DoubleInPlace() {
  return Print({.parameters = {kLarge},
                .results = {kLarge},
                .body = {"%0 = stablehlo.add %p0, %p0 : tensor<65536xf32>"},
                .returns = {"%0"},
                .alias = {0}});
}

class CpuMemory : public testing::Test {
 protected:
  void SetUp() override {
    client_ = *OpenCpu(1);
    double_ = *client_->Compile(DoubleInPlace());
  }

  Buffer Step(const Buffer& in) { return (*double_->Execute({{in}}))[0][0]; }
  // Returns a buffer in memory allocated by the device.
  Buffer OnDevice() {
    return Step(
        *client_->Put(Array::Zeros(base::DType::kF32, kLarge.shape), client_->devices()[0]));
  }
  // Returns only the address, because the Array is destroyed on return.
  static const void* Address(const Buffer& buffer) { return buffer.Get()->raw(); }

  std::shared_ptr<Client> client_;
  std::shared_ptr<Executable> double_;
};

TEST_F(CpuMemory, GetOfALargeResultCopiesNothing) {
  const Buffer buffer = OnDevice();
  const Array first = *buffer.Get(), second = *buffer.Get();
  EXPECT_EQ(first.raw(), second.raw());
}

TEST_F(CpuMemory, ResultAliasesDonatedBuffer) {
  const Buffer before = OnDevice();
  const void* address = Address(before);
  EXPECT_EQ(Address(Step(before)), address);
}

TEST_F(CpuMemory, DonationCopiesWhileArrayViewsBuffer) {
  const Buffer before = OnDevice();
  const Array seen = *before.Get();
  EXPECT_NE(Address(Step(before)), seen.raw());
}

TEST_F(CpuMemory, PutOfAlignedMemoryIsZeroCopy) {
  const Array array = Array::Zeros(base::DType::kF32, kLarge.shape);
  const long owners = array.owner().use_count();
  {
    const Buffer buffer = *client_->Put(array, client_->devices()[0]);
    ASSERT_TRUE(buffer.Await().ok());
    EXPECT_GT(array.owner().use_count(), owners);  // still referenced after the transfer
  }
  EXPECT_EQ(array.owner().use_count(), owners);
}

TEST_F(CpuMemory, RunsAndDonatesAsPrintedByIr) {
  ir::Graph graph("add");
  const ir::Value x = graph.Parameter(kLarge, "x"), y = graph.Parameter(kLarge, "y");
  const ir::Value sum = ir::Add(x, y);
  graph.SetResults({sum});
  const absl::StatusOr<ir::Program> program =
      ir::PrintStableHlo(graph, {.donate = {{0, 0}}, .locations = true});
  ASSERT_TRUE(program.ok()) << program.status();
  const auto add = client_->Compile(*program);
  ASSERT_TRUE(add.ok()) << add.status() << "\n" << program->text;
  const Buffer state = OnDevice();
  const void* address = Address(state);
  const Array one = Array::Of<float>({1 << 16}, std::vector<float>(1 << 16, 1));
  const auto out = (*add)->Execute({{state, *client_->Put(one, client_->devices()[0])}});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(Address((*out)[0][0]), address);
  EXPECT_TRUE(base::BitwiseEqual(*(*out)[0][0].Get(), one));
}

// Temporaries of successive executions reuse the same memory, or at most twice as much if an
// execution starts before the previous one has released its temporaries, whatever else is allocated
// and freed meanwhile.
TEST_F(CpuMemory, ExecutionsReuseTemporaryMemory) {
  constexpr int64_t kSide = 2048;
  constexpr size_t kTemporary = kSide * kSide * sizeof(float);
  ir::Graph graph("squares");
  const ir::Value x = graph.Parameter({base::DType::kF32, {kSide, 8}}, "x");
  const ir::Value products = ir::MatMul(x, ir::Transpose(x, {1, 0}));
  graph.SetResults({ir::MatMul(products, x)});
  const auto program = ir::PrintStableHlo(graph, {.donate = {{0, 0}}});
  ASSERT_TRUE(program.ok()) << program.status();
  const auto step = client_->Compile(*program);
  ASSERT_TRUE(step.ok()) << step.status();
  ASSERT_GE((*step)->Memory()->temporary, static_cast<int64_t>(kTemporary));
  Buffer state = *client_->Put(Array::Zeros(base::DType::kF32, {kSide, 8}), client_->devices()[0]);
  LargeBlocks* blocks = LargeBlocks::ForProcess();
  size_t before = 0;
  for (int i = 0; i < 20; ++i) {
    const auto out = (*step)->Execute({{state}});
    ASSERT_TRUE(out.ok()) << out.status();
    state = (*out)[0][0];
    ASSERT_TRUE(state.Await().ok());
    if (blocks == nullptr) blocks = LargeBlocks::ForProcess();
    if (blocks == nullptr) GTEST_SKIP() << "there is no large malloc here";
    if (i == 0) before = blocks->Bytes();
    std::vector<char> something(3 << 20, 'x');
  }
  EXPECT_GE(before, kTemporary);
  EXPECT_LE(blocks->Bytes(), before + kTemporary + LargeBlocks::kAlignment);
}

TEST_F(CpuMemory, MaximumPropagatesNan) {
  ir::Graph graph("maxima");
  const ir::Value x = graph.Parameter({base::DType::kF32, {1, 4, 4, 1}}, "x");
  graph.SetResults({ir::ReduceMax(x), ir::ReduceMin(x), ir::Maximum(x, x),
                    ir::ReduceWindow(x, ir::WindowReducer::kMax,
                                     {.size = {1, 2, 2, 1}, .strides = {1, 2, 2, 1}})});
  const absl::StatusOr<ir::Program> program = ir::PrintStableHlo(graph, {});
  ASSERT_TRUE(program.ok()) << program.status();
  const auto maxima = client_->Compile(*program);
  ASSERT_TRUE(maxima.ok()) << maxima.status();
  std::vector<float> values(16, 1);
  values[5] = std::numeric_limits<float>::quiet_NaN();
  const auto out = (*maxima)->Execute(
      {{*client_->Put(Array::Of<float>({1, 4, 4, 1}, values), client_->devices()[0])}});
  ASSERT_TRUE(out.ok()) << out.status();
  for (const Buffer& result : (*out)[0]) {
    const Array array = *result.Get();
    const auto numbers = array.values<float>();
    EXPECT_EQ(std::count_if(numbers.begin(), numbers.end(), [](float v) { return v != v; }), 1);
  }
}

TEST(OpenClient, RejectsUnknownDevice) {
  EXPECT_THAT(std::string(OpenClient({.device = "npu"}).status().message()),
              AllOf(HasSubstr("'npu'"), HasSubstr("cpu, tpu, gpu")));
}

TEST(OpenClient, PluginOfAnotherDeviceIsNoFallback) {
  const absl::StatusOr<std::string> cpu = FindPlugin("cpu", "");
  ASSERT_TRUE(cpu.ok()) << cpu.status();
  const absl::StatusOr<std::shared_ptr<Client>> gpu =
      OpenClient({.device = "gpu", .plugin_path = *cpu, .log_path = LogFile()});
  EXPECT_THAT(std::string(gpu.status().message()),
              AllOf(HasSubstr("'gpu' was requested"), HasSubstr("drives 'cpu'")));
}

TEST(OpenClient, RejectsZeroDevices) {
  EXPECT_THAT(std::string(OpenClient({.device = "cpu", .cpu_devices = 0}).status().message()),
              HasSubstr("cpu_devices is 0"));
  EXPECT_THAT(std::string(OpenClient({.device = "cpu", .cpu_devices = 257}).status().message()),
              HasSubstr("cpu_devices is 257"));
}

TEST(OpenClient, CpuDevicesReportKindAndMemory) {
  const auto client = *OpenCpu(3);
  ASSERT_EQ(client->devices().size(), 3u);
  EXPECT_EQ(client->platform(), "cpu");
  EXPECT_EQ(client->devices()[2].kind, "cpu");
  EXPECT_GT(client->devices()[2].memory_bytes, 1 << 20);
}

TEST(OpenClient, PrintsNothingOnStderr) {
  testing::internal::CaptureStderr();
  {
    const auto client = *OpenCpu(2);
    const auto executable = *client->Compile(DoubleInPlace());
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace pjrt_client_test
}  // namespace penstock::runtime
