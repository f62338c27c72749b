// Plots of a network: its layers and their connections (keras.utils.plot_model).
//
//   std::ofstream("model.svg") << ToSvg(network, {.show_shapes = true});
//   std::ofstream("model.dot") << ToDot(network);         // dot -Tpng model.dot > model.png
#pragma once

#include <string>

#include "penstock/nn/network.h"

namespace penstock::nn {

// Options of keras.utils.plot_model.
struct PlotOptions {
  bool show_shapes = false;
  bool show_dtype = false;
  bool show_layer_names = true;
  bool show_trainable = false;
  RankDir rankdir = "TB";  // LR: left to right
};

// A Graphviz (DOT) description.
std::string ToDot(const Network& network, const PlotOptions& options = {});
// An SVG drawing, made without Graphviz: layers in rows by their distance from the inputs. rankdir
// is always "TB".
std::string ToSvg(const Network& network, const PlotOptions& options = {});

}  // namespace penstock::nn
