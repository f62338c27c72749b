#include "tests/lazy/rows.h"

namespace penstock::tests::lazy_rows {
namespace {

// The function changes its first argument, a copy of the input.
Program OfClone(const std::function<void(T& y, const Ts& x)>& function) {
  return [function](Case& c) {
    T y = c.x[0].clone();
    function(y, c.x);
    return Ts{y};
  };
}

Ts ViewOfAView(Case& c) {
  T y = c.x[0].clone();
  T a = y.view({2, 6});
  T b = a.slice(1, 1, 4);
  b.add_(1.0);
  T first = b.select(1, 0);
  first.zero_();
  return {y, a};
}

Ts BaseChanges(Case& c) {
  T y = c.x[0].clone();
  const T view = y.select(0, 0);
  y.mul_(2.0);
  return {y, view * 1};
}

Ts Accumulate(Case& c) {
  T total = torch::zeros(3);
  for (int i = 0; i < 3; ++i) {
    total.index_put_({i}, torch::sum(c.x[0].index({i}) * c.x[1]));
  }
  return {total * total};
}

Ts ClipNorm(Case& c) {
  T x = c.x[0].detach().clone(), y = c.x[1].detach().clone();
  x.requires_grad_();
  y.requires_grad_();
  ((x * x).sum() + y.pow(3).sum()).backward();
  const T total = nn::utils::clip_grad_norm_({x, y}, 0.7);
  return {total, x.grad(), y.grad()};
}

Ts ClipValue(Case& c) {
  T x = c.x[0].detach().clone();
  x.requires_grad_();
  (x * x).sum().backward();
  nn::utils::clip_grad_value_({x}, 0.5);
  return {x.grad()};
}

Ts RunningMean(Case& c) {
  T mean = torch::zeros(4);
  const torch::no_grad guard;
  for (int i = 0; i < 3; ++i) mean.mul_(0.9).add_(c.x[0].index({i}), 0.1);
  return {mean};
}

}  // namespace

Table InPlaceRows() {
  return {
      {"add_ and mul_", OfClone([](T& y, const Ts& x) { y.add_(x[1], 2).mul_(x[1]); })},
      {"sub_ and div_", OfClone([](T& y, const Ts& x) { y.sub_(x[1], 0.5).div_(x[1]); })},
      {"copy_", OfClone([](T& y, const Ts& x) { y.copy_(x[1]); })},
      {"fill_ of a part", OfClone([](T& y, const Ts&) {
         y.index({Slice{}, 1}).fill_(7);
       })},
      {"zero_", OfClone([](T& y, const Ts&) { y.index({0}).zero_(); })},
      {"clamp_", OfClone([](T& y, const Ts&) { y.clamp_(-0.5, 0.5); })},
      {"clamp_min_ and clamp_max_",
       OfClone([](T& y, const Ts&) { y.clamp_min_(-0.5).clamp_max_(0.5); })},
      {"addcmul_", OfClone([](T& y, const Ts& x) { y.addcmul_(x[1], x[2], 0.5); })},
      {"addcdiv_", OfClone([](T& y, const Ts& x) { y.addcdiv_(x[1], x[2], 0.5); })},
      {"lerp_", OfClone([](T& y, const Ts& x) { y.lerp_(x[1], 0.25); })},
      {"pow_", OfClone([](T& y, const Ts&) { y.pow_(2); })},
      {"masked_fill_", OfClone([](T& y, const Ts& x) { y.masked_fill_(x[1], 0.5); })},
      {"scatter_add_", OfClone([](T& y, const Ts& x) { y.scatter_add_(0, x[1], x[2]); })},
      {"index_add_", OfClone([](T& y, const Ts& x) { y.index_add_(0, x[1], x[2]); })},
      {"index_put_", OfClone([](T& y, const Ts& x) {
         y.index_put_({Slice{0, 2}, 1}, x[1]);
       })},
      {"index_put_ of a number", OfClone([](T& y, const Ts&) {
         y.index_put_({Ellipsis, Slice{1, 4, 2}}, 9.0);
       })},
      {"unary in place", OfClone([](T& y, const Ts&) {
         y.sqrt_().neg_().exp_().tanh_().log_().abs_().sigmoid_().rsqrt_().relu_();
       })},
      {"view transposed and sliced",
       OfClone([](T& y, const Ts& x) { y.t().slice(0, 1, 3).mul_(x[1]); })},
      {"view of a view", ViewOfAView},
      {"view seen after its base changes", BaseChanges},
      {"view with a step", OfClone([](T& y, const Ts&) {
         y.index({Slice{1, {}, 2}}).mul_(10.0);
       })},
      {"view by permute", OfClone([](T& y, const Ts&) {
         y.permute({2, 0, 1}).select(0, 1).add_(1.0);
       })},
      {"view by unsqueeze and flatten", OfClone([](T& y, const Ts&) {
         y.unsqueeze(0).flatten(1).index({Slice{}, Slice{2, 4}}).mul_(3.0);
       })},
      {"view by split", OfClone([](T& y, const Ts&) {
         double i = 0;
         for (T& part : torch::split(y, 2)) part.mul_(i++);
       })},
      {"view written in a loop", Accumulate},
      {"running mean", RunningMean},
      {"clip_grad_norm_", ClipNorm},
      {"clip_grad_value_", ClipValue},
      {"index_fill_", OfClone([](T& y, const Ts& x) {
         const T at = torch::arange(2);
         y.index_fill_(0, at, 0.5);
         y.index_copy_(1, at, x[1].index({Slice{}, Slice{0, 2}}));
         y.masked_scatter_(x[1] > 0, x[1]);
       })},
  };
}

}  // namespace penstock::tests::lazy_rows
