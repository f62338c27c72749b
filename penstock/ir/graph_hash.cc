#include "penstock/ir/graph_hash.h"

#include <bit>
#include <cstring>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"

#include "penstock/ir/op_def.h"

namespace penstock::ir {

std::string Hash128::ToString() const { return absl::StrFormat("%016x%016x", high, low); }

void Hasher::AddBytes(const void* bytes, size_t size) {
  Add(size);
  const char* at = static_cast<const char*>(bytes);
  for (; size >= 8; size -= 8, at += 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    Add(word);
  }
  if (size == 0) return;
  uint64_t word = 0;
  std::memcpy(&word, at, size);
  Add(word);
}

Hash128 Hasher::Finish() const {
  // Each bit of the state changes half of the bits of the hash.
  const auto mix = [](uint64_t x) {
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdu;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53u;
    return x ^ x >> 33;
  };
  const uint64_t a = mix(high_ + low_), b = mix(low_ ^ Rotate(high_, 17));
  return {a + b, b ^ Rotate(a, 29)};
}

namespace {

class GraphHash {
 public:
  // `all_parameters`: parameters that no result depends on count, too. A region is called with all.
  GraphHash(const Graph& graph, bool all_parameters) : index_(graph.num_nodes(), -1) {
    std::vector<bool> needed(static_cast<size_t>(graph.num_nodes()));
    if (all_parameters) {
      for (const Value& parameter : graph.parameters()) needed[parameter.node_id()] = true;
    }
    for (const Value& result : graph.results()) needed[result.node_id()] = true;
    for (int id = graph.num_nodes(); id-- > 0;) {
      if (!needed[id]) continue;
      for (const Value& operand : graph.node(id).operands) needed[operand.node_id()] = true;
    }
    hasher_.Add(graph.num_replicas());
    int next = 0;
    for (int id = 0; id < graph.num_nodes(); ++id) {
      if (!needed[id]) continue;
      index_[id] = next++;
      AddNode(graph.node(id));
    }
    hasher_.Add(graph.results().size());
    for (const Value& result : graph.results()) AddValue(result);
  }

  Hash128 Finish() const { return hasher_.Finish(); }

 private:
  void AddNode(const Node& node) {
    hasher_.Add(HashOf(*node.op));
    hasher_.Add(node.operands.size() << 32 | node.results.size());
    for (const Value& operand : node.operands) AddValue(operand);
    for (const auto& [name, attribute] : node.attributes) {
      hasher_.AddBytes(name.data(), name.size());
      AddAttribute(attribute);
    }
    for (const auto& region : node.regions) {
      const Hash128 hash = GraphHash(*region, /*all_parameters=*/true).Finish();
      hasher_.Add(hash.high);
      hasher_.Add(hash.low);
    }
    // Only a parameter's type does not follow from the rest.
    if (node.operands.empty()) {
      for (const TensorType& type : node.results) AddType(type);
    }
  }

  void AddValue(const Value& value) {
    hasher_.Add(static_cast<uint64_t>(index_[value.node_id()]) << 32 |
                static_cast<uint32_t>(value.result()));
  }

  void AddType(const TensorType& type) {
    hasher_.Add(static_cast<uint64_t>(type.dtype) << 32 | static_cast<uint32_t>(type.shape.rank()));
    for (int64_t extent : type.shape) hasher_.Add(static_cast<uint64_t>(extent));
  }

  void AddAttribute(const Attribute& attribute) {
    hasher_.Add(attribute.index());
    if (const auto* b = std::get_if<bool>(&attribute)) return hasher_.Add(*b);
    if (const auto* i = std::get_if<int64_t>(&attribute)) return hasher_.Add(*i);
    if (const auto* d = std::get_if<double>(&attribute)) {
      return hasher_.Add(std::bit_cast<uint64_t>(*d));
    }
    if (const auto* s = std::get_if<std::string>(&attribute)) {
      return hasher_.AddBytes(s->data(), s->size());
    }
    if (const auto* t = std::get_if<DType>(&attribute)) {
      return hasher_.Add(static_cast<uint64_t>(*t));
    }
    if (const auto* list = std::get_if<std::vector<int64_t>>(&attribute)) {
      return hasher_.AddBytes(list->data(), list->size() * sizeof(int64_t));
    }
    const Array& array = std::get<Array>(attribute);
    AddType({array.dtype(), array.shape()});
    hasher_.AddBytes(array.raw(), static_cast<size_t>(array.num_bytes()));
  }

  uint64_t HashOf(const OpDef& op) {
    uint64_t& hash = names_[&op];
    if (hash == 0) {
      Hasher name;
      name.AddBytes(op.name, std::strlen(op.name));
      hash = name.Finish().low | 1;
    }
    return hash;
  }

  std::vector<int64_t> index_;  // by node: its number among those that are needed
  absl::flat_hash_map<const OpDef*, uint64_t> names_;
  Hasher hasher_;
};

}  // namespace

Hash128 Fingerprint(const Graph& graph) {
  return GraphHash(graph, /*all_parameters=*/false).Finish();
}

}  // namespace penstock::ir
