// Text tables with box-drawing frames, in the layout of the Python library rich, which Keras uses:
// columns of fixed width, words wrapped to the next line, words longer than a column cut off with
// an ellipsis, a line between rows. Internal to room nn.
#pragma once

#include <string>
#include <vector>

#include "penstock/base/shape.h"

namespace penstock::nn::internal {

// A shape in Keras's notation: "(None, 28, 28, 1)".
std::string ShapeText(const base::Shape& shape);

struct TextTable {
  enum class Align { kLeft, kCenter, kRight };
  struct Column {
    std::string heading;
    Align align = Align::kLeft;
    int width = 0;  // of the text; reduced if the columns do not fit into the table
  };
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;  // UTF-8, each character one cell wide
  int width = 0;                               // of the whole table, including frames

  std::string Print() const;
};

}  // namespace penstock::nn::internal
