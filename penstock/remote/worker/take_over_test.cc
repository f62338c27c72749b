#include "penstock/remote/worker/take_over.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace penstock::remote {
namespace take_over_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class TakeOversTest : public testing::Test {
 protected:
  TakeOvers::Verdict Look(const std::string& compiling, int64_t step) {
    return take_overs_.Look(kId, {.compiling = compiling, .step = step});
  }
  const std::string kId = std::string(16, 'O');
  base::FakeClock clock_;
  TakeOvers take_overs_{{.nothing_seconds = 8, .save_seconds = 100, .compile_seconds = 600},
                        &clock_};
};

TEST_F(TakeOversTest, KillsFirstCompileAtOnceSinceNothingIsLost) {
  EXPECT_TRUE(take_overs_.Begin(kId, "ada at laptop"));
  const TakeOvers::Verdict verdict = Look("train_step", 0);
  EXPECT_TRUE(verdict.kill);
  EXPECT_THAT(verdict.words, AllOf(HasSubstr("while it compiled train_step"),
                                   HasSubstr("because ada at laptop took over"),
                                   HasSubstr("nothing is lost"), Not(HasSubstr("checkpoint"))));
}

TEST_F(TakeOversTest, KillsTrainingWithoutStepThatDoesNotEnd) {
  take_overs_.Begin(kId, "ada");
  EXPECT_FALSE(Look("", 0).kill);
  clock_.Advance(7);
  EXPECT_FALSE(Look("", 0).kill);
  clock_.Advance(1);
  EXPECT_TRUE(Look("", 0).kill);
  EXPECT_THAT(Look("", 0).words, HasSubstr("nothing is lost"));
}

TEST_F(TakeOversTest, WaitsForLaterCompileAndThenForTheSave) {
  take_overs_.Begin(kId, "ada");
  clock_.Advance(590);
  const std::string waits = Look("eval_step", 1240).words;
  EXPECT_THAT(waits,
              AllOf(HasSubstr("training 4f4f4f4f compiles eval_step, and saves a checkpoint"),
                    HasSubstr("gives up at ")));
  // The text is the same as long as the reason is: the client prints it once.
  clock_.Advance(1);
  EXPECT_EQ(Look("eval_step", 1240).words, waits);
  // The time to save begins when the compile ends, whenever that is.
  clock_.Advance(8);
  EXPECT_FALSE(Look("eval_step", 1240).kill);
  clock_.Advance(99);
  EXPECT_FALSE(Look("", 1240).kill);
  EXPECT_THAT(Look("", 1240).words, HasSubstr("saves a checkpoint and ends; gives up at "));
  clock_.Advance(1);
  const TakeOvers::Verdict late = Look("", 1240);
  EXPECT_TRUE(late.kill);
  EXPECT_THAT(late.words, AllOf(HasSubstr("did not end within 11 min"), HasSubstr("step 1240"),
                                HasSubstr("the steps after its last checkpoint are lost")));
}

TEST_F(TakeOversTest, LimitsCompilesAndSaysWhatIsLost) {
  take_overs_.Begin(kId, "ada");
  EXPECT_FALSE(Look("eval_step", 3).kill);
  clock_.Advance(600);
  const TakeOvers::Verdict verdict = Look("eval_step", 3);
  EXPECT_TRUE(verdict.kill);
  EXPECT_THAT(verdict.words, AllOf(HasSubstr("while it compiled eval_step"), HasSubstr("10 min"),
                                   HasSubstr("are lost")));
}

// A client that asks again continues the same wait; a later take-over starts a new one.
TEST_F(TakeOversTest, BeginsOncePerTraining) {
  EXPECT_TRUE(take_overs_.Begin(kId, "ada"));
  clock_.Advance(600);
  EXPECT_FALSE(take_overs_.Begin(kId, "ada"));
  EXPECT_TRUE(Look("eval_step", 3).kill);
  take_overs_.Forget(kId);
  EXPECT_TRUE(take_overs_.Begin(kId, "ada"));
  EXPECT_FALSE(Look("eval_step", 3).kill);
  take_overs_.Forget("unknown");
}

}  // namespace take_over_test
}  // namespace penstock::remote
