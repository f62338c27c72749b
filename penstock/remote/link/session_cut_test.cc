// A client's session at a worker, which uploads, executes and downloads, with its bulk connection cut: the same
// results as without a cut, nothing left at the worker.
//
// PENSTOCK_EVERY_POSITION=1 tries all positions at the begin and end of a connection, and every 61st between, within
// the tensors (many minutes); else some of them.
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <gtest/gtest.h>

#include "penstock/base/array.h"
#include "penstock/base/testing/sanitized.h"
#include "penstock/remote/client.h"
#include "penstock/remote/link/link_client.h"
#include "penstock/remote/testing/fault_proxy.h"
#include "penstock/remote/testing/link_sessions.h"
#include "penstock/remote/worker/worker.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/runtime/testing/test_program.h"

namespace penstock::remote {
namespace session_cut_test {

using base::Array;
using base::DType;

constexpr int kBulk = 1;              // the second connection of a session
constexpr int64_t kElements = 17000;  // 68 kB: on the bulk link
constexpr int64_t kEdge =
    1200;  // bytes at the begin and end, which hold Hello, frames and the close
constexpr int64_t kStride = 61;

Array Numbers(float first) {
  Array array = Array::Uninitialized(DType::kF32, {kElements});
  for (int64_t i = 0; i < kElements; ++i) {
    array.mutable_data<float>()[i] = first + static_cast<float>(i % 1000);
  }
  return array;
}

class SessionCut : public testing::Test {
 protected:
  void SetUp() override {
    auto worker = Worker::Start({.listen = "127.0.0.1:0",
                                 .client = runtime::TestClient(1),
                                 .log_to_stderr = false,
                                 .metadata_host = "off"});
    ASSERT_TRUE(worker.ok()) << worker.status();
    worker_ = *std::move(worker);
    proxy_ = std::make_unique<FaultProxy>(PortOf(worker_->address()));
    const ir::TensorType type{DType::kF32, {kElements}};
    program_ = runtime::Print({.name = "twice_and_add",
                               .parameters = {type, type},
                               .results = {type},
                               .body = {"%0 = stablehlo.add %p0, %p0 : tensor<17000xf32>",
                                        "%1 = stablehlo.add %0, %p1 : tensor<17000xf32>"},
                               .returns = {"%1"}});
    expected_ = Numbers(0);
    for (int64_t i = 0; i < kElements; ++i) {
      expected_.mutable_data<float>()[i] = 3 * static_cast<float>(i % 1000) + 5;
    }
  }

  // 2 (0, 1, ...) + (5, 6, ...)
  void ExpectSameResult(const Fault& fault) {
    proxy_->set_faults([fault](int connection) { return connection == kBulk ? fault : Fault{}; });
    const auto client =
        OpenRemoteClient({.address = proxy_->address(),
                          .take_over = true,  // the previous one may still be about to end
                          .note = [](absl::string_view) {}});
    ASSERT_TRUE(client.ok()) << client.status();
    const runtime::Device& device = (*client)->devices()[0];
    const auto executable = (*client)->Compile(program_, {});
    ASSERT_TRUE(executable.ok()) << executable.status();
    const auto a = (*client)->Put(Numbers(0), device), b = (*client)->Put(Numbers(5), device);
    ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
    const auto results = (*executable)->Execute({{*a, *b}});
    ASSERT_TRUE(results.ok()) << results.status();
    const auto result = (*results)[0][0].Get();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(base::BitwiseEqual(*result, expected_));
    const auto uploaded = b->Get();
    ASSERT_TRUE(uploaded.ok()) << uploaded.status();
    EXPECT_TRUE(base::BitwiseEqual(*uploaded, Numbers(5)));
  }

  static std::vector<int64_t> Positions(int64_t end) {
    std::vector<int64_t> positions;
    if (std::getenv("PENSTOCK_EVERY_POSITION") == nullptr) {
      const int64_t count = base::FewerIfSanitized(24);
      for (int64_t i = 0; i < count; ++i) positions.push_back(i * end / count);
      return positions;
    }
    for (int64_t i = 0; i < end;) {
      positions.push_back(i);
      i += i < kEdge || i >= end - kEdge ? 1 : std::min(kStride, end - kEdge - i);
    }
    return positions;
  }

  void Sweep(bool to_server, Fault fault) {
    ExpectSameResult({});
    const int64_t end =
        1 + (to_server ? proxy_->bytes_to_server(kBulk) : proxy_->bytes_to_client(kBulk));
    ASSERT_GT(end, 2 * kElements * int64_t{sizeof(float)});
    for (const int64_t position : Positions(end)) {
      SCOPED_TRACE(absl::StrCat("cut at ", position, " of ", end));
      (to_server ? fault.cut_to_server : fault.cut_to_client) = position;
      ExpectSameResult(fault);
      if (HasFatalFailure()) return;
    }
    // The last client's session may just be ending.
    for (;;) {
      const auto described = DescribeWorker({.address = proxy_->address()});
      ASSERT_TRUE(described.ok()) << described.status();
      if (described->sessions_size() == 0) break;
    }
  }

  std::unique_ptr<Worker> worker_;
  std::unique_ptr<FaultProxy> proxy_;
  ir::Program program_;
  Array expected_ = Array::Scalar(0.f);
};

TEST_F(SessionCut, ComputesTheSameWhenBulkIsCutOnTheWayToTheWorker) { Sweep(true, {}); }
TEST_F(SessionCut, ComputesTheSameWhenBulkIsCutOnTheWayToTheClient) { Sweep(false, {}); }
TEST_F(SessionCut, ComputesTheSameWhenBulkIsResetOnTheWayToTheWorker) {
  Sweep(true, {.reset = true});
}
TEST_F(SessionCut, ComputesTheSameWhenBulkIsResetOnTheWayToTheClient) {
  Sweep(false, {.reset = true});
}

}  // namespace session_cut_test
}  // namespace penstock::remote
