#include "penstock/remote/worker/session_table.h"

#include <map>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace penstock::remote {
namespace session_table_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

const SessionClaim kAda = {.host = "laptop", .user = "ada", .owner = "certificate ada"};
const SessionClaim kBob = {.host = "desk", .user = "bob", .owner = "certificate bob"};

SessionClaim TakingOver(SessionClaim claim) {
  claim.take_over = true;
  return claim;
}
SessionClaim For(SessionClaim claim, int devices) {
  claim.devices = devices;
  return claim;
}

class SessionTableTest : public testing::Test {
 protected:
  SessionTableOptions Options(int devices, bool share) {
    return {.platform = "tpu",
            .address = "127.0.0.1:8470",
            .devices = devices,
            .share = share,
            .clock = &clock_,
            .last_request = [this](const std::string& id) {
              const auto found = last_request_.find(id);
              return found == last_request_.end() ? -1.0 : found->second;
            }};
  }

  base::FakeClock clock_;
  std::map<std::string, double> last_request_;
};

TEST_F(SessionTableTest, OneSessionOwnsAllDevices) {
  SessionTable table(Options(4, false));
  const auto ada = table.Admit(kAda);
  ASSERT_TRUE(ada.ok()) << ada.status();
  EXPECT_EQ(ada->id.size(), 16u);
  EXPECT_THAT(ada->devices, ElementsAre(0, 1, 2, 3));

  clock_.Advance(500);
  last_request_[ada->id] = 320;  // 3 minutes ago
  const absl::Status refused = table.Admit(kBob).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              MatchesRegex("tpu devices of 127.0.0.1:8470 are in use by session [0-9a-f]{8} from "
                           "laptop \\(ada\\) since [0-9]{2}:[0-9]{2}, idle 3 min; wait, or take "
                           "over with --take-over / PENSTOCK_REMOTE_TAKE_OVER=1 if it is yours"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr(ShortId(ada->id)));

  table.Remove(ada->id);
  EXPECT_TRUE(table.Admit(kBob).ok());
}

TEST_F(SessionTableTest, OnlyTheOwnerTakesOver) {
  SessionTable table(Options(4, false));
  const auto first = table.Admit(kAda);
  ASSERT_TRUE(first.ok());
  const absl::Status refused = table.Admit(TakingOver(kBob)).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("belongs to certificate ada, not to certificate bob"),
                    HasSubstr("wait until it ends")));

  const auto taken = table.Admit(TakingOver(kAda));
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_THAT(taken->ends, ElementsAre(first->id));
  EXPECT_EQ(table.size(), 1u) << "nothing is admitted before the other session has ended";
  table.Remove(first->id);
  const auto again = table.Admit(TakingOver(kAda));
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->ends.empty());
  EXPECT_NE(again->id, first->id);
}

TEST_F(SessionTableTest, SharingGivesEverySessionItsOwnDevices) {
  SessionTable table(Options(8, true));
  const auto three = table.Admit(For(kAda, 3)), two = table.Admit(For(kBob, 2));
  ASSERT_TRUE(three.ok() && two.ok());
  EXPECT_THAT(three->devices, ElementsAre(0, 1, 2));
  EXPECT_THAT(two->devices, ElementsAre(3, 4));
  const absl::Status refused = table.Admit(For(kBob, 4)).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("3 of 8 tpu devices of 127.0.0.1:8470 are free, but 4 are requested"),
                    HasSubstr("from laptop (ada)"), HasSubstr("from desk (bob)"),
                    HasSubstr("ask for fewer, or take over yours with --take-over")));
  table.Remove(three->id);
  const auto rest = table.Admit(kAda);
  ASSERT_TRUE(rest.ok());
  EXPECT_THAT(rest->devices, ElementsAre(0, 1, 2, 5, 6, 7));
  EXPECT_THAT(std::string(table.Admit(kAda).status().message()), HasSubstr("0 of 8 tpu devices"));
  // Bob gets his own back, not Ada's.
  const auto taken = table.Admit(TakingOver(For(kBob, 2)));
  ASSERT_TRUE(taken.ok());
  EXPECT_THAT(taken->ends, ElementsAre(two->id));
}

// A restart of one of several trainings must not end the others.
TEST_F(SessionTableTest, TakesOverSessionsWithoutClientFirst) {
  SessionTable table(Options(4, true));
  const auto first = table.Admit(For(kAda, 1)), second = table.Admit(For(kAda, 3));
  ASSERT_TRUE(first.ok() && second.ok());
  table.SetConnected(second->id, false);
  EXPECT_THAT(table.Admit(TakingOver(For(kAda, 3)))->ends, ElementsAre(second->id));
  EXPECT_THAT(table.Admit(TakingOver(kAda))->ends, ElementsAre(second->id));
  EXPECT_THAT(table.Admit(TakingOver(For(kAda, 4)))->ends, ElementsAre(first->id, second->id));
}

TEST_F(SessionTableTest, LimitsTheNumberOfSessions) {
  SessionTableOptions options = Options(8, true);
  options.max_sessions = 2;
  SessionTable table(options);
  ASSERT_TRUE(table.Admit(For(kAda, 1)).ok());
  ASSERT_TRUE(table.Admit(For(kAda, 1)).ok());
  const absl::Status refused = table.Admit(For(kBob, 1)).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("has 2 sessions, which is its limit"));
}

TEST_F(SessionTableTest, RejectsNumbersOfDevicesThatItLacks) {
  SessionTable table(Options(4, true));
  for (const int devices : {-1, 5, INT32_MAX, INT32_MIN}) {
    EXPECT_EQ(table.Admit(For(kAda, devices)).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(SessionTableTest, IdleTimeCountsFromTheLastRequest) {
  SessionTable table(Options(1, false));
  const auto ada = table.Admit(kAda);
  ASSERT_TRUE(ada.ok());
  clock_.Advance(10);
  EXPECT_EQ(table.IdleSeconds(table.List()[0]), 10);
  last_request_[ada->id] = 8;
  EXPECT_EQ(table.IdleSeconds(table.List()[0]), 2);
  EXPECT_EQ(LegibleSeconds(59), "59 s");
  EXPECT_EQ(LegibleSeconds(60), "1 min");
  EXPECT_EQ(LegibleSeconds(7300), "2 h");
  EXPECT_EQ(LegibleSeconds(-1), "0 s");
}

TEST_F(SessionTableTest, SaysThatTheClientIsDisconnected) {
  SessionTable table(Options(1, false));
  const auto ada = table.Admit(kAda);
  ASSERT_TRUE(ada.ok());
  table.SetConnected(ada->id, false);
  EXPECT_THAT(std::string(table.Admit(kBob).status().message()),
              HasSubstr("its client is disconnected"));
}

TEST_F(SessionTableTest, EscapesWhatClientsCallThemselves) {
  SessionTable table(Options(1, false));
  ASSERT_TRUE(
      table.Admit({.host = "\x1b[2J\n", .user = std::string(5000, 'x'), .owner = "o"}).ok());
  const std::string refused(table.Admit(kBob).status().message());
  EXPECT_THAT(refused, HasSubstr("from \\x1b[2J\\n (xxx"));
  EXPECT_LT(refused.size(), 400u);
}

TEST_F(SessionTableTest, IdsAreRandom) {
  SessionTable table(Options(1, false));
  std::set<std::string> ids;
  for (int i = 0; i < 100; ++i) {
    const auto admitted = table.Admit(kAda);
    ASSERT_TRUE(admitted.ok());
    ids.insert(admitted->id);
    table.Remove(admitted->id);
  }
  EXPECT_EQ(ids.size(), 100u);
}

}  // namespace
}  // namespace session_table_test
}  // namespace penstock::remote
