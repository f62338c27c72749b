// Compares random calls of every operation of penstock/ir/ops.h, their gradients, and second
// derivatives with JAX. expect.py draws the cases, checks that no operation is missing, and
// determines the error bounds. PENSTOCK_FUZZ_SECONDS sets the duration (random_cases.h).
//
//   PENSTOCK_RANDOM_SEED=17 PENSTOCK_RANDOM_CASE=43 build/release/tests/operations_random_test
//
// runs one case; PENSTOCK_DUMP_HLO=1 prints its program as well.
#include <cmath>
#include <cstdlib>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "penstock/base/status.h"
#include "penstock/base/testing/random_cases.h"
#include "penstock/io/file_system.h"
#include "penstock/ir/gradients.h"
#include "penstock/ir/stablehlo.h"
#include "penstock/ir/testing/run.h"
#include "penstock/save/save.h"

#include "tests/operations/operations.h"
#include "tests/python.h"

namespace penstock::tests {
namespace {

using base::Array;
using ir::Value;
using ir::Values;

// Compilation takes most of the time, so cases share programs.
constexpr size_t kCasesPerProgram = 24;

const OperationTable& Operations() {
  static const OperationTable table = [] {
    OperationTable all = ElementwiseCalls();
    for (OperationTable family : {ShapeCalls(), ContractionCalls(), ReductionCalls(),
                                  IndexingCalls(), RandomNumberCalls(), ControlFlowCalls()}) {
      all.merge(family);
    }
    return all;
  }();
  return table;
}

// A case written by expect.py.
struct Case {
  nlohmann::json spec;
  base::NamedArrays tensors = {};

  const Array& Get(const std::string& what) const {
    const Array* found = tensors.Find(what);
    PENSTOCK_CHECK(found != nullptr);
    return *found;
  }
};

absl::StatusOr<std::vector<Case>> ReadCases(const std::string& folder) {
  const auto fs = io::FileSystem::Default();
  PENSTOCK_ASSIGN_OR_RETURN(const std::string text, io::ReadFile(*fs, folder + "/cases.json"));
  PENSTOCK_ASSIGN_OR_RETURN(const save::Weights tensors,
                            save::ReadWeights(*fs, folder + "/tensors.safetensors"));
  std::vector<Case> cases;
  for (const auto& spec : nlohmann::json::parse(text)) cases.push_back({spec});
  for (const auto& [name, array] : tensors.arrays) {
    cases[std::stoul(name)].tensors.Append(name.substr(name.find('/') + 1), array);
  }
  return cases;
}

// A program of several cases.
class Program {
 public:
  absl::Status Add(const Case& c) {
    const std::string name = c.spec["operation"];
    const auto build = Operations().find(name);
    if (build == Operations().end()) {
      return absl::NotFoundError(absl::StrCat("tests/operations/*.cc does not call ", name));
    }
    Values inputs, floats;
    std::vector<Array> arrays;
    for (int i = 0; i < c.spec["inputs"].get<int>(); ++i) {
      arrays.push_back(c.Get(absl::StrCat("input/", i)));
      inputs.push_back(Input(arrays.back()));
      if (base::IsFloat(arrays.back().dtype())) floats.push_back(inputs.back());
    }
    const Values results = build->second({graph_, inputs, arrays, c.spec["options"]});
    AddResults(results);
    PENSTOCK_RETURN_IF_ERROR(graph_.status());
    AddGradients(c, results, floats);
    return graph_.status();
  }

  absl::StatusOr<std::vector<Array>> Run() {
    graph_.SetResults(results_);
    PENSTOCK_RETURN_IF_ERROR(graph_.status());
    if (std::getenv("PENSTOCK_DUMP_HLO") != nullptr) {
      PENSTOCK_ASSIGN_OR_RETURN(const ir::Program program, ir::PrintStableHlo(graph_));
      std::cerr << program.text;
    }
    return ir::testing::Run(graph_, arrays_);
  }

 private:
  Value Input(const Array& array) {
    arrays_.push_back(array);
    return graph_.Parameter({array.dtype(), array.shape()}, absl::StrCat("x", arrays_.size()));
  }

  void AddResults(const Values& results) {
    results_.insert(results_.end(), results.begin(), results.end());
  }

  // Adds gradients of the results, then gradients of these gradients.
  void AddGradients(const Case& c, const Values& results, const Values& floats) {
    Values of;
    for (const Value& result : results) {
      if (base::IsFloat(result.dtype())) of.push_back(result);
    }
    for (size_t level = 0; level < c.spec["cotangents"].size(); ++level) {
      Values cotangents;
      for (size_t i = 0; i < of.size(); ++i) {
        cotangents.push_back(Input(c.Get(absl::StrCat("cotangent/", level, "/", i))));
      }
      of = ir::Gradients(of, floats, cotangents);
      AddResults(of);
    }
  }

  ir::Graph graph_{"operations"};
  std::vector<Array> arrays_;
  Values results_;
};

// Returns "" if the result is within the bound or equals JAX's in the same type; otherwise the
// error.
std::string WrongFloats(const Array& got, const Array& want, const Array& same,
                        const Array& bound) {
  const Array g = *got.Cast(base::DType::kF64), s = *same.Cast(base::DType::kF64);
  const auto is_same = [](double a, double b) {
    return a == b || (std::isnan(a) && std::isnan(b));
  };
  for (int64_t i = 0; i < g.num_elements(); ++i) {
    const double x = g.values<double>()[i], y = want.values<double>()[i];
    const double in_type = s.values<double>()[i], limit = bound.values<double>()[i];
    if (is_same(x, y) || is_same(x, in_type) || std::abs(x - y) <= limit) continue;
    return absl::StrCat("element ", i, " is ", x, ", in float64 JAX has ", y, " (and in ",
                        same.TypeString(), " ", in_type, "); the bound is ", limit);
  }
  return "";
}

std::string WrongIntegers(const Array& got, const Array& want) {
  const size_t width = got.num_elements() == 0 ? 0 : got.num_bytes() / got.num_elements();
  const char *g = reinterpret_cast<const char*>(got.raw()),
             *w = reinterpret_cast<const char*>(want.raw());
  for (int64_t i = 0; i < got.num_elements(); ++i) {
    if (std::equal(g + i * width, g + (i + 1) * width, w + i * width)) continue;
    const Array x = *got.Cast(base::DType::kF64), y = *want.Cast(base::DType::kF64);
    return absl::StrCat("element ", i, " of ", got.TypeString(), " is about ",
                        x.values<double>()[i], ", JAX has ", y.values<double>()[i]);
  }
  return "";
}

std::string Wrong(const Case& c, int result, const Array& got) {
  const Array& want = c.Get(absl::StrCat("want/", result));
  const Array& same = base::IsFloat(got.dtype()) && c.tensors.Find(absl::StrCat("same/", result))
                          ? c.Get(absl::StrCat("same/", result))
                          : want;
  if (got.TypeString() != same.TypeString()) {
    return absl::StrCat("is ", got.TypeString(), ", JAX has ", same.TypeString());
  }
  if (!base::IsFloat(got.dtype())) return WrongIntegers(got, want);
  return WrongFloats(got, want, same, c.Get(absl::StrCat("bound/", result)));
}

void Compare(const Case& c, uint64_t seed, absl::Span<const Array> results) {
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(Wrong(c, static_cast<int>(i), results[i]), "")
        << "result " << i << " of " << c.spec["name"].get<std::string>()
        << "\nto repeat: PENSTOCK_RANDOM_SEED=" << seed
        << " PENSTOCK_RANDOM_CASE=" << c.spec["number"] << " operations_random_test";
  }
}

absl::StatusOr<std::vector<Array>> RunAlone(const Case& c) {
  Program program;
  PENSTOCK_RETURN_IF_ERROR(program.Add(c));
  return program.Run();
}

// Runs the cases in one program; if that fails, one by one to identify the failing case.
void RunCases(absl::Span<const Case> cases, uint64_t seed) {
  Program program;
  absl::Status status;
  for (const Case& c : cases) status.Update(program.Add(c));
  const auto all = status.ok() ? program.Run() : absl::StatusOr<std::vector<Array>>(status);
  size_t next = 0;
  for (const Case& c : cases) {
    const size_t count = c.spec["results"];
    absl::StatusOr<std::vector<Array>> own;
    if (all.ok() && next + count <= all->size()) {
      own = std::vector<Array>(all->begin() + next, all->begin() + next + count);
      next += count;
    } else {
      own = RunAlone(c);
    }
    ASSERT_TRUE(own.ok()) << c.spec["name"] << ": " << own.status()
                          << "\nto repeat: PENSTOCK_RANDOM_SEED=" << seed
                          << " PENSTOCK_RANDOM_CASE=" << c.spec["number"];
    ASSERT_EQ(own->size(), count) << c.spec["name"];
    Compare(c, seed, *own);
  }
}

TEST(RandomOperations, AreAsJaxComputesThem) {
  // Each program runs once, so optimize for compile time. The other flag is set by
  // runtime::OpenClient.
  ::setenv("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_enable_fast_min_max=false",
           /*overwrite=*/0);
  const char* const only = std::getenv("PENSTOCK_RANDOM_CASE");
  for (base::RandomCases rounds(1); rounds.Next();) {
    SCOPED_TRACE(rounds.Describe());
    const TemporaryFolder folder;
    std::vector<std::string> arguments{folder.path().string(), absl::StrCat(rounds.seed()), "1"};
    if (only != nullptr) arguments.push_back(only);
    const absl::Status made = RunPython("operations/expect.py", arguments);
    ASSERT_TRUE(made.ok()) << made;
    const absl::StatusOr<std::vector<Case>> cases = ReadCases(folder.path().string());
    ASSERT_TRUE(cases.ok()) << cases.status();
    const absl::Span<const Case> all = *cases;
    for (size_t at = 0; at < all.size(); at += kCasesPerProgram) {
      RunCases(all.subspan(at, kCasesPerProgram), rounds.seed());
    }
    if (testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace penstock::tests
