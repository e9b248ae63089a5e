// Tensors of more than 2^31 bytes, and of more than 2^31 elements: made on the device from a small input, of which
// some elements before, around and behind the boundary come back. The pool keeps the gigabytes for the next such case.
#include "ashlar/ops.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

constexpr int64_t kColumns = 4099;
constexpr int64_t kRows = 262'500;                                // of 16-bit elements: 2^31 + 4.5 million bytes
constexpr int64_t kCrossing = (int64_t{1} << 30) / kColumns;      // the row in which the byte 2^31 lies
constexpr int64_t kElements = (int64_t{1} << 31) + 4 * kColumns;  // of one byte each

// The row [kColumns] as [kRows, kColumns], in memory.
Tensor repeated(const Tensor& row) { return row.broadcast_to({kRows, kColumns}).contiguous(); }

std::vector<Tensor> some_rows(const Tensor& x) {
  std::vector<Tensor> rows;
  for (const int64_t row : {int64_t{0}, kCrossing, kCrossing + 1, kRows - 1}) rows.push_back(x.select(0, row).clone());
  return rows;
}

Case example(const char* kernel, std::string name, DType dtype, Shape shape,
             std::function<std::vector<Tensor>(const Tensor&)> call,
             std::function<std::vector<Expected>(const HostTensor&)> reference) {
  return {.kernel = kernel,
          .name = std::move(name),
          .inputs = {{.shape = std::move(shape), .values = {Pattern::integers, -3, 3}}},
          .dtypes = {dtype},
          .call = [call](Tensors x) { return call(x[0]); },
          .reference = [reference](HostTensors x) { return reference(x[0]); },
          .is_drawn = false,
          .is_large = true};
}

// What each of some_rows() is.
std::vector<Expected> four_times(const Expected& row) { return {row, row, row, row}; }

}  // namespace

void add_large_cases() {
  add_case(example(
      "neg", "more_than_2^31_bytes", DType::f16, {kColumns},
      [](const Tensor& x) { return some_rows(neg(repeated(x))); },
      [](const HostTensor& x) { return four_times(pointwise(x, [](double v) { return -v; })); }));
  // Sums of whole numbers are exact.
  add_case(example(
      "sum", "more_than_2^31_bytes", DType::bf16, {kColumns},
      [](const Tensor& x) { return some_rows(sum(repeated(x), {1}, true)); },
      [](const HostTensor& x) {
        const Expected total = reduced(x, {0}, true, [](const std::vector<double>& row) {
          double sum = 0;
          for (const double v : row) sum += v;
          return Reduced{sum, 0};
        });
        return four_times({total.shape, total.values});
      }));
  // More elements than a kernel's argument may have: in pieces. The last ones are written through a view.
  add_case(example(
      "fill", "more_than_2^31_elements", DType::u8, {kColumns},
      [](const Tensor& x) {
        const Tensor all = Tensor::full({kElements}, 7, DType::u8, x.device());
        all.slice(0, kElements - kColumns).copy_(x);
        const int64_t boundary = int64_t{1} << 31;
        return std::vector{all.slice(0, 0, kColumns).clone(), all.slice(0, boundary - 5, boundary + 5).clone(),
                           all.slice(0, kElements - kColumns - 3).clone()};
      },
      [](const HostTensor& x) {
        std::vector<double> end(3, 7);
        end.insert(end.end(), x.values.begin(), x.values.end());
        return std::vector<Expected>{
            {x.shape, std::vector<double>(kColumns, 7)}, {{10}, std::vector<double>(10, 7)}, {{kColumns + 3}, end}};
      }));
}

}  // namespace ashlar::conformance
