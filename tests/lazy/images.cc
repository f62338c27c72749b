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
      {"grid_sample bilinear zeros",
       [](Case& c) {
         return Ts{
             F::grid_sample(c.x[0], c.x[1],
                            {.mode = "bilinear", .padding_mode = "zeros", .align_corners = false})};
       }},
      {"grid_sample bilinear zeros aligned",
       [](Case& c) {
         return Ts{F::grid_sample(
             c.x[0], c.x[1], {.mode = "bilinear", .padding_mode = "zeros", .align_corners = true})};
       }},
      {"grid_sample bilinear border",
       [](Case& c) {
         return Ts{F::grid_sample(
             c.x[0], c.x[1],
             {.mode = "bilinear", .padding_mode = "border", .align_corners = false})};
       }},
      {"grid_sample bilinear border aligned",
       [](Case& c) {
         return Ts{
             F::grid_sample(c.x[0], c.x[1],
                            {.mode = "bilinear", .padding_mode = "border", .align_corners = true})};
       }},
      {"grid_sample bilinear reflection",
       [](Case& c) {
         return Ts{F::grid_sample(
             c.x[0], c.x[1],
             {.mode = "bilinear", .padding_mode = "reflection", .align_corners = false})};
       }},
      {"grid_sample bilinear reflection aligned",
       [](Case& c) {
         return Ts{F::grid_sample(
             c.x[0], c.x[1],
             {.mode = "bilinear", .padding_mode = "reflection", .align_corners = true})};
       }},
      {"grid_sample nearest zeros",
       [](Case& c) {
         return Ts{F::grid_sample(
             c.x[0], c.x[1], {.mode = "nearest", .padding_mode = "zeros", .align_corners = false})};
       }},
      {"grid_sample nearest border",
       [](Case& c) {
         return Ts{
             F::grid_sample(c.x[0], c.x[1],
                            {.mode = "nearest", .padding_mode = "border", .align_corners = false})};
       }},
      {"grid_sample nearest reflection",
       [](Case& c) {
         return Ts{F::grid_sample(
             c.x[0], c.x[1],
             {.mode = "nearest", .padding_mode = "reflection", .align_corners = false})};
       }},
      {"affine_grid",
       [](Case& c) {
         return Ts{F::affine_grid(c.x[0], {2, 3, 4, 5})};
       }},
      {"affine_grid aligned",
       [](Case& c) {
         return Ts{F::affine_grid(c.x[0], {2, 3, 4, 1}, true)};
       }},
      {"fold",
       [](Case& c) {
         return Ts{
             F::fold(c.x[0], {5, 6}, {2, 3}, {.dilation = {2, 1}, .padding = 1, .stride = {1, 2}})};
       }},
      {"channel_shuffle", [](Case& c) { return Ts{F::channel_shuffle(c.x[0], 3)}; }},
      {"interpolate bicubic",
       [](Case& c) {
         return Ts{F::interpolate(c.x[0], {.size = {7, 9}, .mode = "bicubic"})};
       }},
      {"interpolate bicubic aligned",
       [](Case& c) {
         return Ts{
             F::interpolate(c.x[0], {.size = {7, 2}, .mode = "bicubic", .align_corners = true})};
       }},
      {"interpolate bicubic smaller",
       [](Case& c) {
         return Ts{F::interpolate(c.x[0], {.scale_factor = {0.6}, .mode = "bicubic"})};
       }},
      {"interpolate area",
       [](Case& c) {
         return Ts{F::interpolate(c.x[0], {.size = {3, 2}, .mode = "area"})};
       }},
      {"interpolate nearest-exact",
       [](Case& c) {
         return Ts{F::interpolate(c.x[0], {.size = {7, 3}, .mode = "nearest-exact"})};
       }},
      {"interpolate trilinear",
       [](Case& c) {
         return Ts{F::interpolate(c.x[0], {.size = {3, 7, 4}, .mode = "trilinear"})};
       }},
  };
}

}  // namespace penstock::tests::lazy_rows
