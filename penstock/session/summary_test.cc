#include "penstock/session/summary.h"

#include <cmath>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/image/image.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/record/tfrecord.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/session.h"

namespace penstock::session::summary {
namespace summary_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The length-delimited fields `number` of a message.
std::vector<std::string> FieldsOf(const std::string& message, int number) {
  std::vector<std::string> found;
  size_t at = 0;
  const auto varint = [&] {
    uint64_t value = 0;
    for (int shift = 0; at < message.size(); shift += 7) {
      const auto byte = static_cast<uint8_t>(message[at++]);
      value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) break;
    }
    return value;
  };
  while (at < message.size()) {
    const uint64_t tag = varint();
    uint64_t size = (tag & 7) == 1 ? 8 : 4;
    if ((tag & 7) == 0) {
      const size_t begin = at;
      varint();
      size = at - begin;
      at = begin;
    }
    if ((tag & 7) == 2) size = varint();
    if (static_cast<int>(tag >> 3) == number) found.push_back(message.substr(at, size));
    at += size;
  }
  return found;
}

template <typename T>
std::vector<T> NumbersOf(const std::string& bytes) {
  std::vector<T> numbers(bytes.size() / sizeof(T));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(T));
  return numbers;
}

class SummaryTest : public testing::Test {
 protected:
  // The Values of a summary.
  std::vector<std::string> ValuesOf(const Tensor& summary, const FeedDict& feeds = {}) {
    EXPECT_EQ(graph_.status(), absl::OkStatus());
    Session session("", {.client = runtime::TestClient(1)});
    const absl::StatusOr<Array> value = session.Run(summary, feeds);
    EXPECT_TRUE(value.ok()) << value.status();
    if (!value.ok()) return {};
    last_ = *value;
    return FieldsOf(std::string(static_cast<const char*>(value->raw()),
                                static_cast<size_t>(value->num_elements())),
                    1);
  }

  Graph graph_;
  Graph::DefaultScope scope_ = graph_.AsDefault();
  Array last_;
};

TEST_F(SummaryTest, ScalarsHaveTheNamesOfTheirScopes) {
  const Tensor x = Placeholder(DType::kF32, Shape(), "x");
  Scalar("loss", x);
  {
    const NameScope scope("train");
    Scalar("loss", x);
    Scalar("rate", x, {}, "family");
  }
  Scalar("other", x, {"mine"});
  const std::vector<std::string> values = ValuesOf(MergeAll(), {{x, Array::Scalar(-1.5f)}});
  ASSERT_EQ(values.size(), 3u);
  std::vector<std::string> tags;
  for (const std::string& value : values) {
    tags.push_back(FieldsOf(value, 1)[0]);
    EXPECT_THAT(NumbersOf<float>(FieldsOf(value, 2)[0]), ElementsAre(-1.5f));
  }
  EXPECT_THAT(tags, ElementsAre("loss", "train/loss", "family/train/family/rate"));
}

// TensorFlow 1's programs name summaries after variables: tf.summary.histogram(v.name, v).
TEST_F(SummaryTest, TagsHaveUnderscoresForWhatNamesDoNotHave) {
  const Variable w(Array::Scalar(1.0f), "w");
  const Tensor x = Placeholder(DType::kF32, Shape(), "x");
  EXPECT_EQ(Histogram(w.name(), x).name(), "w_0:0");
  EXPECT_EQ(Scalar("/loss (mean)", x, {}, "first run").name(), "first_run/loss__mean_:0");
  const std::vector<std::string> values = ValuesOf(MergeAll(), {{x, Array::Scalar(1.0f)}});
  ASSERT_EQ(values.size(), 2u);
  EXPECT_EQ(FieldsOf(values[0], 1)[0], "w_0");
  EXPECT_EQ(FieldsOf(values[1], 1)[0], "first_run/first_run/loss__mean_");
}

TEST_F(SummaryTest, HistogramCountsElements) {
  const Tensor x = Placeholder(DType::kF32, {-1, -1}, "x");
  const std::vector<std::string> values = ValuesOf(
      Histogram("h", x), {{x, Array::Of<float>({2, 3}, {-1.25f, 0, 3e-5f, 1e30f, 2.5f, 1e-42f})}});
  ASSERT_EQ(values.size(), 1u);
  const std::string histogram = FieldsOf(values[0], 5)[0];
  std::vector<double> head;
  for (int field = 1; field <= 5; ++field) {
    head.push_back(NumbersOf<double>(FieldsOf(histogram, field)[0])[0]);
  }
  EXPECT_EQ(head[0], -1.25);
  EXPECT_EQ(head[1], static_cast<double>(1e30f));
  EXPECT_EQ(head[2], 6);
  EXPECT_EQ(head[3], static_cast<double>(1e30f));
  EXPECT_EQ(head[4], INFINITY);
  const std::vector<double> limits = NumbersOf<double>(FieldsOf(histogram, 6)[0]),
                            counts = NumbersOf<double>(FieldsOf(histogram, 7)[0]);
  ASSERT_EQ(limits.size(), 30u);
  ASSERT_EQ(counts.size(), 30u);
  EXPECT_TRUE(std::is_sorted(limits.begin(), limits.end()));
  EXPECT_EQ(counts[0], 5);
  EXPECT_EQ(counts[29], 1);
}

TEST_F(SummaryTest, HistogramOfEqualElements) {
  const std::vector<std::string> values = ValuesOf(Histogram("h", Constant({2.0, 2.0})));
  const std::vector<double> counts = NumbersOf<double>(FieldsOf(FieldsOf(values[0], 5)[0], 7)[0]);
  EXPECT_EQ(counts[0], 2);
}

TEST_F(SummaryTest, FileWriterEncodesImages) {
  const Tensor pixels = Constant(Array::Of<uint8_t>({2, 1, 2, 1}, {0, 255, 7, 8}));
  const Tensor floats = Constant(Array::Of<float>({1, 1, 2, 1}, {0.5f, 1}));
  const Tensor merged = Merge({Image("bytes", pixels), Image("floats", floats, 1)});
  const std::vector<std::string> raw = ValuesOf(merged);
  ASSERT_EQ(raw.size(), 3u);

  const auto fs = io::MakeMemoryFileSystem();
  FileWriter writer("memory://bucket/logs", {.graph = &graph_, .file_system = fs});
  ASSERT_EQ(writer.status(), absl::OkStatus());
  ASSERT_EQ(writer.AddSummary(last_, 12), absl::OkStatus());
  ASSERT_EQ(writer.AddScalar("x", 3, 13), absl::OkStatus());
  ASSERT_EQ(writer.Close(), absl::OkStatus());
  EXPECT_EQ(writer.AddScalar("x", 3).code(), absl::StatusCode::kFailedPrecondition);

  const auto files = fs->List("memory://bucket/logs");
  ASSERT_EQ(files->size(), 1u);
  const auto reader = record::TfRecordReader::Open(*fs, (*files)[0].uri);
  ASSERT_TRUE(reader.ok()) << reader.status();
  const auto block = (*reader)->ReadBlock();
  ASSERT_TRUE(block.ok()) << block.status();
  std::vector<std::string> events;
  for (const absl::string_view record : block->records) events.emplace_back(record);
  ASSERT_EQ(events.size(), 4u);  // version, graph, images, scalar
  EXPECT_THAT(FieldsOf(events[1], 4)[0], HasSubstr("ImageSummary"));
  std::vector<std::string> tags;
  std::vector<uint8_t> decoded;
  for (const std::string& value : FieldsOf(FieldsOf(events[2], 5)[0], 1)) {
    tags.push_back(FieldsOf(value, 1)[0]);
    penstock::image::Decoder decoder;
    const auto image = decoder.Decode(FieldsOf(FieldsOf(value, 4)[0], 4)[0]);
    ASSERT_TRUE(image.ok()) << image.status();
    // Gray images are decoded as RGB.
    for (int64_t i = 0; i < image->num_elements(); i += 3) {
      decoded.push_back(image->values<uint8_t>()[static_cast<size_t>(i)]);
    }
  }
  EXPECT_THAT(tags, ElementsAre("bytes/image/0", "bytes/image/1", "floats/image"));
  EXPECT_THAT(decoded, ElementsAre(0, 255, 7, 8, 127, 255));
}

TEST_F(SummaryTest, DamagedSummariesAreErrorsOrWritten) {
  ValuesOf(Merge({Scalar("x", Constant(1.0)),
                  Image("i", Constant(Array::Of<uint8_t>({1, 2, 2, 1}, {1, 2, 3, 4})))}));
  const auto fs = io::MakeMemoryFileSystem();
  FileWriter writer("memory://bucket/logs", {.file_system = fs});
  const Array whole = last_.Clone();
  for (int64_t at = 0; at < whole.num_elements(); ++at) {
    Array damaged = whole.Clone();
    damaged.mutable_data<uint8_t>()[at] ^= 0x85;
    writer.AddSummary(damaged).IgnoreError();
    writer.AddSummary(whole.Slice(0, at)).IgnoreError();
  }
  EXPECT_EQ(writer.AddSummary(whole), absl::OkStatus());
}

TEST_F(SummaryTest, RejectsWhatIsNoSummary) {
  const auto fs = io::MakeMemoryFileSystem();
  FileWriter writer("memory://bucket/logs", {.file_system = fs});
  EXPECT_EQ(writer.AddSummary(Array::Scalar(1.f)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(writer.AddSummary(Array::Of<uint8_t>({3}, {10, 200, 1})).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(MergeAll().valid());
  EXPECT_EQ(graph_.status(), absl::OkStatus());
  Scalar("vector", Constant({1.0, 2.0}));
  EXPECT_THAT(graph_.status().message(), HasSubstr("not that of a scalar"));
}

}  // namespace
}  // namespace summary_test
}  // namespace penstock::session::summary
