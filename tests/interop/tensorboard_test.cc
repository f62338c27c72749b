// Compares event files with TensorFlow: histograms, images, texts, graphs, confusion matrices.
#include <cmath>
#include <limits>
#include <random>

#include "gtest/gtest.h"

#include "penstock/formats/npy.h"
#include "penstock/ir/ops.h"
#include "penstock/nn/layers.h"
#include "penstock/train/callbacks/event_writer.h"
#include "penstock/train/callbacks/graph_summaries.h"
#include "penstock/train/callbacks/summaries.h"

#include "tests/python.h"

namespace penstock::tests::tensorboard_test {
namespace {

using base::Array;
using base::DType;

class TensorBoardFiles {
 public:
  explicit TensorBoardFiles(const TemporaryFolder& folder) : folder_(folder) {
    auto events = train::EventWriter::Open({.folder = folder / "events"});
    EXPECT_TRUE(events.ok()) << events.status();
    events_ = *std::move(events);
  }
  void Save(const std::string& name, const Array& array) {
    const absl::Status saved =
        formats::WriteNpy(*io::FileSystem::Default(), folder_ / (name + ".npy"), array);
    EXPECT_TRUE(saved.ok()) << saved;
  }
  void Add(const absl::StatusOr<std::string>& summary) {
    ASSERT_TRUE(summary.ok()) << summary.status();
    EXPECT_TRUE(events_->Append(int64_t{1} << 40, *summary).ok());
  }
  void AddHistogram(const std::string& name, const Array& array) {
    Save(name, array);
    Add(train::HistogramSummary(name, array));
  }
  void AddImages(const std::string& name, const Array& array) {
    Save(name, array);
    Add(train::ImageSummary(name, array));
  }
  train::EventWriter& events() { return *events_; }

 private:
  const TemporaryFolder& folder_;
  std::unique_ptr<train::EventWriter> events_;
};

Array Random(base::Shape shape, double mean, double deviation) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal(mean, deviation);
  Array array = Array::Zeros(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < array.num_elements(); ++i) {
    array.mutable_data<float>()[i] = static_cast<float>(normal(random));
  }
  return array;
}

TEST(TensorBoard, TensorFlowReadsTheSame) {
  const TemporaryFolder folder;
  TensorBoardFiles files(folder);
  files.AddHistogram("normal", Random({5000}, 0, 1));
  files.AddHistogram("tiny", Random({500}, 0, 1e-12));
  files.AddHistogram("zeros", Array::Zeros(DType::kF32, {3, 3}));
  files.AddHistogram("large", Array::Of<float>({4}, {3e38F, -3e38F, 1e20F, -1e-30F}));
  files.AddHistogram("integers", Array::Of<int32_t>({5}, {-7, 0, 1, 1, 2147483647}));
  Array holes = Random({100}, 3, 1);
  holes.mutable_data<float>()[5] = std::numeric_limits<float>::quiet_NaN();
  holes.mutable_data<float>()[6] = -std::numeric_limits<float>::infinity();
  files.AddHistogram("holes", holes);

  files.AddImages("bytes", *Random({3, 5, 7, 3}, 128, 30).Cast(DType::kU8));
  files.AddImages("positive", *Random({4, 9, 6, 1}, 0, 1).Cast(DType::kU8)->Cast(DType::kF32));
  files.AddImages("signed", Random({4, 9, 6, 1}, 0, 3));
  files.AddImages("color", Random({3, 4, 4, 3}, 40, 3));
  files.Add(train::TextSummary("note", "**ä** | b"));

  Array labels = Array::Zeros(DType::kI64, {300});
  for (int64_t i = 0; i < 300; ++i) labels.mutable_data<int64_t>()[i] = i * i % 5;
  const Array outputs = Random({300, 5}, 0, 1);
  files.Save("labels", labels);
  files.Save("outputs", outputs);
  const auto counts = train::CountConfusion(labels, outputs);
  ASSERT_TRUE(counts.ok()) << counts.status();
  files.Save("counts", *counts);
  files.Add(train::ConfusionSummary("confusion", *counts));

  const nn::Symbol x = nn::Input({.shape = {4}, .name = "x"});
  const nn::Symbol first = nn::Dense({.units = 4, .name = "first"})(x);
  const nn::Network net({x}, {nn::Add({.name = "sum"})({first, x})});
  ASSERT_TRUE(net.status().ok()) << net.status();
  ASSERT_TRUE(files.events().AppendField(0, 4, train::GraphDefOf(net)).ok());
  ir::Graph step("step");
  {
    const ir::Value x = step.Parameter({DType::kF32, {2, 3}}, "x");
    const ir::Scope scope(step, "dense");
    const ir::Value w = step.Parameter({DType::kF32, {3, 5}}, "dense/kernel");
    step.SetResults({ir::Tanh(ir::MatMul(x, w))});
  }
  files.Add(train::GraphSummary("train_step", train::GraphDefOf(step)));
  ASSERT_TRUE(files.events().Flush().ok());

  const absl::Status compared =
      RunPython("interop/tensorboard_events.py", {folder.path().string()});
  EXPECT_TRUE(compared.ok()) << compared;
}

}  // namespace
}  // namespace penstock::tests::tensorboard_test
