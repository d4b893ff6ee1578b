// KV cache: the keys and values of all tokens so far, so that the next token computes only its own.
#pragma once

#include <concepts>
#include <vector>

#include "glassbox/check.hpp"

namespace glassbox {

// One layer's part (transformers DynamicLayer). The keys are stored after rotation, the values are never
// rotated.
template <std::floating_point Scalar>
struct LayerKVCache {
  Tensor<Scalar> keys;    // [batch, kv_head, key, head_dim]; rank 0 before the first token
  Tensor<Scalar> values;  // [batch, kv_head, key, head_dim]

  // Puts new tokens after those already there: torch.cat along the key axis.
  // key_states and value_states [batch, kv_head, seq, head_dim]
  void append(const Tensor<Scalar>& key_states, const Tensor<Scalar>& value_states) {
    check_rank("LayerKVCache::append", "key_states", key_states, 4);
    check_same_shape("LayerKVCache::append", "key_states", key_states, "value_states", value_states);
    if (keys.rank() == 0) {
      keys = Tensor<Scalar>({key_states.axis(0), key_states.axis(1), {"key", 0}, key_states.axis(3)});
      values = Tensor<Scalar>::like(keys);
    }
    keys.append_rows(key_states);
    values.append_rows(value_states);
  }
};

// All layers' caches. An empty one begins a new text; passing the same one again continues it. A pass of
// CausalLM that throws leaves it as it was.
template <std::floating_point Scalar>
struct KVCache {
  std::vector<LayerKVCache<Scalar>> layers;

  explicit KVCache(Index num_hidden_layers) {
    if (num_hidden_layers < 0) {
      throw_error<ShapeError>("KVCache: " + std::to_string(num_hidden_layers) +
                              " layers, expected 0 or more");
    }
    layers.resize(static_cast<std::size_t>(num_hidden_layers));
  }

  // The number of tokens whose keys and values are stored, padding included.
  Index length() const { return layers.empty() || layers[0].keys.rank() == 0 ? 0 : layers[0].keys.dim(2); }

  // Forgets everything: the next forward begins a new text.
  void reset() { layers.assign(layers.size(), LayerKVCache<Scalar>()); }

  // Forgets all but the first `length` tokens, in every layer that has more.
  void truncate(Index length) {
    if (length <= 0) return reset();
    for (LayerKVCache<Scalar>& layer : layers) {
      if (layer.keys.rank() == 0 || layer.keys.dim(2) <= length) continue;
      layer.keys.truncate_rows(length);
      if (layer.values.dim(2) > length) layer.values.truncate_rows(length);
    }
  }

  // Bytes of the keys and values stored: 2 * layers * batch * kv_heads * length * head_dim * sizeof(Scalar).
  Index bytes() const {
    Index total = 0;
    for (const LayerKVCache<Scalar>& layer : layers) {
      total += (layer.keys.size() + layer.values.size()) * static_cast<Index>(sizeof(Scalar));
    }
    return total;
  }
};

// Puts a cache back to its length of before, unless keep() is called: a pass that throws half way must not
// leave some layers with more tokens than others.
template <std::floating_point Scalar>
class KVCacheRollback {
 public:
  explicit KVCacheRollback(KVCache<Scalar>& cache) : cache_(&cache), length_(cache.length()) {}
  KVCacheRollback(const KVCacheRollback&) = delete;
  KVCacheRollback& operator=(const KVCacheRollback&) = delete;
  ~KVCacheRollback() {
    if (!kept_) cache_->truncate(length_);
  }
  void keep() { kept_ = true; }

 private:
  KVCache<Scalar>* cache_;
  Index length_;
  bool kept_ = false;
};

}  // namespace glassbox
