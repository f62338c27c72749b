#include "penstock/cli/report/confusion_page.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "penstock/base/json_dump.h"
#include "penstock/cli/report/html_text.h"
#include "penstock/image/encode.h"
#include "penstock/image/resize.h"

namespace penstock::cli {
namespace {

constexpr size_t kMostPairsListed = 50;

constexpr char kPageHead[] = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Confusion matrix</title>
<style>
:root{color-scheme:light dark;--paper:#fff;--ink:#1c1c1c;--soft:#666;--line:#d8d8d8;
--right:#1b7f5c;--wrong:#c0392b}
@media (prefers-color-scheme:dark){:root{--paper:#161616;--ink:#eaeaea;--soft:#a0a0a0;
--line:#3a3a3a;--right:#3cc495;--wrong:#ff7b6b}}
body{font-family:system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em;
background:var(--paper);color:var(--ink)}
p,figcaption{color:var(--soft)}
table{border-collapse:collapse}
th,td{padding:.2em .8em;text-align:right;border-bottom:1px solid var(--line)}
th:first-child,td:first-child,.name{text-align:left;overflow-wrap:anywhere}
.wide{overflow-x:auto}
.grid{display:flex;flex-wrap:wrap;gap:1em}
figure{margin:0;width:11em}
figure img{width:10em;height:10em;object-fit:contain;background:var(--line)}
figure img.small{image-rendering:pixelated}
figcaption{overflow-wrap:anywhere;font-size:.9em}
.wrong{color:var(--wrong)}
svg text{fill:var(--ink);font-size:11px}
</style></head><body>
)";

// The first characters of a name, for a label of the picture.
std::string ShortName(const std::string& name) {
  constexpr size_t kMostBytes = 24;
  const std::string valid = base::ReplaceInvalidUtf8(name);
  if (valid.size() <= kMostBytes) return valid;
  size_t end = kMostBytes - 2;
  while (end > 0 && (static_cast<unsigned char>(valid[end]) & 0xc0) == 0x80) --end;
  return valid.substr(0, end) + "\u2026";
}

std::string Percent(double part, double whole) {
  return whole == 0 ? "0 %" : absl::StrFormat("%.1f %%", 100 * part / whole);
}

// ---- Picture of the matrix ----

// The classes to draw, by number.
std::vector<ClassScores> ClassesDrawn(const Confusion& confusion) {
  std::vector<ClassScores> classes = confusion.PerClass();
  if (classes.size() <= kMostClassesDrawn) return classes;
  const auto mistakes = [&](const ClassScores& c) {
    return c.support + c.predicted - 2 * confusion.Count(c.class_number, c.class_number);
  };
  std::stable_sort(classes.begin(), classes.end(), [&](const ClassScores& a, const ClassScores& b) {
    return mistakes(a) > mistakes(b);
  });
  classes.resize(kMostClassesDrawn);
  std::sort(classes.begin(), classes.end(), [](const ClassScores& a, const ClassScores& b) {
    return a.class_number < b.class_number;
  });
  return classes;
}

constexpr int kMatrixLeft = 190, kMatrixTop = 170;

int CellSize(size_t classes) { return std::clamp(640 / static_cast<int>(classes), 16, 48); }

// One cell, colored by its share of the row.
std::string Cell(const ConfusionPageInput& input, const ClassScores& label,
                 const ClassScores& predicted, int x, int y, int size) {
  const int64_t count = input.confusion.Count(label.class_number, predicted.class_number);
  if (count == 0) return "";
  const double share = static_cast<double>(count) / static_cast<double>(label.support);
  const bool right = label.class_number == predicted.class_number;
  std::string cell = absl::StrFormat(
      "<g><title>%s, predicted as %s: %d images, %s of the class</title>"
      "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"var(--%s)\" "
      "fill-opacity=\"%.2f\"/>",
      HtmlText(input.class_name(label.class_number)),
      HtmlText(input.class_name(predicted.class_number)), count,
      Percent(static_cast<double>(count), static_cast<double>(label.support)), x, y, size, size,
      right ? "right" : "wrong", 0.15 + 0.85 * share);
  constexpr int kLegible = 30;
  if (size >= kLegible) {
    absl::StrAppendFormat(&cell, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%d</text>",
                          x + size / 2, y + size / 2 + 4, count);
  }
  return cell + "</g>\n";
}

std::string MatrixSvg(const ConfusionPageInput& input, const std::vector<ClassScores>& classes) {
  const int size = CellSize(classes.size()), side = size * static_cast<int>(classes.size());
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-label=\"Confusion matrix: true "
      "classes in rows, predicted classes in columns\" width=\"%d\" height=\"%d\">\n"
      "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"var(--line)\"/>\n"
      "<text x=\"%d\" y=\"14\">predicted class</text><text x=\"0\" y=\"%d\">true class</text>\n",
      kMatrixLeft + side + 90, kMatrixTop + side + 10, kMatrixLeft, kMatrixTop, side, side,
      kMatrixLeft, kMatrixTop - 8);
  for (size_t i = 0; i < classes.size(); ++i) {
    const int at = static_cast<int>(i) * size, middle = at + size / 2 + 4;
    const std::string name = HtmlText(ShortName(input.class_name(classes[i].class_number)));
    absl::StrAppendFormat(&svg, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n",
                          kMatrixLeft - 6, kMatrixTop + middle, name);
    absl::StrAppendFormat(&svg, "<text transform=\"translate(%d,%d) rotate(-60)\">%s</text>\n",
                          kMatrixLeft + middle, kMatrixTop - 6, name);
    for (size_t j = 0; j < classes.size(); ++j) {
      svg += Cell(input, classes[i], classes[j], kMatrixLeft + static_cast<int>(j) * size,
                  kMatrixTop + at, size);
    }
  }
  return svg + "</svg>\n";
}

std::string MatrixSection(const ConfusionPageInput& input) {
  const size_t all = input.confusion.PerClass().size();
  if (all == 0) return "";
  const std::vector<ClassScores> drawn = ClassesDrawn(input.confusion);
  std::string html = "<h2>Confusion matrix</h2>\n<p>";
  if (drawn.size() < all) {
    absl::StrAppendFormat(&html, "The %d of %d classes with the most mistakes. ", drawn.size(),
                          all);
  }
  absl::StrAppend(&html,
                  "The darker a cell, the larger its share of the images of its row's class.",
                  "</p>\n<div class=\"wide\">\n", MatrixSvg(input, drawn), "</div>\n");
  return html;
}

// ---- Lists ----

std::string PairsSection(const ConfusionPageInput& input) {
  const std::vector<ConfusedPair> pairs = input.confusion.WorstPairs(kMostPairsListed);
  if (pairs.empty()) return "";
  std::map<int64_t, int64_t> support;
  for (const ClassScores& scores : input.confusion.PerClass()) {
    support[scores.class_number] = scores.support;
  }
  std::string html =
      "<h2>Most frequent confusions</h2>\n<table><tr><th>true class</th><th "
      "class=\"name\">predicted class</th><th>images</th><th>of the true class</th></tr>\n";
  for (const ConfusedPair& pair : pairs) {
    absl::StrAppendFormat(
        &html, "<tr><td>%s</td><td class=\"name\">%s</td><td>%d</td><td>%s</td></tr>\n",
        HtmlText(input.class_name(pair.label)), HtmlText(input.class_name(pair.predicted)),
        pair.count,
        Percent(static_cast<double>(pair.count), static_cast<double>(support[pair.label])));
  }
  return html + "</table>\n";
}

// The image as an <img> of at most 160 pixels per side, or the encoder's error.
std::string EmbeddedImage(const base::Array& pixels, const std::string& description) {
  constexpr int kMostPixels = 160, kSmall = 48;
  const absl::StatusOr<image::ImageView> view = image::ViewOf(pixels);
  if (!view.ok()) return HtmlText(view.status().message());
  image::ImageView shown = *view;
  base::Array scaled;
  if (const int longer = std::max(shown.height, shown.width); longer > kMostPixels) {
    const auto side = [&](int size) { return std::max<int64_t>(1, size * kMostPixels / longer); };
    scaled = base::Array::Uninitialized(base::DType::kU8,
                                        {side(shown.height), side(shown.width), shown.channels});
    const absl::StatusOr<image::MutableImageView> to = image::MutableViewOf(scaled);
    if (!to.ok()) return HtmlText(to.status().message());
    image::Resizer().ResizeInto(shown, {.antialias = true}, *to);
    shown = *to;
  }
  const bool small = std::max(shown.height, shown.width) <= kSmall;
  const absl::StatusOr<std::string> bytes =
      small ? image::EncodePng(shown) : image::EncodeJpeg(shown, {.quality = 85});
  if (!bytes.ok()) return HtmlText(bytes.status().message());
  return absl::StrFormat("<img%s alt=\"%s\" src=\"data:image/%s;base64,%s\">",
                         small ? " class=\"small\"" : "", HtmlText(description),
                         small ? "png" : "jpeg", absl::Base64Escape(*bytes));
}

std::string MistakesSection(const ConfusionPageInput& input) {
  if (input.mistakes.empty()) return "";
  std::string html =
      "<h2>Worst mistakes</h2>\n<p>The wrong predictions with the highest probabilities.</p>\n"
      "<div class=\"grid\">\n";
  for (const Mistake& mistake : input.mistakes) {
    const std::string label = input.class_name(mistake.label);
    absl::StrAppendFormat(
        &html,
        "<figure>%s<figcaption><span class=\"wrong\">%s</span>, %s<br>is %s<br>image %d"
        "</figcaption></figure>\n",
        EmbeddedImage(mistake.pixels, label), HtmlText(input.class_name(mistake.predicted)),
        absl::StrFormat("%.1f %%", 100 * mistake.probability), HtmlText(label), mistake.number);
  }
  return html + "</div>\n";
}

std::string ScoreRow(const std::string& name, const MeanScores& scores, int64_t support) {
  return absl::StrFormat("<tr><td>%s</td><td>%.4f</td><td>%.4f</td><td>%.4f</td><td>%d</td></tr>\n",
                         name, scores.precision, scores.recall, scores.f1, support);
}

std::string ScoresSection(const ConfusionPageInput& input) {
  std::string html =
      "<h2>Classes</h2>\n<table><tr><th>class</th><th>precision</th><th>recall</th>"
      "<th>F1</th><th>images</th></tr>\n";
  for (const ClassScores& s : input.confusion.PerClass()) {
    html += ScoreRow(HtmlText(input.class_name(s.class_number)), {s.precision, s.recall, s.f1},
                     s.support);
  }
  absl::StrAppend(
      &html, ScoreRow("<em>mean</em>", input.confusion.Macro(), input.confusion.images()),
      ScoreRow("<em>weighted mean</em>", input.confusion.Weighted(), input.confusion.images()));
  return html + "</table>\n";
}

}  // namespace

std::string ConfusionPage(const ConfusionPageInput& input) {
  const Confusion& confusion = input.confusion;
  return absl::StrCat(kPageHead, "<h1>", HtmlText(input.title), "</h1>\n<p>",
                      absl::StrFormat("%d images, accuracy %.2f %%, log loss %.4f, mean F1 %.4f",
                                      confusion.images(), 100 * confusion.accuracy(),
                                      confusion.log_loss(), confusion.Macro().f1),
                      "</p>\n", MatrixSection(input), PairsSection(input), MistakesSection(input),
                      ScoresSection(input), "</body></html>\n");
}

}  // namespace penstock::cli
