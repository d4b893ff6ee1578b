#!/bin/bash
# Breaks the library on purpose, one line at a time, and demands that the test of that header turns red. A fault
# that no test sees ("SURVIVED") means that a line which matters is not guarded.
#
#   tests/mutants.sh            all faults, one or two minutes
#   tests/mutants.sh softmax    only those whose header or test matches this word or pattern ('heads|matmul')
#   tests/mutants.sh --check    compiles nothing: is each line to be broken still there?
#   JOBS=1 CXX=clang++ tests/mutants.sh
#
# All faults that one test must see are built into one program, each behind a switch: the environment variable
# GLASSBOX_BROKEN is the number of the one that is on, 0 for none, with which the test must pass.
# Needs a C++20 compiler, Eigen and GoogleTest; touches nothing but a temporary folder. Exit code 0: all faults
# were seen; 1: some were not, or their line is no longer there.
set -u
shopt -u patsub_replacement 2>/dev/null  # in bash 5.2, & would mean the text found

root=$(cd "$(dirname "$0")/.." && pwd)
filter=${1:-}
check_only=
if [ "$filter" = --check ]; then check_only=yes filter=; fi

headers=(none) tests=(none) finds=(none) replacements=(none)
# fault HEADER TEST FIND REPLACEMENT: FIND occurs exactly once in include/glassbox/HEADER. In REPLACEMENT, @ is
# the switch. value: FIND is an expression, and another takes its place; line: the same for statements.
fault() {
  [[ "$1 $2" =~ $filter ]] || return
  headers+=("$1") tests+=("$2") finds+=("$3") replacements+=("$4")
}
value() { fault "$1" "$2" "$3" "(!@ ? ($3) : ($4))"; }
line() { fault "$1" "$2" "$3" "if (!@) { $3 } else { $4 }"; }

# ---- words ----
value axis.hpp axis 'length >= sizeof name' 'length > sizeof name'
line axis.hpp axis 'text += ", ";' 'text += ",";'
value error.hpp error 'text.size() < sizeof message - 1 ? text.size() : sizeof message - 1' \
  'text.size() < sizeof message ? text.size() : sizeof message'
line buffer.hpp buffer 'std::memset(buffer, 0, bytes);' ''
value buffer.hpp buffer 'factor > limit / count' 'factor > limit'
value buffer.hpp buffer 'i == rank - 2' 'i == rank - 1'
value buffer.hpp buffer 'factor < 0' 'false'
value tensor.hpp tensor '(i * inner + j) * reserved_rows_' '(i + j * outer) * reserved_rows_'
value tensor.hpp tensor '(i * inner + j) * reserved_rows_' '(i * inner + j) * rows_per_matrix()'
line tensor.hpp tensor 'if (contiguous()) return r * cols();' 'return r * cols();'
value tensor.hpp tensor 'i < 0 || i >= outer' 'i < 0 || i > outer'
value tensor.hpp tensor 'j < 0 || j >= inner' 'j < 0 || j > inner'
value tensor.hpp tensor 'index < 0 || index >= axes_[i].size' 'index < 0 || index > axes_[i].size'
value tensor.hpp tensor 'r < 0 || r >= rows()' 'r < 0 || r > rows()'
line tensor.hpp tensor 'for (Index r = 0; r < rows(); ++r) larger.row(r) = row(r);' ''
value tensor.hpp tensor 'matrix_of_row * wanted_rows + used_rows' 'matrix_of_row * wanted_rows'
value tensor.hpp tensor 'matrix_of_row * wanted_rows + used_rows' 'matrix_of_row * used_rows + used_rows'
value tensor.hpp tensor '&addition == this' 'false'
value check.hpp check 'tensor.rank() == rank' 'tensor.rank() <= rank'
value check.hpp check 'tensor.dim(axis) == expected' 'tensor.dim(axis) <= expected'
value check.hpp check 'tensor.cols() == other.cols()' 'tensor.cols() <= other.cols()'
value check.hpp elementwise 'tensor.dim(i) == other.dim(i)' 'tensor.size() == other.size()'
value check.hpp check 'id >= 0 && id < vocab_size' 'id >= 0 && id <= vocab_size'
value check.hpp check 'id >= 0 && id < vocab_size' 'id < vocab_size'
value config.hpp config 'head_dim == 0 && num_attention_heads > 0' 'num_attention_heads > 0'
line config.hpp config 'head_dim = hidden_size / num_attention_heads;' \
  'head_dim = hidden_size / num_key_value_heads;'
value config.hpp config 'num_attention_heads / num_key_value_heads' 'num_key_value_heads'
value config.hpp config 'num_attention_heads % num_key_value_heads != 0' \
  'num_attention_heads < num_key_value_heads'
value config.hpp config 'head_dim % 2 != 0' 'false'
value config.hpp config 'rope_theta > 0' 'rope_theta >= 0'
value config.hpp config 'value >= 1 && value <= 2147483647' 'value >= 0 && value <= 2147483647'
value config.hpp config 'id >= -1 && id < vocab_size' 'id >= -1 && id <= vocab_size'
line stage.hpp stage 'record.step = state.step;' ''
line stage.hpp stage 'record.layer = layer;' ''
line stage.hpp stage 'state.count += 1;' ''
value stage.hpp stage 'shape_after != shape_before' 'false'
value stage.hpp stage 'i < state.hooks.size()' 'i < 1'
value stage.hpp stage 'hooks[i].context == this' 'i == 0'
value weight.hpp weight 'o * in.size' 'o * out.size'
value weight.hpp weight 'o < 0 || o >= out.size' 'o < 0 || o > out.size'
line weight.hpp weight 'loops::widen_row(values<Half>() + first, in.size, output.data());' \
  'loops::widen_row(reinterpret_cast<const BFloat16*>(data()) + first, in.size, output.data());'
value weight.hpp weight 'type == wanted' 'true'

# ---- arithmetic ----
value kernels/stored_types.hpp kernels/stored_types '0x1p-24f' '0x1p-25f'
value kernels/stored_types.hpp kernels/stored_types 'exponent + 112u' 'exponent + 113u'
value kernels/stored_types.hpp kernels/stored_types 'value.bits & 0x8000u' '0u'
value kernels/stored_types.hpp kernels/stored_types 'static_cast<std::uint32_t>(value.bits) << 16' \
  'static_cast<std::uint32_t>(value.bits) << 15'
line kernels/products.hpp kernels/products 'for (; i < count; ++i) partial[0] += a[i] * b[i];' ''
line kernels/products.hpp kernels/products 'partial2[0] += a[i] * b2[i];' 'partial2[0] += a[i] * b1[i];'
value kernels/products.hpp kernels/products 'b2 + count' 'b2'
value kernels/products.hpp kernels/products 'k < rows_here' 'k < rows_here - 1'
line kernels/products.hpp kernels/products \
  'for (std::ptrdiff_t c = 0; c < b_cols; ++c) output_row[c] = 0;' ''
line matmul.hpp matmul 'axes[input.rank() - 1] = weight.out;' 'axes[input.rank() - 1].size = weight.out.size;'
value matmul.hpp matmul '!input.contiguous()' 'false'
line matmul.hpp matmul 'sum += input.row(position)[i] * weight_row(i);' \
  'sum = input.row(position)[i] * weight_row(i);'
value matmul.hpp matmul 'a.cols() != b.rows()' 'false'
value matmul.hpp matmul 'a.cols() != b.cols()' 'false'
line elementwise.hpp elementwise 'sum.row(r) = a.row(r) + b.row(r);' 'sum.row(r) = a.row(r) - b.row(r);'
line elementwise.hpp elementwise 'product.row(r) = a.row(r).cwiseProduct(b.row(r));' \
  'product.row(r) = a.row(r) + b.row(r);'
value activation.hpp activation 'std::exp(-x[i])' 'std::exp(x[i])'
value activation.hpp activation 'x[i] * sigmoid' 'sigmoid'
value softmax.hpp softmax 'std::exp(x[i] - largest)' 'std::exp(x[i])'
line softmax.hpp softmax 'if (largest == -infinity) return true;' ''
value softmax.hpp softmax '!(x[i] < infinity)' 'x[i] == infinity'
value softmax.hpp softmax '!(x[i] < infinity)' 'std::isnan(x[i])'
line softmax.hpp softmax 'output[i] /= sum;' ''
value attention_mask.hpp attention_mask 'key <= query_position' 'key < query_position'
value attention_mask.hpp attention_mask 'key <= query_position' 'key <= query_position + 1'
value attention_mask.hpp attention_mask 'past + query' 'query'
fault attention_mask.hpp attention_mask 'mask_row(expanded_mask.row(batch)' \
  'mask_row(expanded_mask.row(@ ? 0 : batch)'
value attention_mask.hpp attention_mask 'expanded_mask[key] && not_after_query' 'not_after_query'
line attention_mask.hpp attention_mask 'if (real) ++position;' '++position;'
value attention_mask.hpp attention_mask 'real ? position : 0' 'real ? position + 1 : 0'
fault attention_mask.hpp attention_mask $'std::int64_t position = 0;\n    for (Index key = 0;' \
  $'std::int64_t position = 0;\n    for (Index key = @ ? past : 0;'
value attention_mask.hpp attention_mask 'causal_mask.row(r)[key] ? Scalar(0) : -infinity' \
  'causal_mask.row(r)[key] ? -infinity : Scalar(0)'
fault attention_mask.hpp attention_mask 'additive_mask.matrix(batch, 0)' 'additive_mask.matrix(@ ? 0 : batch, 0)'
line heads.hpp heads 'heads.matrix(batch, head) = projection.matrix(batch).middleCols(head * head_dim, head_dim);' \
  'heads.matrix(batch, head) = projection.matrix(0).middleCols(head * head_dim, head_dim);'
line heads.hpp heads 'heads.matrix(batch, head) = projection.matrix(batch).middleCols(head * head_dim, head_dim);' \
  'heads.matrix(batch, head) = ConstMatrixView<Scalar>(
       projection.data() + (batch * heads.dim(1) + head) * projection.dim(1) * head_dim, projection.dim(1), head_dim);'
fault heads.hpp heads 'merged.matrix(batch).middleCols(head * head_dim,' \
  'merged.matrix(batch).middleCols((@ ? heads.dim(1) - 1 - head : head) * head_dim,'

# ---- modules ----
value linear.hpp linear 'bias.rank() == 0' 'true'
line linear.hpp linear 'biased_output.row(r) = output.row(r) + bias.row(0);' \
  'biased_output.row(r) = output.row(r) - bias.row(0);'
fault embedding.hpp embedding 'weight.read_row(id,' 'weight.read_row(@ ? (id + 1) % weight.out.size : id,'
value embedding.hpp embedding 'input_ids(batch, position)' 'input_ids(0, position)'
value rms_norm.hpp rms_norm 'std::sqrt(mean_square.row(r)[0] + eps)' 'std::sqrt(mean_square.row(r)[0]) + eps'
value rms_norm.hpp rms_norm 'mean_square.row(r)[0] + eps' 'mean_square.row(r)[0] + Scalar(1e-5)'
value rms_norm.hpp rms_norm 'x.row(r).squaredNorm() / Scalar(x.cols())' 'x.row(r).squaredNorm()'
line rms_norm.hpp rms_norm 'output.row(r) = normalized.row(r).cwiseProduct(weight.row(0));' \
  'output.row(r) = normalized.row(r);'
value rotary_embedding.hpp rotary_embedding 'Scalar(position) * inv_freq[i]' 'Scalar(position + 1) * inv_freq[i]'
value rotary_embedding.hpp rotary_embedding 'Scalar(2 * i) / Scalar(head_dim)' 'Scalar(i) / Scalar(head_dim)'
line rotary_embedding.hpp rotary_embedding 'cos[i] = std::cos(angle);' \
  'cos[2 * i] = cos[2 * i + 1] = std::cos(angle); sin[2 * i] = sin[2 * i + 1] = std::sin(angle); continue;'
line rotary_embedding.hpp rotary_embedding 'rotated.row(r).head(half) = -x.row(r).tail(half);' \
  'rotated.row(r).head(half) = x.row(r).tail(half);'
fault rotary_embedding.hpp rotary_embedding 'cwiseProduct(sin.matrix(batch))' \
  'cwiseProduct(sin.matrix(@ ? 0 : batch))'
fault rotary_embedding.hpp rotary_embedding 'x[2 * i] * cos[i] - x[2 * i + 1] * sin[i]' \
  'x[2 * i] * cos[i] - (@ ? -1 : 1) * x[2 * i + 1] * sin[i]'
fault rotary_embedding.hpp rotary_embedding 'x[2 * i] * sin[i] + x[2 * i + 1] * cos[i]' \
  '(@ ? -1 : 1) * x[2 * i] * sin[i] + x[2 * i + 1] * cos[i]'
value rotary_embedding.hpp rotary_embedding 'row < half ? 2 * row : 2 * (row - half) + 1' \
  'row % 2 == 0 ? row / 2 : half + row / 2'
line kv_cache.hpp kv_cache 'values.append_rows(value_states);' 'values.append_rows(key_states);'
value kv_cache.hpp kv_cache 'layers[0].keys.dim(2)' 'layers[0].keys.dim(1)'
value kv_cache.hpp kv_cache 'layer.keys.size() + layer.values.size()' 'layer.keys.size()'
line kv_cache.hpp kv_cache 'layers.assign(layers.size(), LayerKVCache<Scalar>());' 'layers.clear();'
line attention.hpp attention 'scores.matrix(batch, head) *= scaling;' ''
value attention.hpp attention 'std::sqrt(Scalar(query_states.dim(3)))' 'Scalar(query_states.dim(3))'
fault attention.hpp attention 'head / num_key_value_groups;  // neighbouring' \
  '@ ? head % cached_keys.dim(1) : head / num_key_value_groups;  // neighbouring'
fault attention.hpp attention $'head / num_key_value_groups;\n' \
  $'@ ? head % cached_values.dim(1) : head / num_key_value_groups;\n'
value attention.hpp attention 'apply_rotary_pos_emb(query_heads, cos, sin)' 'query_heads'
value attention.hpp attention 'apply_rotary_pos_emb(key_heads, cos, sin)' 'key_heads'
line attention.hpp attention 'cache.append(key_states, value_states);' 'cache.append(key_heads, value_states);'
line attention.hpp attention 'cache.append(key_states, value_states);' \
  'cache.append(key_states, apply_rotary_pos_emb(value_states, cos, sin));'
value attention.hpp attention 'v_proj.forward(hidden_states)' 'k_proj.forward(hidden_states)'
value attention.hpp attention 'softmax(masked_scores)' 'softmax(scores)'
value attention.hpp attention 'weighted_values(attn_weights, cache.values)' \
  'weighted_values(attn_weights, cache.keys)'
line attention.hpp attention 'stage("merged_heads", layer, merged_heads);' ''
value mlp.hpp mlp 'gate_proj.forward(hidden_states)' 'up_proj.forward(hidden_states)'
value mlp.hpp mlp 'multiply_elementwise(activated, up_proj_output)' \
  'multiply_elementwise(silu(up_proj_output), gate_proj_output)'
value mlp.hpp mlp 'multiply_elementwise(activated, up_proj_output)' 'add(activated, up_proj_output)'
value mlp.hpp mlp 'silu(gate_proj_output)' 'gate_proj_output'
line mlp.hpp mlp 'stage("activated", layer, activated);' ''
value decoder_layer.hpp decoder_layer 'add(residual, attn_output)' 'attn_output'
value decoder_layer.hpp decoder_layer 'add(residual, attn_output)' 'add(input_layernorm_output, attn_output)'
value decoder_layer.hpp decoder_layer 'add(attn_residual, mlp_output)' 'mlp_output'
value decoder_layer.hpp decoder_layer 'add(attn_residual, mlp_output)' 'add(residual, mlp_output)'
fault decoder_layer.hpp decoder_layer 'self_attn.forward(input_layernorm_output,' \
  'self_attn.forward(@ ? residual : input_layernorm_output,'
value decoder_layer.hpp decoder_layer 'mlp.forward(post_attention_layernorm_output)' \
  'post_attention_layernorm.forward(mlp.forward(attn_residual))'
value decoder_layer.hpp decoder_layer 'mlp.forward(post_attention_layernorm_output)' 'mlp.forward(attn_residual)'
value decoder_layer.hpp decoder_layer 'post_attention_layernorm.forward(attn_residual)' \
  'input_layernorm.forward(attn_residual)'
line decoder_layer.hpp decoder_layer 'stage("attn_residual", layer, attn_residual);' ''
value decoder_model.hpp decoder_model 'static_cast<std::size_t>(decoder_layer.layer)' '0'
value decoder_model.hpp decoder_model 'norm.forward(hidden_states)' 'hidden_states'
line decoder_model.hpp decoder_model 'hidden_states = std::move(layer_output);' \
  'if (decoder_layer.layer != 1) hidden_states = std::move(layer_output);'
value decoder_model.hpp decoder_model 'last_position < max_position_embeddings' 'true'
value decoder_model.hpp decoder_model 'last_position < max_position_embeddings' \
  'last_position <= max_position_embeddings'
value decoder_model.hpp decoder_model 'cache.length() + input_ids.dim(1)' 'attention_mask.dim(1)'
line decoder_model.hpp decoder_model 'stage("position_ids", -1, position_ids);' ''
value lm_head.hpp lm_head 'weight.empty()' '!weight.empty()'
value lm_head.hpp lm_head 'matmul(hidden_states, weight)' 'matmul(hidden_states, embed_tokens_weight)'
line causal_lm.hpp causal_lm 'last.matrix(batch) = hidden_states.matrix(batch).bottomRows(count);' \
  'last.matrix(batch) = hidden_states.matrix(batch).topRows(count);'
value causal_lm.hpp causal_lm 'logits_to_keep == 0 ? hidden_states.dim(1) : logits_to_keep' \
  'logits_to_keep == 0 ? 1 : logits_to_keep'
line causal_lm.hpp causal_lm 'stage("logits", -1, logits);' ''
# The same faults must show in the whole model, where other parts could hide them.
value attention_mask.hpp causal_lm 'past + query' 'query'
value attention_mask.hpp causal_lm 'expanded_mask[key] && not_after_query' 'not_after_query'
# (Positions that count left padding are all too large by the same number, which rotations do not feel: only the
# context check does.)
line attention_mask.hpp decoder_model 'if (real) ++position;' '++position;'
line attention.hpp causal_lm 'scores.matrix(batch, head) *= scaling;' ''
value rms_norm.hpp causal_lm 'std::sqrt(mean_square.row(r)[0] + eps)' 'std::sqrt(mean_square.row(r)[0]) + eps'
value lm_head.hpp causal_lm 'matmul(hidden_states, weight)' 'matmul(hidden_states, embed_tokens_weight)'

# ---- are the lines there? ----
stale=0
for i in "${!headers[@]}"; do
  [ "$i" = 0 ] && continue
  content=$(cat "$root/include/glassbox/${headers[i]}"; echo x)
  rest=${content//"${finds[i]}"/}
  count=$(((${#content} - ${#rest}) / ${#finds[i]}))
  [ $count = 1 ] && continue
  echo "STALE     ${headers[i]}: $count times, expected once: ${finds[i]}"
  stale=1
done
if [ $stale = 1 ]; then echo "$0: bring the lines above up to date with the headers" >&2; exit 1; fi
if [ $check_only ]; then echo "all $((${#headers[@]} - 1)) lines to be broken are there"; exit 0; fi

# ---- building and running ----
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
compiler=${CXX:-g++}
jobs=${JOBS:-$(nproc)}
eigen=$(pkg-config --cflags-only-I eigen3 2>/dev/null | sed 's/^ *-I//; s/ .*//')
[ -e "$eigen/Eigen/Core" ] || eigen=/usr/include/eigen3
flags=(-std=c++20 -O0 -w -pthread -isystem "$eigen" "-DGLASSBOX_SOURCE_DIR=\"$root\"")
cat > "$work/precompiled.hpp" <<'END'
#include <cstdlib>
#include <Eigen/Core>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <sstream>
#include <thread>
inline bool glassbox_broken(int number) {
  static const int wanted = std::atoi(std::getenv("GLASSBOX_BROKEN"));
  return wanted == number;
}
END
"$compiler" "${flags[@]}" -x c++-header "$work/precompiled.hpp" -o "$work/precompiled.hpp.gch" || exit 1

# The tests are copied and built for double alone, which halves the time: what double sees is wrong for float too.
mkdir "$work/tests"
cp -r "$root"/tests/support "$root"/tests/kernels "$root"/tests/test_*.cpp "$work/tests"
sed -i 's/Types<float, double>/Types<double>/' "$work/tests/support/expect_near.hpp"

# The test with all its faults as one program, then one run a fault.
run_test() {
  local test=$1 folder="$work/broken/$1" i file content result count=0
  mkdir -p "$folder"
  for i in "${!headers[@]}"; do
    [ "${tests[i]}" = "$test" ] || continue
    file="$folder/glassbox/${headers[i]}"
    mkdir -p "$(dirname "$file")"
    [ -e "$file" ] || cp "$root/include/glassbox/${headers[i]}" "$file"
    content=$(cat "$file"; echo x)
    content=${content/"${finds[i]}"/"${replacements[i]//@/glassbox_broken($i)}"}
    printf '%s' "${content%x}" > "$file"
  done
  if ! "$compiler" "${flags[@]}" -include "$work/precompiled.hpp" -I "$folder" -I "$root/include" -I "$work/tests" \
      "$work/tests/$(dirname "$test")/test_$(basename "$test").cpp" -o "$folder/program" \
      -lgtest_main -lgtest > "$folder/log" 2>&1; then
    echo "BROKEN    test $test does not compile with its faults: $(grep -m 1 error "$folder/log")"
    return
  fi
  if ! GLASSBOX_BROKEN=0 timeout 100 "$folder/program" > "$folder/log" 2>&1; then
    echo "BROKEN    test $test is red without any fault"
    return
  fi
  for i in "${!headers[@]}"; do
    [ "${tests[i]}" = "$test" ] || continue
    result=seen
    GLASSBOX_BROKEN=$i timeout 100 "$folder/program" > "$folder/log" 2>&1 && result=SURVIVED
    printf '%-9s %s, test %s: %s -> %s\n' "$result" "${headers[i]}" "$test" "${finds[i]%$'\n'}" \
      "${replacements[i]//@/BROKEN}" | tr -s '\n ' ' ' | cut -c 1-240
  done
  rm -f "$folder/program"
}

for test in $(printf '%s\n' "${tests[@]:1}" | sort -u); do
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
  run_test "$test" > "$work/result_${test//\//_}" 2> /dev/null &  # bash says there which program crashed
done
wait
cat "$work"/result_* 2>/dev/null
seen=$(cat "$work"/result_* 2>/dev/null | grep -c '^seen ')
echo "$seen of $((${#headers[@]} - 1)) faults were seen by the tests"
[ "$seen" = $((${#headers[@]} - 1)) ]
