// Estimators beside TensorFlow: an exported SavedModel is loaded and run there, checkpoints are
// read there, and feature columns give TensorFlow's input layer. (TensorFlow 2.21 has no
// tf.estimator.)
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/estimator/canned/canned.h"
#include "penstock/estimator/feature_column/feature_column.h"
#include "penstock/save/save.h"
#include "penstock/session/data.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/session.h"

#include "tests/python.h"

namespace penstock::tests::estimator_interop_test {
namespace {

namespace fc = feature_column;
using base::Array;
using base::DType;
using base::NamedArrays;
using estimator::NamedTensors;

estimator::RunConfig Quiet() {
  estimator::RunConfig config;
  config.tf_random_seed = 1;
  config.log = nullptr;
  return config;
}

NamedArrays Rows(int64_t count) {
  Array x = Array::Zeros(DType::kF32, {count, 4}), label = Array::Zeros(DType::kI64, {count});
  for (int64_t i = 0; i < count; ++i) {
    label.mutable_data<int64_t>()[i] = i % 3;
    for (int64_t j = 0; j < 4; ++j) {
      x.mutable_data<float>()[i * 4 + j] = static_cast<float>((i * 5 + j * 3) % 7 + i % 3) / 4;
    }
  }
  return {{"x", x}, {"label", label}};
}

TEST(EstimatorInterop, TensorFlowRunsAnExportAndReadsTheCheckpoint) {
  const TemporaryFolder folder;
  estimator::DNNClassifier classifier({.hidden_units = {6},
                                       .feature_columns = {fc::NumericColumn("x", {.shape = {4}})},
                                       .model_dir = folder / "run",
                                       .n_classes = 3,
                                       .config = Quiet()});
  ASSERT_EQ(classifier.Train(data::Dataset::FromArrays(Rows(24)).Batch(8)), absl::OkStatus());
  const absl::StatusOr<std::string> exported = classifier.ExportSavedModel(
      folder / "export", estimator::BuildRawServingInputReceiverFn(
                             {{.name = "x", .dtype = DType::kF32, .shape = {-1, 4}}}));
  ASSERT_EQ(exported.status(), absl::OkStatus());

  NamedArrays expected = {{"x", *Rows(10).Find("x")}};
  auto stream = classifier.Predict(
      data::Dataset::FromArrays(Rows(10)).Batch(10),
      {.predict_keys = {"probabilities", "class_ids"}, .yield_single_examples = false});
  ASSERT_EQ(stream.status(), absl::OkStatus());
  NamedArrays batch;
  ASSERT_TRUE(*(*stream)->Next(&batch));
  for (const auto& [name, value] : batch) expected.Append(name, value);
  expected.Append("dnn/logits/kernel", *classifier.GetVariableValue("dnn/logits/kernel"));
  auto fs = io::FileSystem::Default();
  ASSERT_EQ(save::WriteWeights(*fs, folder / "expected.npz", {.arrays = expected}),
            absl::OkStatus());
  EXPECT_EQ(RunPython("estimator/check_export.py",
                      {*exported, *classifier.LatestCheckpoint(), folder / "expected.npz"}),
            absl::OkStatus());
}

// The same columns in tests/estimator/feature_columns.py.
fc::FeatureColumns Columns() {
  const fc::FeatureColumn age = fc::NumericColumn("age");
  const fc::FeatureColumn city = fc::CategoricalColumnWithVocabularyList(
      "city", {"Bern", "Graz", "Lyon"}, {.num_oov_buckets = 2});
  const fc::FeatureColumn street = fc::CategoricalColumnWithHashBucket("street", 7);
  return {age,
          fc::NumericColumn("size", {.shape = {2}}),
          fc::BucketizedColumn(age, {18, 30, 65}),
          fc::IndicatorColumn(city),
          fc::IndicatorColumn(street),
          fc::EmbeddingColumn(street, 3, {.combiner = "sqrtn"}),
          fc::IndicatorColumn(fc::CategoricalColumnWithIdentity("id", 4, 0))};
}

TEST(EstimatorInterop, InputLayerEqualsTensorFlows) {
  const TemporaryFolder folder;
  const data::Dataset rows =
      data::Dataset::FromArrays(
          {{"age", Array::Of<float>({5}, {3, 18, 29.5, 30, 80})},
           {"size", Array::Of<float>({5, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10})},
           {"city", Array::Strings({5}, {"Graz", "Rome", "Bern", "Oslo", "Lyon"})},
           {"street", Array::Strings({5, 2}, {"Main", "Oak", "Elm", "", "Main", "Main", "", "",
                                              "a much longer name of a street", "Oak"})},
           {"id", Array::Of<int64_t>({5}, {0, 3, 1, 9, 2})}})
          .Batch(5);
  session::Graph graph;
  const auto scope = graph.AsDefault();
  const session::Element element =
      session::MakeOneShotIterator(fc::ConvertOnHost(rows, Columns())).GetNext();
  std::vector<NamedTensors::Entry> entries;
  for (int i = 0; i < element.size(); ++i) entries.emplace_back(element.names()[i], element[i]);
  const session::Tensor layer = fc::InputLayer(NamedTensors(std::move(entries)), Columns());
  ASSERT_EQ(graph.status(), absl::OkStatus());
  session::Session session;
  ASSERT_EQ(session.Run(session::GlobalVariablesInitializer()), absl::OkStatus());
  const std::string table = "input_layer/street_embedding/embedding_weights";
  NamedArrays out = {{"table", *session.GetVariableValue(table)}};
  const absl::StatusOr<Array> value = session.Run(layer);
  ASSERT_EQ(value.status(), absl::OkStatus());
  out.Append("layer", *value);
  ASSERT_EQ(save::WriteWeights(*io::FileSystem::Default(), folder / "layer.npz", {.arrays = out}),
            absl::OkStatus());
  EXPECT_EQ(RunPython("estimator/feature_columns.py", {folder / "layer.npz"}), absl::OkStatus());
}

}  // namespace
}  // namespace penstock::tests::estimator_interop_test
