#include "penstock/monitor/profiler_service.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/monitor/profiler_service.pb.h"

#include "grpcpp/grpcpp.h"
#include "grpcpp/impl/client_unary_call.h"
#include "grpcpp/impl/codegen/proto_utils.h"

namespace penstock::monitor {
namespace profiler_service_test {

using ::testing::HasSubstr;
using ::testing::Not;

class ProfilerServiceTest : public ::testing::Test {
 protected:
  ProfilerServiceTest() {
    auto service = ProfilerService::Start(registry_, "127.0.0.1:0");
    EXPECT_TRUE(service.ok()) << service.status();
    service_ = *std::move(service);
    channel_ = grpc::CreateChannel(absl::StrCat("127.0.0.1:", service_->port()),
                                   grpc::InsecureChannelCredentials());
  }

  grpc::Status Call(const char* method, const tensorflow::MonitorRequest& request,
                    tensorflow::MonitorResponse* response) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    return grpc::internal::BlockingUnaryCall(
        channel_.get(), grpc::internal::RpcMethod(method, grpc::internal::RpcMethod::NORMAL_RPC),
        &context, request, response);
  }

  Registry registry_;
  std::unique_ptr<ProfilerService> service_;
  std::shared_ptr<grpc::Channel> channel_;
};

constexpr char kMonitor[] = "/tensorflow.ProfilerService/Monitor";

TEST_F(ProfilerServiceTest, AnswersWithTheNumbersOfTheRegistry) {
  registry_.Get("penstock_idle_ratio").Set(0.25);
  registry_.Get("penstock_mxu_ratio").Set(0.5);
  registry_.Get("penstock_infeed_ratio").Set(0.125);
  registry_.Get("penstock_step_p50_seconds").Set(0.01);
  registry_.Get("penstock_step_p99_seconds").Set(0.02);
  registry_.SetWords("waits");
  tensorflow::MonitorRequest request;
  request.set_duration_ms(100000);  // it does not wait that long
  request.set_monitoring_level(2);
  tensorflow::MonitorResponse response;
  ASSERT_TRUE(Call(kMonitor, request, &response).ok());
  EXPECT_THAT(response.data(), HasSubstr("idle time (lower is better): 25.0%"));
  EXPECT_THAT(response.data(), HasSubstr("matrix units (higher is better): 50.0%"));
  EXPECT_THAT(response.data(), HasSubstr("median 10.000 ms, 99th percentile 20.000 ms"));
  EXPECT_THAT(response.data(), HasSubstr("In words: waits"));
  EXPECT_THAT(response.data(), Not(HasSubstr("Timestamp")));
  EXPECT_EQ(response.monitor_result().device_idle_time_percent(), 25);
  EXPECT_EQ(response.monitor_result().matrix_unit_utilization_percent(), 50);
  EXPECT_EQ(response.monitor_result().infeed_percent_avg(), 12.5);
  EXPECT_EQ(response.monitor_result().step_time_ms_avg(), 10);
}

TEST_F(ProfilerServiceTest, SaysThatNothingIsMeasured) {
  tensorflow::MonitorRequest request;
  request.set_timestamp(true);
  tensorflow::MonitorResponse response;
  ASSERT_TRUE(Call(kMonitor, request, &response).ok());
  EXPECT_THAT(response.data(), HasSubstr("idle time (lower is better): unknown"));
  EXPECT_THAT(response.data(), HasSubstr("Timestamp: "));
  EXPECT_EQ(response.monitor_result().response_type(),
            tensorflow::ProfilerServiceMonitorResult::EMPTY_RESULT);
}

TEST_F(ProfilerServiceTest, RefusesOtherMethodsAndLargeRequests) {
  tensorflow::MonitorResponse response;
  EXPECT_EQ(Call("/tensorflow.ProfilerService/Profile", {}, &response).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
  tensorflow::MonitorRequest large;
  large.GetReflection()->MutableUnknownFields(&large)->AddLengthDelimited(7,
                                                                          std::string(100000, 'x'));
  EXPECT_FALSE(Call(kMonitor, large, &response).ok());
  EXPECT_TRUE(Call(kMonitor, {}, &response).ok());
}

TEST_F(ProfilerServiceTest, SaysThatAPortIsInUseOrAnAddressIsOpenToOthers) {
  EXPECT_EQ(ProfilerService::Start(registry_, absl::StrCat("127.0.0.1:", service_->port()))
                .status()
                .code(),
            absl::StatusCode::kUnavailable);
  for (const char* address : {"0.0.0.0:0", "6006", ""}) {
    const absl::Status status = ProfilerService::Start(registry_, address).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(),
                HasSubstr(absl::StrCat("\"", address, "\" is no loopback address with a port")));
  }
}

}  // namespace profiler_service_test
}  // namespace penstock::monitor
