// Uses what the components bring: the tokenizer (links libsentencepiece) and the file formats (JSON).
#include <cstdio>

#include "glassbox/io/json.hpp"
#include "glassbox/text/sentencepiece_tokenizer.hpp"

int main() {
  const glassbox::Json config = glassbox::parse_json("config.json", R"({"hidden_size": 64})");
  std::printf("hidden_size %s\n", glassbox::json_text(config["hidden_size"]).c_str());
  try {
    const glassbox::SentencePieceTokenizer tokenizer("absent/tokenizer.model");
  } catch (const glassbox::Error& error) {
    std::printf("%s\n", error.what());
  }
}
