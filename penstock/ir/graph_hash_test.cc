#include "penstock/ir/graph_hash.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "penstock/ir/ops.h"

namespace penstock::ir::graph_hash_test {

Hash128 HashOf(const std::function<Values(Graph&)>& build, int replicas = 1) {
  Graph graph("test", replicas);
  const Values results = build(graph);
  graph.SetResults(results);
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  return Fingerprint(graph);
}

Value Param(Graph& graph, const Shape& shape = {2, 3}, DType dtype = DType::kF32) {
  return graph.Parameter({dtype, shape}, "x");
}

TEST(GraphHashTest, NamesAndUnusedNodesDoNotCount) {
  const Hash128 plain = HashOf([](Graph& g) -> Values {
    const Value x = Param(g), y = Param(g);
    return {Tanh(x) + y * 2};
  });
  EXPECT_EQ(plain, HashOf([](Graph& g) -> Values {
              const Scope scope(g, "layer", base::SourceLocation{"a.cc", 3});
              const Value x = g.Parameter({DType::kF32, {2, 3}}, "another name");
              Param(g, {77});  // read by nothing
              const Value y = Param(g);
              Exp(x);  // unused
              return {Tanh(x) + y * 2};
            }));
  EXPECT_EQ(plain.ToString().size(), 32u);
}

// Graphs that differ in one thing each.
TEST(GraphHashTest, EveryDifferenceCounts) {
  using Build = std::function<Values(Graph&)>;
  const auto constant = [](std::vector<float> values, Shape shape) {
    return [=](Graph& g) -> Values {
      return {Constant(g, Array::Of<float>(shape, absl::MakeConstSpan(values)))};
    };
  };
  const auto loop = [](int64_t count, double factor, int which) {
    return [=](Graph& g) -> Values {
      const Value x = Param(g), y = Param(g);
      return {For(count, {x, y}, [=](Graph&, Value, const Values& s) -> Values {
        return {s[which] * factor, s[1]};
      })[0]};
    };
  };
  const std::vector<Build> builds = {
      [](Graph& g) -> Values { return {Param(g)}; },
      [](Graph& g) -> Values {
        return {Param(g, {3, 2})};
      },
      [](Graph& g) -> Values {
        return {Param(g, {2, 3}, DType::kI32)};
      },
      [](Graph& g) -> Values { return {Tanh(Param(g))}; },
      [](Graph& g) -> Values { return {Exp(Param(g))}; },
      [](Graph& g) -> Values { return {Tanh(Tanh(Param(g)))}; },
      [](Graph& g) -> Values {
        const Value x = Param(g), y = Param(g);
        return {x - y};
      },
      [](Graph& g) -> Values {
        const Value x = Param(g), y = Param(g);
        return {y - x};
      },
      [](Graph& g) -> Values {
        const Value x = Param(g), y = Param(g);
        return {x, y};
      },
      [](Graph& g) -> Values {
        const Value x = Param(g), y = Param(g);
        return {y, x};
      },
      [](Graph& g) -> Values {
        const Value x = Param(g);
        return {x, x};
      },
      [](Graph& g) -> Values { return {ReduceSum(Param(g), {0})}; },
      [](Graph& g) -> Values { return {ReduceSum(Param(g), {1})}; },
      [](Graph& g) -> Values { return {ReduceMax(Param(g), {1})}; },
      [](Graph& g) -> Values { return {Param(g) * 2}; },
      [](Graph& g) -> Values { return {Param(g) * 2.0000002}; },
      [](Graph& g) -> Values {
        return {Splat(g, {DType::kF32, {2, 3}}, 1)};
      },
      [](Graph& g) -> Values {
        return {Splat(g, {DType::kF32, {3, 2}}, 1)};
      },
      [](Graph& g) -> Values {
        return {Splat(g, {DType::kF64, {2, 3}}, 1)};
      },
      [](Graph& g) -> Values {
        return {Splat(g, {DType::kF32, {2, 3}}, -0.0)};
      },
      [](Graph& g) -> Values {
        return {Splat(g, {DType::kF32, {2, 3}}, 0.0)};
      },
      constant({1, 2, 3, 4}, {4}),
      constant({1, 2, 3, 5}, {4}),
      constant({1, 2, 3, 4}, {2, 2}),
      constant({1, 2, 3}, {3}),
      [](Graph& g) -> Values {
        return {Split(Param(g, {4, 2}), 2, 0)[0]};
      },
      [](Graph& g) -> Values {
        return {Split(Param(g, {4, 2}), 2, 0)[1]};
      },
      [](Graph& g) -> Values { return {Convert(Param(g), DType::kBF16)}; },
      [](Graph& g) -> Values { return {Convert(Param(g), DType::kF16)}; },
      [](Graph& g) -> Values { return {Less(Param(g), SplatLike(Param(g), 1))}; },
      [](Graph& g) -> Values { return {LessEqual(Param(g), SplatLike(Param(g), 1))}; },
      loop(2, 0.5, 0),
      loop(3, 0.5, 0),
      loop(2, 0.25, 0),
      loop(2, 0.5, 1)};
  std::set<Hash128> hashes;
  for (size_t i = 0; i < builds.size(); ++i) {
    const Hash128 hash = HashOf(builds[i]);
    EXPECT_EQ(hash, HashOf(builds[i])) << i;
    EXPECT_TRUE(hashes.insert(hash).second) << "graph " << i << " has another one's hash";
    EXPECT_TRUE(hashes.insert(HashOf(builds[i], 2)).second) << "replicas do not count: " << i;
  }
  // What a graph was before Restart does not count.
  for (size_t first = 0; first < builds.size(); ++first) {
    for (size_t second = 0; second < builds.size(); ++second) {
      Graph graph("test");
      const Values unused = builds[first](graph);
      const int64_t divergences = graph.num_divergences();
      graph.Restart();
      graph.SetResults(builds[second](graph));
      EXPECT_EQ(Fingerprint(graph), HashOf(builds[second])) << first << ", then " << second;
      if (first == second) {
        EXPECT_EQ(graph.num_divergences(), divergences) << first;
      }
    }
  }
}

// Words and bytes: every bit changes the hash, and so does the order.
TEST(GraphHashTest, HasherSeesEveryBit) {
  std::set<std::string> hashes;
  for (int bit = 0; bit < 64; ++bit) {
    for (int word = 0; word < 3; ++word) {
      Hasher hasher;
      for (int i = 0; i < 3; ++i) hasher.Add(i == word ? uint64_t{1} << bit : 0);
      hashes.insert(hasher.Finish().ToString());
    }
  }
  for (size_t size = 0; size < 20; ++size) {
    const std::string zeros(size, '\0');
    Hasher hasher;
    hasher.Add(1);
    hasher.AddBytes(zeros.data(), size);
    hashes.insert(hasher.Finish().ToString());
  }
  EXPECT_EQ(hashes.size(), 64u * 3 + 20);
}

}  // namespace penstock::ir::graph_hash_test
