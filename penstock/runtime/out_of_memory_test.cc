#include "penstock/runtime/out_of_memory.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include <gmock/gmock.h>

#include "penstock/ir/ops.h"
#include "penstock/runtime/testing/cache_folder.h"

namespace penstock::runtime {
namespace out_of_memory_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

// sum(tanh(x . w)) over `rows` rows; its temporaries are one or both products.
ir::Program Net(int64_t rows, int replicas = 1, int64_t units = 1000) {
  ir::Graph graph("net", replicas);
  const ir::Value x = graph.Parameter({base::DType::kF32, {rows, 8}}, "x");
  const ir::Value w = graph.Parameter({base::DType::kF32, {8, units}}, "w");
  const ir::Scope scope(graph, "dense", base::SourceLocation{"net.cc", 12});
  const ir::Value h = ir::Tanh(ir::MatMul(x, w));
  graph.SetResults({ir::ReduceSum(h), ir::MatMul(h, ir::Transpose(w, {1, 0}))});
  const absl::StatusOr<ir::Program> program = ir::PrintStableHlo(graph);
  EXPECT_TRUE(program.ok()) << program.status();
  return *program;
}

// An Executable that provides memory statistics only.
class Known : public Executable {
 public:
  Known(ir::Program program, const MemoryStats& memory)
      : program_(std::move(program)), memory_(memory) {}
  const ir::Program& program() const override { return program_; }
  absl::StatusOr<std::vector<Buffers>> Execute(absl::Span<const Buffers>) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<MemoryStats> Memory() const override { return memory_; }
  absl::StatusOr<CostEstimate> Cost() const override { return absl::UnimplementedError(""); }

 private:
  const ir::Program program_;
  const MemoryStats memory_;
};

constexpr MemoryStats kStats{.arguments = 100, .outputs = 80, .aliased = 60, .temporary = 1000};

TEST(CheckMemory, CountsTemporariesAndUnaliasedResults) {
  const Known net(Net(4), kStats);
  EXPECT_TRUE(CheckMemory(net, {.bytes = 1020}).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(CheckMemory(net, {.bytes = 1019})));
  EXPECT_TRUE(CheckMemory(net, {}).ok()) << "a device that does not report its free memory";
}

TEST(CheckMemory, ReplicasOnOneCpuShareItsMemory) {
  const Known net(Net(4, 8), kStats);
  EXPECT_TRUE(CheckMemory(net, {.bytes = 8 * 1020, .shared = true}).ok());
  EXPECT_FALSE(CheckMemory(net, {.bytes = 8 * 1020 - 1, .shared = true}).ok());
  EXPECT_TRUE(CheckMemory(net, {.bytes = 1020, .shared = false}).ok());
}

TEST(CheckMemory, ErrorNamesNeededAndFreeMemoryAndLargestValues) {
  const Known net(Net(2048), {.arguments = 3 << 20, .temporary = int64_t{3} << 30});
  const std::string message =
      Message(CheckMemory(net, {.bytes = int64_t{1} << 30, .where = "this machine"}));
  EXPECT_THAT(message, AllOf(HasSubstr("program 'net' needs 3.0 GiB"), HasSubstr("3.0 MiB of arg"),
                             HasSubstr("this machine has 1.0 GiB left")));
  EXPECT_THAT(message, HasSubstr("7.8 MiB  f32[2048,1000], 2 of them, stablehlo.dot_general of "
                                 "layer \"dense\" (net.cc:12)"));
  EXPECT_THAT(message, HasSubstr("64 KiB  f32[2048,8], argument 'x'"));
  EXPECT_THAT(message, Not(HasSubstr("estimate"))) << "the batch size is unknown";
}

// Memory is fixed + batch * each, so the estimate is exact.
TEST(CheckMemory, EstimatesTheLargestBatch) {
  const int64_t fixed = 500, each = 30, examples = 64, replicas = 2;
  const Known net(Net(examples / replicas, replicas),
                  {.temporary = fixed + each * examples / replicas});
  for (const int64_t fits : {1, 2, 10, 62}) {
    // With a device per replica, each has half of the batch.
    const int64_t room = fixed + each * fits / replicas;
    EXPECT_THAT(
        Message(CheckMemory(net, {.bytes = room}, {.examples = examples, .fixed_bytes = fixed})),
        HasSubstr(absl::StrCat("a batch of ", fits, " fits (this one has 64)")));
    EXPECT_THAT(Message(CheckMemory(net, {.bytes = replicas * room, .shared = true},
                                    {.examples = examples, .fixed_bytes = fixed})),
                HasSubstr(absl::StrCat("a batch of ", fits, " fits (this one has 64)")));
  }
  EXPECT_THAT(
      Message(CheckMemory(net, {.bytes = fixed + 1}, {.examples = examples, .fixed_bytes = fixed})),
      HasSubstr("not even a batch of 1"));
  EXPECT_THAT(
      Message(CheckMemory(net, {.bytes = fixed / 2}, {.examples = examples, .fixed_bytes = fixed})),
      HasSubstr("not even a batch of 1"));
}

class OnCpu : public testing::Test {
 protected:
  const CacheFolder folder_;
  const std::shared_ptr<Client> client_ = *OpenClient(
      {.device = "cpu", .compile_cache = "0", .log_path = folder_.path() + "/plugins.log"});
};

// Verified with the compiler: the proposed batch fits, and one of 5 % more does not.
TEST_F(OnCpu, EstimatedBatchFits) {
  constexpr int64_t kRows = 4096, kRoom = 5 << 20;
  const auto net = *client_->Compile(Net(kRows));
  const std::string message = Message(CheckMemory(*net, {.bytes = kRoom}, {.examples = kRows}));
  const size_t at = message.find("a batch of ");
  ASSERT_NE(at, std::string::npos) << message;
  int64_t rows = 0;
  ASSERT_TRUE(absl::SimpleAtoi(message.substr(at + 11, message.find(" fits") - at - 11), &rows));
  EXPECT_TRUE(CheckMemory(**client_->Compile(Net(rows)), {.bytes = kRoom}).ok()) << rows;
  EXPECT_FALSE(CheckMemory(**client_->Compile(Net(rows * 21 / 20)), {.bytes = kRoom}).ok());
}

TEST_F(OnCpu, DetectsOutOfMemoryBeforeExecution) {
  const auto net = client_->Compile(Net(int64_t{1} << 21, 1, int64_t{1} << 21));  // 16 TiB
  ASSERT_TRUE(net.ok()) << net.status();
  const FreeMemoryInfo room = client_->FreeMemory(client_->devices()[0]);
  EXPECT_GT(room.bytes, 1 << 20);
  EXPECT_LT(room.bytes, INT64_MAX);
  const absl::Status status = CheckMemory(**net, room);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(Message(status), HasSubstr("f32[2097152,2097152]"));
}

TEST(ExplainOutOfMemory, AddsLargestValuesOnlyToOutOfMemoryMessages) {
  const ir::Program net = Net(2048);
  EXPECT_THAT(Message(ExplainOutOfMemory(absl::ResourceExhaustedError("Out of HBM."), net)),
              AllOf(HasSubstr("Out of HBM."), HasSubstr("its largest values"),
                    HasSubstr("f32[2048,1000]")));
  EXPECT_EQ(ExplainOutOfMemory(absl::InternalError("x"), net), absl::InternalError("x"));
  EXPECT_TRUE(ExplainOutOfMemory(absl::OkStatus(), net).ok());
}

// Messages of two generations of libtpu.
TEST(AdviseBatch, ParsesNeededAndAvailableMemory) {
  const auto advise = [](const char* message, const BatchMemory& batch) {
    return Message(AdviseBatch(absl::ResourceExhaustedError(message), batch));
  };
  const char* used =
      "Ran out of memory in memory space hbm. Used 16.00G of 8.00G hbm. Exceeded hbm capacity by "
      "8.00G.";
  EXPECT_THAT(advise(used, {.examples = 1024}), HasSubstr("a batch of 512 fits"));
  EXPECT_THAT(advise(used, {.examples = 1024, .fixed_bytes = int64_t{4} << 30}),
              HasSubstr("a batch of 341 fits"));  // 1024 * (8 - 4) / (16 - 4)
  EXPECT_THAT(
      advise("E1000: the program (48.00G) exceeds available HBM (7.50G).", {.examples = 128}),
      HasSubstr("a batch of 20 fits"));
}

TEST(AdviseBatch, LeavesOtherMessagesAlone) {
  for (const char* message :
       {"Out of memory allocating 100 bytes.", "Used up", "Used 1.5.2G of 7G", "Used 8G of all",
        "Used 2G of 4G", ") exceeds available HBM (", "", "(48.00G) exceeds available HBM (x)",
        "x) exceeds available HBM (1G)"}) {
    const absl::Status status = absl::ResourceExhaustedError(message);
    EXPECT_EQ(AdviseBatch(status, {.examples = 8}), status);
  }
  const absl::Status other = absl::InternalError("Used 16.00G of 8.00G hbm");
  EXPECT_EQ(AdviseBatch(other, {.examples = 8}), other);
}

}  // namespace out_of_memory_test
}  // namespace penstock::runtime
