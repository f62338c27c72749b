// Fingerprint of a graph: equal for graphs that compute the same, different for all others (up to
// collisions of 128 bits). It finds the compiled program of a graph without printing it.
//
//   graph.SetResults({loss});
//   auto [at, added] = programs.try_emplace(Fingerprint(graph));
//   if (added) at->second = Compile(graph);
//
// What counts: the operations that the results depend on, with their operands, attributes
// (constants by content) and regions; the types of the parameters that they read, in the graph's
// order; the order of the results; the number of replicas. What does not: names, source locations,
// operations and parameters that no result depends on. The hash of a graph is the same in every
// process of one version of this program; it is not a format for files.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "penstock/ir/graph.h"

namespace penstock::ir {

struct Hash128 {
  uint64_t high = 0, low = 0;

  std::string ToString() const;  // 32 hexadecimal digits
  friend bool operator==(const Hash128&, const Hash128&) = default;
  friend auto operator<=>(const Hash128&, const Hash128&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Hash128& hash) {
    return H::combine(std::move(h), hash.high, hash.low);
  }
};

// The graph must have no error. Linear in its size, about 100 ns for each node.
Hash128 Fingerprint(const Graph& graph);

// The hash of a sequence of words and bytes: two lanes of multiplications and rotations, as in
// MurmurHash3 (Appleby, 2011). Not cryptographic.
class Hasher {
 public:
  void Add(uint64_t word) {
    high_ = Rotate(high_ ^ (word * 0x87c37b91114253d5u), 31) * 5 + 0x52dce729u + low_;
    low_ = Rotate(low_ ^ (word * 0x4cf5ad432745937fu), 27) * 0x9e3779b97f4a7c15u + high_;
  }
  void AddBytes(const void* bytes, size_t size);
  Hash128 Finish() const;

 private:
  static uint64_t Rotate(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

  uint64_t high_ = 0x243f6a8885a308d3u, low_ = 0x13198a2e03707344u;
};

}  // namespace penstock::ir
