// Clients and workers of different versions: what one side does not know, the other one says.
#include "penstock/remote/wire/features.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/io/testing/status_assertions.h"
#include "penstock/remote/client/device_client.h"
#include "penstock/remote/testing/fake_client.h"
#include "penstock/remote/testing/in_process_worker.h"
#include "penstock/train/feed_host.h"

namespace penstock::remote {
namespace features_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A worker that announces other features than it has.
class OtherWorker : public SessionLinks {
 public:
  OtherWorker(std::unique_ptr<SessionLinks> links, std::vector<std::string> features,
              const std::string& version)
      : links_(std::move(links)), features_(std::move(features)), worker_(links_->worker()) {
    worker_.set_host("tpu1");
    worker_.set_penstock_version(version);
  }
  Link& control() override { return links_->control(); }
  Link& bulk() override { return links_->bulk(); }
  const WorkerInfo& worker() const override { return worker_; }
  std::vector<std::string> features() const override { return features_; }

 private:
  const std::unique_ptr<SessionLinks> links_;
  const std::vector<std::string> features_;
  WorkerInfo worker_;
};

std::shared_ptr<runtime::Client> Open(const std::vector<std::string>& features,
                                      const std::string& version) {
  const auto client =
      DeviceClient::Open([=, connect = InProcessConnector(std::make_shared<FakeClient>())](
                             const DeviceClient::Receivers& receivers)
                             -> absl::StatusOr<std::unique_ptr<SessionLinks>> {
        auto links = connect(receivers);
        if (!links.ok()) return links.status();
        return std::make_unique<OtherWorker>(*std::move(links), features, version);
      });
  EXPECT_OK(client);
  return client.value_or(nullptr);
}

// A request that not every worker knows.
absl::Status Copy(runtime::Client& client) {
  const auto buffer = client.Put(base::Array::Scalar(1.0f), client.devices()[0]);
  if (!buffer.ok()) return buffer.status();
  return dynamic_cast<train::FeedHost&>(client)
      .CopyToDevice({*buffer}, client.devices()[1])
      .status();
}

TEST(WorkerFeatures, ClientSendsNothingThatTheWorkerHasNotAnnounced) {
  std::vector<std::string> features = OurFeatures();
  std::erase(features, "copy_buffers");
  const auto client = Open(features, "0.0.7");
  const absl::Status status = Copy(*client);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("the worker on tpu1 (Penstock 0.0.7)"), HasSubstr("'copy_buffers'"),
                    HasSubstr("update Penstock there")));
  // The session goes on.
  const auto buffer = client->Put(base::Array::Scalar(7.0f), client->devices()[0]);
  ASSERT_OK(buffer);
  ASSERT_OK_AND_ASSIGN(const base::Array back, buffer->Get());
  EXPECT_EQ(back.item<float>(), 7.0f);
}

TEST(WorkerFeatures, WorkerThatAnnouncesNoneKnowsTheFirstKinds) {
  EXPECT_OK(Copy(*Open({}, "")));
  const WorkerFeatures first({}, WorkerInfo());
  for (const RequestKind& kind : kRequestKinds) {
    EXPECT_EQ(first.Check(kind.feature).ok(), kind.first) << kind.feature;
  }
  const absl::Status status = first.Check("a new kind");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr("a version that does not say its number"), HasSubstr("'a new kind'")));
}

TEST(WorkerFeatures, NewerWorkerMayAnnounceMore) {
  std::vector<std::string> features = OurFeatures();
  features.push_back("a new kind");
  EXPECT_OK(Copy(*Open(features, "9.0.0")));
  EXPECT_OK(WorkerFeatures(features, WorkerInfo()).Check("a new kind"));
}

// The words of a worker are not ours.
TEST(WorkerFeatures, EscapesWhatAWorkerSaysOfItself) {
  WorkerInfo worker;
  worker.set_host("a\x1b[2J");
  worker.set_penstock_version(std::string(1000, 'x'));
  const std::string text(WorkerFeatures({"put"}, worker).Check("get").message());
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_LT(text.size(), 400u);
}

}  // namespace features_test
}  // namespace penstock::remote
