// Tables in text.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "nn/data/csv.h"
#include "runtime/support/error.h"
#include "tests/nn/temporary_folder.h"

namespace ashlar::nn {
namespace {

CsvTable parse(const std::string& text, const CsvOptions& options = {}) {
  return parse_csv({reinterpret_cast<const uint8_t*>(text.data()), text.size()}, "test", options);
}

std::string refusal(const std::string& text, const CsvOptions& options = {}) {
  try {
    parse(text, options);
  } catch (const DataError& error) {
    return error.what();
  }
  return "none";
}

TEST(Csv, ReadsNumbersUnderNames) {
  for (const std::string text :
       {"x,y\n1,2\n-3.5,4e2\n", "x,y\r\n1,2\r\n-3.5,4e2", "\xEF\xBB\xBFx , y\n 1,\t2\n-3.5, +4e2 \n"}) {
    const CsvTable table = parse(text);
    EXPECT_EQ(table.columns, (std::vector<std::string>{"x", "y"}));
    EXPECT_EQ(table.values.shape(), (Shape{2, 2}));
    EXPECT_EQ(table.values.to_vector<float>(), (std::vector<float>{1, 2, -3.5F, 400}));
    EXPECT_EQ(table.column("y").to_vector<float>(), (std::vector<float>{2, 400}));
  }
  const CsvTable plain = parse("1;2\n\n3;4", {.separator = ';', .has_header = false, .dtype = DType::f64});
  EXPECT_EQ(plain.columns, (std::vector<std::string>{"0", "1"}));
  EXPECT_EQ(plain.values.to_vector<double>(), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(parse("x,y\n").values.shape(), (Shape{0, 2}));
  EXPECT_EQ(parse("").values.shape(), (Shape{0, 0}));
}

TEST(Csv, QuotesHoldWhatSeparates) {
  const CsvTable table = parse("\"a,b\",\"say \"\"hi\"\"\",\"two\nlines\"\n\"1\",2,\"3\"\n4,5,6\n");
  EXPECT_EQ(table.columns, (std::vector<std::string>{"a,b", "say \"hi\"", "two\nlines"}));
  EXPECT_EQ(table.values.to_vector<float>(), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_NE(refusal("\"two\nlines\",b\n1,x\n").find("line 3, column 2: 'x'"), std::string::npos)
      << refusal("\"two\nlines\",b\n1,x\n");
}

TEST(Csv, MissingValuesAreAPolicy) {
  const std::string text = "x,y,z\n1,,NA\n,2,\n";
  EXPECT_NE(refusal(text).find("line 2, column 2: an empty field"), std::string::npos) << refusal(text);
  const auto values = parse(text, {.missing = std::nan("")}).values.to_vector<float>();
  EXPECT_EQ(values[0], 1);
  EXPECT_TRUE(std::isnan(values[1]) && std::isnan(values[2]) && std::isnan(values[3]) && std::isnan(values[5]));
  EXPECT_EQ(parse("x\n-\n3\n", {.missing = 0.0, .missing_words = {"-"}}).values.to_vector<float>(),
            (std::vector<float>{0, 3}));
}

TEST(Csv, WordsBecomeNumbersInOrder) {
  const CsvTable table =
      parse("size,kind\n1,setosa\n2,\"iris, blue\"\n3,setosa\n4,virginica\n", {.categorical = {"kind"}});
  ASSERT_EQ(table.categories.size(), 1U);
  EXPECT_EQ(table.categories[0], (std::vector<std::string>{"iris, blue", "setosa", "virginica"}));
  EXPECT_EQ(table.column("kind").to(DType::i64).to_vector<int64_t>(), (std::vector<int64_t>{1, 0, 1, 2}));
  EXPECT_EQ(table.column("size").to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(parse("b\na\n", {.has_header = false, .categorical = {"0"}}).values.to_vector<float>(),
            (std::vector<float>{1, 0}));
  EXPECT_THROW(parse("x\n1\n", {.categorical = {"y"}}), ValueError);
}

TEST(Csv, InfiniteAndNotANumberAreNumbers) {
  const auto values = parse("x\ninf\n-inf\nnan\n").values.to_vector<float>();
  EXPECT_EQ(values[0], std::numeric_limits<float>::infinity());
  EXPECT_EQ(values[1], -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(values[2]));
}

TEST(Csv, NoDamageGetsThrough) {
  EXPECT_NE(refusal("x,y\n1,2\n3\n").find("line 3: 1 fields"), std::string::npos) << refusal("x,y\n1,2\n3\n");
  for (const std::string text : {"x,y\n1,2,3\n", "x\n1x\n", "x\n0x10\n", "x\n+-1\n", "x\n--1\n", "x\n\"1\n",
                                 "x\n\"1\"2\n", "x\n1e39\n", "x,y\n1,2\n,\n", "x\n1 2\n", "x,y\n1,2\n3,4,\n"}) {
    EXPECT_NE(refusal(text), "none") << text;
  }
  EXPECT_EQ(parse("x\n1e39\n", {.dtype = DType::f64}).values.item(), 1e39);
  EXPECT_NE(refusal("x\n1e999\n", {.dtype = DType::f64}), "none");
  EXPECT_THROW(read_csv("/nowhere/table.csv"), DataError);
}

TEST(Csv, NonsenseIsRefused) {
  EXPECT_THROW(parse("x\n", {.separator = '"'}), ValueError);
  EXPECT_THROW(parse("x\n", {.dtype = DType::i32}), ValueError);
  EXPECT_THROW(parse("x,x\n1,2\n").column("x"), ValueError);
  EXPECT_THROW(parse("x\n1\n").column("y"), ValueError);
}

}  // namespace
}  // namespace ashlar::nn
