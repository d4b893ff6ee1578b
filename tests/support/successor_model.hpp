// A model without weights whose behaviour is known: after token t comes t + 1. For tests of what drives a
// model.
#pragma once

#include <concepts>
#include <string>
#include <vector>

#include "glassbox/config.hpp"
#include "glassbox/kv_cache.hpp"
#include "glassbox/tokenizer.hpp"

namespace glassbox::test_support {

// What forward() was given, call by call.
struct ForwardCall {
  std::vector<std::vector<TokenId>> input_ids;  // row by row
  std::vector<std::vector<std::int64_t>> attention_mask;
  Index past = 0;
  Index logits_to_keep = 0;
};

template <std::floating_point Scalar>
struct SuccessorModel {
  ModelConfig config;
  mutable std::vector<ForwardCall> calls;

  SuccessorModel(Index vocab_size, Index max_position_embeddings) {
    config.vocab_size = vocab_size;
    config.num_hidden_layers = 1;
    config.max_position_embeddings = max_position_embeddings;
  }

  // The logit of (token + 1) % vocab_size is 4, of the one after it 3, of all others 0.
  Tensor<Scalar> forward(const Tensor<TokenId>& input_ids, const Tensor<std::int64_t>& attention_mask,
                         KVCache<Scalar>& cache, Index logits_to_keep = 0) const {
    ForwardCall call;
    call.past = cache.length();
    call.logits_to_keep = logits_to_keep;
    for (Index row = 0; row < input_ids.dim(0); ++row) {
      call.input_ids.emplace_back(input_ids.row(row).begin(), input_ids.row(row).end());
      call.attention_mask.emplace_back(attention_mask.row(row).begin(), attention_mask.row(row).end());
    }
    calls.push_back(call);
    const Index seq = input_ids.dim(1);
    const Tensor<Scalar> states({input_ids.axis(0), {"kv_head", 1}, {"seq", seq}, {"head_dim", 1}});
    cache.layers[0].append(states, states);
    const Index kept = logits_to_keep == 0 ? seq : logits_to_keep;
    Tensor<Scalar> logits({input_ids.axis(0), {"seq", kept}, {"vocab", config.vocab_size}});
    for (Index row = 0; row < input_ids.dim(0); ++row) {
      for (Index i = 0; i < kept; ++i) {
        const TokenId token = input_ids(row, seq - kept + i);
        logits(row, i, (token + 1) % config.vocab_size) = 4;
        logits(row, i, (token + 2) % config.vocab_size) = 3;
      }
    }
    return logits;
  }
};

// A tokenizer that knows the pieces it is given.
class PieceTokenizer : public Tokenizer {
 public:
  // Pieces that begin with a space lose it where the text begins; "" is a control piece, "<0xE4>" a byte.
  explicit PieceTokenizer(const std::vector<std::string>& pieces) {
    for (const std::string& piece : pieces) {
      VocabularyEntry entry;
      entry.piece = piece;
      entry.bytes = piece;
      entry.leading_space = piece.starts_with(" ");
      if (piece.empty()) entry.kind = PieceKind::control;
      if (piece.starts_with("<0x")) {
        entry.kind = PieceKind::byte;
        entry.bytes = std::string(1, static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16)));
      }
      entries_.push_back(entry);
    }
    vocab_size_ = piece_count();
  }

  // Not needed by what uses this: the ids are given.
  std::vector<TokenId> encode(const std::string& text) const override {
    throw TokenError("PieceTokenizer does not encode: " + text);
  }
};

}  // namespace glassbox::test_support
