// y = f(a, b) with broadcasting
#include <cmath>

#include "ashlar/ad.h"
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
  Var (*record)(const Var&, const Var&);  // null: not differentiable
  double (*exact)(double, double);
  double ulps;
  bool has_f64;
  bool has_integers = false;
};

const Function kFunctions[] = {
    {"add", add, ad::add, [](double a, double b) { return a + b; }, 1, true, true},
    {"sub", sub, ad::sub, [](double a, double b) { return a - b; }, 1, true, true},
    {"mul", mul, ad::mul, [](double a, double b) { return a * b; }, 1, true, true},
    {"div", div, ad::div, [](double a, double b) { return a / b; }, 3, true},
    {"maximum", maximum, ad::maximum, max_of, 0, true, true},
    {"minimum", minimum, ad::minimum, min_of, 0, true, true},
    {"equal", equal, nullptr, [](double a, double b) { return a == b ? 1.0 : 0.0; }, 0, true},
};

Case example(const Function& f, std::string name, Input a, Input b) {
  Case item{.kernel = f.name,
            .name = std::move(name),
            .inputs = {std::move(a), std::move(b)},
            .call = [&f](Tensors x) { return std::vector{f.call(x[0], x[1])}; },
            .reference = [&f](HostTensors x) { return std::vector{broadcasted(x[0], x[1], f.exact)}; },
            .tolerance = ulps(f.ulps),
            .vary = with_other_broadcasting};
  if (f.has_f64) item.dtypes.push_back(DType::f64);
  return item;
}

// Operands without ties and, for the divisor, away from 0: differences of the reference are smooth there.
Case differentiable_example(const Function& f, std::string name, Input a, Input b) {
  a.values = {Pattern::distinct, -2, 2};
  b.values = {Pattern::distinct, 0.5, 3};
  Case item = example(f, std::move(name), std::move(a), std::move(b));
  if (f.record) item.differentiable = [&f](Vars x) { return f.record(x[0], x[1]); };
  item.differentiated = {0, 1};
  return item;
}

// Both operands with the same shape, values and layout, but different elements.
Case same(const Function& f, std::string name, Input input) { return example(f, std::move(name), input, input); }

// Compiled for i64; i32 and u8 are converted.
void add_integer_cases(const Function& f) {
  const Values signed_values{Pattern::integers, -1000, 1000}, bytes{Pattern::integers, 8, 15};
  const auto add = [&f](const std::string& name, Input a, Input b, DType dtype) {
    Case item = example(f, std::string(name_of(dtype)) + "_" + name, std::move(a), std::move(b));
    item.dtypes = {dtype};
    item.tolerance = kExact;
    add_case(item);
  };
  struct Pair {
    const char* name;
    Shape a, b;
  };
  for (const Pair& p : {Pair{"1023", {1023}, {1023}},
                        {"100003", {100003}, {100003}},
                        {"scalar", {5, 33}, {}},
                        {"left_scalar", {}, {129}},
                        {"outer", {7, 1}, {1, 9}},
                        {"rank6", {2, 1, 3, 1, 2, 1}, {1, 2, 1, 3, 1, 5}}}) {
    add(p.name, {p.a, signed_values}, {p.b, signed_values}, DType::i64);
  }
  for (const auto& [name, shapes] : large_broadcasts_of_two()) {
    add(name, {shapes[0], signed_values}, {shapes[1], signed_values}, DType::i64);
  }
  add("left_transposed", {{35, 66}, signed_values, Layout::transposed}, {{35, 66}, signed_values}, DType::i64);
  add("right_transposed", {{35, 66}, signed_values}, {{35, 66}, signed_values, Layout::transposed}, DType::i64);
  // Of whole vectors of so few elements, other branches see rows whose elements lie apart alone.
  add("stepped_long_rows", {{67, 1031}, signed_values, Layout::stepped}, {{1031}, signed_values, Layout::stepped},
      DType::i64);
  add("stepped_short_rows", {{2003, 33}, signed_values, Layout::stepped}, {{33}, signed_values, Layout::stepped},
      DType::i64);
  add("stepped_matrices", {{37, 15, 131}, signed_values, Layout::stepped},
      {{37, 1, 131}, signed_values, Layout::stepped}, DType::i64);
  add("stepped_small_matrices", {{3001, 3, 9}, signed_values, Layout::stepped},
      {{3001, 1, 9}, signed_values, Layout::stepped}, DType::i64);
  add("stepped", {{1027}, signed_values, Layout::stepped}, {{1027}, signed_values, Layout::stepped}, DType::i64);
  add("stepped_rank4", {{2, 3, 5, 33}, signed_values, Layout::stepped}, {{2, 1, 5, 33}, signed_values, Layout::stepped},
      DType::i64);
  add("263003_left_offset", {{263003}, signed_values, Layout::offset}, {{263003}, signed_values}, DType::i64);
  add("row", {{5, 33}, signed_values}, {{33}, signed_values}, DType::i32);
  add("row", {{5, 33}, bytes}, {{33}, {Pattern::integers, 0, 7}}, DType::u8);
}

void add_function(const Function& f) {
  for (const int64_t n : {0, 1, 3, 15, 16, 17, 33, 127, 128, 129, 257, 1023, 1024, 1025, 100003}) {
    add_case(same(f, std::to_string(n), {.shape = {n}}));
  }
  add_case(same(f, "integers", {{1021}, {Pattern::integers, -3, 3}}));
  if (f.has_integers) add_integer_cases(f);
  for (const auto& [name, pattern] : {std::pair{"special", Pattern::special},
                                      {"denormal", Pattern::denormal},
                                      {"huge", Pattern::huge},
                                      {"tiny", Pattern::tiny}}) {
    add_case(same(f, name, {{515}, {pattern}}));
  }
  // Single elements of a loop, for which compilers choose other comparisons than for vectors.
  add_case(example(f, "special_left_transposed", {{9, 63}, {Pattern::special}, Layout::transposed},
                   {{9, 63}, {Pattern::special}}));
  for (const auto& [name, layout] : {std::pair{"offset", Layout::offset},
                                     {"transposed", Layout::transposed},
                                     {"stepped", Layout::stepped},
                                     {"flipped", Layout::flipped},
                                     {"broadcast_first", Layout::broadcast_first},
                                     {"broadcast_last", Layout::broadcast_last}}) {
    const Input view{.shape = {9, 35}, .layout = layout};
    add_case(example(f, std::string("9x35_left_") + name, view, {.shape = {9, 35}}));
    add_case(example(f, std::string("9x35_right_") + name, {.shape = {9, 35}}, view));
  }
  // So many elements of one run that a thread has several.
  add_case(example(f, "263003_left_offset", {.shape = {263003}, .layout = Layout::offset}, {.shape = {263003}}));
  add_case(example(f, "66003_left_stepped", {.shape = {66003}, .layout = Layout::stepped}, {.shape = {66003}}));
  // Broadcasting: rows, columns, scalars, both ways, and more axes than a kernel has.
  struct Pair {
    const char* name;
    Shape a, b;
  };
  for (const Pair& p : {Pair{"row", {5, 33}, {33}},
                        {"left_row", {33}, {5, 33}},
                        {"column", {5, 33}, {5, 1}},
                        {"outer", {7, 1}, {1, 9}},
                        {"scalar", {5, 33}, {}},
                        {"left_scalar", {}, {129}},
                        {"one_element", {3, 17}, {1, 1}},
                        {"middle", {2, 3, 4}, {2, 1, 4}},
                        {"rank0", {}, {}}}) {
    add_case(differentiable_example(f, p.name, {.shape = p.a}, {.shape = p.b}));
  }
  // More elements than a vector or tile. One operand's gradient sums over thousands of the other's.
  for (const Pair& p : {Pair{"gradient_4099", {4099}, {4099}},
                        {"gradient_row_of_1025", {9, 1025}, {1025}},
                        {"gradient_column_of_1025", {1025, 9}, {1025, 1}},
                        {"gradient_scalar_of_4099", {4099}, {}},
                        {"gradient_left_scalar_of_4099", {}, {4099}}}) {
    add_case(differentiable_example(f, p.name, {.shape = p.a}, {.shape = p.b}));
  }
  // Many short sums, of which some cancel almost: products rounded to 16 bits would leave nothing of those.
  for (const Pair& p : {Pair{"gradient_sums_are_rounded_once", {500, 8}, {500, 1}},
                        {"gradient_left_sums_are_rounded_once", {500, 1}, {500, 8}}}) {
    Case sums = differentiable_example(f, p.name, {.shape = p.a}, {.shape = p.b});
    sums.inputs[1].values = {Pattern::distinct, 0.5, 3};
    sums.differentiated = {p.a[1] == 1 ? 0 : 1};
    sums.gradient_is_rounded_once = true;
    add_case(sums);
  }
  Case one = example(f, "same_operand", {.shape = {3, 345}}, {});
  one.inputs.pop_back();
  one.call = [&f](Tensors x) { return std::vector{f.call(x[0], x[0])}; };
  one.reference = [&f](HostTensors x) { return std::vector{broadcasted(x[0], x[0], f.exact)}; };
  add_case(one);
  add_case(example(f, "rank4", {.shape = {2, 1, 5, 1}}, {.shape = {1, 3, 1, 7}}));
  add_case(example(f, "rank6", {.shape = {2, 1, 3, 1, 2, 1}}, {.shape = {1, 2, 1, 3, 1, 5}}));
  add_case(example(f, "empty_row", {.shape = {0, 4}}, {.shape = {4}}));
  add_case(example(f, "few_whole_vectors", {.shape = {67, 64}}, {.shape = {67, 1}}));
  for (const auto& [name, shapes] : large_broadcasts_of_two()) {
    add_case(example(f, name, {.shape = shapes[0]}, {.shape = shapes[1]}));
  }
  // And rows whose elements lie apart.
  add_case(example(f, "stepped_long_rows", {.shape = {67, 1031}, .layout = Layout::stepped},
                   {.shape = {1031}, .layout = Layout::stepped}));
  add_case(example(f, "stepped_short_rows", {.shape = {2003, 33}, .layout = Layout::stepped},
                   {.shape = {33}, .layout = Layout::stepped}));
  add_case(example(f, "stepped_matrices", {.shape = {37, 15, 131}, .layout = Layout::stepped},
                   {.shape = {37, 1, 131}, .layout = Layout::stepped}));
  add_case(example(f, "stepped_small_matrices", {.shape = {3001, 3, 9}, .layout = Layout::stepped},
                   {.shape = {3001, 1, 9}, .layout = Layout::stepped}));
  add_case(example(f, "stepped_rank4", {.shape = {2, 3, 5, 33}, .layout = Layout::stepped},
                   {.shape = {2, 1, 5, 33}, .layout = Layout::stepped}));
  add_case(example(f, "odd_middle", {.shape = {3, 5, 7}}, {.shape = {3, 1, 7}}));
  Case bench = same(f, "16M", {.shape = {int64_t{1} << 24}});
  bench.benchmark = true;
  add_case(bench);
}

}  // namespace

void add_binary_cases() {
  for (const Function& f : kFunctions) add_function(f);
}

}  // namespace ashlar::conformance
