// The three-line program of somebody who uses glassbox: x / rms(x) by the library.
#include <cstdio>

#include "glassbox/glassbox.hpp"

int main() {
  glassbox::RMSNorm<float> norm{glassbox::Tensor<float>({{"hidden", 2}}), 0.0f};
  norm.weight.row(0).setOnes();
  glassbox::Tensor<float> hidden_states({{"batch", 1}, {"seq", 1}, {"hidden", 2}});
  hidden_states.row(0) << 3, 4;  // root mean square: sqrt((9 + 16) / 2) = 3.5355
  glassbox::Tensor<float> output = norm.forward(hidden_states);
  std::printf("%s %.4f %.4f\n", shape_string(output).c_str(), static_cast<double>(output(0, 0, 0)),
              static_cast<double>(output(0, 0, 1)));
}
