#include <algorithm>
#include <deque>

#include "absl/strings/str_format.h"

#include "penstock/base/clock.h"
#include "penstock/base/status.h"

#include "bench/remote/remote.h"

namespace penstock::remote {
namespace {

using base::Array;
using base::DType;

constexpr int kSteps = 3000, kPipelined = 10000;
// Steps whose results have not been read yet, at most; a training has some tens in flight.
constexpr size_t kInFlight = 256;
constexpr int64_t kUploadBytes = int64_t{256} << 20;

double Now() { return base::Clock::Real()->Seconds(); }

// (x, y) -> (x + y, y): four numbers.
ir::Program SmallestStep() {
  ir::Program program;
  program.name = "smallest_step";
  program.text =
      "module @smallest_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : "
      "i32} "
      "{\n"
      "  func.func public @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {\n"
      "    %z = stablehlo.add %x, %y : tensor<4xf32>\n"
      "    return %z : tensor<4xf32>\n"
      "  }\n"
      "}\n";
  program.line_origins.resize(6);
  program.parameters = {{DType::kF32, {4}}, {DType::kF32, {4}}};
  program.parameter_names = {"x", "y"};
  program.results = {{DType::kF32, {4}}};
  program.result_names = {"z"};
  program.alias = {-1, -1};
  return program;
}

class Steps {
 public:
  explicit Steps(std::shared_ptr<runtime::Client> client) : client_(std::move(client)) {}

  absl::Status Prepare() {
    PENSTOCK_ASSIGN_OR_RETURN(executable_, client_->Compile(SmallestStep()));
    for (int i = 0; i < 2; ++i) {
      PENSTOCK_ASSIGN_OR_RETURN(
          arguments_.emplace_back(),
          client_->Put(Array::Of<float>({4}, {1, 2, 3, 4}), client_->devices()[0]));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> operator()() {
    std::vector<double> seconds;
    for (int i = 0; i < kSteps; ++i) {
      const double begin = Now();
      PENSTOCK_ASSIGN_OR_RETURN(const auto results, executable_->Execute({&arguments_, 1}));
      PENSTOCK_ASSIGN_OR_RETURN(const Array z, results[0][0].Get());
      seconds.push_back(Now() - begin);
    }
    std::sort(seconds.begin(), seconds.end());
    const double begin = Now();
    PENSTOCK_RETURN_IF_ERROR(RunPipelined());
    return absl::StrFormat("{\"step_us\": %.2f, \"step_p99_us\": %.2f, \"pipelined_us\": %.3f}",
                           1e6 * seconds[seconds.size() / 2],
                           1e6 * seconds[seconds.size() * 99 / 100],
                           1e6 * (Now() - begin) / kPipelined);
  }

 private:
  // Every result is copied to the host, as the report of a training step is.
  absl::Status RunPipelined() {
    struct Copy {
      Array array;
      std::shared_ptr<runtime::Event> event = nullptr;
    };
    std::deque<Copy> copies;
    for (int i = 0; i < kPipelined || !copies.empty(); ++i) {
      if (i < kPipelined) {
        PENSTOCK_ASSIGN_OR_RETURN(const auto results, executable_->Execute({&arguments_, 1}));
        Copy copy{.array = Array::Uninitialized(DType::kF32, {4})};
        PENSTOCK_ASSIGN_OR_RETURN(copy.event, results[0][0].GetAsync(copy.array));
        copies.push_back(std::move(copy));
      }
      if (i < kPipelined && copies.size() < kInFlight) continue;
      PENSTOCK_RETURN_IF_ERROR(copies.front().event->Await());
      copies.pop_front();
    }
    return absl::OkStatus();
  }

  const std::shared_ptr<runtime::Client> client_;
  std::shared_ptr<runtime::Executable> executable_;
  runtime::Buffers arguments_;
};

}  // namespace

absl::StatusOr<Round> StepRounds(std::shared_ptr<runtime::Client> client) {
  const auto steps = std::make_shared<Steps>(std::move(client));
  PENSTOCK_RETURN_IF_ERROR(steps->Prepare());
  return [steps] { return (*steps)(); };
}

absl::StatusOr<Round> UploadRounds(std::shared_ptr<runtime::Client> client,
                                   const BenchWorker& worker) {
  Array tensor = Array::Zeros(DType::kU8, {kUploadBytes});
  std::fill_n(tensor.mutable_data<uint8_t>(), kUploadBytes, uint8_t{1});
  return [client, tensor, &worker]() -> absl::StatusOr<std::string> {
    double gb_per_second = 0, uploads = 0;
    const double cpu = OwnCpuSeconds() + worker.CpuSeconds();
    const double round = Now();
    // The fastest of about a second: other load of the machine only slows it down.
    do {
      const double begin = Now();
      PENSTOCK_ASSIGN_OR_RETURN(runtime::Buffer buffer, client->Put(tensor, client->devices()[0]));
      PENSTOCK_RETURN_IF_ERROR(buffer.Await());
      gb_per_second = std::max(gb_per_second, 1e-9 * kUploadBytes / (Now() - begin));
      ++uploads;
    } while (Now() - round < 1);
    return absl::StrFormat("{\"gb_per_second\": %.4f, \"cpu_ms\": %.1f}", gb_per_second,
                           1e3 * (OwnCpuSeconds() + worker.CpuSeconds() - cpu) / uploads);
  };
}

}  // namespace penstock::remote
