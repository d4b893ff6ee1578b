// glassbox: every step from text to the next token, one concept a header. This file is the table of contents:
// read from top to bottom.
//
// A header may include what stands above it: L0 only L0; L1 and L2 also L0; L3 also L0 and L2; L4 everything.
// Not part of the book, included by name where wanted: io/ (checkpoints), text/ (tokenizers), training/,
// debugger/.
#pragma once

// clang-format off
// L0 words
#include "glassbox/version.hpp"            // the version, and the only macros
#include "glassbox/error.hpp"              // what is thrown when something does not fit
#include "glassbox/axis.hpp"               // a name and a size; Index, TokenId, the views Eigen computes on
#include "glassbox/buffer.hpp"             // the memory below a tensor
#include "glassbox/tensor.hpp"             // numbers with named axes: all that flows through a model
#include "glassbox/check.hpp"              // shape checks whose messages name both tensors
#include "glassbox/config.hpp"             // the shape of a model, under the keys of config.json
#include "glassbox/split_text.hpp"         // a:b:c to its parts
#include "glassbox/stage_record.hpp"       // what a hook is given: one value on its way
#include "glassbox/stage_log.hpp"          // GLASSBOX_LOG=FILE: a line a stage
#include "glassbox/stage_break.hpp"        // GLASSBOX_BREAK=scores:layer=3 stops a debugger there
#include "glassbox/stage.hpp"              // the one function every intermediate passes: stop there, hook it
#include "glassbox/stage_table.hpp"        // what each of those values is, and why it has its shape
#include "glassbox/weight.hpp"             // a weight [out, in], stored as the checkpoint has it

// L1 text
#include "glassbox/utf8.hpp"               // which bytes make a character
#include "glassbox/tokenizer.hpp"          // text to token ids and back

// L2 arithmetic
#include "glassbox/matmul.hpp"             // hidden states times a weight
#include "glassbox/elementwise.hpp"        // sum and product, number by number
#include "glassbox/activation.hpp"         // silu
#include "glassbox/softmax.hpp"            // scores to probabilities
#include "glassbox/attention_mask.hpp"     // who may look at whom
#include "glassbox/heads.hpp"              // splitting into heads and merging them

// L3 modules: a struct each, its weights and forward()
#include "glassbox/linear.hpp"             // x W^T + b
#include "glassbox/embedding.hpp"          // token ids to vectors
#include "glassbox/rms_norm.hpp"           // each vector to length about one
#include "glassbox/rotary_embedding.hpp"   // the position, as a rotation of queries and keys
#include "glassbox/kv_cache.hpp"           // keys and values of the tokens so far
#include "glassbox/attention.hpp"          // positions look at each other
#include "glassbox/mlp.hpp"                // each position thinks by itself
#include "glassbox/decoder_layer.hpp"      // one block: attention and feed-forward, each added to the stream
#include "glassbox/decoder_model.hpp"      // the stack of blocks
#include "glassbox/lm_head.hpp"            // vectors to one number per token of the vocabulary
#include "glassbox/causal_lm.hpp"          // token ids in, logits out

// L4 generation
#include "glassbox/random.hpp"             // the same draws from the same seed everywhere
#include "glassbox/random_seed.hpp"        // a seed where the user gives none
#include "glassbox/sampling_config.hpp"    // how the next token is chosen: temperature, top-k, top-p, ...
#include "glassbox/sampling_filters.hpp"   // from logits to the logits drawn from, one function each
#include "glassbox/sampler.hpp"            // logits to the next token
#include "glassbox/generation_config.hpp"  // what is asked of one generation: how long, where to stop
#include "glassbox/stop_strings.hpp"       // finds the end of a text that comes in pieces
#include "glassbox/continuation.hpp"       // one text between two passes: choose, show, stop
#include "glassbox/generate.hpp"           // the prompt in one pass, then a token at a time
#include "glassbox/generate_batch.hpp"     // several prompts at once, padded on the left
// clang-format on
