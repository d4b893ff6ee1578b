// The loss over the steps of a training, as a picture in letters and as a picture to open.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace examples {

// One step of a training.
struct CurvePoint {
  std::int64_t step = 0;  // from 1
  double loss = 0;        // nats per token
};

// The mean of every `group` neighbouring points, so that a long curve fits a screen.
std::vector<CurvePoint> smoothed(const std::vector<CurvePoint>& points, std::size_t group);

// A chart of `height` lines, `width` columns wide, with the loss on the left and the steps below; each column
// is the mean of the points that fall into it. Empty where there is no point.
std::string curve_text(const std::vector<CurvePoint>& points, std::size_t width = 64,
                       std::size_t height = 12);

// The same as an SVG file's text: `title`, axes with numbers, one line per point.
std::string curve_svg(const std::vector<CurvePoint>& points, const std::string& title);

}  // namespace examples
