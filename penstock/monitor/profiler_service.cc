#include "penstock/monitor/profiler_service.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"

#include "penstock/base/status.h"
#include "penstock/monitor/http_server.h"
#include "penstock/monitor/profiler_service.pb.h"

#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/impl/codegen/proto_utils.h"

namespace penstock::monitor {
namespace {

constexpr char kMethod[] = "/tensorflow.ProfilerService/Monitor";
constexpr int kMaxRequestBytes = 4096;

double Measured(const Snapshot& snapshot, absl::string_view name) {
  const double* value = snapshot.Find(name);
  return value == nullptr ? 0 : *value;
}

tensorflow::MonitorResponse Respond(const Snapshot& snapshot,
                                    const tensorflow::MonitorRequest& request) {
  tensorflow::MonitorResponse response;
  response.set_data(ProfilerText(snapshot, request.monitoring_level(), request.timestamp()));
  tensorflow::ProfilerServiceMonitorResult& result = *response.mutable_monitor_result();
  if (snapshot.Find("penstock_idle_ratio") == nullptr) return response;
  result.set_response_type(tensorflow::ProfilerServiceMonitorResult::UTIL_IDLE_STEP);
  result.set_device_idle_time_percent(100 * Measured(snapshot, "penstock_idle_ratio"));
  result.set_matrix_unit_utilization_percent(100 * Measured(snapshot, "penstock_mxu_ratio"));
  const double median = 1e3 * Measured(snapshot, "penstock_step_p50_seconds");
  result.set_step_time_ms_avg(median);
  result.set_step_time_ms_min(median);
  result.set_step_time_ms_max(1e3 * Measured(snapshot, "penstock_step_p99_seconds"));
  const double infeed = 100 * Measured(snapshot, "penstock_infeed_ratio");
  result.set_infeed_percent_avg(infeed);
  result.set_infeed_percent_min(infeed);
  result.set_infeed_percent_max(infeed);
  return response;
}

// One call: reads the request, answers, and deletes itself.
class MonitorCall : public grpc::ServerGenericBidiReactor {
 public:
  MonitorCall(Registry& registry, const std::string& method) : registry_(registry) {
    if (method != kMethod) {
      Finish(grpc::Status(grpc::StatusCode::UNIMPLEMENTED,
                          absl::StrCat("a monitor serves only ", kMethod)));
      return;
    }
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    tensorflow::MonitorRequest request;
    grpc::ProtoBufferReader reader(&request_);
    if (!ok || !request.ParseFromZeroCopyStream(&reader)) {
      Finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "not a MonitorRequest"));
      return;
    }
    const std::string bytes = Respond(registry_.Take(), request).SerializeAsString();
    const grpc::Slice slice(bytes);
    response_ = grpc::ByteBuffer(&slice, 1);
    StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
  }
  void OnDone() override { delete this; }

 private:
  Registry& registry_;
  grpc::ByteBuffer request_, response_;
};

class GenericService : public grpc::CallbackGenericService {
 public:
  explicit GenericService(Registry& registry) : registry_(registry) {}

 private:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return new MonitorCall(registry_, context->method());
  }

  Registry& registry_;
};

class GrpcProfilerService : public ProfilerService {
 public:
  explicit GrpcProfilerService(Registry& registry) : service_(registry) {}
  ~GrpcProfilerService() override {
    // Calls in progress are cancelled after a second.
    if (server_ != nullptr) {
      server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
    }
  }

  absl::Status Listen(const std::string& address) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port_);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 16);
    builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
    builder.RegisterCallbackGenericService(&service_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port_ == 0) {
      return absl::UnavailableError(
          absl::StrCat("cannot listen on ", address, "; choose another port, or 0 for a free one"));
    }
    return absl::OkStatus();
  }

  int port() const override { return port_; }

 private:
  GenericService service_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ProfilerService>> ProfilerService::Start(
    Registry& registry, const std::string& address) {
  if (!IsLoopback(address)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", address, "\" is no loopback address with a port, like 127.0.0.1:8466; ",
                     "the profiler service has no authentication, so it takes no other"));
  }
  auto service = std::make_unique<GrpcProfilerService>(registry);
  PENSTOCK_RETURN_IF_ERROR(service->Listen(address));
  return service;
}

std::string ProfilerText(const Snapshot& snapshot, int level, bool timestamp) {
  std::string text;
  const auto line = [&](const char* name, const std::string& value) {
    absl::StrAppend(&text, "  ", name, ": ", value, "\n");
  };
  const auto percent = [&](const char* name, absl::string_view metric) {
    const double* value = snapshot.Find(metric);
    line(name, value == nullptr ? "unknown" : absl::StrFormat("%.1f%%", 100 * *value));
  };
  if (timestamp) {
    line("Timestamp",
         absl::FormatTime("%H:%M:%S",
                          absl::FromUnixSeconds(static_cast<int64_t>(snapshot.unix_seconds)),
                          absl::UTCTimeZone()));
  }
  percent("Accelerator idle time (lower is better)", "penstock_idle_ratio");
  percent("Utilization of matrix units (higher is better)", "penstock_mxu_ratio");
  if (level >= 2) {
    const double* median = snapshot.Find("penstock_step_p50_seconds");
    const double* slow = snapshot.Find("penstock_step_p99_seconds");
    if (median != nullptr && slow != nullptr) {
      line("Step time",
           absl::StrFormat("median %.3f ms, 99th percentile %.3f ms", 1e3 * *median, 1e3 * *slow));
    }
    percent("Infeed percentage", "penstock_infeed_ratio");
  }
  if (!snapshot.words.empty()) line("In words", snapshot.words);
  return text;
}

}  // namespace penstock::monitor
