// Ends of feeds whose pipelines read from a store that does not answer: a read that cannot be interrupted.
#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "penstock/io/testing/scripted_gcs.h"
#include "penstock/io/testing/status_assertions.h"
#include "penstock/remote/client/client_session.h"
#include "penstock/remote/testing/in_process_worker.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/train/feed_host.h"

namespace penstock::remote {
namespace worker_feeds_test {

class WorkerFeedsTest : public ::testing::Test {
 protected:
  WorkerFeedsTest() {
    gcs_.Put("train/text", "a\nb\n");
    gcs_.Put("train/silent", "a\nb\n");
    gcs_.SetScript([this](const io::ScriptedGcs::Request& request) {
      if (request.is_media && request.object == "train/silent") {
        if (!asked_once_.exchange(true)) asked_.set_value();
        answer_.wait();
      }
      return io::ScriptedGcs::Fault{};
    });
  }
  ~WorkerFeedsTest() override {
    // Until the last feed has ended.
    while (client_.use_count() > users_) std::this_thread::yield();
  }

  std::shared_ptr<ClientSession> Open() const {
    auto session = ClientSession::Open(InProcessConnector(
        client_, {.limits = {.feed_end_seconds = 0}, .readable = {gcs_.Uri("train/")}}));
    EXPECT_OK(session);
    return session.value_or(nullptr);
  }
  // Sends a request; the future is its reply's status.
  static std::future<absl::Status> Send(ClientSession& session, Request request) {
    const auto promise = std::make_shared<std::promise<absl::Status>>();
    std::future<absl::Status> future = promise->get_future();
    EXPECT_OK(session.Send(std::move(request), {}, [promise](absl::StatusOr<ReceivedReply> reply) {
      promise->set_value(reply.status());
    }));
    return future;
  }
  Request OpenRequest(uint64_t feed, const std::string& file) const {
    Request request;
    OpenFeed& open = *request.mutable_open_feed();
    open.set_feed(feed);
    open.set_dataset(absl::StrCat(R"({"format":1,"pipeline":[{"stage":"FromText","reads":[")", file,
                                  R"("]}]})"));
    open.set_options(train::FeedRequestToJson({.dataset = "", .devices = {0}}));
    return request;
  }
  static Request NextRequest(uint64_t feed) {
    Request request;
    FeedNext& next = *request.mutable_feed_next();
    next.set_feed(feed);
    next.set_depth(1);
    next.set_steps(1);
    next.set_first_buffer(1000);
    return request;
  }
  static Request CloseRequest(uint64_t feed) {
    Request request;
    request.mutable_close_feed()->set_feed(feed);
    return request;
  }
  const std::shared_ptr<runtime::Client> client_ = runtime::TestClient(1);
  const int64_t users_ = client_.use_count();
  std::promise<void> asked_, answers_;
  std::shared_future<void> answer_ = answers_.get_future().share();
  std::atomic<bool> asked_once_ = false;
  io::ScriptedGcs gcs_;
  const std::string text_ = gcs_.Uri("train/text"), silent_ = gcs_.Uri("train/silent");
};

TEST_F(WorkerFeedsTest, SessionEndsWhileAPipelineReads) {
  std::shared_ptr<ClientSession> session = Open();
  ASSERT_NE(session, nullptr);
  Send(*session, OpenRequest(1, silent_));
  std::future<absl::Status> next = Send(*session, NextRequest(1));
  asked_.get_future().wait();
  session.reset();  // returns although the read does not
  EXPECT_FALSE(next.get().ok());
  answers_.set_value();
}

TEST_F(WorkerFeedsTest, CloseAnswersWhileAPipelineReads) {
  const std::shared_ptr<ClientSession> session = Open();
  ASSERT_NE(session, nullptr);
  Send(*session, OpenRequest(1, silent_));
  std::future<absl::Status> next = Send(*session, NextRequest(1));
  asked_.get_future().wait();
  EXPECT_OK(Send(*session, CloseRequest(1)).get());
  EXPECT_EQ(next.get().code(), absl::StatusCode::kCancelled);
  // Others go on.
  EXPECT_OK(Send(*session, OpenRequest(2, text_)).get());
  EXPECT_OK(Send(*session, CloseRequest(2)).get());
  answers_.set_value();
}

TEST_F(WorkerFeedsTest, ClosingBeforeOpeningAnswersBoth) {
  const std::shared_ptr<ClientSession> session = Open();
  ASSERT_NE(session, nullptr);
  for (uint64_t feed = 1; feed <= 40; ++feed) {
    std::future<absl::Status> opened = Send(*session, OpenRequest(feed, text_));
    std::future<absl::Status> closed = Send(*session, CloseRequest(feed));
    const absl::Status status = opened.get();
    EXPECT_TRUE(status.ok() || absl::IsCancelled(status)) << status;
    EXPECT_OK(closed.get());
  }
  answers_.set_value();
}

}  // namespace worker_feeds_test
}  // namespace penstock::remote
