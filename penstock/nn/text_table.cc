#include "penstock/nn/text_table.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace penstock::nn::internal {
namespace {

using Text = std::vector<std::string>;  // one UTF-8 character each

Text Characters(absl::string_view text) {
  Text characters;
  for (const char c : text) {
    const bool continues = (static_cast<unsigned char>(c) & 0xC0) == 0x80;
    if (continues && !characters.empty()) {
      characters.back() += c;
    } else {
      characters.emplace_back(1, c);
    }
  }
  return characters;
}

bool IsSpace(const std::string& character) { return character == " "; }

std::string Joined(Text::const_iterator begin, Text::const_iterator end) {
  std::string out;
  for (; begin != end; ++begin) out += *begin;
  return out;
}

// Breaks a text into lines of at most `width` cells.
std::vector<Text> Wrap(const Text& text, size_t width) {
  std::vector<size_t> breaks;
  size_t offset = 0;
  for (size_t at = 0; at < text.size();) {
    // A word, with the spaces around it.
    const size_t start = at;
    while (at < text.size() && IsSpace(text[at])) ++at;
    while (at < text.size() && !IsSpace(text[at])) ++at;
    const size_t length = at - start;
    while (at < text.size() && IsSpace(text[at])) ++at;
    if (length <= width - std::min(width, offset)) {
      offset += at - start;
      continue;
    }
    if (start > 0 && (length > width || offset > 0)) breaks.push_back(start);
    if (length > width || (offset > 0 && start > 0)) offset = at - start;
  }
  breaks.push_back(text.size());
  std::vector<Text> lines;
  size_t begin = 0;
  for (const size_t end : breaks) {
    Text line(text.begin() + begin, text.begin() + end);
    while (!line.empty() && line.size() > width && IsSpace(line.back())) line.pop_back();
    if (line.size() > width) {
      line.resize(width - 1);
      line.emplace_back("…");
    }
    lines.push_back(std::move(line));
    begin = end;
  }
  return lines;
}

std::string Aligned(Text line, TextTable::Align align, size_t width) {
  if (align != TextTable::Align::kLeft) {
    while (!line.empty() && IsSpace(line.back())) line.pop_back();
  }
  const size_t room = width - std::min(width, line.size());
  const size_t left = align == TextTable::Align::kLeft     ? 0
                      : align == TextTable::Align::kCenter ? room / 2
                                                           : room;
  return absl::StrCat(std::string(left, ' '), Joined(line.begin(), line.end()),
                      std::string(room - left, ' '));
}

// Python's round: half to even.
int RoundHalfToEven(double x) { return static_cast<int>(std::nearbyint(x)); }

// Widths of the columns with a space on either side, which together fit into the frame.
std::vector<int> Widths(const TextTable& table) {
  std::vector<int> widths;
  int sum = 0;
  for (const auto& column : table.columns) {
    widths.push_back(column.width + 2);
    sum += widths.back();
  }
  int excess = sum - (table.width - static_cast<int>(widths.size()) - 1);
  int left = static_cast<int>(widths.size());
  for (size_t i = 0; i < widths.size() && excess > 0; ++i, --left) {
    const int taken = std::min(widths[i], RoundHalfToEven(static_cast<double>(excess) / left));
    widths[i] -= taken;
    excess -= taken;
  }
  return widths;
}

std::string Repeated(absl::string_view what, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) absl::StrAppend(&out, what);
  return out;
}

std::string Rule(const std::vector<int>& widths, absl::string_view left, absl::string_view line,
                 absl::string_view cross, absl::string_view right) {
  std::string out(left);
  for (size_t i = 0; i < widths.size(); ++i) {
    absl::StrAppend(&out, i == 0 ? "" : cross, Repeated(line, widths[i]));
  }
  return absl::StrCat(out, right, "\n");
}

}  // namespace

std::string ShapeText(const base::Shape& shape) {
  std::vector<std::string> extents;
  for (int64_t d : shape) extents.push_back(d < 0 ? "None" : absl::StrCat(d));
  return absl::StrCat("(", absl::StrJoin(extents, ", "), ")");
}

std::string TextTable::Print() const {
  const std::vector<int> widths = Widths(*this);
  std::string out = Rule(widths, "┏", "━", "┳", "┓");
  const auto print = [&](const std::vector<std::string>& cells, absl::string_view bar) {
    std::vector<std::vector<Text>> wrapped;
    size_t lines = 0;
    for (size_t c = 0; c < columns.size(); ++c) {
      wrapped.push_back(
          Wrap(Characters(cells[c]), static_cast<size_t>(std::max(1, widths[c] - 2))));
      lines = std::max(lines, wrapped[c].size());
    }
    for (size_t line = 0; line < lines; ++line) {
      for (size_t c = 0; c < columns.size(); ++c) {
        const Text text = line < wrapped[c].size() ? wrapped[c][line] : Text();
        absl::StrAppend(
            &out, bar, " ",
            Aligned(text, columns[c].align, static_cast<size_t>(std::max(0, widths[c] - 2))), " ");
      }
      absl::StrAppend(&out, bar, "\n");
    }
  };
  std::vector<std::string> headings;
  for (const Column& column : columns) headings.push_back(column.heading);
  print(headings, "┃");
  absl::StrAppend(&out, Rule(widths, "┡", "━", "╇", "┩"));
  for (size_t r = 0; r < rows.size(); ++r) {
    if (r > 0) absl::StrAppend(&out, Rule(widths, "├", "─", "┼", "┤"));
    print(rows[r], "│");
  }
  return absl::StrCat(out, Rule(widths, "└", "─", "┴", "┘"));
}

}  // namespace penstock::nn::internal
