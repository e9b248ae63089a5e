// Comparisons with broadcasting: bool from two tensors. Integers of 64 bits are compared as such, 16-bit floats as f32.
#include "ashlar/ops.h"
#include "tests/conformance/cases/broadcasts.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/draw.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

struct Function {
  const char* name;
  Tensor (*call)(const Tensor&, const Tensor&);
  double (*exact)(double, double);
};

const Function kFunctions[] = {
    {"eq", eq, [](double a, double b) { return a == b ? 1.0 : 0.0; }},
    {"ne", ne, [](double a, double b) { return a != b ? 1.0 : 0.0; }},
    {"lt", lt, [](double a, double b) { return a < b ? 1.0 : 0.0; }},
    {"le", le, [](double a, double b) { return a <= b ? 1.0 : 0.0; }},
    {"logical_and", logical_and, [](double a, double b) { return a != 0 && b != 0 ? 1.0 : 0.0; }},
    {"logical_or", logical_or, [](double a, double b) { return a != 0 || b != 0 ? 1.0 : 0.0; }},
    {"logical_xor", logical_xor, [](double a, double b) { return (a != 0) != (b != 0) ? 1.0 : 0.0; }},
};

void add(const Function& f, std::string name, Input a, Input b, std::vector<DType> dtypes) {
  add_case({.kernel = f.name,
            .name = std::move(name),
            .inputs = {std::move(a), std::move(b)},
            .dtypes = std::move(dtypes),
            .call = [&f](Tensors x) { return std::vector{f.call(x[0], x[1])}; },
            .reference =
                [&f](HostTensors x) {
                  Expected y = broadcasted(x[0], x[1], f.exact);
                  y.dtype = DType::boolean;
                  return std::vector{std::move(y)};
                },
            .tolerance = kExact,
            .vary = with_other_broadcasting});
}

void add_function(const Function& f) {
  const std::vector<DType> compiled{DType::f32, DType::f64, DType::i64};
  const std::vector<DType> floats{DType::f32, DType::f64};
  const Values few{Pattern::integers, -3, 3};  // many are equal
  for (const int64_t n : {0, 1, 17, 128, 1023, 100003}) add(f, std::to_string(n), {{n}, few}, {{n}, few}, compiled);
  for (const auto& [name, pattern] : {std::pair{"special", Pattern::special}, {"huge", Pattern::huge}}) {
    add(f, name, {{515}, {pattern}}, {{515}, {pattern}}, floats);
    add(f, std::string(name) + "_left_transposed", {{9, 63}, {pattern}, Layout::transposed}, {{9, 63}, {pattern}},
        floats);
  }
  for (const auto& [name, layout] : {std::pair{"offset", Layout::offset},
                                     {"transposed", Layout::transposed},
                                     {"stepped", Layout::stepped},
                                     {"flipped", Layout::flipped},
                                     {"broadcast_first", Layout::broadcast_first},
                                     {"broadcast_last", Layout::broadcast_last}}) {
    add(f, std::string("9x35_left_") + name, {{9, 35}, few, layout}, {{9, 35}, few}, compiled);
    add(f, std::string("9x35_right_") + name, {{9, 35}, few}, {{9, 35}, few, layout}, compiled);
  }
  add(f, "263003_left_offset", {{263003}, few, Layout::offset}, {{263003}, few}, compiled);
  for (const auto& [name, shapes] : broadcasts_of_two()) add(f, name, {shapes[0], few}, {shapes[1], few}, compiled);
  // Of whole vectors of so few elements, other branches see rows whose elements lie apart alone.
  const std::vector<DType> of_8_bytes{DType::f64, DType::i64};
  add(f, "stepped_long_rows", {{67, 1031}, few, Layout::stepped}, {{1031}, few, Layout::stepped}, of_8_bytes);
  add(f, "stepped_short_rows", {{2003, 33}, few, Layout::stepped}, {{33}, few, Layout::stepped}, of_8_bytes);
  add(f, "stepped_matrices", {{37, 15, 131}, few, Layout::stepped}, {{37, 1, 131}, few, Layout::stepped}, of_8_bytes);
  add(f, "stepped_small_matrices", {{3001, 3, 9}, few, Layout::stepped}, {{3001, 1, 9}, few, Layout::stepped},
      of_8_bytes);
  add(f, "stepped_rank4", {{2, 3, 5, 33}, few, Layout::stepped}, {{2, 1, 5, 33}, few, Layout::stepped}, of_8_bytes);
  // By way of another dtype, which a call is converted to.
  add(f, "converted", {{5, 33}, few}, {{33}, few}, {DType::f16, DType::bf16, DType::i32});
  add(f, "converted_bytes", {{5, 33}, {Pattern::integers, 0, 3}}, {{33}, {Pattern::integers, 0, 3}}, {DType::u8});
  const Values truth{Pattern::integers, 0, 1};
  for (const int64_t n : {1027, 66003}) {
    add(f, "truth_" + std::to_string(n), {{n}, truth}, {{n}, truth}, {DType::boolean});
  }
  for (const auto& [name, shapes] : broadcasts_of_two()) {
    add(f, "truth_" + name, {shapes[0], truth}, {shapes[1], truth}, {DType::boolean});
  }
}

}  // namespace

void add_compare_cases() {
  for (const Function& f : kFunctions) add_function(f);
}

}  // namespace ashlar::conformance
