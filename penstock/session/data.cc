#include "penstock/session/data.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/status.h"
#include "penstock/data/stage.h"
#include "penstock/session/lowering.h"
#include "penstock/session/run/iterator_def.h"
#include "penstock/session/run/session_inputs.h"

namespace penstock::session {
namespace {

// The iterators of a graph.
struct GraphIterators {
  std::vector<std::shared_ptr<IteratorDef>> all;
  std::shared_ptr<IteratorDef> Find(const IteratorDef* def) const {
    for (const auto& one : all) {
      if (one.get() == def) return one;
    }
    return nullptr;
  }
};

absl::Status CheckNumeric(const data::ElementSpec& spec) {
  if (spec.size() == 0) return absl::InvalidArgumentError("the dataset has no columns");
  for (const data::ColumnSpec& column : spec.columns()) {
    if (base::IsNumeric(column.dtype)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "column '", column.name, "' of the dataset has ", base::DTypeName(column.dtype),
        " elements, which devices do not have; convert it with Map, or remove it with "
        "MapOptions.drops"));
  }
  return absl::OkStatus();
}

IteratorDef* AddIterator(const data::ElementSpec& spec, absl::string_view type,
                         absl::string_view name, SourceLocation where) {
  Graph* const graph = Graph::Default();
  if (graph == nullptr) return nullptr;
  const absl::Status status = CheckNumeric(spec);
  if (!status.ok()) {
    graph->Fail(status, type, where);
    return nullptr;
  }
  auto def = std::make_shared<IteratorDef>();
  def->graph = graph;
  def->name = graph->UniqueName(name);
  def->spec = spec;
  def->where = where;
  return graph->Extension<GraphIterators>().all.emplace_back(std::move(def)).get();
}

// An operation without outputs that runs on the host.
Operation AddInitializer(Graph& graph, std::shared_ptr<IteratorInitializer> effect,
                         absl::string_view name, SourceLocation where) {
  const auto nothing = [](Lowering&, const ir::Values&) { return ir::Values(); };
  return Operation(graph.AddNode({.type = "MakeIterator",
                                  .name = std::string(name),
                                  .outputs = std::vector<Node::Output>(),
                                  .stateful = true,
                                  .extra = std::move(effect)},
                                 {}, nothing, where));
}

Iterator MakeIterator(const data::Dataset& dataset, const data::IteratorOptions& options,
                      bool one_shot, SourceLocation where) {
  Graph* const graph = Graph::Default();
  const char* const type = one_shot ? "OneShotIterator" : "Iterator";
  if (graph != nullptr && !dataset.status().ok()) {
    graph->Fail(dataset.status(), type, where);
    return Iterator();
  }
  IteratorDef* const def = AddIterator(dataset.spec(), type, type, where);
  if (def == nullptr) return Iterator();
  def->one_shot = one_shot;
  def->from = DatasetToRead{dataset, options};
  if (!one_shot) {
    auto effect = std::make_shared<IteratorInitializer>();
    effect->iterator = graph->Extension<GraphIterators>().Find(def);
    effect->from = def->from;
    def->initializer = AddInitializer(*graph, std::move(effect), "", where);
  }
  return Iterator(def);
}

}  // namespace

// ---- In a session ----

namespace {

bool HasGenerator(const data::Dataset::Description& description) {
  return description.stage->name() == "FromGenerator" ||
         std::any_of(description.inputs.begin(), description.inputs.end(),
                     [](const auto& input) { return HasGenerator(*input); });
}

}  // namespace

absl::StatusOr<std::unique_ptr<HostInput>> DatasetInput::Open(DatasetToRead from, uint64_t seed) {
  data::IteratorOptions& options = from.options;
  if (!options.seed.has_value() && !options.state.has_value()) options.seed = seed;
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<data::Iterator> iterator,
                            from.dataset.MakeIterator(options));
  const bool reads_ahead = !HasGenerator(from.dataset.description());
  return std::unique_ptr<HostInput>(new DatasetInput(std::move(iterator), reads_ahead));
}

absl::StatusOr<std::vector<Array>> DatasetInput::Next() {
  base::NamedArrays element;
  const absl::StatusOr<bool> more = iterator_->Next(&element);
  if (absl::IsOutOfRange(more.status())) {
    // Of a function of the dataset: it must not be taken for the end of the data.
    return absl::InternalError(
        absl::StrCat("the dataset failed with OUT_OF_RANGE: ", more.status().message()));
  }
  if (!more.ok()) return more.status();
  if (!*more) return absl::OutOfRangeError("End of sequence: the dataset has ended");
  std::vector<Array> arrays;
  for (const auto& [name, array] : element) arrays.push_back(array);
  return arrays;
}

absl::StatusOr<std::unique_ptr<HostInput>> IteratorDef::Open(uint64_t seed) {
  if (one_shot) return DatasetInput::Open(*from, seed);
  return absl::FailedPreconditionError(
      absl::StrCat("iterator '", name, "' (", where.file, ":", where.line,
                   ") has not been initialized; run its initializer first"));
}

absl::StatusOr<std::unique_ptr<HostInput>> IteratorDef::OpenAt(absl::string_view position) const {
  if (!from.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat("iterator '", name, "' (", where.file, ":", where.line,
                     ") has no dataset of its own to resume; make it with MakeOneShotIterator or "
                     "MakeInitializableIterator"));
  }
  DatasetToRead next = *from;
  PENSTOCK_ASSIGN_OR_RETURN(next.options.state, data::IteratorState::Parse(position));
  next.options.seed = std::nullopt;  // the position has these
  next.options.epoch = next.options.skip = 0;
  return DatasetInput::Open(std::move(next), /*seed=*/0);
}

absl::Status IteratorInitializer::Run(SessionInputs& inputs, uint64_t seed) {
  DatasetToRead next = *from;
  const auto* const before = dynamic_cast<const DatasetInput*>(inputs.Find(*iterator));
  if (before != nullptr && !next.options.state.has_value()) {
    next.options.epoch = before->epoch() + 1;
  }
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<HostInput> input,
                            DatasetInput::Open(std::move(next), seed));
  inputs.Set(*iterator, std::move(input));
  return absl::OkStatus();
}

// ---- Element ----

Tensor Element::operator[](absl::string_view name) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found != names_.end()) return tensors_[found - names_.begin()];
  if (graph_ != nullptr) {
    graph_->Fail(absl::NotFoundError(absl::StrCat("the element has no column '", name, "'; it has ",
                                                  absl::StrJoin(names_, ", "))),
                 "IteratorGetNext", where_);
  }
  return Tensor();
}

Tensor Element::operator[](int i) const {
  if (i >= 0 && i < size()) return tensors_[i];
  if (graph_ != nullptr) {
    graph_->Fail(absl::OutOfRangeError(
                     absl::StrCat("the element has ", size(), " columns, and no column ", i)),
                 "IteratorGetNext", where_);
  }
  return Tensor();
}

// ---- Iterator ----

Iterator Iterator::FromStructure(const data::ElementSpec& spec, absl::string_view name,
                                 SourceLocation where) {
  return Iterator(AddIterator(spec, "Iterator", name, where));
}

const data::ElementSpec& Iterator::element_spec() const {
  static const data::ElementSpec none;
  return valid() ? def_->spec : none;
}

Operation Iterator::initializer() const { return valid() ? def_->initializer : Operation(); }

Element Iterator::GetNext(absl::string_view name, SourceLocation where) const {
  if (!valid()) return Element();
  std::vector<Node::Output> outputs;
  std::vector<std::string> names;
  for (const data::ColumnSpec& column : def_->spec.columns()) {
    outputs.push_back({column.dtype, PartialShape(column.shape)});
    names.push_back(column.name);
  }
  Node* const node =
      def_->graph->AddNode({.type = "IteratorGetNext",
                            .name = std::string(name),
                            .outputs = std::move(outputs),
                            .stateful = true,
                            .extra = def_->graph->Extension<GraphIterators>().Find(def_)},
                           {}, nullptr, where);
  if (node == nullptr) return Element();
  return Element(def_->graph, std::move(names), Operation(node).outputs(), where);
}

Operation Iterator::MakeInitializer(const data::Dataset& dataset,
                                    const data::IteratorOptions& options, absl::string_view name,
                                    SourceLocation where) const {
  if (!valid()) return Operation();
  absl::Status status = dataset.status();
  if (status.ok()) {
    const absl::StatusOr<data::ElementSpec> common =
        data::CommonSpec(std::vector<data::ElementSpec>{def_->spec, dataset.spec()});
    status = common.status();
    if (status.ok() && !(*common == def_->spec)) {
      status = absl::InvalidArgumentError(absl::StrCat(
          "the dataset's elements are ", dataset.spec().ToString(),
          ", which the iterator's structure ", def_->spec.ToString(), " does not allow"));
    }
  }
  if (!status.ok()) {
    def_->graph->Fail(status, "MakeIterator", where);
    return Operation();
  }
  auto effect = std::make_shared<IteratorInitializer>();
  effect->iterator = def_->graph->Extension<GraphIterators>().Find(def_);
  effect->from = DatasetToRead{dataset, options};
  return AddInitializer(*def_->graph, std::move(effect), name, where);
}

Iterator MakeOneShotIterator(const data::Dataset& dataset, const data::IteratorOptions& options,
                             SourceLocation where) {
  return MakeIterator(dataset, options, /*one_shot=*/true, where);
}

Iterator MakeInitializableIterator(const data::Dataset& dataset,
                                   const data::IteratorOptions& options, SourceLocation where) {
  return MakeIterator(dataset, options, /*one_shot=*/false, where);
}

}  // namespace penstock::session
