#include "penstock/nn/plot.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

#include "penstock/nn/text_table.h"

namespace penstock::nn {
namespace {

std::string Escaped(absl::string_view text) {
  return absl::StrReplaceAll(text,
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

// Lines of text in a layer's box. A layer with two uses has a box for each.
std::vector<std::string> Lines(const Network& network, const Network::Use& use,
                               const PlotOptions& options) {
  const std::string class_name =
      use.layer.valid() ? std::string(use.layer.class_name()) : "InputLayer";
  std::vector<std::string> lines = {
      options.show_layer_names ? absl::StrCat(use.name, " (", class_name, ")") : class_name};
  for (const TensorType& type : use.types) {
    std::string line;
    if (options.show_shapes) absl::StrAppend(&line, internal::ShapeText(type.shape));
    if (options.show_dtype) {
      absl::StrAppend(&line, line.empty() ? "" : " ", base::DTypeName(type.dtype));
    }
    if (!line.empty()) lines.push_back(std::move(line));
  }
  if (options.show_trainable && use.layer.valid()) {
    lines.push_back(network.Trains(use.layer) ? "trainable" : "not trainable");
  }
  return lines;
}

constexpr int kCharacter = 8, kLine = 18, kMargin = 12, kGapX = 24, kGapY = 40;

struct Box {
  std::vector<std::string> lines;
  int row = 0, x = 0, y = 0, width = 0, height = 0;
};

// Layout of the boxes in centered rows: a layer is one row below the lowest of its inputs.
std::vector<Box> Layout(const Network& network, const PlotOptions& options, int* width,
                        int* height) {
  const auto& uses = network.uses();
  std::vector<Box> boxes(uses.size());
  std::map<int, std::vector<size_t>> rows;
  for (size_t i = 0; i < uses.size(); ++i) {
    Box& box = boxes[i];
    box.lines = Lines(network, uses[i], options);
    size_t longest = 0;
    for (const std::string& line : box.lines) longest = std::max(longest, line.size());
    box.width = static_cast<int>(longest) * kCharacter + 2 * kMargin;
    box.height = static_cast<int>(box.lines.size()) * kLine + 2 * kMargin;
    for (const auto& from : uses[i].inputs) box.row = std::max(box.row, boxes[from.use].row + 1);
    rows[box.row].push_back(i);
  }
  *width = 0;
  std::map<int, int> row_width;
  for (const auto& [row, members] : rows) {
    int sum = -kGapX;
    for (const size_t i : members) sum += boxes[i].width + kGapX;
    row_width[row] = sum;
    *width = std::max(*width, sum + 2 * kMargin);
  }
  *height = kMargin;
  for (const auto& [row, members] : rows) {
    int x = (*width - row_width[row]) / 2, tallest = 0;
    for (const size_t i : members) {
      boxes[i].x = x;
      boxes[i].y = *height;
      x += boxes[i].width + kGapX;
      tallest = std::max(tallest, boxes[i].height);
    }
    *height += tallest + kGapY;
  }
  *height += kMargin - kGapY;
  return boxes;
}

}  // namespace

std::string ToDot(const Network& network, const PlotOptions& options) {
  std::string dot =
      absl::StrCat("digraph \"", Escaped(network.name()), "\" {\n  rankdir=", options.rankdir,
                   ";\n  node [shape=box, fontname=\"Helvetica\"];\n");
  const auto& uses = network.uses();
  for (size_t i = 0; i < uses.size(); ++i) {
    std::vector<std::string> lines;
    for (const std::string& line : Lines(network, uses[i], options)) lines.push_back(Escaped(line));
    absl::StrAppend(&dot, "  n", i, " [label=<", absl::StrJoin(lines, "<BR/>"), ">];\n");
  }
  for (size_t i = 0; i < uses.size(); ++i) {
    for (const auto& from : uses[i].inputs) {
      absl::StrAppend(&dot, "  n", from.use, " -> n", i, ";\n");
    }
  }
  return absl::StrCat(dot, "}\n");
}

std::string ToSvg(const Network& network, const PlotOptions& options) {
  int width = 0, height = 0;
  const std::vector<Box> boxes = Layout(network, options, &width, &height);
  std::string svg = absl::StrCat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", width, "\" height=\"", height,
      "\" font-family=\"monospace\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" "
      "fill=\"white\"/>\n");
  for (size_t i = 0; i < boxes.size(); ++i) {
    for (const auto& from : network.uses()[i].inputs) {
      const Box &a = boxes[from.use], &b = boxes[i];
      const int x0 = a.x + a.width / 2, y0 = a.y + a.height, x1 = b.x + b.width / 2, y1 = b.y;
      absl::StrAppend(&svg, "<path d=\"M", x0, " ", y0, " C", x0, " ", y0 + kGapY / 2, " ", x1, " ",
                      y1 - kGapY / 2, " ", x1, " ", y1, "\" fill=\"none\" stroke=\"#555\"/>\n");
    }
  }
  for (const Box& box : boxes) {
    absl::StrAppend(&svg, "<rect x=\"", box.x, "\" y=\"", box.y, "\" width=\"", box.width,
                    "\" height=\"", box.height, "\" rx=\"4\" fill=\"#f2f6fa\" stroke=\"#345\"/>\n");
    for (size_t l = 0; l < box.lines.size(); ++l) {
      absl::StrAppend(&svg, "<text x=\"", box.x + box.width / 2, "\" y=\"",
                      box.y + kMargin + static_cast<int>(l) * kLine + 13,
                      "\" text-anchor=\"middle\">", Escaped(box.lines[l]), "</text>\n");
    }
  }
  return absl::StrCat(svg, "</svg>\n");
}

}  // namespace penstock::nn
