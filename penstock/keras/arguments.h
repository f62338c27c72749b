// Arguments that accept several forms, as in Keras: a name or an object, one or several, a dataset
// or arrays.
#pragma once

#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/ir/stablehlo.h"
#include "penstock/nn/layer.h"
#include "penstock/nn/losses.h"
#include "penstock/nn/metrics.h"
#include "penstock/nn/optimizers.h"
#include "penstock/train/arrays.h"

namespace penstock::keras {

class OptimizerArg {
 public:
  OptimizerArg(const char* name) : value_(nn::Optimizer::FromName(name)) {}  // NOLINT: "adam"
  OptimizerArg(const std::string& name) : value_(nn::Optimizer::FromName(name)) {}  // NOLINT
  OptimizerArg(nn::Optimizer value) : value_(std::move(value)) {}                   // NOLINT
  const absl::StatusOr<nn::Optimizer>& Get() const { return value_; }

 private:
  absl::StatusOr<nn::Optimizer> value_;
};
class LossArg {
 public:
  LossArg(const char* name) : value_(nn::Loss::FromName(name)) {}         // NOLINT: "mse"
  LossArg(const std::string& name) : value_(nn::Loss::FromName(name)) {}  // NOLINT
  LossArg(nn::Loss value) : value_(std::move(value)) {}                   // NOLINT
  const absl::StatusOr<nn::Loss>& Get() const { return value_; }

 private:
  absl::StatusOr<nn::Loss> value_;
};
// The loss of the only output, or one per output: in their order, or by their names.
class LossesArg {
 public:
  using ByName = std::vector<std::pair<std::string, LossArg>>;
  template <typename T, typename = std::enable_if_t<std::is_convertible_v<T, LossArg>>>
  LossesArg(T one) : in_order_{LossArg(std::move(one))} {}                  // NOLINT: "mse"
  LossesArg(std::vector<LossArg> losses) : in_order_(std::move(losses)) {}  // NOLINT
  LossesArg(ByName losses) : by_name_(std::move(losses)) {}                 // NOLINT
  const std::vector<LossArg>& in_order() const { return in_order_; }
  const ByName& by_name() const { return by_name_; }

 private:
  std::vector<LossArg> in_order_;
  ByName by_name_;
};
class MetricArg {
 public:
  MetricArg(const char* name) : value_(nn::Metric::FromName(name)) {}         // NOLINT: "accuracy"
  MetricArg(const std::string& name) : value_(nn::Metric::FromName(name)) {}  // NOLINT
  MetricArg(nn::Metric value) : value_(std::move(value)) {}                   // NOLINT
  const absl::StatusOr<nn::Metric>& Get() const { return value_; }

 private:
  absl::StatusOr<nn::Metric> value_;
};

// Precision of float32 products: MatmulPrecision::kHighest, or JAX's name "highest".
class MatmulPrecisionArg {
 public:
  MatmulPrecisionArg(const char* name) : value_(ir::MatmulPrecisionFromName(name)) {}  // NOLINT
  MatmulPrecisionArg(const std::string& name)                                          // NOLINT
      : value_(ir::MatmulPrecisionFromName(name)) {}
  MatmulPrecisionArg(ir::MatmulPrecision value) : value_(value) {}  // NOLINT
  const absl::StatusOr<ir::MatmulPrecision>& Get() const { return value_; }

 private:
  absl::StatusOr<ir::MatmulPrecision> value_;
};

// Symbols of a model: one, or several in their order.
class SymbolsArg {
 public:
  SymbolsArg() = default;
  SymbolsArg(nn::Symbol one) : symbols_{std::move(one)} {}                       // NOLINT
  SymbolsArg(std::vector<nn::Symbol> symbols) : symbols_(std::move(symbols)) {}  // NOLINT
  SymbolsArg(std::initializer_list<nn::Symbol> symbols) : symbols_(symbols) {}   // NOLINT
  const std::vector<nn::Symbol>& Get() const { return symbols_; }

 private:
  std::vector<nn::Symbol> symbols_;
};

// Arrays instead of a dataset (train/arrays.h).
using train::ArraysArg;
using train::ValidationData;

}  // namespace penstock::keras
