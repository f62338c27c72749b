#include "penstock/remote/worker/maintenance.h"

#include <atomic>
#include <future>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/io/testing/canned_server.h"

namespace penstock::remote {
namespace maintenance_test {
namespace {

using ::testing::HasSubstr;

// A metadata server whose answers change after some requests.
std::string ReasonFrom(const std::function<std::string(const std::string& request)>& answer) {
  io::CannedServer server(
      std::function<std::string(const std::string&)>([&](const std::string& request) {
        if (!absl::StrContains(request, "Metadata-Flavor: Google")) {
          return io::CannedHttp("403 Forbidden", "");
        }
        return io::CannedHttp("200 OK", answer(request));
      }));
  std::promise<std::string> reason;
  const MaintenanceWatch watch({.host = absl::StrCat("127.0.0.1:", server.port()), .seconds = 0},
                               [&](const std::string& text) { reason.set_value(text); });
  return reason.get_future().get();
}

TEST(MaintenanceTest, ReportsPreemption) {
  std::atomic<int> requests = 0;
  EXPECT_THAT(ReasonFrom([&](const std::string& request) {
                if (absl::StrContains(request, "/instance/maintenance-event ")) return "NONE\n";
                EXPECT_THAT(request, HasSubstr("GET /computeMetadata/v1/instance/preempted "));
                return ++requests < 3 ? "FALSE" : "TRUE";
              }),
              HasSubstr("preemption"));
}

TEST(MaintenanceTest, ReportsMaintenanceThatEndsTheMachine) {
  std::atomic<int> requests = 0;
  EXPECT_THAT(ReasonFrom([&](const std::string& request) {
                if (absl::StrContains(request, "/preempted ")) return "FALSE";
                return ++requests < 3 ? "MIGRATE_ON_HOST_MAINTENANCE"
                                      : "TERMINATE_ON_HOST_MAINTENANCE";
              }),
              HasSubstr("maintenance"));
}

TEST(MaintenanceTest, IsOffWhereNothingAnswers) {
  const auto never = [](const std::string& reason) { ADD_FAILURE() << reason; };
  // The reserved domain never resolves; port 1 has no listener.
  const MaintenanceWatch unknown({.host = "metadata.invalid"}, never);
  const MaintenanceWatch closed({.host = "127.0.0.1:1"}, never);
  const MaintenanceWatch off({.host = "off"}, never);
}

TEST(MaintenanceTest, AServerThatHangsDoesNotDelayTheEnd) {
  io::CannedServer server("");
  const MaintenanceWatch watch({.host = absl::StrCat("127.0.0.1:", server.port())},
                               [](const std::string& reason) { ADD_FAILURE() << reason; });
}

}  // namespace
}  // namespace maintenance_test
}  // namespace penstock::remote
