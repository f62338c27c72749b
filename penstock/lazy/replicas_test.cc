#include "penstock/lazy/replicas.h"

#include <latch>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace penstock::lazy {
namespace replicas_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

MeetingPoint At(const std::string& place) {
  return {.key = place, .describe = [place] { return absl::StrCat("place '", place, "'"); }};
}

// Runs a body in a thread for each ordinal; returns their statuses.
std::vector<absl::Status> RunAll(Replicas& replicas, const std::function<absl::Status(int)>& body) {
  std::vector<absl::Status> statuses(replicas.size());
  std::vector<std::thread> threads;
  for (int i = 0; i < replicas.size(); ++i) {
    threads.emplace_back([&, i] {
      statuses[i] = body(i);
      replicas.Ended(i, statuses[i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

TEST(Replicas, ExchangeGivesAllPayloadsInOrderOfOrdinals) {
  Replicas replicas(5, 60);
  RunAll(replicas, [&](int ordinal) -> absl::Status {
    for (int round = 0; round < 50; ++round) {
      const auto all = replicas.Exchange(ordinal, At("a"), std::any(ordinal * 1000 + round));
      if (!all.ok()) return all.status();
      for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(std::any_cast<int>((*all)[i]), i * 1000 + round);
      }
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(replicas.first_error().ok()) << replicas.first_error();
}

TEST(Replicas, OneOrdinalWorksForAll) {
  Replicas replicas(4, 60);
  int calls = 0;
  RunAll(replicas, [&](int ordinal) -> absl::Status {
    const auto result =
        replicas.Meet(ordinal, At("sum"), std::any(ordinal), [&](std::vector<std::any>& all) {
          ++calls;
          int sum = 0;
          for (const std::any& each : all) sum += std::any_cast<int>(each);
          for (std::any& each : all) each = sum + std::any_cast<int>(each);
          return absl::OkStatus();
        });
    EXPECT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(std::any_cast<int>(result.value_or(0)), 6 + ordinal);
    return result.status();
  });
  EXPECT_EQ(calls, 1);
}

TEST(Replicas, ErrorOfTheWorkIsReturnedToAll) {
  Replicas replicas(3, 60);
  const auto statuses = RunAll(replicas, [&](int ordinal) {
    return replicas
        .Meet(ordinal, At("work"), {},
              [](std::vector<std::any>&) -> absl::Status { throw std::runtime_error("no luck"); })
        .status();
  });
  for (const absl::Status& status : statuses) {
    EXPECT_THAT(status.message(), HasSubstr("no luck"));
  }
}

TEST(Replicas, DifferentPlacesAreAnErrorThatNamesOrdinalsAndPlaces) {
  Replicas replicas(4, 3600);
  const auto statuses = RunAll(replicas, [&](int ordinal) {
    return replicas.Exchange(ordinal, At(ordinal == 2 ? "b" : "a"), {}).status();
  });
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("ordinals 0, 1 and 3 wait in place 'a'"),
                                        HasSubstr("ordinal 2 waits in place 'b'")));
  }
  EXPECT_EQ(replicas.first_error(), statuses[0]);
}

TEST(Replicas, AnOrdinalThatReturnsEarlyIsAnErrorOfTheOthers) {
  Replicas replicas(3, 3600);
  const auto statuses = RunAll(replicas, [&](int ordinal) {
    if (ordinal == 1) return absl::OkStatus();
    return replicas.Exchange(ordinal, At("end"), {}).status();
  });
  EXPECT_TRUE(statuses[1].ok());
  EXPECT_THAT(statuses[0].message(), AllOf(HasSubstr("ordinals 0 and 2 wait in place 'end'"),
                                           HasSubstr("ordinal 1 has returned")));
  EXPECT_EQ(replicas.first_error(), statuses[0]);
}

TEST(Replicas, AnOrdinalThatFailsCancelsTheOthers) {
  Replicas replicas(3, 3600);
  const auto statuses = RunAll(replicas, [&](int ordinal) -> absl::Status {
    if (ordinal == 1) return absl::DataLossError("file x is corrupt");
    return replicas.Exchange(ordinal, At("end"), {}).status();
  });
  EXPECT_EQ(statuses[0], absl::CancelledError("ordinal 1 failed: file x is corrupt"));
  EXPECT_EQ(statuses[2], statuses[0]);
  EXPECT_EQ(replicas.first_error(), absl::DataLossError("ordinal 1: file x is corrupt"));
}

TEST(Replicas, AnOrdinalThatDoesNotArriveIsAnErrorAfterTheTimeout) {
  Replicas replicas(2, 0.01);
  std::latch other_failed(1);
  const auto statuses = RunAll(replicas, [&](int ordinal) -> absl::Status {
    if (ordinal == 1) {
      other_failed.wait();  // "computes" until then
      return absl::OkStatus();
    }
    const absl::Status status = replicas.Exchange(ordinal, At("end"), {}).status();
    other_failed.count_down();
    return status;
  });
  EXPECT_EQ(statuses[0].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(statuses[0].message(),
              AllOf(HasSubstr("for 0.01 s"), HasSubstr("ordinal 0 waits in place 'end'"),
                    HasSubstr("ordinal 1 has not arrived")));
}

TEST(Replicas, ThreadsThatGoOnAfterAFailureAreFound) {
  Replicas replicas(3, 3600);
  replicas.Ended(1, absl::InternalError("x"));
  EXPECT_THAT(replicas.AwaitEnd(0.01), testing::ElementsAre(0, 2));
  replicas.Ended(2, absl::OkStatus());
  EXPECT_THAT(replicas.AwaitEnd(0.01), testing::ElementsAre(0));
  std::thread last([&] { replicas.Ended(0, absl::OkStatus()); });
  EXPECT_TRUE(replicas.AwaitEnd(3600).empty());
  last.join();
}

TEST(Replicas, AwaitsTheEndOfThreadsThatDoNotFail) {
  Replicas replicas(2, 3600);
  std::thread both([&] {
    replicas.Ended(0, absl::OkStatus());
    replicas.Ended(1, absl::OkStatus());
  });
  EXPECT_TRUE(replicas.AwaitEnd(0).empty());
  both.join();
}

TEST(Replicas, FailureCallsCallbacksOnceAlsoThoseAddedLater) {
  Replicas replicas(2, 3600);
  std::vector<std::string> calls;
  const int64_t removed = replicas.OnFailure([&](const absl::Status&) { calls.push_back("no"); });
  replicas.OnFailure([&](const absl::Status& status) { calls.emplace_back(status.message()); });
  replicas.RemoveOnFailure(removed);
  replicas.Ended(0, absl::OkStatus());
  EXPECT_TRUE(calls.empty());
  replicas.Ended(1, absl::InternalError("x"));
  replicas.OnFailure([&](const absl::Status&) { calls.push_back("late"); });
  EXPECT_THAT(calls, testing::ElementsAre("ordinal 1 failed: x", "late"));
}

TEST(Replicas, ScopeMakesAThreadAReplica) {
  EXPECT_EQ(CurrentReplica(), nullptr);
  EXPECT_EQ(CurrentNumReplicas(), 1);
  {
    const ReplicaScope scope(
        {.replicas = std::make_shared<Replicas>(3, 1), .ordinal = 2, .device = Device()});
    EXPECT_EQ(CurrentReplica()->ordinal, 2);
    EXPECT_EQ(CurrentNumReplicas(), 3);
    std::thread([] { EXPECT_EQ(CurrentReplica(), nullptr); }).join();
  }
  EXPECT_EQ(CurrentReplica(), nullptr);
}

TEST(Replicas, OrdinalsAreWrittenAsAList) {
  EXPECT_EQ(OrdinalsText({3}), "ordinal 3");
  EXPECT_EQ(OrdinalsText({0, 3}), "ordinals 0 and 3");
  EXPECT_EQ(OrdinalsText({0, 1, 3}), "ordinals 0, 1 and 3");
}

}  // namespace
}  // namespace replicas_test
}  // namespace penstock::lazy
