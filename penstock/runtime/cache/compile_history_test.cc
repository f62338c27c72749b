#include "penstock/runtime/cache/compile_history.h"

#include <gmock/gmock.h>

#include "penstock/ir/ops.h"

namespace penstock::runtime {
namespace compile_history_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

struct Step {
  int64_t rows = 128;
  base::DType dtype = base::DType::kF32;
  bool extra = false;  // one more parameter
  bool tanh = false;   // one more operation
  int line = 1;        // line in the user's program
  const char* name = "step";
};

ir::Program Make(const Step& step) {
  ir::Graph graph(step.name);
  const ir::Value w = graph.Parameter({base::DType::kF32, {4, 4}}, "w");
  const ir::Value x = graph.Parameter({step.dtype, {step.rows, 4}}, "x");
  const ir::Scope scope(graph, "dense", base::SourceLocation{"net.cc", step.line});
  ir::Value y = ir::MatMul(ir::Convert(x, base::DType::kF32), w);
  if (step.extra) y = y + graph.Parameter({base::DType::kF32, {}}, "rate");
  if (step.tanh) y = ir::Tanh(y);
  graph.SetResults({y});
  const absl::StatusOr<ir::Program> program = ir::PrintStableHlo(graph);
  EXPECT_TRUE(program.ok()) << program.status();
  return *program;
}

TEST(CompileHistory, FirstProgramOfNameHasNoReason) {
  CompileHistory history;
  EXPECT_THAT(history.Add(Make({})), IsEmpty());
  EXPECT_THAT(history.Add(Make({.name = "another"})), IsEmpty());
}

TEST(CompileHistory, NamesTheArgumentAndItsShapes) {
  CompileHistory history;
  history.Add(Make({}));
  EXPECT_EQ(history.Add(Make({.rows = 100})), "argument 'x' changed from f32[128,4] to f32[100,4]");
}

TEST(CompileHistory, NamesTheArgumentAndItsTypes) {
  CompileHistory history;
  history.Add(Make({}));
  EXPECT_EQ(history.Add(Make({.dtype = base::DType::kU8})),
            "argument 'x' changed from f32[128,4] to ui8[128,4]");
}

TEST(CompileHistory, NamesAddedAndRemovedArguments) {
  CompileHistory history;
  history.Add(Make({}));
  EXPECT_EQ(history.Add(Make({.extra = true})),
            "the number of arguments changed from 2 to 3, argument 'rate' is new");
  CompileHistory other;
  other.Add(Make({.extra = true}));
  EXPECT_EQ(other.Add(Make({})),
            "the number of arguments changed from 3 to 2, argument 'rate' is gone");
}

TEST(CompileHistory, NamesChangedLayer) {
  CompileHistory history;
  history.Add(Make({.line = 7}));
  EXPECT_EQ(history.Add(Make({.tanh = true, .line = 8})),
            "the program itself changed, first in layer \"dense\" (net.cc:8)");
}

TEST(CompileHistory, NamesUnknownOption) {
  CompileHistory history;
  history.Add(Make({}), {.xla_flags = {{"a", "1"}, {"b", "2"}}});
  EXPECT_EQ(history.Add(Make({}), {.xla_flags = {{"a", "3"}, {"c", "4"}}}),
            "option a changed from 1 to 3, option c changed from not set to 4, option b changed "
            "from 2 to not set");
  CompileHistory devices;
  devices.Add(Make({}), {.devices = {0, 1}});
  EXPECT_EQ(devices.Add(Make({}), {.devices = {0, 2}}), "the devices changed from 0, 1 to 0, 2");
}

TEST(CompileHistory, ReportsNoChangeWhenLayerMoves) {
  CompileHistory history;
  history.Add(Make({.line = 1}));
  EXPECT_THAT(history.Add(Make({.line = 2})), HasSubstr("nothing changed"));
}

// The latest program differs in three places, an earlier one in only one.
TEST(CompileHistory, ComparesWithMostSimilarProgram) {
  CompileHistory history;
  history.Add(Make({}));
  history.Add(Make({.rows = 7, .dtype = base::DType::kU8, .extra = true}));
  EXPECT_EQ(history.Add(Make({.rows = 100})), "argument 'x' changed from f32[128,4] to f32[100,4]");
}

TEST(CompileHistory, NamesFewOfManyChanges) {
  const auto program = [](int64_t extent) {
    ir::Graph graph("many");
    std::vector<ir::Value> values;
    for (int i = 0; i < 8; ++i) {
      values.push_back(graph.Parameter({base::DType::kF32, {extent}}, absl::StrCat("p", i)));
    }
    graph.SetResults(values);
    return *ir::PrintStableHlo(graph);
  };
  CompileHistory history;
  history.Add(program(1));
  EXPECT_THAT(history.Add(program(2)),
              AllOf(HasSubstr("'p2' changed from f32[1] to f32[2], and 5 more changed"),
                    Not(HasSubstr("'p3'"))));
}

TEST(CompileHistory, RepeatedRecompilesUseLittleMemory) {
  CompileHistory history;
  for (int i = 1; i <= 40; ++i) history.Add(Make({.rows = i}));
  // The oldest programs are dropped, so an equally similar one is named.
  EXPECT_THAT(history.Add(Make({.rows = 1})), HasSubstr("to f32[1,4]"));
  EXPECT_THAT(history.Add(Make({.rows = 40})), HasSubstr("nothing changed"));
}

}  // namespace compile_history_test
}  // namespace penstock::runtime
