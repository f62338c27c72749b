// Option types for sizes: per spatial axis, per end of an axis, ranges, axes.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

namespace penstock::nn {

// A number for each of N spatial axes; a single number means all: `.kernel_size = 3`, `= {3, 2}`.
template <int N>
struct Size : std::array<int64_t, N> {
  Size() { this->fill(1); }
  Size(int64_t all) { this->fill(all); }  // NOLINT: `.kernel_size = 3`
  template <typename... T>
  requires(N > 1 && sizeof...(T) == N) Size(T... each)
      : std::array<int64_t, N>{static_cast<int64_t>(each)...} {}  // NOLINT
};

template <int N>
struct OptionalSize : std::optional<Size<N>> {
  OptionalSize() = default;
  OptionalSize(std::nullopt_t) {}                                      // NOLINT
  OptionalSize(const Size<N>& size) : std::optional<Size<N>>(size) {}  // NOLINT
  OptionalSize(int64_t all) : std::optional<Size<N>>(Size<N>(all)) {}  // NOLINT
  template <typename... T>
  requires(N > 1 && sizeof...(T) == N) OptionalSize(T... each)
      : std::optional<Size<N>>(Size<N>(each...)) {}  // NOLINT
};

// Amounts to add to, or remove from, the two ends of each of N spatial axes. A single number means
// all ends; N numbers (N > 1) mean both ends of each axis; N pairs give each end. For one axis, two
// numbers are its ends.
template <int N>
struct Ends : std::array<std::pair<int64_t, int64_t>, N> {
  using Pair = std::pair<int64_t, int64_t>;
  Ends() : Ends(0) {}
  Ends(int64_t all) { this->fill({all, all}); }  // NOLINT: `.padding = 1`
  Ends(int64_t low, int64_t high) requires(N == 1) { (*this)[0] = {low, high}; }
  Ends(int64_t a, int64_t b) requires(N == 2) : Ends(Pair(a, a), Pair(b, b)) {}
  Ends(Pair a, Pair b) requires(N == 2) { (*this)[0] = a, (*this)[1] = b; }
  Ends(int64_t a, int64_t b, int64_t c) requires(N == 3)
      : Ends(Pair(a, a), Pair(b, b), Pair(c, c)) {}
  Ends(Pair a, Pair b, Pair c) requires(N == 3) { (*this)[0] = a, (*this)[1] = b, (*this)[2] = c; }
};

// Range [low, high] of a factor drawn uniformly; a single number f means [-f, f].
struct Range {
  double low = 0, high = 0;
  Range() = default;
  Range(double factor) : low(-factor), high(factor) {}  // NOLINT: `.height_factor = 0.1`
  Range(double l, double h) : low(l), high(h) {}
};
struct OptionalRange : std::optional<Range> {
  OptionalRange() = default;
  OptionalRange(std::nullopt_t) {}                                       // NOLINT
  OptionalRange(double factor) : std::optional<Range>(Range(factor)) {}  // NOLINT
  OptionalRange(double l, double h) : std::optional<Range>(Range(l, h)) {}
};
// Range within [0, 1] of a probability or a strength; a single number f means [0, f].
struct UnitRange : Range {
  UnitRange() = default;
  UnitRange(double factor) : Range(0, factor) {}  // NOLINT: `.factor = 0.5`
  UnitRange(double l, double h) : Range(l, h) {}
};
struct OptionalUnitRange : std::optional<UnitRange> {
  OptionalUnitRange() = default;
  OptionalUnitRange(std::nullopt_t) {}                                               // NOLINT
  OptionalUnitRange(double factor) : std::optional<UnitRange>(UnitRange(factor)) {}  // NOLINT
  OptionalUnitRange(double l, double h) : std::optional<UnitRange>(UnitRange(l, h)) {}
};

// One axis or several: `.axis = -1`, `.axis = {1, 2}`.
struct AxisList : std::vector<int64_t> {
  AxisList() = default;
  AxisList(int64_t one) : std::vector<int64_t>{one} {}  // NOLINT: `.axis = -1`
  AxisList(std::initializer_list<int64_t> several) : std::vector<int64_t>(several) {}
};

// One number for all channels, or one for each: `.scale = 1 / 255.0`, `.scale = {1, 2, 0.5}`.
struct PerChannel : std::vector<double> {
  PerChannel(double all) : std::vector<double>{all} {}  // NOLINT: `.scale = 2`
  PerChannel(std::initializer_list<double> each) : std::vector<double>(each) {}
};

}  // namespace penstock::nn
