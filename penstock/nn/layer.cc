#include "penstock/nn/layer.h"

#include <cctype>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/nn/network.h"

namespace penstock::nn {

Value CallContext::Variable(absl::string_view name, const Shape& shape,
                            absl::string_view initializer, VariableOptions options) {
  const Value value =
      variables_.Get(graph(), {.name = absl::StrCat(layer_name_, "/", name),
                               .type = {options.dtype.value_or(policy_.variable), shape},
                               .initializer = std::string(initializer),
                               .trainable = options.trainable});
  const bool cast = options.autocast && value.valid() && base::IsFloat(value.dtype());
  return cast ? ir::Convert(value, compute_dtype()) : value;
}

void CallContext::Assign(absl::string_view name, Value value) {
  variables_.Set(absl::StrCat(layer_name_, "/", name), value);
}

Value CallContext::NextKey() {
  if (!options_.key.valid())
    return Fail("needs random numbers, but the network is applied without a key");
  // Layers are told apart by their place in the network, calls within a layer by their order.
  return ir::FoldIn(ir::FoldIn(options_.key, static_cast<uint32_t>(layer_index_)),
                    static_cast<uint32_t>(keys_++));
}

Value CallContext::Fail(absl::string_view message) {
  graph().Fail(absl::InvalidArgumentError(message));
  return Value();
}

struct Layer::State {
  std::shared_ptr<LayerBody> body;
  std::string name, dtype;
  base::SourceLocation location;
};

Layer::Layer(std::shared_ptr<LayerBody> body, std::string name, std::string dtype,
             base::SourceLocation location)
    : state_(std::make_shared<State>(
          State{std::move(body), std::move(name), std::move(dtype), location})) {}

LayerBody& Layer::body() const { return *state_->body; }
const std::string& Layer::given_name() const { return state_->name; }
const std::string& Layer::given_dtype() const { return state_->dtype; }
const base::SourceLocation& Layer::location() const { return state_->location; }

Symbol Layer::operator()(const Symbol& input) const { return (*this)(std::vector<Symbol>{input}); }

Symbol Layer::operator()(const std::vector<Symbol>& inputs) const {
  PENSTOCK_CHECK(valid());
  return Symbol(
      std::make_shared<Symbol::Node>(Symbol::Node{.layer = *this,
                                                  .inputs = inputs,
                                                  .input_name = "",
                                                  .type = internal::InferType(*this, inputs)}));
}

const absl::StatusOr<TensorType>& Symbol::type() const {
  PENSTOCK_CHECK(valid());
  return node_->type;
}

Symbol Input(const InputOptions& options) {
  auto type = [&]() -> absl::StatusOr<TensorType> {
    if (options.shape.size() + 1 > base::kMaxRank) {
      return absl::InvalidArgumentError(absl::StrCat("an input may have up to ", base::kMaxRank - 1,
                                                     " axes besides the batch; got ",
                                                     options.shape.size()));
    }
    for (int64_t extent : options.shape) {
      if (extent <= 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("the shape of an input is of one example, without the "
                         "batch, and known: got [",
                         absl::StrJoin(options.shape, ","), "]"));
      }
    }
    return TensorType{options.dtype, Shape(options.shape).Prepend(-1)};
  }();
  return Symbol(std::make_shared<Symbol::Node>(Symbol::Node{
      .layer = Layer(), .inputs = {}, .input_name = options.name, .type = std::move(type)}));
}

std::string SnakeCase(absl::string_view class_name) {
  std::string out;
  for (size_t i = 0; i < class_name.size(); ++i) {
    const char c = class_name[i];
    const bool word_starts = i > 0 && std::isupper(c) &&
                             (std::islower(class_name[i - 1]) ||
                              (i + 1 < class_name.size() && std::islower(class_name[i + 1]) &&
                               !std::isdigit(class_name[i - 1])));
    if (word_starts) out += '_';
    out += static_cast<char>(std::tolower(c));
  }
  return out;
}

}  // namespace penstock::nn
