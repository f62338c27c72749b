// Runs every row of the parity table: Penstock's results must equal those of Keras on JAX, which
// expect.py computes first. There is one GoogleTest case per row:
//
//   build/release/tests/parity_test --gtest_filter='*Conv2D*same*'
//
// Rows of the same kind share compiled programs, a few dozen rows each.
// PENSTOCK_PARITY_EXPECTED=FOLDER reuses the output of expect.py in FOLDER/0, FOLDER/1, ..., or
// stores it there if it is missing, which saves minutes. PENSTOCK_PARITY_ONLY=TEXT selects rows
// (see expect.py).
//
// Some random rows follow the table. PENSTOCK_PARITY_RANDOM=SEED,COUNT runs other random rows
// instead of the table; tools/fuzz_keras does so for a given time.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/status.h"
#include "penstock/base/thread_pool.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/testing/run.h"
#include "penstock/nn/activations.h"
#include "penstock/nn/constraints.h"
#include "penstock/nn/layers.h"
#include "penstock/nn/losses.h"
#include "penstock/nn/metrics.h"
#include "penstock/nn/names.h"
#include "penstock/nn/optimizer.h"
#include "penstock/nn/regularizers.h"
#include "penstock/nn/schedules.h"

#include "tests/compile_fast.h"
#include "tests/parity/kinds.h"
#include "tests/python.h"

namespace penstock::tests {
namespace {

constexpr size_t kRowsPerProgram = 32;

// What Keras does not have (names of layer classes, losses, metrics...): tested against formulas,
// beside the code.
const std::set<std::string> kNotInKeras = {};

std::vector<std::string> InKeras(std::vector<std::string> names) {
  std::erase_if(names, [](const std::string& name) { return kNotInKeras.count(name) > 0; });
  return names;
}

struct Expectation {
  std::string name;
  base::Array want, got;
};

// Result of a row.
struct Outcome {
  absl::Status status;
  std::vector<Expectation> expectations;
};

class SharedProgram : public RowBuilder {
 public:
  ir::Graph& graph() override { return graph_; }
  ir::Value Input(const base::Array& value) override {
    inputs_.push_back(value);
    return graph_.Parameter({value.dtype(), value.shape()}, absl::StrCat("x", inputs_.size()));
  }
  void Expect(const std::string& name, ir::Value got, const base::Array& want) override {
    results_.push_back(got);
    outcome_->expectations.push_back({name, want, {}});
  }

  absl::Status Add(BuildRow build, const Row& row, Outcome& outcome) {
    outcome_ = &outcome;
    PENSTOCK_RETURN_IF_ERROR(build(row, *this));
    return graph_.status();
  }
  absl::StatusOr<std::vector<base::Array>> Run() {
    graph_.SetResults(results_);
    return ir::testing::Run(graph_, inputs_);
  }

 private:
  ir::Graph graph_{"parity"};
  std::vector<base::Array> inputs_;
  ir::Values results_;
  Outcome* outcome_ = nullptr;
};

// Computes `rows` in one program. A row that cannot be built fails alone.
std::vector<Outcome> Compute(BuildRow build, absl::Span<const Row* const> rows) {
  std::vector<Outcome> outcomes(rows.size());
  SharedProgram program;
  for (size_t i = 0; i < rows.size(); ++i) {
    Outcome scratch;
    outcomes[i].status = SharedProgram().Add(build, *rows[i], scratch);
    if (outcomes[i].status.ok()) outcomes[i].status = program.Add(build, *rows[i], outcomes[i]);
  }
  const auto results = program.Run();
  size_t next = 0;
  for (Outcome& outcome : outcomes) {
    if (outcome.status.ok()) outcome.status = results.status();
    if (!outcome.status.ok()) continue;
    for (Expectation& e : outcome.expectations) e.got = (*results)[next++];
  }
  return outcomes;
}

// Rows that share a program, which is computed ahead of the tests, or when the first result is
// needed.
class Group {
 public:
  explicit Group(BuildRow build) : build_(build) {}

  size_t Add(const Row* row) {
    rows_.push_back(row);
    return rows_.size() - 1;
  }
  size_t size() const { return rows_.size(); }
  void Compute() {
    std::call_once(computed_, [&] { outcomes_ = tests::Compute(build_, rows_); });
  }
  const Outcome& Get(size_t index) {
    Compute();
    return outcomes_[index];
  }

 private:
  BuildRow build_;
  std::vector<const Row*> rows_;
  std::once_flag computed_;
  std::vector<Outcome> outcomes_;
};

// Computes groups ahead of the tests on another thread, last group first, because compilation takes
// most of the time.
class Ahead : public ::testing::EmptyTestEventListener {
 public:
  // `test`: a test of the group, e.g. "layer.12_Dense".
  void Add(const std::string& test, std::shared_ptr<Group> group) {
    groups_.emplace_back(test, std::move(group));
  }
  void OnTestProgramStart(const ::testing::UnitTest& tests) override {
    std::set<std::string> chosen;
    for (int i = 0; i < tests.total_test_suite_count(); ++i) {
      const ::testing::TestSuite& suite = *tests.GetTestSuite(i);
      for (int k = 0; k < suite.total_test_count(); ++k) {
        const ::testing::TestInfo& test = *suite.GetTestInfo(k);
        if (test.should_run()) chosen.insert(absl::StrCat(suite.name(), ".", test.name()));
      }
    }
    thread_ = std::thread([this, chosen = std::move(chosen)] {
      for (auto at = groups_.rbegin(); at != groups_.rend(); ++at) {
        if (chosen.count(at->first) > 0) at->second->Compute();
      }
    });
  }
  void OnTestProgramEnd(const ::testing::UnitTest&) override { thread_.join(); }

 private:
  std::vector<std::pair<std::string, std::shared_ptr<Group>>> groups_;
  std::thread thread_;
};

class SharedRowTest : public ::testing::Test {
 public:
  SharedRowTest(std::shared_ptr<Group> group, size_t index, const Row* row)
      : group_(std::move(group)), index_(index), row_(row) {}
  void TestBody() override {
    const Outcome& outcome = group_->Get(index_);
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_FALSE(outcome.expectations.empty());
    for (const Expectation& e : outcome.expectations) {
      EXPECT_EQ(Difference(e.name, e.got, e.want, row_->tolerance(), row_->min_scale()), "");
    }
  }

 private:
  std::shared_ptr<Group> group_;
  size_t index_;
  const Row* row_;
};

class TrainingRowTest : public ::testing::Test {
 public:
  explicit TrainingRowTest(const Row* row) : row_(row) {}
  void TestBody() override {
    const absl::StatusOr<std::string> differences = CheckTraining(*row_);
    ASSERT_TRUE(differences.ok()) << differences.status();
    EXPECT_EQ(*differences, "");
  }

 private:
  const Row* row_;
};

// GoogleTest names contain only letters, digits, and underscores.
std::string TestName(size_t index, const Row& row) {
  std::string name = absl::StrCat(index, "_");
  for (char c : row.name()) {
    if (std::isalnum(static_cast<unsigned char>(c))) {
      name += c;
    } else if (name.back() != '_') {
      name += '_';
    }
  }
  return name;
}

void Register(const std::vector<Row>& rows, Ahead& ahead) {
  const std::map<std::string, BuildRow> kinds = {
      {"layer", BuildLayer},           {"loss", BuildLoss},
      {"metric", BuildMetric},         {"schedule", BuildSchedule},
      {"optimizer", BuildOptimizer},   {"regularizer", BuildRegularizer},
      {"constraint", BuildConstraint},
  };
  std::map<std::string, std::shared_ptr<Group>> groups;
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row* row = &rows[i];
    const std::string kind = row->kind(), name = TestName(i, *row);
    const auto build = kinds.find(kind);
    if (build == kinds.end()) {
      PENSTOCK_CHECK(kind == "training");
      ::testing::RegisterTest("training", name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                              [row]() -> ::testing::Test* { return new TrainingRowTest(row); });
      continue;
    }
    std::shared_ptr<Group>& group = groups[kind];
    if (group == nullptr || group->size() == kRowsPerProgram) {
      group = std::make_shared<Group>(build->second);
    }
    const size_t index = group->Add(row);
    ahead.Add(absl::StrCat(kind, ".", name), group);
    ::testing::RegisterTest(
        kind.c_str(), name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
        [group, index, row]() -> ::testing::Test* { return new SharedRowTest(group, index, row); });
  }
}

// The table must contain everything that Penstock has.
class CompletenessTest : public ::testing::Test {
 public:
  explicit CompletenessTest(const std::vector<Row>* rows) : rows_(rows) {}
  void TestBody() override {
    std::set<std::string> layers, activations, losses, metrics;
    std::map<std::string, std::set<std::string>> losses_by_reduction;
    for (const Row& row : *rows_) {
      if (row.kind() == "loss") {
        const auto loss = nn::Loss::FromName(row.spec["loss"].get<std::string>());
        AddName(loss, losses);
        const auto reduction = row.spec["config"].find("reduction");
        if (reduction != row.spec["config"].end())
          AddName(loss, losses_by_reduction[reduction->get<std::string>()]);
      }
      if (row.kind() == "metric") AddName(nn::Metric::FromJson(row.spec["metric"]), metrics);
      if (row.kind() != "layer") continue;
      layers.insert(row.spec["class"].get<std::string>());
      if (row.spec["class"] != "Activation") continue;
      const std::string activation = row.spec["config"]["activation"];
      activations.insert(activation.substr(0, activation.find('(')));
    }
    std::set<std::string> optimizers, schedules, regularizers, constraints;
    for (const Row& row : *rows_) {
      const auto name = [&](const char* key) { return row.spec[key]["class_name"]; };
      if (row.kind() == "optimizer") optimizers.insert(name("optimizer"));
      if (row.kind() == "schedule") schedules.insert(name("schedule"));
      if (row.kind() == "regularizer") regularizers.insert(nn::SnakeCase(name("regularizer")));
      if (row.kind() == "constraint") constraints.insert(nn::SnakeCase(name("constraint")));
    }
    optimizers.erase("LossScaleOptimizer");  // wraps another optimizer
    EXPECT_THAT(InKeras(nn::OptimizerNames()), ::testing::UnorderedElementsAreArray(optimizers));
    EXPECT_THAT(InKeras(nn::ScheduleNames()), ::testing::UnorderedElementsAreArray(schedules));
    EXPECT_EQ(InKeras(nn::RegularizerNames()).size(), regularizers.size());
    EXPECT_EQ(InKeras(nn::ConstraintNames()).size(), constraints.size());
    for (const char* network : {"Sequential", "Functional"}) layers.insert(network);  // containers
    EXPECT_THAT(InKeras(nn::LayerClassNames()), ::testing::UnorderedElementsAreArray(layers));
    for (const char* alias : {"swish", "hard_swish"}) activations.erase(alias);
    EXPECT_THAT(InKeras(nn::ActivationNames()), ::testing::UnorderedElementsAreArray(activations));
    EXPECT_THAT(InKeras(nn::Loss::Names()), ::testing::UnorderedElementsAreArray(losses));
    losses.erase("crossentropy");  // a name for strings, without options
    for (const char* reduction : {"sum", "mean_with_sample_weight", "none"})
      EXPECT_EQ(losses_by_reduction[reduction], losses) << reduction;
    EXPECT_THAT(InKeras(nn::Metric::Names()), ::testing::UnorderedElementsAreArray(metrics));
  }

 private:
  // Uses its own name, whatever the row calls it.
  template <typename T>
  static void AddName(const absl::StatusOr<T>& made, std::set<std::string>& names) {
    if (made.ok()) names.insert(std::string(made->body()->name()));
  }

  const std::vector<Row>* rows_;
};

// Computes all rows with Keras, in one process per core.
absl::StatusOr<std::vector<Row>> ExpectedRows(const std::string& folder) {
  std::vector<std::future<absl::Status>> parts;
  std::vector<Row> rows;
  if (!std::filesystem::exists(folder + "/0")) {
    const int count = std::clamp(base::NumCores(), 1, 4);
    for (int part = 0; part < count; ++part) {
      parts.push_back(std::async(std::launch::async, [=] {
        return RunPython("parity/expect.py", {absl::StrCat(folder, "/", part), absl::StrCat(part),
                                              absl::StrCat(count)});
      }));
    }
  }
  absl::Status status;
  for (auto& part : parts) status.Update(part.get());
  PENSTOCK_RETURN_IF_ERROR(status);
  for (int part = 0;; ++part) {
    const std::string from = absl::StrCat(folder, "/", part);
    if (!std::filesystem::exists(from)) return rows;
    PENSTOCK_ASSIGN_OR_RETURN(std::vector<Row> read, ReadRows(from));
    std::move(read.begin(), read.end(), std::back_inserter(rows));
  }
}

int Main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  ::setenv("XLA_FLAGS", kCompileFast, /*overwrite=*/0);
  const TemporaryFolder folder;
  const char* const given = std::getenv("PENSTOCK_PARITY_EXPECTED");
  const absl::StatusOr<std::vector<Row>> rows =
      ExpectedRows(given != nullptr ? given : folder.path().string());
  if (!rows.ok()) {
    std::fprintf(stderr, "%s\n", rows.status().ToString().c_str());
    return 1;
  }
  auto ahead = std::make_unique<Ahead>();
  Register(*rows, *ahead);
  ::testing::UnitTest::GetInstance()->listeners().Append(ahead.release());
  if (std::getenv("PENSTOCK_PARITY_RANDOM") != nullptr) return RUN_ALL_TESTS();
  ::testing::RegisterTest("table", "NamesEverything", nullptr, nullptr, __FILE__, __LINE__,
                          [&]() -> ::testing::Test* { return new CompletenessTest(&*rows); });
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace penstock::tests

int main(int argc, char** argv) { return penstock::tests::Main(argc, argv); }
