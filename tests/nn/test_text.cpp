// Text as numbers, and windows of it.
#include <gtest/gtest.h>

#include "nn/data/data_loader.h"
#include "nn/data/text.h"
#include "runtime/support/error.h"
#include "tests/nn/temporary_folder.h"

namespace ashlar::nn {
namespace {

using testing::TemporaryFolder;
using testing::write_bytes;

void write(const std::filesystem::path& file, std::string_view text) {
  write_bytes(file, {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

TEST(CharVocabulary, NumbersCharactersInOrder) {
  const CharVocabulary vocabulary("to be");
  EXPECT_EQ(vocabulary.size(), 5);
  EXPECT_EQ(vocabulary.characters(), " beot");
  EXPECT_EQ(vocabulary.encode("bet"), (std::vector<int64_t>{1, 2, 4}));
  EXPECT_EQ(vocabulary.decode(vocabulary.encode("to be")), "to be");
  const CharVocabulary again(vocabulary.characters());
  EXPECT_EQ(again.encode("to be"), vocabulary.encode("to be"));
}

TEST(CharVocabulary, CharactersAreCodePoints) {
  const std::string text = "aß€😀\u07ff\u0800\uffff\U0010ffff";  // of 1 to 4 bytes, and the limits between
  const CharVocabulary vocabulary(text);
  EXPECT_EQ(vocabulary.size(), 8);
  EXPECT_EQ(vocabulary.characters(), "aß\u07ff\u0800€\uffff😀\U0010ffff");
  EXPECT_EQ(vocabulary.encode("€a"), (std::vector<int64_t>{4, 0}));
  EXPECT_EQ(vocabulary.decode(vocabulary.encode(text)), text);
}

TEST(CharVocabulary, WhatItDoesNotKnowIsRefused) {
  const CharVocabulary vocabulary("abc");
  try {
    vocabulary.encode("abß");
    FAIL() << "no error";
  } catch (const ValueError& error) {
    EXPECT_NE(std::string(error.what()).find("'ß' at character 2"), std::string::npos) << error.what();
  }
  EXPECT_THROW(vocabulary.decode(std::vector<int64_t>{0, 3}), IndexError);
  EXPECT_THROW(vocabulary.decode(std::vector<int64_t>{-1}), IndexError);
  EXPECT_EQ(CharVocabulary("").size(), 0);
}

TEST(ReadText, TakesUtf8Only) {
  const TemporaryFolder folder;
  write(folder / "good", "grüße\r\n");
  EXPECT_EQ(read_text(folder / "good"), "grüße\r\n");
  // A byte that begins nothing, one that follows nothing, a cut character, forms that are too long, a surrogate, too
  // far, and a byte that UTF-8 never has.
  for (const std::string_view bad : {"a\xff", "\x80", "\xe2\x82", "\xe2\x82g", "\xc0\x80", "\xe0\x80\x80",
                                     "\xf0\x80\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80"}) {
    write(folder / "bad", bad);
    EXPECT_THROW(read_text(folder / "bad"), DataError);
    EXPECT_THROW(CharVocabulary{bad}, DataError);
  }
  EXPECT_THROW(read_text(folder / "none"), DataError);
}

TEST(CharDataset, TargetsAreTheNextTokens) {
  const std::vector<int64_t> tokens{10, 11, 12, 13, 14, 15};
  const CharDataset every(tokens, 3);
  EXPECT_EQ(every.size(), 3);
  const auto batch = every.batch(std::vector<int64_t>{2, 0}, Dataset::Draw(0, 0));
  EXPECT_EQ(batch[0].shape(), (Shape{2, 3}));
  EXPECT_EQ(batch[0].to_vector<int64_t>(), (std::vector<int64_t>{12, 13, 14, 10, 11, 12}));
  EXPECT_EQ(batch[1].to_vector<int64_t>(), (std::vector<int64_t>{13, 14, 15, 11, 12, 13}));

  const CharDataset beside(tokens, 2, 2);
  EXPECT_EQ(beside.size(), 2) << "nothing follows a third window";
  EXPECT_EQ(beside.batch(std::vector<int64_t>{1}, Dataset::Draw(0, 0))[1].to_vector<int64_t>(),
            (std::vector<int64_t>{13, 14}));
  EXPECT_EQ(CharDataset(tokens, 5).size(), 1);
}

TEST(CharDataset, GoesThroughALoader) {
  const CharVocabulary vocabulary("abcdefgh");
  const CharDataset data(vocabulary.encode("abcdefgh"), 2, 2);
  DataLoader loader(data, {.batch = 2});
  loader.start(0);
  std::string seen;
  while (const auto batch = loader.next()) seen += vocabulary.decode((*batch)[0].to_vector<int64_t>()) + "|";
  EXPECT_EQ(seen, "abcd|ef|");
}

TEST(CharDataset, NonsenseIsRefused) {
  const std::vector<int64_t> tokens{1, 2, 3};
  EXPECT_THROW(CharDataset(tokens, 3), ShapeError);
  EXPECT_THROW(CharDataset({}, 1), ShapeError);
  EXPECT_THROW(CharDataset(tokens, 0), ValueError);
  EXPECT_THROW(CharDataset(tokens, 1, 0), ValueError);
  const CharDataset data(tokens, 1);
  EXPECT_THROW(data.batch(std::vector<int64_t>{2}, Dataset::Draw(0, 0)), IndexError);
  EXPECT_THROW(data.batch(std::vector<int64_t>{-1}, Dataset::Draw(0, 0)), IndexError);
}

}  // namespace
}  // namespace ashlar::nn
