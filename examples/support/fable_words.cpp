#include "support/fable_words.hpp"

#include <map>
#include <stdexcept>

namespace examples {
namespace {

// The position of the piece that begins at each byte of the story.
std::map<std::size_t, glassbox::Index> positions_by_offset(const glassbox::Tokenizer& tokenizer,
                                                           const std::vector<glassbox::TokenId>& ids) {
  std::map<std::size_t, glassbox::Index> positions;
  std::size_t offset = 0;  // in the story with the space that the tokenizer puts in front
  for (std::size_t i = 1; i < ids.size(); ++i) {
    positions[offset == 0 ? 0 : offset - 1] = static_cast<glassbox::Index>(i);
    offset += tokenizer.piece_bytes(ids[i]).size();
  }
  return positions;
}

}  // namespace

std::vector<FableWord> fable_words(const glassbox::Tokenizer& tokenizer, const fables::Story& story,
                                   const std::vector<glassbox::TokenId>& ids) {
  const std::map<std::size_t, glassbox::Index> positions = positions_by_offset(tokenizer, ids);
  std::vector<FableWord> words;
  for (const fables::Word& word : story.words) {
    if (word.kind == fables::Kind::plain) continue;
    const auto position = positions.find(word.begin);
    if (position == positions.end()) {
      throw std::runtime_error("the tokenizer has a piece that reaches over the beginning of \"" + word.text +
                               "\"");
    }
    words.push_back({word.kind, word.forced, position->second});
  }
  return words;
}

}  // namespace examples
