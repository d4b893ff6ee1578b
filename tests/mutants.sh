#!/bin/bash
# Breaks the library on purpose, one line at a time, and demands that the test of that header turns red. A fault
# that no test sees ("SURVIVED") means that a line which matters is not guarded.
#
#   tests/mutants.sh            all faults, a few minutes
#   tests/mutants.sh softmax    only those whose header or test contains this word
#   JOBS=1 CXX=clang++ tests/mutants.sh
#
# Needs a C++20 compiler, Eigen and GoogleTest; touches nothing but a temporary folder. Exit code 0: all faults
# were seen; 1: some were not, or their line is no longer there.
set -u
shopt -u patsub_replacement 2>/dev/null  # in bash 5.2, & would mean the text found

root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
compiler=${CXX:-g++}
jobs=${JOBS:-$(nproc)}
eigen=$(pkg-config --variable=includedir eigen3 2>/dev/null)/eigen3
[ -e "$eigen/Eigen/Core" ] || eigen=$(pkg-config --cflags-only-I eigen3 2>/dev/null | sed 's/^-I//;s/ .*//')
[ -e "$eigen/Eigen/Core" ] || eigen=/usr/include/eigen3
flags=(-std=c++20 -O0 -w -isystem "$eigen" "-DGLASSBOX_SOURCE_DIR=\"$root\"")

headers=() tests=() finds=() replacements=()
# mutant HEADER TEST FIND REPLACEMENT: FIND must occur exactly once in include/glassbox/HEADER.
mutant() {
  case "$1 $2" in *"$filter"*) ;; *) return ;; esac
  headers+=("$1") tests+=("$2") finds+=("$3") replacements+=("$4")
}
filter=${1:-}

# ---- words ----
mutant axis.hpp axis 'length >= sizeof name' 'length > sizeof name'
mutant axis.hpp axis 'text += ", ";' 'text += ",";'
mutant error.hpp error ': sizeof message - 1;' ': sizeof message;'
mutant buffer.hpp buffer 'std::memset(buffer, 0, bytes);' ''
mutant buffer.hpp buffer 'factor > limit / count' 'factor > limit'
mutant buffer.hpp buffer 'i == rank - 2 ? reserved_rows' 'i == rank - 1 ? reserved_rows'
mutant buffer.hpp buffer 'buffer_alignment{64}' 'buffer_alignment{16}'
mutant tensor.hpp tensor 'return (i * inner + j) * reserved_rows_' 'return (i + j * outer) * reserved_rows_'
mutant tensor.hpp tensor 'return (i * inner + j) * reserved_rows_' 'return (i * inner + j) * rows_per_matrix()'
mutant tensor.hpp tensor 'if (contiguous()) return r * cols();' 'return r * cols();'
mutant tensor.hpp tensor 'i < 0 || i >= outer' 'i < 0 || i > outer'
mutant tensor.hpp tensor 'index < 0 || index >= axes_[i].size' 'index < 0 || index > axes_[i].size'
mutant tensor.hpp tensor 'r < 0 || r >= rows()' 'r < 0 || r > rows()'
mutant tensor.hpp tensor 'for (Index r = 0; r < rows(); ++r) larger.row(r) = row(r);' ''
mutant tensor.hpp tensor 'matrix_of_row * wanted_rows + used_rows + r' 'matrix_of_row * wanted_rows + r'
mutant tensor.hpp tensor 'matrix_of_row * wanted_rows + used_rows' 'matrix_of_row * used_rows + used_rows'
mutant tensor.hpp tensor 'if (&addition == this) return append_rows(Tensor(addition));' ''
mutant check.hpp check 'if (tensor.rank() == rank) return;' 'if (tensor.rank() <= rank) return;'
mutant check.hpp check 'tensor.dim(axis) == expected' 'tensor.dim(axis) <= expected'
mutant check.hpp check 'tensor.cols() == other.cols()' 'tensor.cols() <= other.cols()'
mutant check.hpp elementwise 'same = tensor.dim(i) == other.dim(i)' 'same = tensor.size() == other.size()'
mutant check.hpp check 'id >= 0 && id < vocab_size' 'id >= 0 && id <= vocab_size'
mutant check.hpp check 'id >= 0 && id < vocab_size' 'id < vocab_size'
mutant config.hpp config 'if (head_dim == 0 && num_attention_heads > 0)' 'if (num_attention_heads > 0)'
mutant config.hpp config 'head_dim = hidden_size / num_attention_heads;' 'head_dim = hidden_size / num_key_value_heads;'
mutant config.hpp config 'return num_attention_heads / num_key_value_heads;' 'return num_key_value_heads;'
mutant config.hpp config 'num_attention_heads % num_key_value_heads != 0' 'num_attention_heads < num_key_value_heads'
mutant config.hpp config 'head_dim % 2 != 0' 'head_dim % 2 == 2'
mutant config.hpp config 'rope_theta > 0' 'rope_theta >= 0'
mutant config.hpp config 'value >= 1 && value' 'value >= 0 && value'
mutant config.hpp config 'id >= -1 && id < vocab_size' 'id >= -1 && id <= vocab_size'
mutant stage.hpp stage 'record.step = state.step;' ''
mutant stage.hpp stage 'record.layer = layer;' ''
mutant stage.hpp stage 'state.count += 1;' ''
mutant stage.hpp stage 'if (shape_after != shape_before)' 'if (false)'
mutant stage.hpp stage 'i < state.hooks.size()' 'i < 1'
mutant stage.hpp stage 'if (hooks[i].context == this)' 'if (i == 0)'
mutant weight.hpp weight 'const Index first = o * in.size;' 'const Index first = o * out.size;'
mutant weight.hpp weight 'o < 0 || o >= out.size' 'o < 0 || o > out.size'
mutant weight.hpp weight 'loops::widen_row(values<Half>()' 'loops::widen_row(reinterpret_cast<const BFloat16*>(data())'
mutant weight.hpp weight 'if (type == wanted) return;' 'return;'

# ---- arithmetic ----
mutant kernels/stored_types.hpp kernels/stored_types '0x1p-24f' '0x1p-25f'
mutant kernels/stored_types.hpp kernels/stored_types 'exponent + 112u' 'exponent + 113u'
mutant kernels/stored_types.hpp kernels/stored_types '(value.bits & 0x8000u)' '(value.bits & 0u)'
mutant kernels/stored_types.hpp kernels/stored_types '(value.bits) << 16' '(value.bits) << 15'
mutant kernels/products.hpp kernels/products 'for (; i < count; ++i) partial[0] += a[i] * b[i];' ''
mutant kernels/products.hpp kernels/products 'partial2[0] += a[i] * b2[i];' 'partial2[0] += a[i] * b1[i];'
mutant kernels/products.hpp kernels/products 'const Scalar* b3 = b2 + count;' 'const Scalar* b3 = b2;'
mutant kernels/products.hpp kernels/products 'k < rows_here; ++k' 'k < rows_here - 1; ++k'
mutant kernels/products.hpp kernels/products 'c < b_cols; ++c) output_row[c] = 0;' 'c < 0; ++c) output_row[c] = 0;'
mutant matmul.hpp matmul 'axes[input.rank() - 1] = weight.out;' 'axes[input.rank() - 1].size = weight.out.size;'
mutant matmul.hpp matmul 'if (!input.contiguous())' 'if (false)'
mutant matmul.hpp matmul 'sum += input.row(position)[i]' 'sum = input.row(position)[i]'
mutant matmul.hpp matmul 'depth, weight.values<Half>()' 'depth, reinterpret_cast<const BFloat16*>(weight.data())'
mutant matmul.hpp matmul 'a.cols() != b.rows() || output.rows()' 'output.rows()'
mutant elementwise.hpp elementwise 'a.row(r) + b.row(r)' 'a.row(r) - b.row(r)'
mutant elementwise.hpp elementwise 'a.row(r).cwiseProduct(b.row(r))' 'a.row(r) + b.row(r)'
mutant activation.hpp activation 'std::exp(-x[i])' 'std::exp(x[i])'
mutant activation.hpp activation 'x[i] * sigmoid' 'sigmoid'
mutant softmax.hpp softmax 'std::exp(x[i] - largest)' 'std::exp(x[i])'
mutant softmax.hpp softmax 'if (largest == -infinity) return true;' ''
mutant softmax.hpp softmax 'if (!(x[i] < infinity)) return false;' 'if (x[i] == infinity) return false;'
mutant softmax.hpp softmax 'if (!(x[i] < infinity)) return false;' 'if (std::isnan(x[i])) return false;'
mutant softmax.hpp softmax 'output[i] /= sum' 'output[i] /= Scalar(1)'
mutant attention_mask.hpp attention_mask 'key <= query_position' 'key < query_position'
mutant attention_mask.hpp attention_mask 'key <= query_position' 'key <= query_position + 1'
mutant attention_mask.hpp attention_mask 'expanded_mask.row(batch), past + query,' 'expanded_mask.row(batch), query,'
mutant attention_mask.hpp attention_mask 'mask_row(expanded_mask.row(batch)' 'mask_row(expanded_mask.row(0)'
mutant attention_mask.hpp attention_mask 'expanded_mask[key] && not_after_query' 'not_after_query'
mutant attention_mask.hpp attention_mask 'if (real) ++position;' '++position;'
mutant attention_mask.hpp attention_mask 'real ? position : 0' 'real ? position + 1 : 0'
mutant attention_mask.hpp attention_mask 'Index key = 0; key < attention_mask.size()' 'Index key = past; key < attention_mask.size()'
mutant attention_mask.hpp attention_mask 'causal_mask[key] ? Scalar(0) : -infinity' 'causal_mask[key] ? -infinity : Scalar(0)'
mutant attention_mask.hpp attention_mask 'additive_mask.matrix(batch, 0)' 'additive_mask.matrix(0, 0)'
mutant heads.hpp heads 'projection.matrix(batch).middleCols(head * head_dim, head_dim)' \
  'projection.matrix(0).middleCols(head * head_dim, head_dim)'
mutant heads.hpp heads 'projection.matrix(batch).middleCols(head * head_dim, head_dim)' \
  'ConstMatrixView<Scalar>(projection.data() + (batch * num_heads + head) * projection.dim(1) * head_dim,
                               projection.dim(1), head_dim)'
mutant heads.hpp heads 'merged.matrix(batch).middleCols(head * head_dim,' \
  'merged.matrix(batch).middleCols((heads.dim(1) - 1 - head) * head_dim,'

# ---- modules ----
mutant linear.hpp linear 'if (bias.rank() == 0) return output;' 'return output;'
mutant linear.hpp linear 'output.row(r) + bias.row(0)' 'output.row(r) - bias.row(0)'
mutant embedding.hpp embedding 'weight.read_row(id,' 'weight.read_row((id + 1) % weight.out.size,'
mutant embedding.hpp embedding 'input_ids(batch, position)' 'input_ids(0, position)'
mutant rms_norm.hpp rms_norm 'std::sqrt(mean_square + eps)' '(std::sqrt(mean_square) + eps)'
mutant rms_norm.hpp rms_norm 'mean_square + eps' 'mean_square + Scalar(1e-5)'
mutant rms_norm.hpp rms_norm 'x.squaredNorm() / Scalar(x.size())' 'x.squaredNorm()'
mutant rms_norm.hpp rms_norm '.cwiseProduct(weight.row(0))' ''
mutant rotary_embedding.hpp rotary_embedding 'Scalar(position) * inv_freq[i]' 'Scalar(position + 1) * inv_freq[i]'
mutant rotary_embedding.hpp rotary_embedding 'Scalar(2 * i) / Scalar(head_dim)' 'Scalar(i) / Scalar(head_dim)'
mutant rotary_embedding.hpp rotary_embedding 'cos[i] = std::cos(angle);' \
  'cos[2 * i] = cos[2 * i + 1] = std::cos(angle); sin[2 * i] = sin[2 * i + 1] = std::sin(angle); continue;'
mutant rotary_embedding.hpp rotary_embedding '= -x.row(r).tail(half)' '= x.row(r).tail(half)'
mutant rotary_embedding.hpp rotary_embedding 'cwiseProduct(sin.matrix(batch))' 'cwiseProduct(sin.matrix(0))'
mutant rotary_embedding.hpp rotary_embedding 'x[2 * i] * cos[i] - x[2 * i + 1]' 'x[2 * i] * cos[i] + x[2 * i + 1]'
mutant rotary_embedding.hpp rotary_embedding 'output[2 * i + 1] = x[2 * i]' 'output[2 * i + 1] = -x[2 * i]'
mutant rotary_embedding.hpp rotary_embedding 'r / (heads.dim(1) * heads.dim(2))' 'r / heads.dim(2) % heads.dim(0)'
mutant rotary_embedding.hpp rotary_embedding 'row < half ? 2 * row : 2 * (row - half) + 1' \
  'row % 2 == 0 ? row / 2 : half + row / 2'
mutant kv_cache.hpp kv_cache 'values.append_rows(value_states);' 'values.append_rows(key_states);'
mutant kv_cache.hpp kv_cache 'layers[0].keys.dim(2)' 'layers[0].keys.dim(1)'
mutant kv_cache.hpp kv_cache '(layer.keys.size() + layer.values.size())' '(layer.keys.size())'
mutant kv_cache.hpp kv_cache 'layers.assign(layers.size(), LayerKVCache<Scalar>());' 'layers.clear();'
mutant attention.hpp attention '*= scaling' '*= Scalar(1)'
mutant attention.hpp attention 'std::sqrt(Scalar(query_states.dim(3)))' 'Scalar(query_states.dim(3))'
mutant attention.hpp attention 'head / num_key_value_groups;  // neighbouring' 'head % cached_keys.dim(1);  //'
mutant attention.hpp attention $'head / num_key_value_groups;\n' $'head % cached_values.dim(1);\n'
mutant attention.hpp attention 'apply_rotary_pos_emb(query_heads, cos, sin)' 'query_heads'
mutant attention.hpp attention 'apply_rotary_pos_emb(key_heads, cos, sin)' 'key_heads'
mutant attention.hpp attention 'cache.append(key_states, value_states)' 'cache.append(key_heads, value_states)'
mutant attention.hpp attention 'cache.append(key_states, value_states)' \
  'cache.append(key_states, apply_rotary_pos_emb(value_states, cos, sin))'
mutant attention.hpp attention 'v_proj.forward(hidden_states)' 'k_proj.forward(hidden_states)'
mutant attention.hpp attention 'softmax(masked_scores)' 'softmax(scores)'
mutant attention.hpp attention 'weighted_values(attn_weights, cache.values)' 'weighted_values(attn_weights, cache.keys)'
mutant attention.hpp attention 'stage("merged_heads", layer, merged_heads);' ''
mutant mlp.hpp mlp 'gate_proj_output = gate_proj.forward(hidden_states)' 'gate_proj_output = up_proj.forward(hidden_states)'
mutant mlp.hpp mlp 'multiply_elementwise(activated, up_proj_output)' \
  'multiply_elementwise(silu(up_proj_output), gate_proj_output)'
mutant mlp.hpp mlp 'silu(gate_proj_output)' 'gate_proj_output'
mutant mlp.hpp mlp 'multiply_elementwise(activated, up_proj_output)' 'add(activated, up_proj_output)'
mutant mlp.hpp mlp 'stage("activated", layer, activated);' ''
mutant decoder_layer.hpp decoder_layer 'add(residual, attn_output)' 'attn_output'
mutant decoder_layer.hpp decoder_layer 'add(residual, attn_output)' 'add(input_layernorm_output, attn_output)'
mutant decoder_layer.hpp decoder_layer 'add(attn_residual, mlp_output)' 'mlp_output'
mutant decoder_layer.hpp decoder_layer 'add(attn_residual, mlp_output)' 'add(residual, mlp_output)'
mutant decoder_layer.hpp decoder_layer 'self_attn.forward(input_layernorm_output,' 'self_attn.forward(residual,'
mutant decoder_layer.hpp decoder_layer 'self_attn.forward(input_layernorm_output, cos, sin, additive_mask, cache)' \
  'input_layernorm.forward(self_attn.forward(residual, cos, sin, additive_mask, cache))'
mutant decoder_layer.hpp decoder_layer '= post_attention_layernorm.forward(' '= input_layernorm.forward('
mutant decoder_layer.hpp decoder_layer 'mlp.forward(post_attention_layernorm_output)' 'mlp.forward(attn_residual)'
mutant decoder_layer.hpp decoder_layer 'stage("attn_residual", layer, attn_residual);' ''
mutant decoder_model.hpp decoder_model 'static_cast<std::size_t>(decoder_layer.layer)' '0'
mutant decoder_model.hpp decoder_model 'norm.forward(hidden_states)' 'hidden_states'
mutant decoder_model.hpp decoder_model 'hidden_states = std::move(layer_output);' \
  'if (decoder_layer.layer != 1) hidden_states = std::move(layer_output);'
mutant decoder_model.hpp decoder_model 'last_position < max_position_embeddings' 'true'
mutant decoder_model.hpp decoder_model 'last_position < max_position_embeddings' \
  'last_position <= max_position_embeddings'
mutant decoder_model.hpp decoder_model 'cache.length() + input_ids.dim(1),' 'attention_mask.dim(1),'
mutant decoder_model.hpp decoder_model 'stage("position_ids", -1, position_ids);' ''
mutant lm_head.hpp lm_head 'if (weight.empty())' 'if (!weight.empty())'
mutant lm_head.hpp lm_head 'return matmul(hidden_states, weight);' 'return matmul(hidden_states, embed_tokens_weight);'
mutant causal_lm.hpp causal_lm 'bottomRows(count)' 'topRows(count)'
mutant causal_lm.hpp causal_lm 'logits_to_keep == 0 ? hidden_states.dim(1)' 'logits_to_keep == 0 ? 1'
mutant causal_lm.hpp causal_lm 'stage("logits", -1, logits);' ''
# The same faults must show in the whole model, where other parts could hide them.
mutant attention_mask.hpp causal_lm 'expanded_mask.row(batch), past + query,' 'expanded_mask.row(batch), query,'
mutant attention_mask.hpp causal_lm 'expanded_mask[key] && not_after_query' 'not_after_query'
mutant attention_mask.hpp causal_lm 'if (real) ++position;' '++position;'

# ---- running them ----
# The tests are built on copies, for double alone: half the time.
mkdir -p "$work/tests"
cp -r "$root"/tests/support "$root"/tests/kernels "$root"/tests/test_*.cpp "$work/tests"
sed -i 's/::testing::Types<float, double>/::testing::Types<double>/' "$work/tests/support/expect_near.hpp"
cat > "$work/precompiled.hpp" <<'END'
#include <Eigen/Core>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <sstream>
#include <thread>
END
"$compiler" "${flags[@]}" -x c++-header "$work/precompiled.hpp" -o "$work/precompiled.hpp.gch" || exit 1

# build_and_run NAME TEST [FOLDER WITH A CHANGED HEADER]: 0 the test passes, 1 it fails, 2 it does not compile
build_and_run() {
  local source="$work/tests/$(dirname "$2")/test_$(basename "$2").cpp"
  "$compiler" "${flags[@]}" -include "$work/precompiled.hpp" ${3:+-I "$3"} -I "$root/include" -I "$work/tests" \
    "$source" -o "$work/$1" -lgtest_main -lgtest -pthread > "$work/$1.log" 2>&1 || return 2
  timeout 60 "$work/$1" > "$work/$1.log" 2>&1 || return 1
}

run_mutant() {
  local i=$1 content rest count result
  content=$(cat "$root/include/glassbox/${headers[i]}"; echo x)
  content=${content%x}
  rest=${content//"${finds[i]}"/}
  count=$(((${#content} - ${#rest}) / ${#finds[i]}))
  if [ $count != 1 ]; then
    result="STALE: the line is there $count times"
  else
    mkdir -p "$work/broken$i/glassbox/$(dirname "${headers[i]}")"
    printf '%s' "${content/"${finds[i]}"/"${replacements[i]}"}" > "$work/broken$i/glassbox/${headers[i]}"
    build_and_run "mutant$i" "${tests[i]}" "$work/broken$i"
    case $? in
      0) result="SURVIVED" ;;
      1) result="seen" ;;
      2) result="DOES NOT COMPILE" ;;
    esac
  fi
  rm -f "$work/mutant$i"
  printf '%-9s %s (test %s): %s -> %s\n' "$result" "${headers[i]}" "${tests[i]}" "${finds[i]}" "${replacements[i]}" \
    | tr '\n' ' ' | cut -c 1-200 | tee "$work/result$i"
}

run_whole() {
  build_and_run "whole$1" "$2" || echo "BROKEN    test $2 does not pass on the unbroken library" | tee "$work/result_whole$1"
}

limit_jobs() { while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done; }

number=0
for test in $(printf '%s\n' "${tests[@]}" | sort -u); do
  limit_jobs
  run_whole $number "$test" &
  number=$((number + 1))
done
for i in "${!headers[@]}"; do
  limit_jobs
  run_mutant "$i" &
done
wait
seen=$(cat "$work"/result[0-9]* 2>/dev/null | grep -c '^seen ')
echo "$seen of ${#headers[@]} faults were seen by the tests"
if [ "$seen" != "${#headers[@]}" ] || ls "$work"/result_whole* > /dev/null 2>&1; then
  grep -hv '^seen ' "$work"/result*
  exit 1
fi
