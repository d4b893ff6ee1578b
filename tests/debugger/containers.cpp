// Modules and the containers of the standard library, stopped in, for sessions of a debugger
// (containers.session).
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "glassbox/rms_norm.hpp"

using namespace glassbox;

namespace {

// As in DecoderModel: members that lie behind a std::vector.
struct Holder {
  std::vector<Holder> kids;
  RMSNorm<float> norm;
  double gain = 2.5;

  double apply() const {
    double sum = gain;
    sum += static_cast<double>(kids.size());  // STOP holder
    return sum;
  }
};

double containers() {
  const std::vector<Index> ids{7, 8, 9};
  const std::vector<Index> none;
  std::vector<Tensor<float>> tensors(2);
  tensors[0] = Tensor<float>({{"row", 1}, {"column", 2}});
  tensors[0](0, 1) = 3;
  const std::string text = "said \"so\"";
  alignas(std::vector<Index>) std::byte raw[sizeof(std::vector<Index>)];
  const Index ends[3] = {64, 1 << 20, 1 << 21};  // nothing lies there
  std::memcpy(raw, ends, sizeof raw);
  const std::vector<Index>& nowhere = *reinterpret_cast<std::vector<Index>*>(raw);
  alignas(std::vector<Index>) std::byte ones[sizeof(std::vector<Index>)];
  std::memset(ones, 0xFF, sizeof ones);
  ones[0] = std::byte(0);
  const std::vector<Index>& garbage = *reinterpret_cast<std::vector<Index>*>(ones);
  double stop = 1;  // STOP containers
  std::vector<Index> later(4, 1);
  stop += static_cast<double>(ids.size() + none.size() + tensors.size() + later.size() + text.size());
  return &nowhere == &garbage ? 0 : stop;
}

}  // namespace

int main() {
  Holder holder;
  holder.kids.resize(2);
  holder.norm.weight = Tensor<float>({{"hidden", 3}});
  holder.norm.weight(1) = 4;
  return containers() + holder.apply() > 0 ? 0 : 1;
}
