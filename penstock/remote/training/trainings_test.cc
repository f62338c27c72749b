#include "penstock/remote/training/trainings.h"

#include <csignal>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <sys/resource.h>

namespace penstock::remote {
namespace trainings_test {

using testing::AllOf;
using testing::HasSubstr;

// The training's process is a shell; its one argument is the script.
class TrainingsTest : public testing::Test {
 protected:
  TrainingsTest() {
    std::string pattern = testing::TempDir() + "trainings_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    Open();
  }
  ~TrainingsTest() override {
    trainings_ = nullptr;
    std::filesystem::remove_all(folder_);
  }

  void Open() {
    trainings_ = nullptr;
    auto opened = Trainings::Open(
        {.folder = folder_, .command = {"/bin/sh", "-c"}, .environment = {}, .on_ended = {}});
    ASSERT_TRUE(opened.ok()) << opened.status();
    trainings_ = *std::move(opened);
  }
  std::string Start(char name, const std::string& script) {
    TrainingRecord record{.id = std::string(16, name), .arguments = {script}};
    EXPECT_TRUE(trainings_->Start(record).ok());
    return record.id;
  }
  TrainingReply AwaitEnd(const std::string& id) {
    EXPECT_TRUE(trainings_->AwaitEnd(id, 100));
    auto reply = trainings_->Follow(ShortId(id), 0);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.value_or(TrainingReply());
  }
  // Until it has printed this.
  void AwaitOutput(const std::string& id, const std::string& text) {
    for (;;) {
      const auto reply = trainings_->Follow(ShortId(id), 0);
      ASSERT_TRUE(reply.ok()) << reply.status();
      ASSERT_NE(reply->training().state(), TrainingInfo::ENDED) << reply->output();
      if (absl::StrContains(reply->output(), text)) return;
    }
  }

  std::string folder_;
  std::unique_ptr<Trainings> trainings_;
};

TEST_F(TrainingsTest, AnswersCanBeReadWhateverATrainingIsCalledAndPrints) {
  // The command line is cut within a character of one of the two.
  for (const std::string odd : {"", "x"}) {
    std::string name = odd;
    for (int i = 0; i < 400; ++i) name += "\u0436";
    const TrainingReply reply =
        AwaitEnd(Start(odd.empty() ? 'a' : 'b', ": '" + name + "'; printf 'caf\\351\\n'; exit 3"));
    TrainingReply read;
    EXPECT_TRUE(read.ParseFromString(reply.SerializeAsString()));
    EXPECT_THAT(read.training().end(), HasSubstr("caf\uFFFD"));
  }
}

TEST_F(TrainingsTest, OneThatADrainingWorkerAcceptedNoSessionOfIsStartedAgain) {
  const std::string id = Start('a', "until [ -e " + folder_ + "/go ]; do :; done; exit 1");
  trainings_->Drain();
  std::ofstream(folder_ + "/go") << "go";
  EXPECT_TRUE(trainings_->AwaitEnd(id, 100));
  Open();
  ASSERT_EQ(trainings_->Unfinished().size(), 1u);
  EXPECT_EQ(trainings_->Unfinished()[0].id, id);
}

TEST_F(TrainingsTest, SaysHowATrainingEnded) {
  const TrainingReply good = AwaitEnd(Start('a', "echo one; echo two >&2"));
  EXPECT_EQ(good.output(), "one\ntwo\n");
  EXPECT_EQ(good.training().state(), TrainingInfo::ENDED);
  EXPECT_EQ(good.training().exit_code(), 0);
  const TrainingReply bad = AwaitEnd(Start('b', "echo first; echo the reason; exit 3"));
  EXPECT_EQ(bad.training().exit_code(), 3);
  EXPECT_EQ(bad.training().end(), "failed with exit code 3: the reason");
  const TrainingReply killed = AwaitEnd(Start('c', "kill -9 $$"));
  EXPECT_EQ(killed.training().exit_code(), 128 + SIGKILL);
  EXPECT_THAT(killed.training().end(), HasSubstr("SIGKILL"));
  // Also in the worker's next run.
  Open();
  EXPECT_TRUE(trainings_->Unfinished().empty());
  EXPECT_EQ(trainings_->List().size(), 3u);
  EXPECT_EQ(AwaitEnd(std::string(16, 'b')).output(), "first\nthe reason\n");
}

TEST_F(TrainingsTest, FollowsFromAnyOffset) {
  const std::string id = Start('a', "echo 0123456789");
  AwaitEnd(id);
  const auto part = [&](int64_t offset) {
    return trainings_->Follow(ShortId(id), offset)->output();
  };
  EXPECT_EQ(part(0), "0123456789\n");
  EXPECT_EQ(part(4), "456789\n");
  EXPECT_EQ(part(-3), "89\n");
  EXPECT_EQ(part(-100), "0123456789\n");
  EXPECT_EQ(part(INT64_MAX), "");
  EXPECT_EQ(trainings_->Follow(ShortId(id), INT64_MAX)->offset(), 11);
  EXPECT_THAT(std::string(trainings_->Follow("00000000", 0).status().message()),
              AllOf(HasSubstr("no training '00000000'"), HasSubstr(ShortId(id))));
}

// A process that the training leaves behind holds its output, and prints on and on.
TEST_F(TrainingsTest, EndsWithItsProcessAndNotWithThoseThatItLeaves) {
  const std::string file = folder_ + "/process";
  const TrainingReply reply =
      AwaitEnd(Start('a', absl::StrCat("yes & echo $! > ", file, "; echo mine")));
  EXPECT_EQ(reply.training().state(), TrainingInfo::ENDED);
  pid_t left = 0;
  ASSERT_TRUE(std::ifstream(file) >> left);
  ::kill(left, SIGKILL);  // SIGPIPE may have ended it
}

TEST_F(TrainingsTest, OutputOfATrainingIsBounded) {
  const std::string id =
      Start('a', "yes 0123456789abcdefghijklmnopqrstuvwxyz | head -c 40000000; echo; echo last");
  const TrainingReply reply = AwaitEnd(id);
  EXPECT_EQ(reply.training().output_bytes(), 40000000 + 1 + 5);
  EXPECT_GE(reply.dropped(), reply.training().output_bytes() - TrainingOutput::kMaxBytes);
  EXPECT_EQ(reply.offset(), reply.dropped() + Trainings::kMaxOutput);
  EXPECT_EQ(trainings_->Follow(ShortId(id), -5)->output(), "last\n");
  int64_t bytes = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder_)) {
    if (file.is_regular_file()) bytes += static_cast<int64_t>(file.file_size());
  }
  EXPECT_LE(bytes, TrainingOutput::kMaxBytes + 10000);
}

TEST_F(TrainingsTest, StopsBySigtermAndThenBySigkill) {
  const std::string id =
      Start('a', "trap 'echo saved; exit 75' TERM; echo ready; while :; do :; done");
  AwaitOutput(id, "ready");
  EXPECT_TRUE(trainings_->Stop(id).ok());
  const TrainingReply reply = AwaitEnd(id);
  EXPECT_EQ(reply.training().exit_code(), 75);
  EXPECT_THAT(reply.training().end(), HasSubstr("saved a checkpoint and stopped"));
  EXPECT_TRUE(absl::IsFailedPrecondition(trainings_->Stop(id)));
  EXPECT_TRUE(absl::IsNotFound(trainings_->Stop(std::string(16, 'x'))));

  const std::string deaf = Start('b', "trap '' TERM; echo ready; while :; do :; done");
  AwaitOutput(deaf, "ready");
  EXPECT_TRUE(trainings_->Stop(deaf).ok());
  EXPECT_TRUE(trainings_->IsRunning(deaf));
  EXPECT_TRUE(trainings_->Stop(deaf).ok());
  const TrainingReply killed = AwaitEnd(deaf);
  EXPECT_EQ(killed.training().exit_code(), 128 + SIGKILL);
  EXPECT_THAT(killed.training().end(), HasSubstr("did not end in time"));

  // One that does not handle SIGTERM yet.
  const std::string early = Start('c', "echo ready; while :; do :; done");
  AwaitOutput(early, "ready");
  EXPECT_TRUE(trainings_->Stop(early).ok());
  EXPECT_EQ(AwaitEnd(early).training().exit_code(), 75);
  EXPECT_THAT(AwaitEnd(early).training().end(), HasSubstr("before its first step"));
}

// A take-over after `attach --stop` must not cut the save short.
// A disk that is full when a training is stopped (the limit of a file's size stands for it): the next run of the worker
// must not go on with the training.
TEST_F(TrainingsTest, NotesAStopWhenThereIsRoomAgain) {
  const std::string id =
      Start('f', "trap 'exit 75' TERM; echo ready; while :; do sleep 0.01; done");
  AwaitOutput(id, "ready\n");
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit full = {.rlim_cur = 0, .rlim_max = before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  const absl::Status stopped = trainings_->Stop(id);
  EXPECT_TRUE(trainings_->AwaitEnd(id, 100));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(std::string(stopped.message()),
              HasSubstr("is asked to stop, but that could not be noted"));
  Open();
  EXPECT_TRUE(trainings_->Unfinished().empty());
  EXPECT_EQ(AwaitEnd(id).training().exit_code(), 75);
}

TEST_F(TrainingsTest, AsksOnceAndKillsWithAReason) {
  const std::string id = Start('a', "trap 'echo asked' TERM; echo ready; while :; do :; done");
  AwaitOutput(id, "ready");
  EXPECT_TRUE(trainings_->Stop(id).ok());
  EXPECT_TRUE(trainings_->AskToStop(id).ok());
  AwaitOutput(id, "asked");
  EXPECT_TRUE(trainings_->IsRunning(id));
  trainings_->Kill(id, "was killed for a reason");
  const TrainingReply reply = AwaitEnd(id);
  EXPECT_EQ(reply.training().exit_code(), 128 + SIGKILL);
  EXPECT_EQ(reply.training().end(), "was killed for a reason");
  EXPECT_THAT(reply.output(), HasSubstr("worker: was killed for a reason"));
  trainings_->Kill(id, "again");
  EXPECT_EQ(AwaitEnd(id).training().end(), "was killed for a reason");
}

TEST_F(TrainingsTest, NextRunOfTheWorkerGoesOn) {
  const std::string id = Start('a', "echo begun; test -e done && exit 0; while :; do :; done");
  AwaitOutput(id, "begun");
  for (int lost = 1; lost <= Trainings::kMaxLosses; ++lost) {
    Open();  // kills it, as the end of the worker's process does
    ASSERT_EQ(trainings_->Unfinished().size(), 1u) << lost;
    EXPECT_TRUE(trainings_->Start(trainings_->Unfinished()[0], /*lost=*/true).ok());
  }
  Open();
  EXPECT_FALSE(trainings_->Start(trainings_->Unfinished()[0], /*lost=*/true).ok());
  EXPECT_TRUE(trainings_->Unfinished().empty());
  const TrainingReply reply = AwaitEnd(id);
  EXPECT_THAT(reply.output(), HasSubstr("worker: was lost, and has started again"));
  EXPECT_THAT(reply.training().end(), HasSubstr("was lost 4 times"));
  EXPECT_EQ(reply.training().starts(), 1 + Trainings::kMaxLosses);
}

TEST_F(TrainingsTest, IgnoresDamagedRecords) {
  AwaitEnd(Start('a', "true"));
  const std::string file = absl::StrCat(folder_, "/", std::string(32, '6').replace(1, 1, "1"));
  for (const char* const text : {"", "{", "{}", "[1]", "{\"training\": 7}"}) {
    EXPECT_TRUE(absl::IsDataLoss(TrainingRecordFromJson(text).status())) << text;
  }
  std::filesystem::create_directories(file);
  Open();
  EXPECT_EQ(trainings_->List().size(), 1u);
}

}  // namespace trainings_test
}  // namespace penstock::remote
