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
# Needs a C++20 compiler, Eigen, GoogleTest, JSON and libsentencepiece; touches nothing but a temporary folder. Exit code 0: all faults
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
line split_text.hpp split_text 'parts.emplace_back();' ''
line stage_log.hpp stage_log 'nan += 1;' ''
value stage_log.hpp stage_log 'std::isinf(value)' 'false'
value stage_log.hpp stage_log 'finite == 0 || value < min' 'value < min'
value stage_log.hpp stage_log 'finite == 0 || value > max' 'value > max'
value stage_log.hpp stage_log 'file_ == nullptr' 'false'
value stage_log.hpp stage_log 'std::fflush(file_) == 0' 'true'
fault stage_log.hpp stage_log 'record.layer < 0 ? "-"' 'record.layer < (@ ? -1 : 0) ? "-"'
value stage_break.hpp stage_break 'value >= number' 'value == number'
value stage_break.hpp stage_break 'stage != "*" && stage != record.name' 'stage != record.name'
value stage_break.hpp stage_break 'hit == 0 || seen_now == hit' 'hit == 0 || seen_now >= hit'
value stage_break.hpp stage_break 'size >= 0 && condition.holds_for(size)' 'condition.holds_for(size)'
value stage_break.hpp stage_break 'request.stage.find('"'='"') != std::string::npos' 'false'
value stage_break.hpp stage_break 'condition.or_more || condition.number < 1' 'condition.number < 1'
value stage_break.hpp stage_break 'request.seen >= (std::max)(request.hit, Index(1))' 'request.seen >= 1'
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
fault attention_mask.hpp attention_mask 'mask_row(expanded_mask.row_data(batch)' \
  'mask_row(expanded_mask.row_data(@ ? 0 : batch)'
value attention_mask.hpp attention_mask 'expanded_mask[key] && not_after_query' 'not_after_query'
fault attention_mask.hpp attention_mask '(batch * query_length + query) * causal_mask' \
  '((@ ? 0 : batch) * query_length + query) * causal_mask'
fault attention_mask.hpp attention_mask 'expanded_mask.data() + batch' 'expanded_mask.data() + (@ ? 0 : batch)'
fault attention_mask.hpp attention_mask 'position_ids.data() + batch' 'position_ids.data() + (@ ? 0 : batch)'
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

# ---- generation ----
value random.hpp random 'next_bits() >> 11' 'next_bits() >> 12'
line random.hpp random 'state_ += 0x9e3779b97f4a7c15ULL;' 'state_ += 0x9e3779b97f4a7c13ULL;'
value sampling_config.hpp sampling_config 'value >= range.smallest && value <= range.largest' 'value <= range.largest'
value sampling_config.hpp sampling_config 'range.or_zero && value == 0' 'value == 0'
line sampling_config.hpp sampling_config 'check_setting(min_p_range, min_p);' ''
value sampling_filters.hpp sampling_filters 'logit < 0 ? logit * Scalar(penalty) : logit / Scalar(penalty)' \
  'logit / Scalar(penalty)'
fault sampling_filters.hpp sampling_filters 'const Scalar logit = logits(id);' \
  'const Scalar logit = @ ? penalized(id) : logits(id);'
value sampling_filters.hpp sampling_filters 'i + prefix_length < length' 'i + prefix_length < length - 1'
value sampling_filters.hpp sampling_filters 'ngram_size - 1' 'ngram_size'
value sampling_filters.hpp sampling_filters 'std::equal(suffix, history.end(), candidate)' 'true'
value sampling_filters.hpp sampling_filters 'logits(id) > logits(best)' 'logits(id) >= logits(best)'
value sampling_filters.hpp sampling_filters 'static_cast<double>(logits(id)) / temperature' \
  'static_cast<double>(logits(id)) * temperature'
value sampling_filters.hpp sampling_filters 'ordered.begin() + (k - 1)' 'ordered.begin() + k'
value sampling_filters.hpp sampling_filters 'ordered[static_cast<std::size_t>(k - 1)]' 'ordered[0]'
value sampling_filters.hpp sampling_filters 'logits(id) < kth_largest' 'logits(id) <= kth_largest'
value sampling_filters.hpp sampling_filters 'mass_before >= p' 'mass_before > p'
value sampling_filters.hpp sampling_filters 'mass_before >= p' \
  'mass_before + static_cast<double>(probabilities(id)) > p'
value sampling_filters.hpp sampling_filters 'id == descending.front()' 'false'
value sampling_filters.hpp sampling_filters 'probabilities(a) > probabilities(b)' 'probabilities(a) < probabilities(b)'
value sampling_filters.hpp sampling_filters 'a < b' 'a > b'
value sampling_filters.hpp sampling_filters 'Scalar(min_p) * probabilities.row(0).maxCoeff()' 'Scalar(min_p)'
value sampling_filters.hpp sampling_filters 'probabilities(id) < threshold' 'probabilities(id) <= threshold'
value sampling_filters.hpp sampling_filters 'id >= 0 && id < vocab_size' 'id >= 0 && id <= vocab_size'
value sampler.hpp sampler 'cumulative > target' 'cumulative >= target'
value sampler.hpp sampler 'coin * total' 'coin'
line sampler.hpp sampler 'if (probabilities(id) > 0) last_possible = id;' 'last_possible = id;'
value sampler.hpp sampler 'std::isfinite(logits(id)) || logits(id) < 0' 'true'
value sampler.hpp sampler '!(total > 0) || !std::isfinite(total)' 'false'
value sampler.hpp sampler 'apply_temperature(blocked, config.temperature)' 'apply_temperature(penalized, config.temperature)'
value sampler.hpp sampler 'keep_top_p(top_k, config.top_p)' 'keep_top_p(tempered, config.top_p)'
value sampler.hpp sampler 'keep_min_p(top_p, config.min_p)' 'top_p'
value sampler.hpp sampler 'block_repeated_ngrams(penalized, history, config.no_repeat_ngram_size)' 'penalized'
line sampler.hpp sampler 'stage("coin", -1, coin);' ''
value generation_config.hpp generation_config 'max_new_tokens < 0' 'false'
value generation_config.hpp generation_config 'config.context > max_position_embeddings' \
  'config.context > max_position_embeddings + 1'
value generation_config.hpp generation_config '!is_utf8(stop_string)' 'false'
value stop_strings.hpp stop_strings 'stop_string.size() > match_.size()' 'true'
value stop_strings.hpp stop_strings 'held_.size() - match_.size()' 'held_.size()'
value stop_strings.hpp stop_strings 'stop_string.starts_with(text)' 'stop_string == text'
value stop_strings.hpp stop_strings 'matched() ? "" : held_.substr(safe)' '""'
value continuation.hpp continuation 'std::find(eos.begin(), eos.end(), token) != eos.end()' \
  '!eos.empty() && eos[0] == token'
value continuation.hpp continuation 'new_tokens >= config_.max_new_tokens' 'new_tokens > config_.max_new_tokens'
value continuation.hpp continuation 'next_position >= context_' 'next_position > context_'
value continuation.hpp continuation 'length > context_' 'length >= context_'
value continuation.hpp continuation 'static_cast<Index>(history_.size()) - 1' 'static_cast<Index>(history_.size())'
line continuation.hpp continuation 'if (decoder_) show(decoder_->flush());' ''
line continuation.hpp continuation 'history_.push_back(token);' ''
line continuation.hpp continuation 'new_text_.clear();' ''
line continuation.hpp continuation 'if (config.max_new_tokens == 0) stop(StopReason::max_new_tokens);' ''
fault generate.hpp generate 'feed({continuation.result().ids.back()})' \
  'feed({@ ? continuation.history()[continuation.history().size() - 2] : continuation.result().ids.back()})'
value generate.hpp generate '!continuation.result().ids.empty()' 'true'
line generate.hpp generate 'cache_.reset();' ''
value generate.hpp generate 'cache_.length() + seq' 'seq'
line generate.hpp generate 'stage_state().step = continuation.result().steps;' ''
value generate.hpp generate 'logits.matrix(batch).bottomRows(1)' 'logits.matrix(batch).topRows(1)'
value generate.hpp generate 'tokenizer->vocab_size() >= vocab_size' 'true'
value generate_batch.hpp generate_batch 'longest - prompts[i].size()' '0'
line generate_batch.hpp generate_batch 'next.attention_mask(row, past) = text.stopped() ? 0 : 1;' \
  'next.attention_mask(row, past) = 0;'
fault generate_batch.hpp generate_batch 'config, config.seed + i, context' 'config, config.seed + (@ ? 0 : i), context'
fault generate_batch.hpp generate_batch '= attention_mask(row, key);' '= @ ? 1 : attention_mask(row, key);'
line kv_cache.hpp causal_lm 'if (!kept_) cache_->truncate(length_);' ''

# ---- text ----
value utf8.hpp utf8 'first < 0xC2 || first > 0xF4' 'first < 0xC0 || first > 0xF4'
value utf8.hpp utf8 'first == 0xED ? 0x9F : (first == 0xF4 ? 0x8F : 0xBF)' '0xBF'
value utf8.hpp utf8 'first == 0xE0 ? 0xA0 : (first == 0xF0 ? 0x90 : 0x80)' '0x80'
value utf8.hpp utf8 'length <= 0' 'length < 0'
value tokenizer.hpp tokenizer 'add_bos_token_ && bos_id_ >= 0 && !begun' 'add_bos_token_ && bos_id_ >= 0'
value tokenizer.hpp tokenizer 'add_eos_token_ && eos_id_ >= 0 && !ended' 'eos_id_ >= 0 && !ended'
value tokenizer.hpp tokenizer 'id < 0 || id >= vocab_size_' 'id < 0 || id > vocab_size_'
value tokenizer.hpp tokenizer 'id < piece_count()' 'true'
value tokenizer.hpp tokenizer 'at_beginning_ && entry.leading_space' 'entry.leading_space'
line tokenizer.hpp tokenizer 'if (!bytes.empty()) at_beginning_ = false;' 'at_beginning_ = false;'
line tokenizer.hpp tokenizer 'if (length == 0) break;' 'if (length == 0) { text += rest; taken = pending_.size(); break; }'
line tokenizer.hpp tokenizer 'if (length < 0) text += kReplacementCharacter;' ''
value text/sentencepiece_tokenizer.hpp text/sentencepiece_tokenizer 'vocab_size_ < piece_count()' 'false'
value text/sentencepiece_tokenizer.hpp text/sentencepiece_tokenizer 'entry.kind != PieceKind::control' 'true'
value text/sentencepiece_tokenizer.hpp text/sentencepiece_tokenizer \
  'model.add_dummy_prefix || model.remove_extra_whitespaces' 'true'
value text/sentencepiece_tokenizer.hpp text/sentencepiece_tokenizer \
  'id >= 0 && piece_kind(id) == PieceKind::control ? id : -1' 'id'
line text/sentencepiece_tokenizer.hpp text/sentencepiece_tokenizer \
  'drops_every_leading_space_ = model.remove_extra_whitespaces;' ''

# ---- files ----
value io/json.hpp io/json 'zero != std::string_view::npos' 'false'
value io/json.hpp io/json 'open_.size() <= max_json_depth' 'open_.size() <= max_json_depth + 1'
value io/json.hpp io/json 'number < smallest || number > largest' 'number < smallest'
value io/json.hpp io/json '!std::isfinite(found) || found < smallest' 'false'
value io/mapped_file.hpp io/mapped_file 'count < size_ - begin ? count : size_ - begin' 'count'
value io/mapped_file.hpp io/mapped_file 'std::filesystem::symlink_status(path, no_throw)' \
  'std::filesystem::status(path, no_throw)'
value io/mapped_file.hpp io/mapped_file 'size != 0 && product > limit / size' 'false'
fault io/safetensors.hpp io/safetensors 'const bool header_follows = ' 'const bool header_follows = !@ && '
value io/safetensors.hpp io/safetensors 'length > mapped_->size() - 8' 'false'
value io/safetensors.hpp io/safetensors 'tensor.bytes != expected' 'tensor.bytes < expected'
value io/safetensors.hpp io/safetensors 'tensor.begin < position' 'false'
value io/safetensors.hpp io/safetensors 'tensor.begin > position' 'false'
value io/safetensors.hpp io/safetensors 'position < mapped_->size()' 'false'
value io/safetensors.hpp io/safetensors 'entry.size() == 3' 'true'
value io/safetensors.hpp io/safetensors 'value.is_string()' 'true'
value io/huggingface.hpp io/huggingface 'tensor.shape != spec.shape()' 'tensor.shape.size() != spec.shape().size()'
line io/huggingface.hpp io/huggingface 'if (tensor.dtype == "BF16") return StoredType::bf16;' \
  'if (tensor.dtype == "BF16") return StoredType::f16;'
value io/huggingface.hpp io/huggingface 'name.starts_with("model.") || name.starts_with("lm_head.")' 'false'
value io/huggingface.hpp io/huggingface 'name.ends_with(suffix)' 'false'
value io/huggingface.hpp io/huggingface '!missing_.empty()' 'missing_.size() > 1'
value io/config_json.hpp io/config_json '!object_.is_absent_or_null("num_key_value_heads")' 'false'
value io/config_json.hpp io/config_json '!object_.is_absent_or_null("head_dim")' 'false'
value io/config_json.hpp io/config_json 'found && inner_theta != result_.config.rope_theta' 'false'
value io/config_json.hpp io/config_json 'object_.string("hidden_act") != "silu"' 'false'
value io/config_json.hpp io/config_json 'rope.string(key) != "default"' 'false'
value io/config_json.hpp io/config_json '*object_.find(refused.key) == Json::parse(neutral)' 'true'
line io/generation_config_json.hpp io/generation_config_json 'sampling.top_p = top_p;' ''
value io/generation_config_json.hpp io/generation_config_json 'object_.is_absent("eos_token_id")' 'true'
value io/generation_config_json.hpp io/generation_config_json 'whole_setting(top_k_range, 50)' \
  'whole_setting(top_k_range, 0)'
value io/tokenizer_config_json.hpp io/tokenizer_config_json 'object.is_null(key) ? false : object.boolean(key)' \
  'object.boolean(key)'
value io/llama2c.hpp io/llama2c 'magic || vocab_size > 0 ? vocab_size : -vocab_size' 'vocab_size'
value io/llama2c.hpp io/llama2c 'file_->size() == needed' 'file_->size() >= needed'
value io/llama2c.hpp io/llama2c 'interleaved_row_of(row % head_dim(), head_dim())' 'row % head_dim()'
line io/llama2c.hpp io/llama2c 'config.rms_norm_eps = 1e-5;' 'config.rms_norm_eps = 1e-6;'
line io/checkpoint.hpp io/checkpoint 'norm.eps = static_cast<Scalar>(stored_.config.rms_norm_eps);' ''
value io/checkpoint.hpp io/checkpoint 'build_norm(prefix + "post_attention_layernorm")' \
  'build_norm(prefix + "input_layernorm")'
value io/save_safetensors.hpp io/save_safetensors '(8 - text.size() % 8) % 8' '0u'
line io/save_safetensors.hpp io/save_safetensors 'begin = end;' ''
value io/save_safetensors.hpp io/save_safetensors '!names.insert(tensor.name).second' 'false'
value io/save_safetensors.hpp io/save_safetensors 'tensor.numbers.size() == expected' 'true'
value io/save_safetensors.hpp io/save_safetensors 'std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)' \
  'false'
fault io/save_safetensors.hpp io/save_safetensors 'if (!stream_) throw_unwritable' 'if (!stream_ && !@) throw_unwritable'
fault io/save_safetensors.hpp io/save_safetensors 'if (!replaced_) std' 'if (!replaced_ && !@) std'
fault io/save_safetensors.hpp io/save_safetensors 'part_ += ".part";' 'part_ += @ ? "" : ".part";'
line io/save_checkpoint.hpp io/save_checkpoint 'add(prefix + "mlp.up_proj", layer.mlp.up_proj);' \
  'add(prefix + "mlp.up_proj", layer.mlp.gate_proj);'
value io/save_checkpoint.hpp io/save_checkpoint 'linear.bias.rank() > 0' 'false'
line io/save_checkpoint.hpp io/save_checkpoint 'expected_.erase(found);' 'expected_.clear();'
line io/save_checkpoint.hpp io/save_checkpoint 'json["rms_norm_eps"] = config.rms_norm_eps;' \
  'json["rms_norm_eps"] = double(float(config.rms_norm_eps));'
line io/save_checkpoint.hpp io/save_checkpoint 'json["top_k"] = sampling.top_k;' ''
line io/save_checkpoint.hpp io/save_checkpoint 'weights_file.finish();' 'weights_file.replace();'
line io/training_state.hpp io/training_state 'optimizer.step_count = step_count;' ''
fault io/training_state.hpp io/training_state 'shape, exp_avg_sq.data()' 'shape, (@ ? exp_avg : exp_avg_sq).data()'
line io/training_state.hpp io/training_state 'json["numbers"][item.first] = number_json(item.second);' \
  'json["numbers"][item.first] = item.second;'
value io/training_state.hpp io/training_state 'found->dtype == tensor.dtype && found->shape == tensor.shape' \
  'found->shape == tensor.shape'
value io/training_state.hpp io/training_state 'names.count(tensor.name) == 1' 'true'
value io/training_state.hpp io/training_state 'value.get<std::uint64_t>() <= std::uint64_t{0x7FFFFFFFFFFFFFFF}' 'true'

# ---- training ----
line training/gradient_products.hpp training/gradient_products 'output.noalias() += a.transpose() * b;' \
  'output.noalias() = a.transpose() * b;'
line training/gradient_products.hpp training/gradient_products 'output.noalias() = a * b.transpose();' \
  'output.noalias() = a * b;'
value training/gradient_products.hpp training/gradient_products 'a.cols() != b.rows()' 'false'
value training/parameters.hpp training/parameters 'linear.bias.rank() > 0' 'false'
value training/parameters.hpp training/parameters '!causal_lm.lm_head.weight.empty()' 'true'
line training/parameters.hpp training/parameters 'loops::own_weight<Scalar>(trainable.lm_head.weight);' ''
line training/parameters.hpp training/parameters 'set_to_zero(gradients);' ''
value training/cross_entropy.hpp training/cross_entropy 'labels(batch, s + 1)' 'labels(batch, s)'
value training/cross_entropy.hpp training/cross_entropy 'result.sum / double(result.counted)' 'result.sum'
value training/cross_entropy.hpp training/cross_entropy 'result.sum / double(result.counted)' \
  'result.sum / double(shifted_labels.size())'
line training/cross_entropy.hpp training/cross_entropy 'sum += double(std::exp(logits[i] - largest));' \
  'sum += std::exp(logits[i]);'
line training/cross_entropy.hpp training/cross_entropy 'd_logits[label] = Scalar(-double(factor) * others / sum);' ''
value training/cross_entropy.hpp training/cross_entropy 'Scalar(1) / Scalar(counted)' 'Scalar(1)'
line training/linear_backward.hpp training/linear_backward \
  'for (Index r = 0; r < d_output.rows(); ++r) gradients.bias.row(0) += d_output.row(r);' \
  'gradients.bias.row(0) += d_output.row(0);'
value training/linear_backward.hpp training/linear_backward 'd_output.rows() != input.rows()' 'false'
line training/embedding_backward.hpp training/embedding_backward \
  'd_weight.row(id) += d_inputs_embeds.row(batch * input_ids.dim(1) + s);' \
  'd_weight.row(id) = d_inputs_embeds.row(batch * input_ids.dim(1) + s);'
value training/embedding_backward.hpp training/embedding_backward 'batch * input_ids.dim(1) + s' 's'
value training/rms_norm_backward.hpp training/rms_norm_backward 'x[i] * through_the_mean' 'Scalar(0)'
value training/rms_norm_backward.hpp training/rms_norm_backward \
  'dot * inverse_rms * inverse_rms * inverse_rms / n' 'dot * inverse_rms * inverse_rms / n'
line training/rms_norm_backward.hpp training/rms_norm_backward 'dot += d_output[i] * weight[i] * x[i];' \
  'dot += d_output[i] * x[i];'
line training/rms_norm_backward.hpp training/rms_norm_backward 'd_weight[i] += d_output[i] * x[i] * inverse_rms;' \
  'd_weight[i] += d_output[i] * x[i];'
line training/rotary_embedding_backward.hpp training/rotary_embedding_backward 'opposite_sin.row(r) = -sin.row(r);' \
  'opposite_sin.row(r) = sin.row(r);'
value training/softmax_backward.hpp training/softmax_backward 'y.row(r).dot(d_y.row(r))' 'Scalar(0)'
value training/softmax_backward.hpp training/softmax_backward 'y.row(r).dot(d_y.row(r))' \
  'd_y.row(r).sum() / Scalar(y.cols())'
value training/activation_backward.hpp training/activation_backward \
  '(Scalar(1) + x[i] * (Scalar(1) - sigmoid))' '(Scalar(1) - sigmoid)'
value training/activation_backward.hpp training/activation_backward 'x[i] * (Scalar(1) - sigmoid)' 'Scalar(0)'
value training/attention_backward.hpp training/attention_backward \
  'std::sqrt(Scalar(activations.query_states.dim(3)))' 'Scalar(1)'
fault training/attention_backward.hpp training/attention_backward 'kv_head = head / num_key_value_groups' \
  'kv_head = @ ? head % num_key_value_heads : head / num_key_value_groups'
fault training/attention_backward.hpp training/attention_backward \
  'key_states.matrix(batch, head / num_key_value_groups)' \
  'key_states.matrix(batch, @ ? head % key_states.dim(1) : head / num_key_value_groups)'
fault training/attention_backward.hpp training/attention_backward \
  'add_outer_products<Scalar>(head_weights, d_head, d_states' \
  'if (!@ || head % num_key_value_groups == 0) add_outer_products<Scalar>(head_weights, d_head, d_states'
fault training/attention_backward.hpp training/attention_backward 'add(d_hidden_by_q_and_k, d_hidden_by_v)' \
  'add(d_hidden_by_q_and_k, @ ? d_hidden_by_k : d_hidden_by_v)'
value training/attention_backward.hpp training/attention_backward 'merge_heads(d_value_states)' \
  'merge_heads(rotary_backward(d_value_states, cos, sin))'
value training/attention_backward.hpp training/attention_backward 'rotary_backward(d_key_states, cos, sin)' \
  'd_key_states'
fault training/mlp_backward.hpp training/mlp_backward 'multiply_elementwise(d_gated, activations.up_proj)' \
  'multiply_elementwise(d_gated, @ ? activations.activated : activations.up_proj)'
fault training/mlp_backward.hpp training/mlp_backward 'silu_backward(activations.gate_proj, d_activated)' \
  'silu_backward(@ ? activations.up_proj : activations.gate_proj, d_activated)'
fault training/mlp_backward.hpp training/mlp_backward 'add(d_hidden_by_gate, d_hidden_by_up)' \
  'add(d_hidden_by_gate, @ ? d_hidden_by_gate : d_hidden_by_up)'
value training/decoder_layer_backward.hpp training/decoder_layer_backward \
  'add(d_layer_output, d_attn_residual_by_mlp)' 'd_attn_residual_by_mlp'
value training/decoder_layer_backward.hpp training/decoder_layer_backward \
  'add(d_attn_residual, d_residual_by_attention)' 'd_residual_by_attention'
fault training/decoder_layer_backward.hpp training/decoder_layer_backward 'd_attn_output = d_attn_residual;' \
  'd_attn_output = @ ? d_layer_output : d_attn_residual;'
value training/causal_lm_backward.hpp training/causal_lm_backward 'shift_labels(labels)' 'labels'
value training/causal_lm_backward.hpp training/causal_lm_backward 'counted == 0 ? result.counted : counted' \
  'result.counted'
line training/causal_lm_backward.hpp training/causal_lm_backward \
  'embedding_backward(batch.input_ids, d_inputs_embeds, gradients.model.embed_tokens);' ''
fault training/causal_lm_backward.hpp training/causal_lm_backward 'causal_lm.model.layers[i];' \
  'causal_lm.model.layers[@ ? causal_lm.model.layers.size() - 1 - i : i];'
line training/causal_lm_backward.hpp training/causal_lm_backward 'stage("expanded_mask", -1, expanded_mask);' \
  'for (Index i = 0; i < expanded_mask.size(); ++i) expanded_mask.data()[i] = true;'
line training/causal_lm_backward.hpp training/causal_lm_backward \
  'check_label_ids("training_forward", batch.labels, vocab_size);' ''
value training/adamw.hpp training/adamw 'config.learning_rate / correction1' 'config.learning_rate'
value training/adamw.hpp training/adamw 'std::sqrt(correction2)' '1.0'
value training/adamw.hpp training/adamw 'std::sqrt(v[i]) * correction + small' \
  '(std::sqrt(v[i]) + small) * correction'
value training/adamw.hpp training/adamw 'keep * values[i]' 'values[i]'
line training/adamw.hpp training/adamw 'if (rules[i].frozen) continue;' ''
value training/adamw.hpp training/adamw 'rules[i].decayed ? config.learning_rate * config.weight_decay : 0.0' \
  'config.learning_rate * config.weight_decay'
line training/adamw.hpp training/adamw \
  'for (std::size_t i = 0; i < parameters.size(); ++i) check_size(parameters[i], gradients[i], moments[i]);' ''
line training/parameter_rules.hpp training/parameter_rules 'rules[i].decayed = parameters[i].is_matrix();' \
  'rules[i].decayed = true;'
value training/parameter_rules.hpp training/parameter_rules \
  "pattern.find_first_not_of('*', in_pattern) == none" 'true'
line training/training_step.hpp training/training_step 'check_finite("parameter", parameters_of(causal_lm));' ''
value training/parameter_rules.hpp training/parameter_rules '!rules[i].frozen' 'true'
value training/learning_rate.hpp training/learning_rate 'double(step + 1)' 'double(step)'
value training/learning_rate.hpp training/learning_rate 'double(step - warmup_steps)' 'double(step)'
value training/learning_rate.hpp training/learning_rate 'std::cos(pi * progress)' 'std::cos(2 * pi * progress)'
fault training/gradient_norm.hpp training/gradient_norm 'max_norm / (norm + 1e-6);' \
  'max_norm / (norm + (@ ? 0 : 1e-6));'
value training/gradient_norm.hpp training/gradient_norm 'max_norm == 0 || factor >= 1' 'max_norm == 0'
value training/gradient_norm.hpp training/gradient_norm 'double(values[i]) * double(values[i])' \
  'std::abs(double(values[i]))'
value training/gradient_norm.hpp training/gradient_norm '!std::isfinite(values[i])' 'std::isnan(values[i])'
value training/training_batch.hpp training/training_batch 's >= first_counted' 'true'
value training/training_batch.hpp training/training_batch \
  'is_token ? labels[static_cast<std::size_t>(s)] : ignore_index' \
  'is_token ? labels[static_cast<std::size_t>(s)] : pad_token_id'
value training/training_batch.hpp training/training_batch 'example.labels.empty()' 'true'
value training/training_batch.hpp training/training_batch 'labels != 0 && labels != length' 'false'
value training/training_batch.hpp training/training_batch 'is_token ? 1 : 0' '1'
value training/training_batch.hpp training/training_batch 'mask_prompts ? example.prompt_length : 0' \
  'example.prompt_length'
line training/training_batch.hpp training/training_batch 'report.truncated += 1;' ''
fault training/training_batch.hpp training/training_batch 'if (s > 0 &&' 'if ((@ || s > 0) &&'
value training/training_batch.hpp training/training_batch 'ids.begin() + i * block_length' \
  'ids.begin() + i * (block_length - 1)'
value training/training_batch.hpp training/training_batch \
  'static_cast<Index>(ids.size()) - count * block_length' '0'
line training/training_batch.hpp training/training_batch 'std::swap(order[i - 1], order[other]);' \
  'order[i - 1] = order[other];'
value training/training_step.hpp training/training_step \
  'workers.add(causal_lm, batch, result.counted, memory)' 'workers.add(causal_lm, batch, 0, memory)'
line training/training_step.hpp training/training_step 'workers.set_to_zero();' ''
line training/training_step.hpp training/training_step 'workers.collect();' ''
line training/training_step.hpp training/training_step 'addition[p].view().setZero();' ''
value training/training_step.hpp training/training_step '(i + 1) * texts / threads' '(i + 1) * (texts / threads)'
line training/training_step.hpp training/training_step 'if (error != nullptr) std::rethrow_exception(error);' ''
line training/training_step.hpp training/training_step 'check_finite("gradient", gradients);' ''
value training/training_step.hpp training/training_step '!std::isfinite(result.loss)' 'false'
value training/training_step.hpp training/training_step 'clip_gradients(gradients, max_norm)' \
  'global_norm(gradients)'
value training/initialize.hpp training/initialize 'deviation / std::sqrt(2 * double(config.num_hidden_layers))' \
  'deviation'
value training/initialize.hpp training/initialize '1 / std::sqrt(double(config.hidden_size))' '0.02'
line training/initialize.hpp training/initialize 'norm.weight.row(0).setOnes();' ''
line training/initialize.hpp training/initialize 'norm.eps = Scalar(config.rms_norm_eps);' ''
value training/initialize.hpp training/initialize 'std::log(1 - random.next_uniform())' \
  'std::log(1 - 0.5 * random.next_uniform())'
value training/perplexity.hpp training/perplexity 'begin_token_id >= 0 ? context - 1 : context' 'context'
line training/perplexity.hpp training/perplexity 'if (begin_token_id >= 0) window.push_back(begin_token_id);' ''
value training/perplexity.hpp training/perplexity 'sum / double(counted)' 'sum'

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
cp -r "$root"/tests/{support,kernels,io,text,training} "$root"/tests/test_*.cpp "$work/tests"
sed -i 's/Types<float, double>/Types<double>/' "$work/tests/support/expect_near.hpp"

# The test with all its faults as one program, then one run a fault.
run_test() {
  local test=$1 folder="$work/broken/$1" i file content result libraries=()
  case $test in text/*) libraries=(-lsentencepiece) ;; esac
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
      -lgtest_main -lgtest "${libraries[@]}" > "$folder/log" 2>&1; then
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
