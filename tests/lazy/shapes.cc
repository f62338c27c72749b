#include "tests/lazy/rows.h"

namespace penstock::tests::lazy_rows {

Table ShapeRows() {
  return {
      {"reshape",
       [](Case& c) {
         return Ts{c.x[0].reshape({3, -1})};
       }},
      {"reshape to a scalar", [](Case& c) { return Ts{torch::reshape(c.x[0], {})}; }},
      {"view", [](Case& c) { return Ts{c.x[0].view(-1)}; }},
      {"flatten", [](Case& c) { return Ts{torch::flatten(c.x[0])}; }},
      {"flatten of some dims", [](Case& c) { return Ts{torch::flatten(c.x[0], 1, 2)}; }},
      {"unflatten",
       [](Case& c) {
         return Ts{torch::unflatten(c.x[0], 1, {3, -1})};
       }},
      {"unsqueeze", [](Case& c) { return Ts{c.x[0].unsqueeze(-1)}; }},
      {"unsqueeze in front", [](Case& c) { return Ts{torch::unsqueeze(c.x[0], 0)}; }},
      {"squeeze", [](Case& c) { return Ts{torch::squeeze(c.x[0])}; }},
      {"squeeze of a dim", [](Case& c) { return Ts{c.x[0].squeeze(-1)}; }},
      {"squeeze of a longer dim", [](Case& c) { return Ts{c.x[0].squeeze(1)}; }},
      {"permute",
       [](Case& c) {
         return Ts{torch::permute(c.x[0], {2, 0, -2})};
       }},
      {"transpose", [](Case& c) { return Ts{torch::transpose(c.x[0], 0, -1)}; }},
      {"t", [](Case& c) { return Ts{c.x[0].t()}; }},
      {"movedim", [](Case& c) { return Ts{torch::movedim(c.x[0], 0, -1)}; }},
      {"expand",
       [](Case& c) {
         return Ts{c.x[0].expand({2, -1, 4})};
       }},
      {"expand_as", [](Case& c) { return Ts{torch::expand_as(c.x[0], c.x[1]) * c.x[1]}; }},
      {"broadcast_to",
       [](Case& c) {
         return Ts{torch::broadcast_to(c.x[0], {3, 4})};
       }},
      {"narrow", [](Case& c) { return Ts{torch::narrow(c.x[0], 0, 1, 3)}; }},
      {"select", [](Case& c) { return Ts{torch::select(c.x[0], 1, -1)}; }},
      {"slice", [](Case& c) { return Ts{torch::slice(c.x[0], 0, 1, 6, 2)}; }},
      {"slice from the end", [](Case& c) { return Ts{torch::slice(c.x[0], 1, -2)}; }},
      {"slice that is empty", [](Case& c) { return Ts{torch::slice(c.x[0], 0, 3, 1)}; }},
      {"diagonal", [](Case& c) { return Ts{torch::diagonal(c.x[0])}; }},
      {"split", [](Case& c) { return torch::split(c.x[0], 3); }},
      {"split by sizes",
       [](Case& c) {
         return torch::split(c.x[0], std::vector<int64_t>{1, 2, 3}, 1);
       }},
      {"chunk", [](Case& c) { return torch::chunk(c.x[0], 3); }},
      {"unbind", [](Case& c) { return torch::unbind(c.x[0], 1); }},
      {"cat",
       [](Case& c) {
         return Ts{torch::cat({c.x[0], c.x[1]}, -1)};
       }},
      {"cat of types",
       [](Case& c) {
         return Ts{torch::cat({c.x[0], c.x[1]})};
       }},
      {"stack",
       [](Case& c) {
         return Ts{torch::stack({c.x[0], c.x[1]}, 1)};
       }},
      {"stack at the end", [](Case& c) { return Ts{torch::stack(c.x, -1)}; }},
      {"meshgrid", [](Case& c) { return torch::meshgrid(c.x); }},
      {"meshgrid xy", [](Case& c) { return torch::meshgrid(c.x, "xy"); }},
      {"repeat",
       [](Case& c) {
         return Ts{c.x[0].repeat({2, 1, 3})};
       }},
      {"tile", [](Case& c) { return Ts{torch::tile(c.x[0], 2)}; }},
      {"repeat_interleave", [](Case& c) { return Ts{torch::repeat_interleave(c.x[0], 2, 1)}; }},
      {"repeat_interleave of all", [](Case& c) { return Ts{torch::repeat_interleave(c.x[0], 2)}; }},
      {"flip",
       [](Case& c) {
         return Ts{torch::flip(c.x[0], {0, 2})};
       }},
      {"roll",
       [](Case& c) {
         return Ts{torch::roll(c.x[0], {1, -2}, {0, 1})};
       }},
      {"roll of all", [](Case& c) { return Ts{torch::roll(c.x[0], 5)}; }},
      {"tril", [](Case& c) { return Ts{torch::tril(c.x[0])}; }},
      {"tril below", [](Case& c) { return Ts{c.x[0].tril(-1)}; }},
      {"triu", [](Case& c) { return Ts{torch::triu(c.x[0], 1)}; }},
      {"diag", [](Case& c) { return Ts{torch::diag(c.x[0])}; }},
      {"diag of a matrix", [](Case& c) { return Ts{torch::diag(c.x[0])}; }},
      {"hstack",
       [](Case& c) {
         return Ts{torch::hstack({c.x[0], c.x[1]})};
       }},
      {"hstack of vectors",
       [](Case& c) {
         return Ts{torch::hstack({c.x[0], c.x[1]})};
       }},
      {"vstack",
       [](Case& c) {
         return Ts{torch::vstack({c.x[0], c.x[1]})};
       }},
      {"vstack of vectors",
       [](Case& c) {
         return Ts{torch::vstack({c.x[0], c.x[1]})};
       }},
      {"dstack",
       [](Case& c) {
         return Ts{torch::dstack({c.x[0], c.x[1]})};
       }},
      {"dstack of vectors",
       [](Case& c) {
         return Ts{torch::dstack({c.x[0], c.x[1]})};
       }},
      {"swapaxes", [](Case& c) { return Ts{torch::swapaxes(c.x[0], 0, -1)}; }},
      {"swapdims", [](Case& c) { return Ts{c.x[0].swapdims(1, 2)}; }},
      {"broadcast_tensors",
       [](Case& c) {
         return torch::broadcast_tensors({c.x[0], c.x[1]});
       }},
      {"fliplr", [](Case& c) { return Ts{torch::fliplr(c.x[0])}; }},
      {"flipud", [](Case& c) { return Ts{c.x[0].flipud()}; }},
      {"rot90", [](Case& c) { return Ts{torch::rot90(c.x[0])}; }},
      {"rot90 backwards",
       [](Case& c) {
         return Ts{c.x[0].rot90(-1, {1, 2})};
       }},
      {"diag_embed", [](Case& c) { return Ts{torch::diag_embed(c.x[0])}; }},
      {"diag_embed with an offset", [](Case& c) { return Ts{c.x[0].diag_embed(1, 0, 2)}; }},
      {"diag_embed below", [](Case& c) { return Ts{c.x[0].diag_embed(-2)}; }},
      {"view_as",
       [](Case& c) {
         return Ts{c.x[0].view_as(c.x[1]), c.x[0].reshape_as(c.x[1])};
       }},
  };
}

}  // namespace penstock::tests::lazy_rows
