// Where in the tokens of a fable its words stand.
#pragma once

#include <vector>

#include "glassbox/tokenizer.hpp"
#include "support/fables.hpp"

namespace examples {

// A name, pronoun, colour, ... of a story among its tokens.
struct FableWord {
  fables::Kind kind = fables::Kind::plain;
  bool recalled = false;         // the story so far leaves only this word: Lily is "she", her kite stays red
  glassbox::Index position = 0;  // of its first piece
};

// All words of a story that are not plain, in its order. ids: the story's, after the begin token; an end
// token may follow. Throws std::runtime_error where a piece reaches over the beginning of such a word.
std::vector<FableWord> fable_words(const glassbox::Tokenizer& tokenizer, const fables::Story& story,
                                   const std::vector<glassbox::TokenId>& ids);

}  // namespace examples
