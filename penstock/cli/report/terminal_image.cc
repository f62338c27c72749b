#include "penstock/cli/report/terminal_image.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace penstock::cli {
namespace {

constexpr int64_t kMaxSide = 16;
constexpr char kShades[] = " .:-=+*#%@";  // dark to light

std::vector<std::string> Draw(const base::Array& image) {
  const int64_t height = image.dim(0), width = image.dim(1), channels = image.dim(2);
  const int64_t step = std::max<int64_t>(1, (std::max(height, width) + kMaxSide - 1) / kMaxSide);
  const uint8_t* pixels = image.data<uint8_t>();
  std::vector<std::string> lines;
  for (int64_t y = 0; y < height; y += step) {
    std::string line;
    for (int64_t x = 0; x < width; x += step) {
      int64_t sum = 0;
      for (int64_t c = 0; c < channels; ++c) sum += pixels[(y * width + x) * channels + c];
      const int64_t shade = sum * (static_cast<int64_t>(sizeof(kShades)) - 2) / (255 * channels);
      line.append(2, kShades[shade]);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace

std::string DrawImages(const std::vector<base::Array>& images,
                       const std::vector<std::string>& captions, int columns) {
  std::string out;
  for (size_t first = 0; first < images.size();) {
    std::vector<std::vector<std::string>> row;
    std::vector<size_t> widths;
    size_t used = 0, height = 0;
    for (size_t i = first; i < images.size(); ++i) {
      std::vector<std::string> picture = Draw(images[i]);
      picture.push_back(captions[i]);
      size_t width = 0;
      for (const std::string& line : picture) width = std::max(width, line.size());
      if (!row.empty() && used + width + 3 > static_cast<size_t>(columns)) break;
      used += width + 3;
      height = std::max(height, picture.size());
      widths.push_back(width);
      row.push_back(std::move(picture));
    }
    for (size_t y = 0; y < height; ++y) {
      std::string line;
      for (size_t i = 0; i < row.size(); ++i) {
        const std::string& part = y < row[i].size() ? row[i][y] : "";
        absl::StrAppend(&line, part, std::string(widths[i] + 3 - part.size(), ' '));
      }
      line.erase(line.find_last_not_of(' ') + 1);
      absl::StrAppend(&out, line, "\n");
    }
    out += "\n";
    first += row.size();
  }
  return out;
}

}  // namespace penstock::cli
