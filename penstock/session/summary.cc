// Summaries as serialized protocol buffers, made on the device (framework/summary.proto):
//   Summary  { 1: repeated Value }
//   Value    { 1: string tag, 2: float simple_value, 4: Image, 5: HistogramProto }
//   Image    { 1: int32 height, 2: int32 width, 3: int32 colorspace, 4: bytes encoded_image_string }
//   HistogramProto { 1: double min, 2: max, 3: num, 4: sum, 5: sum_squares,
//                    6: repeated double bucket_limit, 7: repeated double bucket }
// All lengths are known when the program is compiled, so everything but the numbers is constant.
#include "penstock/session/summary.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/session/lowering.h"
#include "penstock/train/callbacks/event_writer.h"

namespace penstock::session::summary {
namespace {

constexpr int64_t kBuckets = 30;

ir::Value BytesOf(ir::Graph& graph, absl::string_view bytes) {
  return ir::Constant(
      graph, Array::Of<uint8_t>({static_cast<int64_t>(bytes.size())},
                                absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(bytes.data()),
                                                    bytes.size())));
}

ir::Value Word(const ir::Value& like, uint32_t value) {
  return ir::BroadcastTo(ir::Constant(*like.graph(), Array::Scalar<uint32_t>(value)), like.shape());
}

// The bytes of words [n], little-endian: ui8 [n, 4].
ir::Value LittleEndian(ir::Value words) {
  ir::Values bytes;
  for (uint32_t shift = 0; shift < 32; shift += 8) {
    const ir::Value byte =
        ir::And(ir::ShiftRightLogical(words, Word(words, shift)), Word(words, 255));
    bytes.push_back(ir::ExpandDims(ir::Convert(byte, DType::kU8), 1));
  }
  return ir::Concatenate(bytes, 1);
}

// The bytes of f32 numbers [n] as floats: ui8 [n * 4].
ir::Value FloatBytes(ir::Value numbers) {
  return ir::Reshape(LittleEndian(ir::BitcastConvert(numbers, DType::kU32)), {-1});
}

// The bytes of f32 numbers [n] as doubles, ui8 [n, 8], in integers: not every device has doubles.
// Denormal numbers become 0.
ir::Value DoubleBytes(ir::Value numbers) {
  const ir::Value bits = ir::BitcastConvert(numbers, DType::kU32);
  const auto word = [&](uint32_t value) { return Word(bits, value); };
  const ir::Value sign = ir::And(bits, word(0x80000000));
  const ir::Value exponent = ir::And(ir::ShiftRightLogical(bits, word(23)), word(255));
  const ir::Value mantissa = ir::And(bits, word(0x7fffff));
  const ir::Value is_zero = ir::Equal(exponent, word(0));
  const ir::Value is_special = ir::Equal(exponent, word(255));  // infinity, NaN
  constexpr uint32_t kBias = 1023 - 127;
  const ir::Value wide = ir::Select(is_special, word(0x7ff), exponent + word(kBias));
  const ir::Value high =
      ir::Or(ir::ShiftLeft(wide, word(20)), ir::ShiftRightLogical(mantissa, word(3)));
  const ir::Value zero = word(0);
  const ir::Value low = ir::Select(is_zero, zero, ir::ShiftLeft(mantissa, word(29)));
  return ir::Concatenate(
      {LittleEndian(low), LittleEndian(ir::Or(sign, ir::Select(is_zero, zero, high)))}, 1);
}

ir::Value Join(const ir::Values& parts) {
  for (const ir::Value& part : parts) {
    if (!part.valid()) return ir::Value();
  }
  return parts.size() == 1 ? parts[0] : ir::Concatenate(parts, 0);
}

int64_t SizeOf(const ir::Value& bytes) { return bytes.shape().num_elements(); }

// A length-delimited field of a message.
ir::Value Field(int field, const ir::Value& bytes) {
  if (!bytes.valid()) return ir::Value();
  std::string header;
  ::penstock::train::AppendVarint(header, static_cast<uint64_t>(field << 3 | 2));
  ::penstock::train::AppendVarint(header, static_cast<uint64_t>(SizeOf(bytes)));
  return Join({BytesOf(*bytes.graph(), header), bytes});
}

// A Summary of one Value: the tag, then one field.
ir::Value SummaryOf(ir::Graph& graph, absl::string_view tag, const ir::Value& field) {
  std::string begin;
  ::penstock::train::AppendBytesField(begin, 1, tag);
  return Field(1, Join({BytesOf(graph, begin), field}));
}

ir::Value ScalarField(const ir::Value& number) {
  const ir::Value bytes = FloatBytes(ir::Reshape(ir::Convert(number, DType::kF32), {1}));
  return Join({BytesOf(*number.graph(), std::string(1, static_cast<char>(2 << 3 | 5))), bytes});
}

ir::Value HistogramField(ir::Value values) {
  ir::Graph& graph = *values.graph();
  const int64_t count = values.shape().num_elements();
  values = ir::Reshape(ir::Convert(values, DType::kF32), {1, count});
  const ir::Value low = ir::ReduceMin(values), high = ir::ReduceMax(values);
  const ir::Value range = high - low;
  const ir::Value width =
      ir::Select(ir::Equal(range, ir::SplatLike(range, 0)), ir::SplatLike(range, 1), range);
  const ir::Value buckets = ir::Iota(graph, {DType::kF32, {kBuckets}}, 0);
  const ir::Value place = ir::Floor((values - low) / width * static_cast<double>(kBuckets));
  const ir::Value bucket =
      ir::Minimum(place, ir::SplatLike(place, static_cast<double>(kBuckets - 1)));
  const ir::Value inside = ir::Equal(bucket, ir::ExpandDims(buckets, 1));
  const ir::Value counts =
      ir::Convert(ir::ReduceSum(ir::Convert(inside, DType::kI32), {1}), DType::kF32);
  const ir::Value limits = low + (buckets + 1.0) * (width / static_cast<double>(kBuckets));

  const auto number = [](ir::Value x) { return ir::Reshape(x, {1}); };
  const ir::Value head = ir::Concatenate(
      {number(low), number(high), number(ir::SplatLike(low, static_cast<double>(count))),
       number(ir::ReduceSum(values)), number(ir::ReduceSum(ir::Square(values)))},
      0);
  std::string tags;
  for (int field = 1; field <= 5; ++field) tags += static_cast<char>(field << 3 | 1);
  const ir::Value tagged = ir::Reshape(
      ir::Concatenate({ir::ExpandDims(BytesOf(graph, tags), 1), DoubleBytes(head)}, 1), {-1});
  const auto packed = [](int field, const ir::Value& numbers) {
    return Field(field, ir::Reshape(DoubleBytes(numbers), {-1}));
  };
  return Field(5, Join({tagged, packed(6, limits), packed(7, counts)}));
}

// Floats as pixels: without negative values the maximum becomes 255, otherwise 0 becomes 127.
ir::Value Pixels(ir::Value image) {
  if (image.dtype() == DType::kU8) return image;
  image = ir::Convert(image, DType::kF32);
  const ir::Value low = ir::ReduceMin(image), high = ir::ReduceMax(image);
  const ir::Value zero = ir::SplatLike(low, 0), one = ir::SplatLike(low, 1);
  const ir::Value negative = ir::Less(low, zero);
  const ir::Value size = ir::Maximum(ir::Abs(low), ir::Abs(high));
  const ir::Value largest = ir::Select(ir::Less(size, ir::SplatLike(size, 1e-6)), zero, size);
  const ir::Value divisor = ir::Select(ir::Greater(largest, zero), largest, one);
  const ir::Value scale = ir::Select(
      ir::Greater(largest, zero),
      ir::Select(negative, ir::SplatLike(low, 127), ir::SplatLike(low, 255)) / divisor, zero);
  const ir::Value offset = ir::Select(negative, ir::SplatLike(low, 128), zero);
  const ir::Value pixels = image * scale + offset;
  return ir::Convert(ir::Clamp(ir::SplatLike(pixels, 0), pixels, ir::SplatLike(pixels, 255)),
                     DType::kU8);
}

// One Image, of raw pixels; FileWriter encodes them.
ir::Value ImageField(ir::Value image) {
  const Shape& shape = image.shape();
  std::string header;
  for (int i = 0; i < 3; ++i) {
    ::penstock::train::AppendVarintField(header, i + 1, static_cast<uint64_t>(shape.dim(i)));
  }
  ir::Graph& graph = *image.graph();
  return Field(4, Join({BytesOf(graph, header), Field(4, ir::Reshape(Pixels(image), {-1}))}));
}

ir::Value ImageSummaries(ir::Graph& graph, const std::string& tag, const ir::Value& images,
                         int64_t max_outputs) {
  const int64_t count = std::min(images.shape().dim(0), max_outputs);
  ir::Values parts;
  for (int64_t i = 0; i < count; ++i) {
    const ir::Value image = ir::Squeeze(ir::SliceAxis(images, 0, i, i + 1), {0});
    parts.push_back(SummaryOf(
        graph, max_outputs == 1 ? absl::StrCat(tag, "/image") : absl::StrCat(tag, "/image/", i),
        ImageField(image)));
  }
  return parts.empty() ? BytesOf(graph, "") : Join(parts);
}

// TensorFlow's rule for tags: "w:0", a variable's name, becomes "w_0".
std::string CleanTag(absl::string_view name) {
  const std::string clean = AsName(name);
  return clean.substr(std::min(clean.find_first_not_of('/'), clean.size()));
}

// Adds a summary operation; its tag is its name.
using SummaryFunction =
    std::function<ir::Value(ir::Graph& graph, const std::string& tag, const ir::Value& input)>;
Tensor AddSummaryOp(const char* type, absl::string_view name, const Tensor& input,
                    const Collections& collections, absl::string_view family, SourceLocation where,
                    SummaryFunction summarize) {
  if (!input.valid()) return Tensor();
  Graph* const graph = input.graph();
  if (name.empty()) return FailOp({input}, type, "a summary needs a name", where);
  const std::string tag = CleanTag(name), group = CleanTag(family);
  Node* const node = graph->AddNode(
      {.type = type,
       .name = group.empty() ? tag : absl::StrCat(group, "/", tag),
       .outputs = std::vector<Node::Output>{{DType::kU8, PartialShape({-1})}}},
      {input},
      [summarize = std::move(summarize), group](Lowering& lowering,
                                                const ir::Values& in) -> ir::Values {
        const std::string& own = lowering.node().name;
        return {summarize(lowering.graph(), group.empty() ? own : absl::StrCat(group, "/", own),
                          in[0])};
      },
      where);
  if (node == nullptr) return Tensor();
  const Tensor summary(node, 0);
  if (collections.empty()) graph->AddToCollection(graph_keys::kSummaries, summary);
  for (const std::string& collection : collections) graph->AddToCollection(collection, summary);
  return summary;
}

}  // namespace

Tensor Scalar(absl::string_view name, const Tensor& tensor, const Collections& collections,
              absl::string_view family, SourceLocation where) {
  if (tensor.valid() && !tensor.shape().IsCompatibleWith(PartialShape(Shape()))) {
    return FailOp({tensor}, "ScalarSummary",
                  absl::StrCat("'", tensor.name(), "' has shape ", tensor.shape().ToString(),
                               ", not that of a scalar"),
                  where);
  }
  return AddSummaryOp("ScalarSummary", name, tensor, collections, family, where,
                      [](ir::Graph& graph, const std::string& tag, const ir::Value& number) {
                        return SummaryOf(graph, tag, ScalarField(number));
                      });
}

Tensor Histogram(absl::string_view name, const Tensor& values, const Collections& collections,
                 absl::string_view family, SourceLocation where) {
  return AddSummaryOp("HistogramSummary", name, values, collections, family, where,
                      [](ir::Graph& graph, const std::string& tag, const ir::Value& x) {
                        return SummaryOf(graph, tag, HistogramField(x));
                      });
}

Tensor Image(absl::string_view name, const Tensor& tensor, int64_t max_outputs,
             const Collections& collections, absl::string_view family, SourceLocation where) {
  if (!tensor.valid()) return Tensor();
  const PartialShape& shape = tensor.shape();
  const int64_t channels = shape.rank() == 4 ? shape.dim(3) : -1;
  const bool fits = !shape.has_rank() ||
                    (shape.rank() == 4 && (channels == -1 || channels == 1 || channels == 3));
  if (!fits || (tensor.dtype() != DType::kU8 && !base::IsFloat(tensor.dtype()))) {
    return FailOp({tensor}, "ImageSummary",
                  absl::StrCat("images are ui8 or floats [batch, height, width, channels] with 1 "
                               "or 3 channels; got ",
                               base::DTypeName(tensor.dtype()), shape.ToString()),
                  where);
  }
  if (max_outputs < 1)
    return FailOp({tensor}, "ImageSummary", "max_outputs must be 1 or more", where);
  return AddSummaryOp(
      "ImageSummary", name, tensor, collections, family, where,
      [max_outputs](ir::Graph& graph, const std::string& tag, const ir::Value& images) {
        return ImageSummaries(graph, tag, images, max_outputs);
      });
}

Tensor Merge(const Tensors& inputs, const Collections& collections, absl::string_view name,
             SourceLocation where) {
  for (const Tensor& input : inputs) {
    if (!input.valid()) return Tensor();
    if (input.dtype() == DType::kU8 && input.shape().IsCompatibleWith(PartialShape({-1}))) {
      continue;
    }
    return FailOp(inputs, "MergeSummary", absl::StrCat("'", input.name(), "' is no summary"),
                  where);
  }
  if (inputs.empty()) return FailOp({}, "MergeSummary", "there are no summaries", where);
  Graph* const graph = inputs[0].graph();
  Node* const node = graph->AddNode(
      {.type = "MergeSummary",
       .name = name.empty() ? "Merge/MergeSummary" : std::string(name),
       .outputs = std::vector<Node::Output>{{DType::kU8, PartialShape({-1})}}},
      inputs, [](Lowering&, const ir::Values& in) -> ir::Values { return {Join(in)}; }, where);
  if (node == nullptr) return Tensor();
  for (const std::string& collection : collections) {
    graph->AddToCollection(collection, Tensor(node, 0));
  }
  return Tensor(node, 0);
}

Tensor MergeAll(absl::string_view key, absl::string_view scope, SourceLocation where) {
  const Graph* const graph = Graph::Default();
  if (graph == nullptr) return Tensor();
  const Tensors summaries = graph->GetCollection(key, scope);
  return summaries.empty() ? Tensor() : Merge(summaries, {}, "", where);
}

}  // namespace penstock::session::summary
