// Tables of text with frames, laid out as the Python library rich lays out those that Keras prints:
// columns of fixed width, words that do not fit on the next line, words that fit nowhere cut off
// with an ellipsis, a line between rows. Internal to room nn.
#pragma once

#include <string>
#include <vector>

#include "penstock/base/shape.h"

namespace penstock::nn::internal {

// A shape as Keras writes it: "(None, 28, 28, 1)".
std::string ShapeText(const base::Shape& shape);

struct TextTable {
  enum class Align { kLeft, kCenter, kRight };
  struct Column {
    std::string heading;
    Align align = Align::kLeft;
    int width = 0;  // of the text; shrinks when all columns together are wider than the table
  };
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;  // UTF-8, each character one cell wide
  int width = 0;                               // of the whole table, frames included

  std::string Print() const;
};

}  // namespace penstock::nn::internal
