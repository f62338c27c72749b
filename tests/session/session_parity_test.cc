// Compares every operation of penstock/session/ops with TensorFlow's graph mode (tf.compat.v1):
// values, gradients, element types, and static shapes while the batch is unknown. The rows are
// defined by the Python files of this folder, and in session's form by the C++ files of the same
// names. All rows of a family are one program.
//
//   PENSTOCK_ROW=ReduceMean build/release/tests/session_parity_test
//
// runs the rows whose names contain that text.
#include <cmath>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include <gtest/gtest.h>

#include "penstock/base/status.h"
#include "penstock/io/file_system.h"
#include "penstock/save/save.h"
#include "penstock/session/gradients.h"
#include "penstock/session/session.h"

#include "tests/python.h"
#include "tests/session/rows.h"

namespace penstock::tests {
namespace {

using base::Array;
using session::PartialShape;
using session::Tensor;
using session::Tensors;

const std::map<std::string, RowTable>& Families() {
  static const std::map<std::string, RowTable> families = {
      {"elementwise", ElementwiseRows()}, {"reductions", ReductionRows()},
      {"products", ProductRows()},        {"arrays", ArrayRows()},
      {"indexing", IndexingRows()},       {"nn", NnRows()},
      {"spatial", SpatialRows()},         {"images", ImageRows()},
      {"functional", FunctionalRows()}};
  return families;
}

// A row written by expect.py.
struct Row {
  nlohmann::json spec;
  base::NamedArrays tensors = {};

  std::string name() const { return spec["name"]; }
  const Array* Find(absl::string_view what, size_t index) const {
    return tensors.Find(absl::StrCat(what, "/", index));
  }
  std::vector<Array> Inputs() const {
    std::vector<Array> inputs;
    for (size_t i = 0; i < spec["inputs"].get<size_t>(); ++i) inputs.push_back(*Find("input", i));
    return inputs;
  }
};

absl::StatusOr<std::vector<Row>> ReadRows(const TemporaryFolder& folder) {
  const auto fs = io::FileSystem::Default();
  PENSTOCK_ASSIGN_OR_RETURN(const std::string text, io::ReadFile(*fs, folder / "rows.json"));
  PENSTOCK_ASSIGN_OR_RETURN(const save::Weights tensors,
                            save::ReadWeights(*fs, folder / "tensors.safetensors"));
  std::vector<Row> rows;
  for (const auto& spec : nlohmann::json::parse(text)) rows.push_back({spec});
  for (const auto& [name, array] : tensors.arrays) {
    rows[std::stoul(name)].tensors.Append(name.substr(name.find('/') + 1), array);
  }
  return rows;
}

// What session computes of a row: outputs, then gradients with respect to some inputs.
struct Built {
  const Row* row = nullptr;
  Tensors fetches = {};
  struct Expectation {
    std::string what;
    const Array* want;
  };
  std::vector<Expectation> expectations = {};
};

// The program of a family.
class Program {
 public:
  absl::Status Add(const Row& row, const BuildRow& build) {
    const auto scope = graph_.AsDefault();
    Built built{&row};
    Tensors inputs;
    for (const Array& value : row.Inputs()) inputs.push_back(Input(value));
    const Tensors outputs = build(inputs);
    PENSTOCK_RETURN_IF_ERROR(graph_.status());
    if (outputs.size() != row.spec["outputs"].get<size_t>()) {
      return absl::InternalError(absl::StrCat("it has ", outputs.size(), " outputs"));
    }
    Tensors floats, cotangents;
    for (size_t i = 0; i < outputs.size(); ++i) {
      built.fetches.push_back(outputs[i]);
      built.expectations.push_back({absl::StrCat("output ", i), row.Find("want", i)});
      if (const Array* cotangent = row.Find("cotangent", i)) {
        floats.push_back(outputs[i]);
        cotangents.push_back(Input(*cotangent));
      }
    }
    if (row.spec["gradient"]) AddGradients(row, inputs, floats, cotangents, built);
    built_.push_back(std::move(built));
    return graph_.status();
  }

  absl::StatusOr<std::vector<Array>> Run() {
    session::Session session("cpu", {}, &graph_);
    session::Fetches fetches;
    for (const Built& built : built_) {
      fetches.insert(fetches.end(), built.fetches.begin(), built.fetches.end());
    }
    return session.Run(fetches, feeds_);
  }

  const std::vector<Built>& built() const { return built_; }

 private:
  Tensor Input(const Array& value) {
    const Tensor x = session::Placeholder(value.dtype(), value.shape());
    feeds_.push_back({x, value});
    return x;
  }

  void AddGradients(const Row& row, const Tensors& inputs, const Tensors& ys,
                    const Tensors& cotangents, Built& built) {
    Tensors xs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Array* want = row.Find("gradient", i);
      if (want == nullptr) continue;
      xs.push_back(inputs[i]);
      built.expectations.push_back({absl::StrCat("gradient of input ", i), want});
    }
    const Tensors gradients = session::Gradients(
        ys, xs, {.grad_ys = cotangents, .unconnected = session::UnconnectedGradients::kZero});
    built.fetches.insert(built.fetches.end(), gradients.begin(), gradients.end());
  }

  session::Graph graph_;
  session::FeedDict feeds_;
  std::vector<Built> built_;
};

constexpr double kTolerance64 = 1e-12;

// Returns "" if the values agree; otherwise the first difference.
std::string Difference(const Array& got, const Array& want, double tolerance) {
  if (got.dtype() != want.dtype() || got.shape() != want.shape()) {
    return absl::StrCat("is ", got.TypeString(), ", TensorFlow's is ", want.TypeString());
  }
  const Array g = *got.Cast(DType::kF64), w = *want.Cast(DType::kF64);
  const bool is_float = base::IsFloat(got.dtype());
  for (int64_t i = 0; i < g.num_elements(); ++i) {
    const double a = g.values<double>()[i], b = w.values<double>()[i];
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    const double relative = got.dtype() == DType::kF64 ? kTolerance64 : tolerance;
    const double limit = is_float ? relative * std::max(1.0, std::abs(b)) : 0;
    if (std::isfinite(b) && std::abs(a - b) <= limit) continue;
    return absl::StrCat("element ", i, " of ", got.TypeString(), " is ", a, ", TensorFlow has ", b);
  }
  return "";
}

// ---- Static shapes ----

PartialShape ShapeFrom(const nlohmann::json& static_shape) {
  if (static_shape.is_null()) return PartialShape();
  return PartialShape(base::Shape(static_shape.get<std::vector<int64_t>>()));
}

// Whether `a` tells everything that `b` does.
bool KnowsAsMuch(const PartialShape& a, const PartialShape& b) {
  if (!a.IsCompatibleWith(b) || (b.has_rank() && !a.has_rank())) return false;
  for (int i = 0; b.has_rank() && i < b.rank(); ++i) {
    if (b.dim(i) >= 0 && a.dim(i) < 0) return false;
  }
  return true;
}

std::string WrongShape(const std::string& reason, const PartialShape& ours,
                       const PartialShape& theirs) {
  const bool less = !KnowsAsMuch(ours, theirs), more = !KnowsAsMuch(theirs, ours);
  if (!ours.IsCompatibleWith(theirs) || (less && reason != "ours knows less") ||
      (more && reason != "ours knows more")) {
    return absl::StrCat("static shape ", ours.ToString(), ", TensorFlow's is ", theirs.ToString());
  }
  if (!reason.empty() && !less && !more) return "static shape as TensorFlow's: drop the reason";
  return "";
}

void CheckStaticShapes(const Row& row, const BuildRow& build) {
  session::Graph graph;
  const auto scope = graph.AsDefault();
  Tensors inputs;
  const std::vector<Array> values = row.Inputs();
  for (size_t i = 0; i < values.size(); ++i) {
    base::Shape shape = values[i].shape();
    if (row.spec["unknown"][i]) shape.set_dim(0, -1);
    inputs.push_back(session::Placeholder(values[i].dtype(), shape));
  }
  const Tensors outputs = build(inputs);
  const std::string reason = row.spec["shape"];
  if (row.spec["static"].is_null() || reason == "ours needs a known shape") {
    EXPECT_EQ(graph.status().ok(), reason != "ours needs a known shape") << row.name();
    return;
  }
  ASSERT_EQ(graph.status(), absl::OkStatus()) << row.name();
  ASSERT_EQ(outputs.size(), row.spec["static"].size()) << row.name();
  std::string wrong;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string problem =
        WrongShape(reason, outputs[i].shape(), ShapeFrom(row.spec["static"][i]));
    EXPECT_EQ(problem, "") << row.name() << ", output " << i;
    EXPECT_EQ(outputs[i].dtype(), row.Find("want", i)->dtype()) << row.name();
  }
}

// ---- Families ----

void Compare(const Program& program, const std::vector<Array>& results) {
  size_t next = 0;
  for (const Built& built : program.built()) {
    for (const Built::Expectation& expectation : built.expectations) {
      EXPECT_EQ(Difference(results[next++], *expectation.want, built.row->spec["tolerance"]), "")
          << built.row->name() << ", " << expectation.what;
    }
  }
}

// Runs a row alone, so that its failure is seen as its own.
absl::Status RunAlone(const Row& row, const BuildRow& build) {
  Program program;
  PENSTOCK_RETURN_IF_ERROR(program.Add(row, build));
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<Array> results, program.Run());
  Compare(program, results);
  return absl::OkStatus();
}

void RunFamily(const std::vector<const Row*>& rows, const RowTable& table) {
  Program program;
  absl::Status status;
  for (const Row* row : rows) status.Update(program.Add(*row, table.at(row->name())));
  const auto results = status.ok() ? program.Run() : absl::StatusOr<std::vector<Array>>(status);
  if (results.ok()) return Compare(program, *results);
  for (const Row* row : rows) {
    EXPECT_EQ(RunAlone(*row, table.at(row->name())), absl::OkStatus()) << row->name();
  }
  EXPECT_TRUE(results.ok()) << results.status();
}

TEST(SessionParity, OperationsAreAsInTensorFlow) {
  // The programs run once, so optimize for compile time.
  ::setenv("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_enable_fast_min_max=false",
           /*overwrite=*/0);
  const TemporaryFolder folder;
  const absl::Status made = RunPython("session/expect.py", {folder.path().string()});
  ASSERT_TRUE(made.ok()) << made;
  const absl::StatusOr<std::vector<Row>> rows = ReadRows(folder);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_GE(rows->size(), 250u);
  const char* const only = std::getenv("PENSTOCK_ROW");
  std::map<std::string, std::vector<const Row*>> by_family;
  std::map<std::string, size_t> count;
  for (const Row& row : *rows) {
    const std::string family = row.spec["family"];
    ++count[family];
    const RowTable& table = Families().at(family);
    const auto build = table.find(row.name());
    if (build == table.end()) {
      ADD_FAILURE() << row.name() << " is missing in tests/session/" << family << ".cc";
      continue;
    }
    if (only != nullptr && !absl::StrContains(row.name(), only)) continue;
    CheckStaticShapes(row, build->second);
    by_family[family].push_back(&row);
  }
  for (const auto& [family, table] : Families()) {
    EXPECT_EQ(table.size(), count[family])
        << family << ".cc has rows that " << family << ".py lacks";
    if (!by_family[family].empty()) RunFamily(by_family[family], table);
  }
}

}  // namespace
}  // namespace penstock::tests
