// You are here: [text -> pieces -> ids] -> vectors -> layers -> logits -> next token
//
// A model knows no letters. The tokenizer cuts the text into pieces that stand in its vocabulary and gives
// the model their numbers; on the way back it puts the pieces' texts together again.
//
// Breakpoints worth setting:
//   break print_pieces                                  `next` over encode, then `print ids`
//   break glassbox::Tokenizer::add_special_tokens       where the begin token comes from
//   break glassbox::StreamingDecoder::push              ids back to text: all of a text, then one at a time
#include <iostream>

#include "support/lesson.hpp"

using namespace glassbox;

namespace {

using Row = std::vector<std::string>;

void print_pieces(const Tokenizer& tokenizer, const std::string& text) {
  const std::vector<TokenId> ids = tokenizer.encode(text);
  Row pieces{"piece"};
  Row numbers{"id"};
  for (const TokenId id : ids) {
    pieces.push_back(examples::label_text(tokenizer.piece(id)));
    numbers.push_back(std::to_string(id));
  }
  std::cout << "\"" << text << "\"\n" << examples::table_text({pieces, numbers});
  std::cout << "  back: \"" << tokenizer.decode(ids) << "\"\n\n";
}

void show(const examples::Lesson& lesson) {
  const Tokenizer& tokenizer = *lesson.tokenizer;
  examples::say("The vocabulary has " + std::to_string(tokenizer.piece_count()) +
                " pieces. The sign \xE2\x96\x81 stands for a space: so a piece knows if it begins a word.");
  print_pieces(tokenizer, lesson.text);
  examples::say(
      "Words that are no piece are spelled with smaller ones; the Chinese word below is one, the character "
      "after it is none and is spelled with its bytes:");
  print_pieces(tokenizer, "unhappily");
  print_pieces(tokenizer, "从前");              // "Once upon a time"
  print_pieces(tokenizer, "\xF0\x9F\xA6\x99");  // a llama

  examples::say("What a user types never becomes a control token, even if it is spelled like one:");
  print_pieces(tokenizer, "</s>");

  examples::say("The model is fed these ids. The begin token " + examples::in_quotes(lesson.pieces[0]) +
                " was put in front; it says that a text begins here:");
  std::vector<Row> rows{{"position", "piece", "id", "adds to the text"}};
  StreamingDecoder decoder(tokenizer);
  for (std::size_t i = 0; i < lesson.ids.size(); ++i) {
    const std::string added = "\"" + decoder.push(lesson.ids[i]) + "\"";
    rows.push_back({std::to_string(i), lesson.pieces[i], std::to_string(lesson.ids[i]), added});
  }
  std::cout << examples::table_text(rows);
}

}  // namespace

int main(int argc, char** argv) { return examples::run_lesson(argc, argv, "Text to token ids.", show); }
