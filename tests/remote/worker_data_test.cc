// Data of a worker that is a process of its own: whose credentials open it.
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/io/file_system.h"
#include "penstock/io/testing/scripted_s3.h"
#include "penstock/io/testing/status_assertions.h"
#include "penstock/remote/client.h"
#include "penstock/remote/testing/points_training.h"
#include "penstock/runtime/testing/test_device.h"

#include "tests/remote/processes.h"

namespace penstock::tests {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

std::shared_ptr<runtime::Client> Open(const WorkerProcess& worker) {
  auto client =
      remote::OpenRemoteClient({.address = worker.address(), .note = [](absl::string_view) {}});
  EXPECT_OK(client);
  return client.value_or(nullptr);
}

TEST(WorkerDataTest, CredentialsAreTheWorkersAndNotTheClients) {
  io::ScriptedS3 s3;
  const std::string local = testing::TempDir() + "worker_data_points.tfrec";
  remote::WritePoints(local, 40);
  ASSERT_OK_AND_ASSIGN(const std::string bytes, io::ReadFile(*io::FileSystem::Default(), local));
  ASSERT_OK(io::WriteFile(*s3.objects(), "memory://bucket/train/points.tfrec", bytes));
  std::mutex mutex;
  std::vector<std::string> authorizations;
  s3.SetScript([&](const io::ScriptedS3::Request& request) -> std::optional<io::CannedResponse> {
    const std::lock_guard<std::mutex> lock(mutex);
    authorizations.push_back(request.authorization);
    return std::nullopt;
  });
  ::setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
  ::setenv("AWS_ACCESS_KEY_ID", "CLIENTKEY", 1);
  ::setenv("AWS_SECRET_ACCESS_KEY", "client-secret", 1);
  const TemporaryFolder folder;
  WorkerProcess worker(
      {.folder = folder.path(),
       .arguments = {"--read", s3.Uri("train/", /*user=*/"")},
       .variables = {"AWS_ACCESS_KEY_ID=WORKERKEY", "AWS_SECRET_ACCESS_KEY=worker-secret"}});
  train::FitOptions options;
  options.read.place = train::PipelinePlace::kWorker;
  const auto trainer = remote::MakePointsTrainer(Open(worker));
  ASSERT_OK(
      trainer->Fit(remote::PointsBatches(s3.Uri("train/points.tfrec", /*user=*/"")), options));
  const std::lock_guard<std::mutex> lock(mutex);
  ASSERT_FALSE(authorizations.empty());
  EXPECT_THAT(authorizations,
              Each(AllOf(HasSubstr("Credential=WORKERKEY/"), Not(HasSubstr("CLIENTKEY")))));
  const auto here = remote::MakePointsTrainer(runtime::TestClient(1));
  ASSERT_OK(here->Fit(remote::PointsBatches(local), {}));
  remote::ExpectSameWeights(*here, *trainer);
}

}  // namespace
}  // namespace penstock::tests
