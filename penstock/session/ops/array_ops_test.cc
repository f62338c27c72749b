#include "penstock/session/ops/array_ops.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/base/random.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/ops/image_ops.h"
#include "penstock/session/ops/linalg_ops.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/ops/nn_ops.h"
#include "penstock/session/session.h"

namespace penstock::session {
namespace array_ops_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class OpsTest : public testing::Test {
 protected:
  Tensor Input(const PartialShape& shape, DType dtype = DType::kF32) {
    return Placeholder(dtype, shape, "x");
  }
  std::string Error() const { return std::string(graph_.status().message()); }

  Graph graph_;
  Graph::DefaultScope scope_ = graph_.AsDefault();
};

// A wrong call and the parts of its message, which also has the operation's name and the line.
struct Misuse {
  const char* what;
  std::function<void()> call;
  std::vector<std::string> parts;
};

void ExpectMessages(const std::vector<Misuse>& misuses) {
  for (const Misuse& misuse : misuses) {
    Graph graph;
    const auto scope = graph.AsDefault();
    misuse.call();
    const std::string message(graph.status().message());
    EXPECT_FALSE(graph.status().ok()) << misuse.what;
    EXPECT_THAT(message, HasSubstr("array_ops_test.cc:")) << misuse.what;
    for (const std::string& part : misuse.parts) {
      EXPECT_THAT(message, HasSubstr(part)) << misuse.what;
    }
  }
}

Tensor X(const PartialShape& shape, DType dtype = DType::kF32) {
  return Placeholder(dtype, shape, "x");
}

// As in TensorFlow, where they are constants: nothing is fed, and nothing runs for them.
TEST_F(OpsTest, KnownShapesNeedNoInput) {
  const Tensor x = Input({2, 3}), any = Input({-1, 3});
  const Variable v(Array::Scalar(1.0f), "v");
  const Tensor assigned = AssignAdd(v, Constant(1.0));
  Session session("", {.client = runtime::TestClient(1)});
  ASSERT_EQ(session.Run(GlobalVariablesInitializer()), absl::OkStatus());
  const auto got = session.Run({ShapeOf(x), Size(x, DType::kI64), Rank(any), Rank(assigned)});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT((*got)[0].values<int32_t>(), ElementsAre(2, 3));
  EXPECT_EQ((*got)[1].item<int64_t>(), 6);
  EXPECT_EQ((*got)[2].item<int32_t>(), 2);
  EXPECT_EQ((*got)[3].item<int32_t>(), 0);
  EXPECT_EQ(session.GetVariableValue("v")->item<float>(), 1);
  EXPECT_FALSE(session.Run(ShapeOf(any)).ok());
}

TEST(ArrayOps, ErrorsNameOperationShapesAndLine) {
  ExpectMessages({
      {"axis",
       [] {
         ReduceSum(X({2, 3}), 2);
       },
       {"Sum", "axis 2", "[2,3]", "[-2, 2)"}},
      {"axis twice",
       [] {
         ReduceMax(X({2, 3}), {0, -2});
       },
       {"Max", "given twice"}},
      {"reshape",
       [] {
         Reshape(X({2, 3}), {4, -1});
       },
       {"Reshape", "[2,3]"}},
      {"concat",
       [] {
         Concat({X({2, 3}), X({3, 3})}, 1);
       },
       {"ConcatV2", "[2,3]", "[3,3]"}},
      {"concat nothing", [] { Concat({}, 0); }, {"ConcatV2", "at least one"}},
      {"stack",
       [] {
         Stack({X({2}), X({3})});
       },
       {"Pack", "[2]", "[3]"}},
      {"types", [] { Add(X({2}), X({2}, DType::kI32)); }, {"AddV2", "float32", "int32"}},
      {"fraction", [] { X({2}, DType::kI32) + 0.5; }, {"AddV2", "0.5", "int32", "Cast"}},
      {"unstack",
       [] {
         Unstack(X({-1, 3}));
       },
       {"Unpack", "[?,3]", "num"}},
      {"split",
       [] {
         Split(X({4, 5}), 2, 1);
       },
       {"Split", "[4,5]"}},
      {"index",
       [] {
         GetItem(X({4, 5}), {7});
       },
       {"StridedSlice", "index 7", "[4,5]"}},
      {"too many",
       [] {
         GetItem(X({4}), {0, 1});
       },
       {"StridedSlice", "too many"}},
      {"slice",
       [] {
         Slice(X({4, 5}), {0, 3}, {2, 3});
       },
       {"Slice", "[4,5]", "axis 1"}},
      {"pad mode",
       [] {
         Pad(X({4}), {{1, 1}}, {.mode = "EDGE"});
       },
       {"Pad", "EDGE", "REFLECT"}},
      {"reflect",
       [] {
         Pad(X({2}), {{2, 0}}, {.mode = "REFLECT"});
       },
       {"MirrorPad", "[2]"}},
      {"perm",
       [] {
         Transpose(X({4, 5}), {0});
       },
       {"Transpose", "permutation"}},
      {"gather", [] { Gather(X({4}), X({2})); }, {"GatherV2", "integers", "float32"}},
      {"scatter",
       [] {
         ScatterNd(X({2, 1}, DType::kI32), X({3}), {4});
       },
       {"ScatterNd", "[2]", "[3]"}},
      {"condition", [] { Where(X({2}), X({2}), X({2})); }, {"Select", "bool"}},
      {"range", [] { Range(3, 1); }, {"Range", "3", "1"}},
      {"range of fractions",
       [] { Range(0, 1, 0.25); },
       {"Range", "the number 0.25 is not a value of type int32; give it a dtype"}},
      {"range that begins with a fraction", [] { Range(0.5, 3); }, {"Range", "0.5", "int32"}},
      {"integer beyond its type",
       [] { Equal(X({2}, DType::kI64), uint64_t{1} << 63); },
       {"Equal", "not a value of type int64"}},
      {"pad with a fraction",
       [] {
         Pad(X({4}, DType::kI32), {{1, 1}}, {.constant_values = 0.5});
       },
       {"Pad", "the number 0.5 is not a value of type int32"}},
      {"pad beyond the type",
       [] {
         Pad(X({4}, DType::kU8), {{1, 1}}, {.constant_values = 300});
       },
       {"Pad", "the number 300 is not a value of type uint8"}},
      {"negative shape",
       [] {
         Zeros({2, -1});
       },
       {"Fill", "[2,?]", "negative"}},
  });
}

TEST(ArrayOps, ErrorsOfNeuralNetworkOperations) {
  ExpectMessages({
      {"matmul",
       [] {
         MatMul(X({2, 3}), X({4, 2}));
       },
       {"MatMul", "[2,3]", "[4,2]"}},
      {"tensordot of small integers",
       [] { Tensordot(X({3}, DType::kI8), X({3}, DType::kI8), 1); },
       {"Tensordot", "int8", "cast"}},
      {"matmul rank",
       [] {
         MatMul(X({3}), X({3, 2}));
       },
       {"MatMul", "[..., m, k]"}},
      {"einsum",
       [] {
         Einsum("ij,jk->ik", {X({2, 3}), X({4, 5})});
       },
       {"Einsum", "4", "3"}},
      {"einsum diagonal",
       [] {
         Einsum("ii->i", {X({2, 2})});
       },
       {"Einsum", "twice"}},
      {"labels",
       [] {
         nn::SparseSoftmaxCrossEntropyWithLogits(X({4, 1}, DType::kI32), X({4, 3}));
       },
       {"[4,1]", "[4,3]", "without the last axis"}},
      {"filter",
       [] {
         nn::Conv2D(X({1, 8, 8, 3}), X({3, 3, 4, 8}), 1, "SAME");
       },
       {"Conv2D", "3 channels", "[3,3,4,8]"}},
      {"padding",
       [] {
         nn::Conv2D(X({1, 8, 8, 3}), X({3, 3, 3, 8}), 1, "same");
       },
       {"Conv2D", "\"same\"", "SAME"}},
      {"strides",
       [] {
         nn::MaxPool(X({1, 8, 8, 3}), {2, 2, 2}, 2, "SAME");
       },
       {"MaxPool", "ksize and strides"}},
      {"data format",
       [] {
         nn::AvgPool(X({1, 8, 8, 3}), 2, 2, "SAME", {.data_format = "HWCN"});
       },
       {"AvgPool", "HWCN"}},
      {"bias",
       [] {
         nn::BiasAdd(X({4, 3}), X({4}));
       },
       {"BiasAdd", "[4,3]", "[4]"}},
      {"statistics",
       [] {
         nn::FusedBatchNorm(X({1, 2, 2, 3}), X({3}), X({3}), {.is_training = false});
       },
       {"FusedBatchNorm", "mean and variance"}},
      {"keep_prob", [] { nn::Dropout(X({4}), 0.0); }, {"Dropout", "keep_prob"}},
      {"no rate", [] { nn::Dropout(X({4})); }, {"Dropout", "either keep_prob or rate"}},
      {"top k",
       [] {
         nn::TopK(X({4, 3}), 5);
       },
       {"TopK", "[4,3]", "5"}},
      {"image",
       [] {
         image::FlipLeftRight(X({4, 3}));
       },
       {"flip_left_right", "[4,3]"}},
      {"crop",
       [] {
         image::CropToBoundingBox(X({4, 4, 3}), 2, 0, 3, 4);
       },
       {"crop_to_bounding_box", "3 x 4"}},
      {"norm",
       [] {
         Norm(X({3, 3}), "2", {0, 1});
       },
       {"Norm", "not implemented"}},
  });
}

TEST(ArrayOps, OperationsWithDynamicShapesSayWhatToDoInstead) {
  ExpectMessages({
      {"where", [] { Where(X({4}, DType::kBool)); }, {"Where", "static shapes", "Where(c"}},
      {"mask", [] { BooleanMask(X({4}), X({4}, DType::kBool)); }, {"BooleanMask", "Where(mask"}},
      {"unique", [] { Unique(X({4})); }, {"Unique", "input pipeline"}},
  });
}

TEST_F(OpsTest, InvalidTensorsAreNotReportedAgain) {
  const Tensor wrong = Reshape(Input({2, 3}), {4});
  const std::string first = Error();
  EXPECT_FALSE(wrong.valid());
  EXPECT_FALSE((wrong + Input({4})).valid());
  EXPECT_FALSE(nn::Dropout(wrong, 0.5).valid());
  EXPECT_FALSE(Fill(ShapeOf(wrong), 1.0).valid());
  EXPECT_TRUE(Unstack(wrong, 2).empty());
  EXPECT_EQ(Error(), first);
}

TEST_F(OpsTest, AnInvalidTensorWithoutAnErrorBecomesOne) {
  EXPECT_FALSE(nn::Dropout(Tensor(), 0.5).valid());  // such as a gradient that does not exist
  EXPECT_THAT(Error(), AllOf(HasSubstr("Dropout"), HasSubstr("invalid tensor"),
                             HasSubstr("array_ops_test.cc:")));
}

TEST_F(OpsTest, BuildsOperationsOfManyUnknownExtents) {
  const Tensor x = Input({-1, -1, -1, -1});
  EXPECT_EQ(ReduceMean(x, {1, 2}).shape().ToString(), "[?,?]");
  EXPECT_EQ(nn::Relu(x).shape().ToString(), "[?,?,?,?]");
  const Tensor images = Input({-1, -1, -1, 3});
  const Tensor resized = image::ResizeImages(images, {8, 8}, image::ResizeMethod::kArea);
  EXPECT_EQ(resized.shape().ToString(), "[?,8,8,3]");
  const Tensor filter = Input({3, 3, 3, 4});
  EXPECT_EQ(nn::Conv2D(images, filter, 2, "SAME").shape().ToString(), "[?,?,?,4]");
  EXPECT_EQ(graph_.status(), absl::OkStatus());
}

TEST_F(OpsTest, StaticShapesOfAnUnknownBatch) {
  const Tensor x = Input({-1, 6});
  const auto shape = [](const Tensor& t) { return t.shape().ToString(); };
  EXPECT_EQ(shape(x * 2 + 1), "[?,6]");
  EXPECT_EQ(shape(Reshape(x, {-1, 2, 3})), "[?,2,3]");
  EXPECT_EQ(shape(MatMul(x, Input({6, 4}))), "[?,4]");
  EXPECT_EQ(shape(GetItem(x, {{1, 3}})), "[?,6]");  // there may be fewer rows
  EXPECT_EQ(shape(OneHot(ArgMax(x, 1), 6)), "[?,6]");
  const Tensor batch = GetItem(ShapeOf(x), {0});
  EXPECT_EQ(shape(Reshape(x, Stack({batch, Constant(3), Constant(2)}))), "[?,3,2]");
  EXPECT_EQ(shape(Zeros(Stack({batch * 2, Constant(5)}))), "[?,5]");
  EXPECT_EQ(shape(Reshape(Input({4, 6}), Stack({Constant(-1), Constant(8)}))), "[3,8]");
  EXPECT_EQ(shape(Range(batch)), "[?]");
  EXPECT_EQ(shape(Range(GetItem(ShapeOf(x), {1}))), "[6]");
  EXPECT_EQ(Unstack(Range(GetItem(ShapeOf(x), {1}))).size(), 6u);
  EXPECT_EQ(shape(Reshape(x, Input({3}, DType::kI32))), "[?,?,?]");
  EXPECT_EQ(shape(Reshape(x, Input({-1}, DType::kI32))), "<unknown>");
  EXPECT_EQ(graph_.status(), absl::OkStatus());
}

// A program's assignments run only if they are needed, which is the same in TensorFlow.
TEST_F(OpsTest, ZerosLikeOfAKnownShapeDoesNotRunItsInput) {
  const Variable v(Array::Of<float>({2}, {1, 2}), "v");
  const Tensor added = AssignAdd(v, Constant(Array::Of<float>({2}, {5, 5})));
  const Tensor zeros = ZerosLike(added), ones = OnesLike(added, DType::kI32);
  const Tensor unknown = ZerosLike(Input({-1}));
  Session session("", {.client = runtime::TestClient(1)});
  ASSERT_EQ(session.Run(GlobalVariablesInitializer()), absl::OkStatus());
  const auto values = session.Run({zeros, ones});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT((*values)[0].values<float>(), ElementsAre(0, 0));
  EXPECT_THAT((*values)[1].values<int32_t>(), ElementsAre(1, 1));
  EXPECT_THAT(session.GetVariableValue("v")->values<float>(), ElementsAre(1, 2));
  EXPECT_FALSE(session.Run(unknown, {}).ok());
}

// As in TensorFlow: Split with a part of no rows, and what is computed of it.
TEST_F(OpsTest, TopKOfNoRows) {
  const auto top = nn::TopK(Input({0, 2}), 1);
  EXPECT_EQ(top.values.shape().ToString(), "[0,1]");
  EXPECT_EQ(graph_.status(), absl::OkStatus());
}

TEST_F(OpsTest, UnknownRanksAreSolvedAtRun) {
  const Tensor x = Placeholder(DType::kF32);
  const Tensor y = ReduceSum(Square(x), -1, {.keepdims = true});
  const Tensor flat = Reshape(x, Stack({GetItem(ShapeOf(x), {0}), Constant(-1)}));
  ASSERT_EQ(graph_.status(), absl::OkStatus());
  Session session("", {.client = runtime::TestClient(1)});
  const auto got = session.Run({y, flat}, {{x, Array::Zeros(DType::kF32, {2, 3, 4})}});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ((*got)[0].shape(), Shape({2, 3, 1}));
  EXPECT_EQ((*got)[1].shape(), Shape({2, 12}));
}

TEST_F(OpsTest, AShapeThatDependsOnFedValuesIsAnError) {
  const Tensor x = Input({2, 3}), shape = Placeholder(DType::kI32, {2}, "shape");
  const Tensor y = Reshape(x, shape, "turn");
  Session session("", {.client = runtime::TestClient(1)});
  const auto got = session.Run(
      y, {{x, Array::Zeros(DType::kF32, {2, 3})}, {shape, Array::Of<int32_t>({2}, {3, 2})}});
  EXPECT_THAT(got.status().ToString(), AllOf(HasSubstr("'turn'"), HasSubstr("'shape:0'"),
                                             HasSubstr("known when the program is compiled")));
}

TEST_F(OpsTest, OutOfRangeIndicesAreClampedOrDropped) {
  const Tensor x = Constant({1.0, 2.0, 3.0});
  const Tensor indices = Constant(Array::Of<int32_t>({3}, {-1, 1, 7}));
  const Tensor gathered = Gather(x, indices);
  const Tensor scattered = ScatterNd(ExpandDims(indices, 1), x, {3});
  const Tensor hot = OneHot(indices, 2);
  Session session("", {.client = runtime::TestClient(1)});
  const auto got = session.Run({gathered, scattered, hot});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT((*got)[0].values<float>(), ElementsAre(1, 2, 3));
  EXPECT_THAT((*got)[1].values<float>(), ElementsAre(0, 2, 0));
  EXPECT_THAT((*got)[2].values<float>(), ElementsAre(0, 0, 0, 1, 0, 0));
}

// The type of the tensor holds them, a double does not.
TEST_F(OpsTest, IntegersBeyondDoublesAreExact) {
  constexpr int64_t kOdd = 9007199254740993;
  constexpr uint64_t kLarge = 18446744073709551613u;
  const Tensor x = Constant(Array::Of<int64_t>({2}, {kOdd - 1, kOdd}));
  const Tensor u = Constant(Array::Of<uint64_t>({2}, {kLarge, kLarge + 1}));
  Session session("", {.client = runtime::TestClient(1)});
  const auto got = session.Run({Equal(x, kOdd), kOdd - x, Maximum(x, kOdd), Equal(u, kLarge)});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT((*got)[0].values<bool>(), ElementsAre(false, true));
  EXPECT_THAT((*got)[1].values<int64_t>(), ElementsAre(1, 0));
  EXPECT_THAT((*got)[2].values<int64_t>(), ElementsAre(kOdd, kOdd));
  EXPECT_THAT((*got)[3].values<bool>(), ElementsAre(true, false));
}

TEST_F(OpsTest, RangeCountsInItsType) {
  EXPECT_EQ(Range(0, 2.1, 0.3, DType::kF32).shape().ToString(), "[7]");
  EXPECT_EQ(Range(0, 2.1, 0.3, DType::kF64).shape().ToString(), "[8]");
  EXPECT_EQ(Range(0, 1, 0.25, DType::kF32).shape().ToString(), "[4]");
  EXPECT_EQ(graph_.status(), absl::OkStatus());
}

// Of which the number of classes, of positions or of rows is none.
TEST_F(OpsTest, NarrowIntegersHaveAnyNumberOfClassesPositionsAndRows) {
  const Tensor label = Constant(Array::Of<uint8_t>({1}, {255}));
  const Tensor logits = Zeros({1, 256});
  const Tensor loss = nn::SparseSoftmaxCrossEntropyWithLogits(label, logits);
  const Tensor in_top = nn::InTopK(logits, label, 1);
  const Tensor mask = SequenceMask(Constant(Array::Of<int8_t>({1}, {100})), 200);
  const Tensor places = Range(0, 200, 1, DType::kI32);
  const Tensor reversed =
      ReverseSequence(Reshape(places, {1, 200}), Constant(Array::Of<int8_t>({1}, {2})),
                      {.seq_axis = 1, .batch_axis = 0});
  const Tensor rows = Ones({256}, DType::kU8), ids = Zeros({256}, DType::kI32);
  Session session("", {.client = runtime::TestClient(1)});
  const auto got = session.Run({loss, in_top, ReduceSum(Cast(mask, DType::kI32)), reversed,
                                SegmentMax(rows, ids, 1), SegmentMean(rows, ids, 1)});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_NEAR((*got)[0].item<float>(), std::log(256.0), 1e-4);
  EXPECT_TRUE((*got)[1].values<bool>()[0]);
  EXPECT_EQ((*got)[2].item<int32_t>(), 100);
  const absl::Span<const int32_t> order = (*got)[3].values<int32_t>();
  EXPECT_THAT(order.subspan(0, 3), ElementsAre(1, 0, 2));
  EXPECT_EQ(order[199], 199);
  EXPECT_EQ((*got)[4].item<int64_t>(), 1);
  EXPECT_EQ((*got)[5].dtype(), DType::kU8);
  EXPECT_EQ((*got)[5].item<int64_t>(), 1);
}

TEST_F(OpsTest, LeakyReluHasItsAlphaExactly) {
  const Tensor x = Constant(Array::Of<double>({2}, {-1, 2}));
  Session session("", {.client = runtime::TestClient(1)});
  const auto got = session.Run(nn::LeakyRelu(x, 1.0 / 3));
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT(got->values<double>(), ElementsAre(-1.0 / 3, 2));
}

// Python's slice(begin, end, stride) of 0, 1, ... n - 1, by its definition: every stride-th index
// from begin, as long as it is before the end.
std::vector<float> PythonSlice(int64_t n, std::optional<int64_t> begin, std::optional<int64_t> end,
                               int64_t stride) {
  const auto index = [&](int64_t given) { return given < 0 ? given + n : given; };
  std::vector<float> out;
  const bool forward = stride > 0;
  int64_t i = begin.has_value() ? index(*begin) : forward ? 0 : n - 1;
  const int64_t last = end.has_value() ? index(*end) : forward ? n : -1;
  i = forward ? std::max<int64_t>(i, 0) : std::min(i, n - 1);
  for (; forward ? i < std::min(last, n) : i > std::max<int64_t>(last, -1); i += stride) {
    out.push_back(static_cast<float>(i));
  }
  return out;
}

TEST_F(OpsTest, SlicesAsPythonDoes) {
  constexpr int64_t kSize = 5;
  const Tensor x = Input({kSize});
  std::vector<std::vector<float>> want;
  Fetches fetches;
  base::Random random(1);
  const auto end = [&]() -> std::optional<int64_t> {
    const int64_t at = static_cast<int64_t>(random.Below(17)) - 8;
    return at == 8 ? std::nullopt : std::optional(at);
  };
  for (int i = 0; i < 150; ++i) {
    const std::optional<int64_t> first = end(), last = end();
    const int64_t stride = static_cast<int64_t>(1 + random.Below(3)) * (i % 2 == 0 ? 1 : -1);
    fetches.push_back(GetItem(x, {{first, last, stride}}));
    want.push_back(PythonSlice(kSize, first, last, stride));
  }
  Session session("", {.client = runtime::TestClient(1)});
  const auto got = session.Run(fetches, {{x, Array::Of<float>({kSize}, {0, 1, 2, 3, 4})}});
  ASSERT_TRUE(got.ok()) << got.status();
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_THAT((*got)[i].values<float>(), ::testing::ElementsAreArray(want[i])) << i;
  }
}

TEST_F(OpsTest, OperatorsReportTheirOwnLine) {
  const Tensor a = Input({2, 3}), b = Input({4, 3});
  const int line = __LINE__ + 1;
  const Tensor c = 2.0 * a - b;
  EXPECT_FALSE(c.valid());
  EXPECT_THAT(Error(), HasSubstr(absl::StrCat("array_ops_test.cc:", line)));
}

TEST_F(OpsTest, VariablesAreOperands) {
  const Variable w(Array::Of<float>({2}, {1, 2}), "w");
  const Tensor y = Maximum(w * 3.0 + w, 5);
  Session session("", {.client = runtime::TestClient(1)});
  ASSERT_EQ(session.Run(GlobalVariablesInitializer()), absl::OkStatus());
  const auto got = session.Run(y);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT(got->values<float>(), ElementsAre(5, 8));
}

}  // namespace
}  // namespace array_ops_test
}  // namespace penstock::session
