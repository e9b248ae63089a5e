// What the build packs, the runtime unpacks.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "dsl/build/pack_text.h"
#include "runtime/support/packed_text.h"

namespace {

using ashlar::detail::unpack_text;
using ashlar::dsl::pack_text;

TEST(PackText, GivesTheSameTextBack) {
  std::string repeated;
  for (int i = 0; i < 5000; i++)
    repeated += "float _" + std::to_string(i % 700) + " = _a[" + std::to_string(i) + "];\n";
  for (const std::string& text : {std::string(), std::string("a"), std::string("abc"), std::string("abcdabcd"),
                                  std::string(100000, 'x'), std::string(131, 'x').append("y"), repeated}) {
    const std::string packed = pack_text(text);
    ASSERT_TRUE(ashlar::detail::is_packed_text(packed.c_str()));
    ASSERT_EQ(unpack_text(packed.data()), text);
  }
  EXPECT_LT(pack_text(repeated).size() * 3, repeated.size());
}

TEST(PackText, TakesWhateverIsDrawn) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; round++) {
    std::string text(random() % 3000, ' ');
    const unsigned letters = 1 + random() % 6;  // few: many matches, of all lengths and distances
    for (char& c : text) c = static_cast<char>(random() % letters == 0 ? random() : 'a' + random() % letters);
    ASSERT_EQ(unpack_text(pack_text(text).data()), text) << "round " << round;
  }
}

TEST(PackText, ReachesNoFurtherThanADistanceCanSay) {
  std::mt19937 random(8);
  std::string noise(70000, ' ');
  for (char& c : noise) c = static_cast<char>(random());
  const std::string text = "the same words" + noise + "the same words" + noise;
  ASSERT_EQ(unpack_text(pack_text(text).data()), text);
}

}  // namespace
