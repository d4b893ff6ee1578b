// Every formula of the book once more: plain loops on double, written from the formulas in the headers'
// comments. No Eigen and nothing of glassbox, so that a fault in the one is not repeated in the other.
#pragma once

#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <vector>

namespace naive {

using Sizes = std::vector<std::size_t>;

// Numbers in row-major order.
struct Array {
  Sizes shape;
  std::vector<double> values;

  Array() = default;
  explicit Array(const Sizes& sizes) : shape(sizes) {
    std::size_t count = 1;
    for (const std::size_t size : sizes) count *= size;
    values.assign(count, 0.0);
  }
  Array(const Sizes& sizes, const std::vector<double>& numbers) : Array(sizes) {
    if (numbers.size() != values.size()) throw std::logic_error("naive::Array: wrong count");
    values = numbers;
  }
  double& at(const Sizes& index) { return values[offset(index)]; }
  double at(const Sizes& index) const { return values[offset(index)]; }
  std::size_t offset(const Sizes& index) const {
    if (index.size() != shape.size()) throw std::logic_error("naive::Array: wrong number of indices");
    std::size_t result = 0;
    for (std::size_t i = 0; i < index.size(); ++i) {
      if (index[i] >= shape[i]) throw std::logic_error("naive::Array: index out of range");
      result = result * shape[i] + index[i];
    }
    return result;
  }
};

struct Linear {
  Array weight;              // [out, in]
  std::vector<double> bias;  // [out] or none
};

// output[..., o] = sum_i input[..., i] * weight[o, i] + bias[o]
inline Array linear(const Array& input, const Linear& layer) {
  const std::size_t out = layer.weight.shape[0];
  const std::size_t in = layer.weight.shape[1];
  Sizes shape = input.shape;
  shape.back() = out;
  Array output(shape);
  for (std::size_t p = 0; p < output.values.size() / out; ++p) {
    for (std::size_t o = 0; o < out; ++o) {
      double sum = layer.bias.empty() ? 0.0 : layer.bias[o];
      for (std::size_t i = 0; i < in; ++i) sum += input.values[p * in + i] * layer.weight.values[o * in + i];
      output.values[p * out + o] = sum;
    }
  }
  return output;
}

// output_i = x_i / sqrt( (1/n) * sum_j x_j^2 + eps ) * weight_i
inline Array rms_norm(const Array& x, const std::vector<double>& weight, double eps) {
  const std::size_t n = weight.size();
  Array output(x.shape);
  for (std::size_t p = 0; p < x.values.size() / n; ++p) {
    double squares = 0;
    for (std::size_t i = 0; i < n; ++i) squares += x.values[p * n + i] * x.values[p * n + i];
    const double root = std::sqrt(squares / static_cast<double>(n) + eps);
    for (std::size_t i = 0; i < n; ++i) output.values[p * n + i] = x.values[p * n + i] / root * weight[i];
  }
  return output;
}

// x / (1 + exp(-x))
inline double silu(double x) { return x / (1 + std::exp(-x)); }

// exp(x_i) / sum_j exp(x_j), taken relative to the largest; a row of -infinity gives zeros.
inline std::vector<double> softmax(const std::vector<double>& x) {
  double largest = -HUGE_VAL;
  for (const double value : x) largest = std::fmax(largest, value);
  std::vector<double> weights(x.size(), 0.0);
  if (largest == -HUGE_VAL) return weights;
  double sum = 0;
  for (const double value : x) sum += std::exp(value - largest);
  for (std::size_t i = 0; i < x.size(); ++i) weights[i] = std::exp(x[i] - largest) / sum;
  return weights;
}

// inv_freq[i] = theta^(-2i / head_dim)
inline double inv_freq(std::size_t i, std::size_t head_dim, double theta) {
  return std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
}

// Turns the pairs (first, second) of one head's numbers by position * inv_freq[i]: half-rotated pairs are
// (i, i + head_dim/2), interleaved ones (2i, 2i + 1).
inline std::vector<double> rotate(const std::vector<double>& x, double position, double theta,
                                  bool interleaved) {
  std::vector<double> turned(x.size());
  const std::size_t half = x.size() / 2;
  for (std::size_t i = 0; i < half; ++i) {
    const std::size_t first = interleaved ? 2 * i : i;
    const std::size_t second = interleaved ? 2 * i + 1 : i + half;
    const double angle = position * inv_freq(i, x.size(), theta);
    turned[first] = x[first] * std::cos(angle) - x[second] * std::sin(angle);
    turned[second] = x[first] * std::sin(angle) + x[second] * std::cos(angle);
  }
  return turned;
}

// The head_dim numbers of one head at one place of [batch, seq, heads * head_dim].
inline std::vector<double> head_of(const Array& projection, std::size_t b, std::size_t s, std::size_t head,
                                   std::size_t head_dim) {
  std::vector<double> numbers(head_dim);
  for (std::size_t d = 0; d < head_dim; ++d) numbers[d] = projection.at({b, s, head * head_dim + d});
  return numbers;
}

struct Attention {
  Linear q_proj, k_proj, v_proj, o_proj;
  std::size_t num_attention_heads = 0, num_key_value_heads = 0, head_dim = 0;
  double rope_theta = 10000;
};

// Keys and values of one layer, [batch][kv_head][key][head_dim].
struct Cache {
  std::vector<std::vector<std::vector<std::vector<double>>>> keys, values;
};

// Position of each token among the real ones of its row, and whether each key is a real token.
using Positions = std::vector<std::vector<double>>;
using Visible = std::vector<std::vector<bool>>;

// What one query head gathers: softmax over the keys it may see of q . k / sqrt(head_dim), times the values.
inline std::vector<double> attend(const std::vector<double>& query,
                                  const std::vector<std::vector<double>>& keys,
                                  const std::vector<std::vector<double>>& values,
                                  const std::vector<bool>& allowed) {
  std::vector<double> scores(keys.size(), -HUGE_VAL);
  for (std::size_t j = 0; j < keys.size(); ++j) {
    if (!allowed[j]) continue;
    double dot = 0;
    for (std::size_t d = 0; d < query.size(); ++d) dot += query[d] * keys[j][d];
    scores[j] = dot / std::sqrt(static_cast<double>(query.size()));
  }
  const std::vector<double> weights = softmax(scores);
  std::vector<double> context(query.size(), 0.0);
  for (std::size_t j = 0; j < keys.size(); ++j) {
    for (std::size_t d = 0; d < query.size(); ++d) context[d] += weights[j] * values[j][d];
  }
  return context;
}

// x [batch, seq, hidden]. The cache grows by seq; query i stands at key past + i and sees the real keys up
// to itself. Query head h uses the key/value head h / (heads / kv_heads).
inline Array attention(const Array& x, const Attention& layer, const Positions& positions,
                       const Visible& visible, Cache& cache) {
  const std::size_t batch = x.shape[0], seq = x.shape[1], head_dim = layer.head_dim;
  const Array q = linear(x, layer.q_proj), k = linear(x, layer.k_proj), v = linear(x, layer.v_proj);
  cache.keys.resize(batch);
  cache.values.resize(batch);
  Array merged({batch, seq, layer.num_attention_heads * head_dim});
  for (std::size_t b = 0; b < batch; ++b) {
    cache.keys[b].resize(layer.num_key_value_heads);
    cache.values[b].resize(layer.num_key_value_heads);
    const std::size_t past = cache.keys[b][0].size();
    for (std::size_t g = 0; g < layer.num_key_value_heads; ++g) {
      for (std::size_t s = 0; s < seq; ++s) {
        const std::vector<double> key = head_of(k, b, s, g, head_dim);
        cache.keys[b][g].push_back(rotate(key, positions[b][s], layer.rope_theta, false));
        cache.values[b][g].push_back(head_of(v, b, s, g, head_dim));
      }
    }
    for (std::size_t h = 0; h < layer.num_attention_heads; ++h) {
      const std::size_t g = h / (layer.num_attention_heads / layer.num_key_value_heads);
      for (std::size_t i = 0; i < seq; ++i) {
        std::vector<bool> allowed(past + seq);
        for (std::size_t j = 0; j < past + seq; ++j) allowed[j] = visible[b][j] && j <= past + i;
        const std::vector<double> query =
            rotate(head_of(q, b, i, h, head_dim), positions[b][i], layer.rope_theta, false);
        const std::vector<double> context = attend(query, cache.keys[b][g], cache.values[b][g], allowed);
        for (std::size_t d = 0; d < head_dim; ++d) merged.at({b, i, h * head_dim + d}) = context[d];
      }
    }
  }
  return linear(merged, layer.o_proj);
}

struct MLP {
  Linear gate_proj, up_proj, down_proj;
};

// down_proj( silu(gate_proj(x)) * up_proj(x) )
inline Array mlp(const Array& x, const MLP& layer) {
  Array gated = linear(x, layer.gate_proj);
  const Array up = linear(x, layer.up_proj);
  for (std::size_t i = 0; i < gated.values.size(); ++i)
    gated.values[i] = silu(gated.values[i]) * up.values[i];
  return linear(gated, layer.down_proj);
}

struct DecoderLayer {
  std::vector<double> input_layernorm, post_attention_layernorm;
  Attention self_attn;
  MLP mlp;
  double eps = 0;
};

inline Array sum(const Array& a, const Array& b) {
  Array result = a;
  for (std::size_t i = 0; i < a.values.size(); ++i) result.values[i] += b.values[i];
  return result;
}

// a = x + attention(norm(x));  a + mlp(norm(a))
inline Array decoder_layer(const Array& x, const DecoderLayer& layer, const Positions& positions,
                           const Visible& visible, Cache& cache) {
  const Array normed = rms_norm(x, layer.input_layernorm, layer.eps);
  const Array a = sum(x, attention(normed, layer.self_attn, positions, visible, cache));
  return sum(a, mlp(rms_norm(a, layer.post_attention_layernorm, layer.eps), layer.mlp));
}

struct Model {
  Array embed_tokens;  // [vocab, hidden]
  std::vector<DecoderLayer> layers;
  std::vector<double> norm;
  double eps = 0;
  Linear lm_head;  // the embedding where tied
};

// One text without padding, all at once: the normalised hidden states [1, seq, hidden].
inline Array hidden_states(const Model& model, const std::vector<std::size_t>& ids) {
  const std::size_t hidden = model.embed_tokens.shape[1];
  Array x({1, ids.size(), hidden});
  Positions positions(1);
  for (std::size_t s = 0; s < ids.size(); ++s) {
    positions[0].push_back(static_cast<double>(s));
    for (std::size_t i = 0; i < hidden; ++i) x.at({0, s, i}) = model.embed_tokens.at({ids[s], i});
  }
  const Visible visible(1, std::vector<bool>(ids.size(), true));
  for (const DecoderLayer& layer : model.layers) {
    Cache cache;
    x = decoder_layer(x, layer, positions, visible, cache);
  }
  return rms_norm(x, model.norm, model.eps);
}

// The logits [1, seq, vocab] of one text without padding.
inline Array logits(const Model& model, const std::vector<std::size_t>& ids) {
  return linear(hidden_states(model, ids), model.lm_head);
}

}  // namespace naive
