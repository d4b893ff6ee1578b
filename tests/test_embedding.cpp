// Faults that must turn this red: the next row taken; the first row of the batch used for all; an id equal to
// vocab_size or a negative one read from memory that is not the table's.
#include "glassbox/embedding.hpp"

#include <limits>

#include "support/naive_model.hpp"

namespace glassbox {
namespace embedding_test {

using test_support::make_tensor;
using test_support::near_values;
using test_support::random_tensor;
using test_support::ScalarNames;
using test_support::Scalars;
using test_support::throws;

static_assert(std::is_same_v<decltype(Embedding<float>().forward(Tensor<TokenId>())), Tensor<float>>);

template <typename Scalar>
class EmbeddingTest : public ::testing::Test {};
TYPED_TEST_SUITE(EmbeddingTest, Scalars, ScalarNames);

TYPED_TEST(EmbeddingTest, WorkedExample) {
  Embedding<TypeParam> embed_tokens;
  embed_tokens.weight = WeightMatrix::from_tensor(
      make_tensor<TypeParam>({{"vocab", 3}, {"hidden", 2}}, {0.5, 1.5, 10, 11, -20, 21}));
  const Tensor<TokenId> input_ids = make_tensor<TokenId>({{"batch", 2}, {"seq", 2}}, {2, 0, 1, 2});
  const Tensor<TypeParam> inputs_embeds = embed_tokens.forward(input_ids);
  EXPECT_EQ(shape_string(inputs_embeds), "[batch=2, seq=2, hidden=2]");
  EXPECT_TRUE(near_values(inputs_embeds, {-20, 21, 0.5, 1.5, 10, 11, -20, 21}, 0));
}

TYPED_TEST(EmbeddingTest, EqualsNaiveLoop) {
  const Tensor<TypeParam> table = random_tensor<TypeParam>({{"vocab", 11}, {"hidden", 5}}, 1);
  Embedding<TypeParam> embed_tokens;
  embed_tokens.weight = WeightMatrix::from_tensor(table);
  Tensor<TokenId> input_ids({{"batch", 3}, {"seq", 7}});
  for (Index i = 0; i < 21; ++i) input_ids.data()[i] = i * 5 % 11;
  const Tensor<TypeParam> inputs_embeds = embed_tokens.forward(input_ids);
  for (Index b = 0; b < 3; ++b) {
    for (Index s = 0; s < 7; ++s) {
      for (Index i = 0; i < 5; ++i) ASSERT_EQ(inputs_embeds(b, s, i), table((b * 7 + s) * 5 % 11, i));
    }
  }
}

// A table of 16-bit numbers is widened row by row.
TYPED_TEST(EmbeddingTest, StoredAsBFloat16) {
  const BFloat16 numbers[] = {{0x3F80}, {0x4000}, {0xC040}, {0x3E80}};  // 1, 2, -3, 0.25
  Embedding<TypeParam> embed_tokens;
  embed_tokens.weight.type = StoredType::bf16;
  embed_tokens.weight.out = {"vocab", 2};
  embed_tokens.weight.in = {"hidden", 2};
  embed_tokens.weight.borrowed = reinterpret_cast<const std::byte*>(numbers);
  const Tensor<TokenId> input_ids = make_tensor<TokenId>({{"batch", 1}, {"seq", 2}}, {1, 0});
  EXPECT_TRUE(near_values(embed_tokens.forward(input_ids), {-3, 0.25, 1, 2}, 0));
}

TEST(Embedding, Errors) {
  Embedding<float> embed_tokens;
  embed_tokens.weight = WeightMatrix::from_tensor(random_tensor<float>({{"vocab", 3}, {"hidden", 2}}, 1));
  const std::string start = "Embedding::forward: input_ids [batch=1, seq=2]: id ";
  const std::string end = " at row 0, position 1 is not in 0..2 (vocab_size 3)";
  for (const double bad : {3.0, -1.0, 9007199254740992.0}) {
    const Tensor<TokenId> input_ids = make_tensor<TokenId>({{"batch", 1}, {"seq", 2}}, {0, bad});
    EXPECT_TRUE(throws<TokenError>([&] { embed_tokens.forward(input_ids); },
                                   start + std::to_string(static_cast<TokenId>(bad)) + end));
  }
  EXPECT_TRUE(throws<ShapeError>(
      [&] {
        embed_tokens.forward(Tensor<TokenId>({{"seq", 1}}));
      },
      "Embedding::forward: input_ids [seq=1] has 1 axes, expected 2"));
}

}  // namespace embedding_test
}  // namespace glassbox
