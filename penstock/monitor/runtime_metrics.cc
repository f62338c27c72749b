#include "penstock/monitor/runtime_metrics.h"

#include <chrono>
#include <cmath>
#include <optional>
#include <system_error>

#include "absl/strings/str_cat.h"

#include "penstock/monitor/runtime_metrics.pb.h"

#include "grpcpp/grpcpp.h"
#include "grpcpp/impl/client_unary_call.h"
#include "grpcpp/impl/codegen/proto_utils.h"

namespace penstock::monitor {
namespace {

using tpu::monitoring::runtime::MetricRequest;
using tpu::monitoring::runtime::MetricResponse;

struct SourceRow {
  const char* theirs;
  const char* ours;
  double factor;
};

constexpr SourceRow kSources[] = {
    {"tpu.runtime.tensorcore.dutycycle.percent", "penstock_tpu_duty_cycle_ratio", 0.01},
    {"tpu.runtime.hbm.memory.usage.bytes", "penstock_tpu_memory_used_bytes", 1},
    {"tpu.runtime.hbm.memory.total.bytes", "penstock_tpu_memory_total_bytes", 1},
};

constexpr int kMaxDevices = 64;
constexpr auto kTimeout = std::chrono::milliseconds(300);
constexpr auto kPeriod = std::chrono::seconds(5);

std::optional<double> NumberOf(const tpu::monitoring::runtime::Gauge& gauge) {
  if (gauge.has_as_double()) return gauge.as_double();
  if (gauge.has_as_int()) return static_cast<double>(gauge.as_int());
  return std::nullopt;
}

}  // namespace

class RuntimeMetrics::Stub {
 public:
  explicit Stub(const std::string& address) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(1 << 20);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    channel_ = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  }

  std::optional<MetricResponse> Get(const char* metric) {
    static constexpr char kMethod[] =
        "/tpu.monitoring.runtime.RuntimeMetricService/GetRuntimeMetric";
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kTimeout);
    MetricRequest request;
    request.set_metric_name(metric);
    MetricResponse response;
    const grpc::internal::RpcMethod method(kMethod, grpc::internal::RpcMethod::NORMAL_RPC,
                                           channel_);
    const grpc::Status status = grpc::internal::BlockingUnaryCall<MetricRequest, MetricResponse,
                                                                  google::protobuf::MessageLite,
                                                                  google::protobuf::MessageLite>(
        channel_.get(), method, &context, request, &response);
    if (!status.ok()) return std::nullopt;
    return response;
  }

 private:
  std::shared_ptr<grpc::Channel> channel_;
};

RuntimeMetrics::RuntimeMetrics(Registry& registry, const std::string& address)
    : registry_(registry), stub_(std::make_unique<Stub>(address)) {}

RuntimeMetrics::~RuntimeMetrics() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool RuntimeMetrics::Read() {
  bool answered = false;
  for (const SourceRow& source : kSources) {
    const std::optional<MetricResponse> response = stub_->Get(source.theirs);
    if (!response.has_value()) {
      registry_.ClearAll(source.ours);
      continue;
    }
    answered = true;
    int64_t index = 0;
    for (const auto& metric : response->metric().metrics()) {
      if (index >= kMaxDevices) break;
      const auto& device = metric.attribute().value();
      const int64_t id = device.has_int_attr() ? device.int_attr() : index;
      ++index;
      const std::optional<double> value = NumberOf(metric.gauge());
      if (!value.has_value() || !std::isfinite(*value)) continue;
      registry_.Get(source.ours, absl::StrCat(id)).Set(*value * source.factor);
    }
  }
  return answered;
}

void RuntimeMetrics::Poll() {
  try {
    thread_ = std::thread([this] {
      std::unique_lock lock(mutex_);
      while (!stopping_) {
        lock.unlock();
        Read();
        lock.lock();
        wake_.wait_for(lock, kPeriod, [this] { return stopping_; });
      }
    });
  } catch (const std::system_error&) {
    // Without a thread its numbers are not shown.
  }
}

}  // namespace penstock::monitor
