#include <limits>

#include "tests/lazy/rows.h"

namespace penstock::tests::lazy_rows {
namespace {

Ts Both(const lazy::ValuesAndIndices& both) { return {both.values, both.indices}; }

}  // namespace

Table ReductionRows() {
  return {
      {"sum", [](Case& c) { return Ts{torch::sum(c.x[0])}; }},
      {"sum over dims",
       [](Case& c) {
         return Ts{torch::sum(c.x[0], {0, -1})};
       }},
      {"sum keepdim", [](Case& c) { return Ts{c.x[0].sum(1, true)}; }},
      {"sum of integers", [](Case& c) { return Ts{c.x[0].sum()}; }},
      {"sum of bools", [](Case& c) { return Ts{c.x[0].sum(1)}; }},
      {"sum of bfloat16", [](Case& c) { return Ts{c.x[0].sum(1)}; }},
      {"sum of a scalar", [](Case& c) { return Ts{c.x[0].sum(0)}; }},
      {"mean", [](Case& c) { return Ts{torch::mean(c.x[0])}; }},
      {"mean over dims",
       [](Case& c) {
         return Ts{torch::mean(c.x[0], {1, 2}, true)};
       }},
      {"prod", [](Case& c) { return Ts{torch::prod(c.x[0])}; }},
      {"prod over a dim", [](Case& c) { return Ts{torch::prod(c.x[0], 1)}; }},
      {"prod of integers", [](Case& c) { return Ts{c.x[0].prod()}; }},
      {"amax",
       [](Case& c) {
         return Ts{torch::amax(c.x[0], {0, 1})};
       }},
      {"amax at ties", [](Case& c) { return Ts{torch::amax(c.x[0], 1)}; }},
      {"amin", [](Case& c) { return Ts{torch::amin(c.x[0], 0, true)}; }},
      {"var", [](Case& c) { return Ts{torch::var(c.x[0])}; }},
      {"var over a dim", [](Case& c) { return Ts{torch::var(c.x[0], 1, false)}; }},
      {"std", [](Case& c) { return Ts{torch::std(c.x[0], 1, true, true)}; }},
      {"std of equal numbers", [](Case& c) { return Ts{torch::std(c.x[0], 1)}; }},
      {"var_mean",
       [](Case& c) {
         const auto [v, m] = torch::var_mean(c.x[0], 0);
         return Ts{v, m};
       }},
      {"std_mean",
       [](Case& c) {
         const auto [s, m] = torch::std_mean(c.x[0], {0, 1}, false);
         return Ts{s, m};
       }},
      {"norm", [](Case& c) { return Ts{torch::norm(c.x[0])}; }},
      {"norm of zeros", [](Case& c) { return Ts{torch::norm(c.x[0], 2, 1)}; }},
      {"norm 1", [](Case& c) { return Ts{torch::norm(c.x[0], 1, 1)}; }},
      {"norm 3", [](Case& c) { return Ts{torch::norm(c.x[0], 3, 0)}; }},
      {"norm infinity",
       [](Case& c) { return Ts{torch::norm(c.x[0], std::numeric_limits<double>::infinity())}; }},
      {"norm 0", [](Case& c) { return Ts{torch::norm(c.x[0], 0, 1).detach() * c.x[0].sum()}; }},
      {"logsumexp", [](Case& c) { return Ts{torch::logsumexp(c.x[0], 1)}; }},
      {"logsumexp over dims",
       [](Case& c) {
         return Ts{c.x[0].logsumexp({0, 1}, true)};
       }},
      {"any", [](Case& c) { return Ts{torch::any(c.x[0], 1)}; }},
      {"any of all", [](Case& c) { return Ts{torch::any(c.x[0])}; }},
      {"all", [](Case& c) { return Ts{torch::all(c.x[0], 0, true)}; }},
      {"all of integers", [](Case& c) { return Ts{c.x[0].all()}; }},
      {"count_nonzero", [](Case& c) { return Ts{torch::count_nonzero(c.x[0], 1)}; }},
      {"argmax", [](Case& c) { return Ts{torch::argmax(c.x[0], 1)}; }},
      {"argmax of all", [](Case& c) { return Ts{torch::argmax(c.x[0])}; }},
      {"argmax keepdim", [](Case& c) { return Ts{c.x[0].argmax(-1, true)}; }},
      {"argmin", [](Case& c) { return Ts{torch::argmin(c.x[0], 0)}; }},
      {"argmin of integers", [](Case& c) { return Ts{torch::argmin(c.x[0], 1)}; }},
      {"max", [](Case& c) { return Ts{torch::max(c.x[0])}; }},
      {"max over a dim", [](Case& c) { return Both(torch::max(c.x[0], 1)); }},
      {"max keepdim", [](Case& c) { return Both(c.x[0].max(0, true)); }},
      {"max at ties", [](Case& c) { return Ts{torch::max(c.x[0], 1).values}; }},
      {"min", [](Case& c) { return Ts{torch::min(c.x[0])}; }},
      {"min over a dim", [](Case& c) { return Both(torch::min(c.x[0], 1)); }},
      {"norm 3 of zeros", [](Case& c) { return Ts{torch::norm(c.x[0], 3, 1)}; }},
      {"norm 0.5 of zeros", [](Case& c) { return Ts{torch::norm(c.x[0], 0.5, 1)}; }},
      {"median", [](Case& c) { return Ts{torch::median(c.x[0])}; }},
      {"median over a dim", [](Case& c) { return Both(torch::median(c.x[0], 1)); }},
      {"median with nan", [](Case& c) { return Both(torch::median(c.x[0], 1)); }},
      {"cumsum", [](Case& c) { return Ts{torch::cumsum(c.x[0], 1)}; }},
      {"cumsum of bools", [](Case& c) { return Ts{c.x[0].cumsum(0)}; }},
      {"cumprod", [](Case& c) { return Ts{torch::cumprod(c.x[0], 0)}; }},
      {"topk", [](Case& c) { return Both(torch::topk(c.x[0], 2)); }},
      {"topk smallest", [](Case& c) { return Both(torch::topk(c.x[0], 2, 0, false)); }},
      {"topk smallest with nan", [](Case& c) { return Both(torch::topk(c.x[0], 2, -1, false)); }},
      {"topk of integers", [](Case& c) { return Both(c.x[0].topk(2, -1, false)); }},
      {"sort", [](Case& c) { return Both(torch::sort(c.x[0])); }},
      {"sort descending", [](Case& c) { return Both(torch::sort(c.x[0], 0, true)); }},
      {"argsort", [](Case& c) { return Ts{torch::argsort(c.x[0], 1, true)}; }},
      {"softmax", [](Case& c) { return Ts{torch::softmax(c.x[0], 1)}; }},
      {"softmax of bfloat16", [](Case& c) { return Ts{c.x[0].softmax(0)}; }},
      {"softmax to float32", [](Case& c) { return Ts{F::softmax(c.x[0], 1, torch::kFloat)}; }},
      {"log_softmax", [](Case& c) { return Ts{torch::log_softmax(c.x[0], 1)}; }},
      {"nansum", [](Case& c) { return Ts{torch::nansum(c.x[0], 1)}; }},
      {"nanmean", [](Case& c) { return Ts{c.x[0].nanmean(0, true)}; }},
      {"aminmax",
       [](Case& c) {
         const auto [low, high] = torch::aminmax(c.x[0], 1, true);
         return Ts{low, high};
       }},
      {"aminmax of all",
       [](Case& c) {
         const auto [low, high] = c.x[0].aminmax();
         return Ts{low, high};
       }},
      {"trace", [](Case& c) { return Ts{torch::trace(c.x[0])}; }},
      {"trace of integers", [](Case& c) { return Ts{c.x[0].trace()}; }},
      {"quantile", [](Case& c) { return Ts{torch::quantile(c.x[0], 0.3, 1)}; }},
      {"quantile of all", [](Case& c) { return Ts{c.x[0].quantile(0.5, {}, true)}; }},
      {"quantile of several",
       [](Case& c) {
         return Ts{torch::quantile(c.x[0], std::vector<double>{0, 0.25, 0.9, 1}, 0)};
       }},
      {"quantile midpoint",
       [](Case& c) { return Ts{torch::quantile(c.x[0], 0.4, -1, true, "midpoint")}; }},
      {"quantile nearest",
       [](Case& c) { return Ts{torch::quantile(c.x[0], 0.4, -1, false, "nearest")}; }},
      {"quantile with nan", [](Case& c) { return Ts{torch::quantile(c.x[0], 0.5, 1)}; }},
      {"cummax", [](Case& c) { return Both(torch::cummax(c.x[0], 1)); }},
      {"cummax at ties and nan", [](Case& c) { return Both(c.x[0].cummax(-1)); }},
      {"cummin", [](Case& c) { return Both(torch::cummin(c.x[0], 0)); }},
      {"cummin of integers", [](Case& c) { return Both(c.x[0].cummin(0)); }},
      {"logcumsumexp", [](Case& c) { return Ts{torch::logcumsumexp(c.x[0], 1)}; }},
      {"kthvalue", [](Case& c) { return Both(torch::kthvalue(c.x[0], 2)); }},
      {"kthvalue keepdim", [](Case& c) { return Both(c.x[0].kthvalue(3, 0, true)); }},
  };
}

}  // namespace penstock::tests::lazy_rows
