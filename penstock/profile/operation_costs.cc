#include "penstock/profile/operation_costs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

#include "penstock/base/median.h"
#include "penstock/base/status.h"
#include "penstock/ir/ops.h"
#include "penstock/profile/pieces.h"

namespace penstock::profile {
namespace {

using base::Array;
using base::DType;

// Plausible input values: between 0.1 and 1, without denormals, valid for logarithms and roots;
// small indices; both bools.
absl::StatusOr<Array> PlausibleInput(const ir::TensorType& type) {
  Array values = Array::Uninitialized(DType::kF32, type.shape);
  float* to = values.mutable_data<float>();
  const bool is_float = base::IsFloat(type.dtype);
  for (int64_t i = 0; i < values.num_elements(); ++i) {
    const auto mixed = static_cast<uint32_t>(i) * 2654435761u;  // Knuth's multiplicative hash
    to[i] = is_float ? 0.1f + 0.9f * static_cast<float>(mixed >> 8) / 16777216.0f
                     : static_cast<float>(type.dtype == DType::kBool ? mixed >> 31 : i % 7);
  }
  return values.Cast(type.dtype);
}

class Stopwatch {
 public:
  Stopwatch(runtime::Client& client, const MeasureOptions& options)
      : client_(client), options_(options) {}

  // Seconds of one execution: the median of several, without the first, which warms up.
  absl::StatusOr<double> Time(const ir::Program& program) {
    PENSTOCK_ASSIGN_OR_RETURN(const auto executable,
                              client_.Compile(program, {.devices = options_.devices}));
    PENSTOCK_ASSIGN_OR_RETURN(const auto arguments, Arguments(program));
    constexpr size_t kFewest = 3, kMax = 15;
    constexpr double kSeconds = 0.4;
    std::vector<double> samples;
    const double began = options_.clock->Seconds();
    for (bool warm = false; samples.size() < kMax; warm = true) {
      const double start = options_.clock->Seconds();
      PENSTOCK_ASSIGN_OR_RETURN(const auto results, executable->Execute(arguments));
      for (const runtime::Buffers& replica : results) {
        for (const runtime::Buffer& result : replica) PENSTOCK_RETURN_IF_ERROR(result.Await());
      }
      const double now = options_.clock->Seconds();
      if (warm) samples.push_back(now - start);
      if (samples.size() >= kFewest && now - began > kSeconds) break;
    }
    return base::Median(std::move(samples));
  }

 private:
  absl::StatusOr<std::vector<runtime::Buffers>> Arguments(const ir::Program& program) {
    std::vector<runtime::Buffers> arguments(program.num_replicas);
    for (const ir::TensorType& type : program.parameters) {
      PENSTOCK_ASSIGN_OR_RETURN(const Array input, PlausibleInput(type));
      for (int r = 0; r < program.num_replicas; ++r) {
        const int device = options_.devices.empty() ? r : options_.devices[r];
        PENSTOCK_ASSIGN_OR_RETURN(arguments[r].emplace_back(),
                                  client_.Put(input, client_.devices()[device]));
      }
    }
    return arguments;
  }

  runtime::Client& client_;
  const MeasureOptions& options_;
};

// Time of an empty program: dispatch and synchronization.
absl::StatusOr<double> TimeOfNothing(Stopwatch& stopwatch, int num_replicas,
                                     const PrintFunction& print) {
  ir::Graph graph("nothing", num_replicas);
  graph.SetResults({graph.Parameter({DType::kF32, {}}, "x") + 1.0});
  PENSTOCK_ASSIGN_OR_RETURN(const ir::Program program, print(graph));
  return stopwatch.Time(program);
}

}  // namespace

absl::StatusOr<std::vector<OperationCost>> MeasureOperations(const ir::Graph& program,
                                                             runtime::Client& client,
                                                             const MeasureOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(program.status());
  const double began = options.clock->Seconds();
  std::vector<Piece> pieces = FindPieces(program, options.print);
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return a.expected_seconds > b.expected_seconds;
  });
  Stopwatch stopwatch(client, options);
  PENSTOCK_ASSIGN_OR_RETURN(const double nothing,
                            TimeOfNothing(stopwatch, program.num_replicas(), options.print));
  std::vector<OperationCost> costs;
  for (Piece& piece : pieces) {
    OperationCost& cost = costs.emplace_back(std::move(piece.cost));
    if (!cost.not_timed.empty()) continue;
    if (options.clock->Seconds() - began > options.seconds) {
      cost.not_timed = absl::StrFormat("%.0f s were over", options.seconds);
      continue;
    }
    const absl::StatusOr<double> seconds = stopwatch.Time(piece.program);
    if (seconds.ok()) {
      cost.seconds = std::max(0.0, *seconds - nothing);
    } else {
      cost.not_timed = std::string(seconds.status().message());
    }
  }
  std::stable_sort(costs.begin(), costs.end(), [](const OperationCost& a, const OperationCost& b) {
    const bool a_timed = a.seconds >= 0, b_timed = b.seconds >= 0;
    return a_timed != b_timed ? a_timed : a.total_seconds() > b.total_seconds();
  });
  return costs;
}

}  // namespace penstock::profile
