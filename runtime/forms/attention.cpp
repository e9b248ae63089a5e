#include "runtime/forms/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "runtime/forms/attention_pieces.h"
#include "runtime/forms/check.h"
#include "runtime/forms/forms.h"
#include "runtime/forms/memory_order.h"
#include "runtime/launch/plans.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"
#include "runtime/support/rounding.h"

namespace ashlar::forms {
namespace {

constexpr std::string_view kMask = "attn_mask";

/// The call's tensors in the order of the kernel's inputs, [batch, heads, rows, width] or, of what a row has one,
/// [batch, heads, rows].
struct Operands {
  const KernelInfo& kernel;
  std::span<const Tensor> given;
  std::vector<Tensor> all = {};

  int index_of(std::string_view name) const {
    int index = 0;
    for (const Argument& argument : kernel.arguments) {
      if (argument.role != Argument::Role::input) continue;
      if (name == argument.name) return index;
      index++;
    }
    return -1;
  }
  const Argument& argument(size_t index) const {
    return argument_of(kernel, Argument::Role::input, static_cast<int>(index));
  }
  bool is_of_rows(size_t index) const { return argument(index).rank > 1; }  ///< else a random state
  const Tensor& query() const { return all[static_cast<size_t>(index_of("query"))]; }
  const Tensor& key() const { return all[static_cast<size_t>(index_of("key"))]; }
  const Tensor& value() const { return all[static_cast<size_t>(index_of("value"))]; }
  Tensor& value() { return all[static_cast<size_t>(index_of("value"))]; }
  Tensor& mask() { return all[static_cast<size_t>(index_of(kMask))]; }
};

[[noreturn]] void refuse(const Operands& operands, std::string_view needed, std::string_view remedy) {
  throw shape_error(operands.kernel, operands.given, needed, remedy);
}

/// [batch, heads, queries, keys] by strides of 0 where the caller's broadcasts; of none, something to point at.
Tensor mask_for(Operands& operands, int missing) {
  const Tensor& query = operands.query();
  const int64_t keys = operands.key().size(2);
  const Shape full{query.size(0), query.size(1), query.size(2), keys};
  const Tensor& mask = operands.mask();
  if (!mask.defined()) return Tensor::empty({keys}, query.dtype(), query.device()).broadcast_to(full);
  const int rank = 4 - missing;
  if (mask.rank() > rank) refuse(operands, "an attn_mask of rank " + std::to_string(rank) + " at most", "Reshape it");
  Tensor padded = mask;
  while (padded.rank() < rank) padded = padded.unsqueeze(0);
  padded = with_heads(padded, missing);
  for (int axis = 0; axis < 4; axis++) {
    if (padded.size(axis) != full[axis] && padded.size(axis) != 1) {
      refuse(operands, "an attn_mask that broadcasts to [..., queries, keys] = " + full.str(), "Use reshape()");
    }
  }
  if (padded.size(3) != keys) {
    Shape rows = padded.shape();
    rows[3] = keys;
    padded = padded.broadcast_to(rows).contiguous();
  }
  return with_dense_rows(padded.to(query.dtype())).broadcast_to(full);
}

/// The probability that a weight is dropped, of a kernel that asks for it.
double dropped_part(const KernelInfo& kernel, const FormCall& call) {
  const double p = call.scalars.size() > 1 ? call.scalars[0].real : 0;
  if (p >= 0 && p <= 1) return p;
  throw ValueError(kernel.name, "p = " + std::to_string(p), "a probability from 0 to 1",
                   "p is the part of weights that become 0");
}

/// What sums over no keys, or no queries, are.
std::vector<Tensor> of_nothing(const KernelInfo& kernel, const std::vector<Tensor>& outputs) {
  int index = 0;
  for (const Tensor& output : outputs) {
    const bool is_logarithm =
        argument_of(kernel, Argument::Role::output, index++).name == std::string_view("logsumexp");
    Tensor(output).fill_(is_logarithm ? -std::numeric_limits<double>::infinity() : 0.0);
  }
  return outputs;
}

/// Results as operands lie: of rows one after the other for each head, or, as heads cut from one row do, beside each
/// other. So nobody has to turn them round, nor to join gradients of what was cut from one tensor.
std::vector<Tensor> outputs_for(const Operands& operands, std::span<const Shape> shapes) {
  const auto name_of_output = [&](size_t index) -> std::string_view {
    return argument_of(operands.kernel, Argument::Role::output, static_cast<int>(index)).name;
  };
  const Tensor& query = operands.query();
  if (shapes.size() == 3 && name_of_output(0) == "dquery") {
    return empty_as(std::array{query, operands.key(), operands.value()});
  }
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < shapes.size(); i++) {
    const bool lies_as_query = name_of_output(i) == "y";
    outputs.push_back(lies_as_query ? empty_in_order_of(query, shapes[i])
                                    : Tensor::empty(shapes[i], DType::f32, query.device()));
  }
  return outputs;
}

bool is_of_keys(std::string_view name) { return name == "key" || name == "value"; }

/// Whether a GPU is usually quicker with all scores of a call in memory: where rows are wide, and where few blocks
/// would go through many keys one after the other. (CUDA: 199 random calls on an H100 took 1.002 times their quicker
/// way's time.)
bool keeps_scores(const Operands& operands, bool is_causal) {
  constexpr int64_t kTile = 64, kNarrowest = 16, kNarrow = 64, kWide = 128, kFewKeys = 3;
  const auto tiles = [](int64_t size) { return detail::over(size, kTile); };
  const Tensor& query = operands.query();
  const int64_t width = std::max(query.size(3), operands.all[2].size(3)), of_keys = tiles(operands.key().size(2));
  const double multiprocessors = detail::plan_device_number(query.device(), PlanDevice::multiprocessors);
  const double blocks_of_each =
      static_cast<double>(query.size(0) * query.size(1) * tiles(query.size(2))) / multiprocessors;
  if (width <= kNarrowest) return false;
  if (query.device().kind != DeviceKind::cuda) return width > kNarrow && (blocks_of_each >= 1 || of_keys > 8);
  if (width > kWide) return true;
  if (of_keys <= kFewKeys && blocks_of_each > 0.5) return false;
  return width > kNarrow || blocks_of_each < (is_causal ? 4.5 : 0.75);
}

const KernelInfo& kernel_for(const Operands& operands, bool is_causal) {
  const Tensor& query = operands.query();
  const Device device = query.device();
  const KernelInfo& kernel = operands.kernel;
  if (kernel.parts == nullptr || device.kind == DeviceKind::cpu) return kernel;
  const std::array plans{Plan{"by_pairs", true, keeps_scores(operands, is_causal)}, Plan{"by_tiles"}};
  const std::array sizes{query.size(0) * query.size(1), query.size(2), operands.key().size(2), query.size(3),
                         int64_t{is_causal} + 1};
  return choose_plan(kernel, device, plans, sizes) == 0 ? *kernel.parts : kernel;
}

}  // namespace

std::vector<Tensor> Attention::call(const KernelInfo& kernel, const FormCall& call) try {
  const double p = dropped_part(kernel, call);
  Operands operands{kernel, call.inputs, {call.inputs.begin(), call.inputs.end()}};
  const auto count = static_cast<size_t>(kernel.count(Argument::Role::input));
  if (operands.all.size() + 1 == count) operands.all.emplace_back();
  Tensor& mask = operands.mask();
  const bool is_boolean = mask.defined() && mask.dtype() == DType::boolean;
  // 16-bit elements go through f32, and so do masks. What else doesn't fit together, key_of() says.
  const int query_index = operands.index_of("query");
  const DType given = call.inputs.size() > static_cast<size_t>(query_index) && call.inputs[query_index].defined()
                          ? call.inputs[query_index].dtype()
                          : DType::f32;
  const bool is_narrow = given == DType::f16 || given == DType::bf16;
  for (size_t i = 0; i < operands.all.size(); i++) {
    Tensor& x = operands.all[i];
    if (!x.defined()) continue;
    const bool is_mask = &x == &mask;
    if ((is_narrow && x.dtype() == given) || (is_mask && (is_boolean || is_floating(x.dtype())))) x = x.to(DType::f32);
  }
  std::vector<Tensor> needed(operands.all.begin(), operands.all.end() - (mask.defined() ? 0 : 1));
  const KernelKey key = key_of(kernel, needed, 0, 1);

  const int rank = operands.query().rank(), missing = 4 - rank;
  for (size_t i = 0; i + 1 < operands.all.size(); i++) {
    Tensor& x = operands.all[i];
    if (!operands.is_of_rows(i)) {
      x = x.contiguous();
      continue;
    }
    const int own = rank - (4 - operands.argument(i).rank);
    if (rank < 2 || rank > 4 || x.rank() != own) {
      refuse(operands, "tensors [batch, heads, rows, width], [batch, rows, width] or [rows, width], all of one rank",
             "Use reshape() or unsqueeze()");
    }
    x = with_dense_rows(with_heads(x, missing));
  }
  // The weights of values without places still have a sum: a place is made up, and left out of the result.
  Tensor& value = operands.value();
  const bool has_no_places = operands.index_of("dy") < 0 && value.size(3) == 0;
  if (has_no_places) {
    value = Tensor::zeros({value.size(0), value.size(1), value.size(2), 1}, value.dtype(), value.device());
  }
  const Tensor &query = operands.query(), &keys = operands.key();
  if (query.size(3) == 0)
    refuse(operands, "a width of 1 or more", "Without it all scores are 0: take the mean of value");
  if (keys.size(1) == 0 ? query.size(1) != 0 : query.size(1) % keys.size(1) != 0) {
    refuse(operands, "heads of query a multiple of those of key", "Repeat the heads of key and value");
  }
  operands.mask() = mask_for(operands, missing);
  std::vector<Tensor> outputs = outputs_for(operands, output_shapes(kernel, call.inputs, operands.all));
  const bool is_empty = std::ranges::any_of(operands.all, [](const Tensor& x) { return x.numel() == 0; });
  if (is_empty) {
    of_nothing(kernel, outputs);
  } else {
    // A key is seen by queries from `diagonal` behind it on: far from overflow, all. Who cuts a call into pieces says
    // as is_causal: 1, and how many queries come before the piece's first.
    constexpr int64_t kAll = int64_t{1} << 30;
    const double given_scale = call.scalars.back().real;
    const double scale = given_scale != 0 ? given_scale : 1 / std::sqrt(static_cast<double>(query.size(3)));
    const auto scalar = [&](std::string_view name, const AttentionPiece& piece) -> Scalar {
      if (name == "diagonal") return call.integer(0) != 0 ? call.integer(0) - 1 + piece.query : kAll;
      if (name == "is_boolean") return int64_t{is_boolean};
      if (name == "scale") return scale;
      if (name == "p") return p;
      if (name == "threshold") return static_cast<int64_t>(std::ceil(p * 0x1p24));
      if (name == "first_head") return piece.batch * query.size(1);
      return int64_t{call.inputs.size() == count && call.inputs.back().defined()};  // whether there is a mask
    };
    const KernelInfo& chosen = kernel_for(operands, call.integer(0) != 0);
    constexpr int64_t kBytesOfScore = 4;
    const bool is_by_pairs = &chosen != &kernel;
    for (const AttentionPiece& piece : pieces_of_attention(query, keys, is_by_pairs ? kBytesOfScore : 0, kMostBytes)) {
      std::vector<Tensor> inputs, results;
      std::vector<Scalar> scalars;
      for (size_t i = 0; i < operands.all.size(); i++) {
        const Tensor& x = operands.all[i];
        if (!operands.is_of_rows(i))
          inputs.push_back(x);
        else
          inputs.push_back(is_of_keys(operands.argument(i).name) ? piece.of_keys(x) : piece.of_queries(x));
      }
      for (const Argument& argument : kernel.arguments) {
        if (argument.role == Argument::Role::scalar) scalars.push_back(scalar(argument.name, piece));
      }
      for (const Tensor& y : outputs) results.push_back(is_by_pairs ? piece.of_queries(y) : piece.of_batches(y));
      launch(chosen, key, inputs, scalars, results);
    }
  }
  if (has_no_places) outputs[0] = outputs[0].slice(3, 0, 0);
  for (size_t o = 0; o < outputs.size(); o++) {
    Tensor& y = outputs[o];
    const bool is_of_rows = argument_of(kernel, Argument::Role::output, static_cast<int>(o)).rank == 3;
    Shape shape = y.shape();
    if (missing > 0) shape.erase(1);
    if (missing > 1) shape.erase(0);
    y = y.reshape(shape);
    if (is_narrow && !is_of_rows) y = y.to(given);
  }
  return outputs;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory(kernel.name);
}

CanonicalSizes Attention::sizes(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  const Tensor &mask = inputs.back(), &result = outputs[0];
  return {mask.size(0) * mask.size(1), mask.size(2), mask.size(3), result.size(3)};
}

std::vector<std::string> Attention::shape_names(const KernelInfo&) { return {"heads", "queries", "keys", "width"}; }

std::vector<FormSample> Attention::samples(const KernelInfo& kernel, KernelKey, std::span<const int64_t> sizes) {
  FormSample sample{{}, {int64_t{0}}};
  for (const Argument& argument : kernel.arguments) {
    if (argument.role != Argument::Role::input || argument.name == kMask) continue;
    const bool is_of_keys = argument.name == std::string_view("key") || argument.name == std::string_view("value");
    Shape shape{1, sizes[0], is_of_keys ? sizes[2] : sizes[1]};
    if (argument.rank == 4) shape.push_back(sizes[3]);
    sample.inputs.push_back(argument.rank > 1 ? shape : Shape{2});
  }
  return {sample};
}

std::vector<std::vector<int64_t>> Attention::check_shapes(const KernelInfo&) {
  return {{1, 1, 1, 1}, {2, 33, 65, 40}, {1, 130, 257, 64}, {3, 64, 64, 128}};
}

}  // namespace ashlar::forms
