#include "support/loss_curve.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace examples {
namespace {

std::string number(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

// The losses that a picture must have room for: from 0 to the largest.
double largest_loss(const std::vector<CurvePoint>& points) {
  double largest = 0;
  for (const CurvePoint& point : points) {
    if (std::isfinite(point.loss)) largest = (std::max)(largest, point.loss);
  }
  return largest > 0 ? largest : 1;
}

// 1, 2 or 5 times a power of ten, so that about `wanted` such steps make up `range`.
double round_step(double range, double wanted) {
  const double rough = range / wanted;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10 * power;
}

}  // namespace

std::vector<CurvePoint> smoothed(const std::vector<CurvePoint>& points, std::size_t group) {
  std::vector<CurvePoint> means;
  for (std::size_t begin = 0; begin < points.size(); begin += group) {
    const std::size_t end = (std::min)(begin + group, points.size());
    CurvePoint mean{points[end - 1].step, 0};
    for (std::size_t i = begin; i < end; ++i) mean.loss += points[i].loss / static_cast<double>(end - begin);
    means.push_back(mean);
  }
  return means;
}

std::string curve_text(const std::vector<CurvePoint>& points, std::size_t width, std::size_t height) {
  if (points.empty() || width == 0 || height == 0) return "";
  const std::vector<CurvePoint> columns = smoothed(points, (points.size() + width - 1) / width);
  const double top = largest_loss(columns);
  std::string text;
  for (std::size_t line = 0; line < height; ++line) {
    const double value = top * static_cast<double>(height - line) / static_cast<double>(height);
    const double below = top * static_cast<double>(height - line - 1) / static_cast<double>(height);
    text += number("%8.3f |", value);
    for (const CurvePoint& column : columns) {
      const bool here = column.loss > below && column.loss <= value;
      text += here ? '*' : ' ';
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
  }
  text += "   0.000 +" + std::string(columns.size(), '-') + "\n";
  const std::string first = "step " + std::to_string(points.front().step);
  const std::string last = std::to_string(points.back().step);
  const std::size_t used = first.size() + last.size();
  const std::string gap(columns.size() > used ? columns.size() - used : 1, ' ');
  return text + std::string(10, ' ') + first + gap + last + "\n";
}

std::string curve_svg(const std::vector<CurvePoint>& points, const std::string& title) {
  const double width = 720, height = 400, left = 60, right = 700, top = 40, bottom = 350;
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + number("%g", width) + " " +
                    number("%g", height) +
                    "\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" "
                    "fill=\"white\"/>\n";
  svg += "<text x=\"60\" y=\"24\" font-size=\"15\">";
  for (const char letter : title) {
    svg += letter == '<' ? "&lt;" : letter == '>' ? "&gt;" : letter == '&' ? "&amp;" : std::string(1, letter);
  }
  svg += "</text>\n";
  if (points.empty()) return svg + "</svg>\n";
  const double most = largest_loss(points);
  const double last_step = static_cast<double>(points.back().step);
  const double first_step = static_cast<double>(points.front().step);
  const double steps = (std::max)(last_step - first_step, 1.0);
  const double loss_step = round_step(most, 6);
  for (double loss = 0; loss <= most; loss += loss_step) {
    const double y = bottom - (bottom - top) * loss / most;
    svg += "<path d=\"M" + number("%.1f", left) + " " + number("%.1f", y) + "H" + number("%.1f", right) +
           "\" stroke=\"#ddd\"/><text x=\"" + number("%.1f", left - 8) + "\" y=\"" + number("%.1f", y + 4) +
           "\" text-anchor=\"end\">" + number("%g", loss) + "</text>\n";
  }
  const double step_step = (std::max)(round_step(steps, 6), 1.0);
  for (double step = std::ceil(first_step / step_step) * step_step; step <= last_step; step += step_step) {
    const double x = left + (right - left) * (step - first_step) / steps;
    svg += "<text x=\"" + number("%.1f", x) + "\" y=\"" + number("%.1f", bottom + 18) +
           "\" text-anchor=\"middle\">" + number("%.0f", step) + "</text>\n";
  }
  svg += "<text x=\"380\" y=\"390\" text-anchor=\"middle\">step</text>\n";
  svg +=
      "<text x=\"16\" y=\"200\" text-anchor=\"middle\" transform=\"rotate(-90 16 200)\">"
      "loss (nats per token)</text>\n<polyline fill=\"none\" stroke=\"#1f6fb4\" points=\"";
  for (const CurvePoint& point : points) {
    if (!std::isfinite(point.loss)) continue;
    const double x = left + (right - left) * (static_cast<double>(point.step) - first_step) / steps;
    const double y = bottom - (bottom - top) * point.loss / most;
    svg += number("%.1f", x) + "," + number("%.1f", y) + " ";
  }
  return svg + "\"/>\n</svg>\n";
}

}  // namespace examples
