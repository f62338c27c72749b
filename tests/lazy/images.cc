#include "tests/lazy/rows.h"

namespace penstock::tests::lazy_rows {
namespace {

Program Interpolate(F::InterpolateOptions options) {
  return [options](Case& c) { return Ts{F::interpolate(c.x[0], options)}; };
}

}  // namespace

Table ImageRows() {
  return {
      {"pad",
       [](Case& c) {
         return Ts{F::pad(c.x[0], {1, 2, 0, 1}, "constant", 0.5)};
       }},
      {"pad that crops",
       [](Case& c) {
         return Ts{F::pad(c.x[0], {-1, 1})};
       }},
      {"pad reflect",
       [](Case& c) {
         return Ts{F::pad(c.x[0], {1, 2, 3, 0}, "reflect")};
       }},
      {"pad replicate",
       [](Case& c) {
         return Ts{F::pad(c.x[0], {1, 2, 3, 0}, "replicate")};
       }},
      {"pad circular",
       [](Case& c) {
         return Ts{F::pad(c.x[0], {1, 2, 3, 0}, "circular")};
       }},
      {"pad of a sequence",
       [](Case& c) {
         return Ts{F::pad(c.x[0], {2, 1}, "reflect")};
       }},
      {"interpolate", Interpolate({.scale_factor = {2}})},
      {"interpolate to a size", Interpolate({.size = {7, 3}})},
      {"interpolate by a fraction", Interpolate({.scale_factor = {1.6, 0.7}})},
      {"interpolate bilinear", Interpolate({.size = {8, 9}, .mode = "bilinear"})},
      {"interpolate bilinear to less", Interpolate({.scale_factor = {0.6}, .mode = "bilinear"})},
      {"interpolate bilinear aligned",
       Interpolate({.size = {9, 2}, .mode = "bilinear", .align_corners = true})},
      {"interpolate linear", Interpolate({.size = 8, .mode = "linear"})},
      {"interpolate nearest of a sequence", Interpolate({.size = 8})},
      {"pixel_shuffle", [](Case& c) { return Ts{F::pixel_shuffle(c.x[0], 2)}; }},
      {"pixel_unshuffle", [](Case& c) { return Ts{F::pixel_unshuffle(c.x[0], 2)}; }},
      {"unfold",
       [](Case& c) {
         return Ts{F::unfold(c.x[0], {2, 3})};
       }},
      {"unfold with options",
       [](Case& c) {
         return Ts{F::unfold(c.x[0], 2, {.dilation = {2, 1}, .padding = 1, .stride = 2})};
       }},
  };
}

}  // namespace penstock::tests::lazy_rows
