// Recurrent sequences and rotary position embeddings.
#include <cmath>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

struct Sequences {
  std::vector<double> y, cells;
};

// in: x [steps, batch, gates n], h, (c,) weight_hh, bias_hh. Gates as PyTorch has them: r z n, or i f g o.
Sequences gru_reference(HostTensors in, bool reverse) {
  const HostTensor &x = in[0], &weight = in[2], &bias = in[3];
  const int64_t steps = x.shape[0], batch = x.shape[1], n = in[1].shape[1];
  Sequences result{std::vector<double>(static_cast<size_t>(steps * batch * n)), {}};
  for (int64_t b = 0; b < batch; b++) {
    std::vector<double> h(&in[1].values[b * n], &in[1].values[b * n] + n);
    for (int64_t step = 0; step < steps; step++) {
      const int64_t t = reverse ? steps - 1 - step : step;
      const double* gates = &x.values[(t * batch + b) * 3 * n];
      std::vector<double> next(h);
      for (int64_t c = 0; c < n; c++) {
        double a[3];
        for (int g = 0; g < 3; g++) {
          a[g] = bias.values[g * n + c];
          for (int64_t k = 0; k < n; k++) a[g] += weight.values[(g * n + c) * n + k] * h[k];
        }
        const double r = sigmoid_of(gates[c] + a[0]), z = sigmoid_of(gates[n + c] + a[1]);
        const double candidate = std::tanh(gates[2 * n + c] + r * a[2]);
        next[c] = (1 - z) * candidate + z * h[c];
        result.y[(t * batch + b) * n + c] = next[c];
      }
      h = next;
    }
  }
  return result;
}

Sequences lstm_reference(HostTensors in, bool reverse) {
  const HostTensor &x = in[0], &weight = in[3], &bias = in[4];
  const int64_t steps = x.shape[0], batch = x.shape[1], n = in[1].shape[1];
  const auto size = static_cast<size_t>(steps * batch * n);
  Sequences result{std::vector<double>(size), std::vector<double>(size)};
  for (int64_t b = 0; b < batch; b++) {
    std::vector<double> h(&in[1].values[b * n], &in[1].values[b * n] + n);
    std::vector<double> cell(&in[2].values[b * n], &in[2].values[b * n] + n);
    for (int64_t step = 0; step < steps; step++) {
      const int64_t t = reverse ? steps - 1 - step : step;
      std::vector<double> next(h);
      for (int64_t c = 0; c < n; c++) {
        double a[4];
        for (int g = 0; g < 4; g++) {
          a[g] = bias.values[g * n + c] + x.values[(t * batch + b) * 4 * n + g * n + c];
          for (int64_t k = 0; k < n; k++) a[g] += weight.values[(g * n + c) * n + k] * h[k];
        }
        cell[c] = sigmoid_of(a[1]) * cell[c] + sigmoid_of(a[0]) * std::tanh(a[2]);
        next[c] = sigmoid_of(a[3]) * std::tanh(cell[c]);
        result.y[(t * batch + b) * n + c] = next[c];
        result.cells[(t * batch + b) * n + c] = cell[c];
      }
      h = next;
    }
  }
  return result;
}

Expected bounded(const Shape& shape, std::vector<double> values) {
  const auto count = values.size();
  return {shape, std::move(values), std::vector<double>(count, 1.0)};
}

std::vector<Expected> sequence_reference(HostTensors in, bool is_lstm, bool reverse) {
  const Shape shape{in[0].shape[0], in[0].shape[1], in[1].shape[1]};
  const Sequences result = is_lstm ? lstm_reference(in, reverse) : gru_reference(in, reverse);
  std::vector<Expected> all{bounded(shape, result.y)};
  if (is_lstm) all.push_back(bounded(shape, result.cells));
  return all;
}

// Σ dy y (+ Σ dcells cells), differentiated by differences of the sequence in double. in: dy(, dcells), the sequence's
// inputs, and what it gave, which a gradient is free to work out anew.
std::vector<Expected> gradient_reference(HostTensors in, bool is_lstm, bool reverse) {
  const size_t slopes = is_lstm ? 2 : 1, count = is_lstm ? 5 : 4;
  std::vector<HostTensor> inputs(in.begin() + slopes, in.begin() + slopes + count);
  const auto loss = [&] {
    const std::vector<Expected> results = sequence_reference(inputs, is_lstm, reverse);
    double sum = 0;
    for (size_t k = 0; k < slopes; k++) {
      for (size_t i = 0; i < results[k].values.size(); i++) sum += in[k].values[i] * results[k].values[i];
    }
    return sum;
  };
  std::vector<Expected> gradients;
  for (HostTensor& input : inputs) {
    Expected gradient{input.shape, {}, {}};
    for (double& x : input.values) {
      constexpr double kStep = 1e-5;
      const double middle = x;
      x = middle + kStep;
      const double above = loss();
      x = middle - kStep;
      const double below = loss();
      x = middle;
      gradient.values.push_back((above - below) / (2 * kStep));
      gradient.magnitudes.push_back(std::abs(gradient.values.back()) + 1);
    }
    gradients.push_back(gradient);
  }
  return gradients;
}

void add_sequences(int64_t steps, int64_t batch, int64_t hidden, bool reverse) {
  const std::string name = Shape{steps, batch, hidden}.str() + (reverse ? ", from the end" : "");
  const Input state{.shape = {batch, hidden}, .values = {.low = -1, .high = 1}},
      states{.shape = {steps, batch, hidden}};
  const auto weights = [hidden](int64_t gates) {
    const double bound = 1 / std::sqrt(static_cast<double>(hidden));
    return std::vector<Input>{{.shape = {gates * hidden, hidden}, .values = {.low = -bound, .high = bound}},
                              {.shape = {gates * hidden}, .values = {.low = -bound, .high = bound}}};
  };
  for (const bool is_lstm : {false, true}) {
    const int64_t gates = is_lstm ? 4 : 3;
    std::vector<Input> inputs{{.shape = {steps, batch, gates * hidden}}, state};
    if (is_lstm) inputs.push_back(state);
    for (const Input& weight : weights(gates)) inputs.push_back(weight);
    Case item{.kernel = is_lstm ? "lstm_sequence" : "gru_sequence",
              .name = name,
              .inputs = inputs,
              .call =
                  [is_lstm, reverse](Tensors in) {
                    if (!is_lstm) return std::vector{gru_sequence(in[0], in[1], in[2], in[3], reverse)};
                    const auto [y, cells] = lstm_sequence(in[0], in[1], in[2], in[3], in[4], reverse);
                    return std::vector{y, cells};
                  },
              .reference = [is_lstm, reverse](HostTensors in) { return sequence_reference(in, is_lstm, reverse); },
              .tolerance = terms(),
              .fixed_shapes = true};
    if (steps * batch * hidden > 0 && hidden < 16) {
      item.differentiable = [is_lstm, reverse](Vars in) {
        return is_lstm ? ad::lstm_sequence(in[0], in[1], in[2], in[3], in[4], reverse).y
                       : ad::gru_sequence(in[0], in[1], in[2], in[3], reverse);
      };
      for (int i = 1; i < static_cast<int>(inputs.size()); i++) item.differentiated.push_back(i);
      item.gradient_dtypes = {DType::f32};
    }
    add_case(item);
    if (steps * batch * hidden > 200) continue;
    Case gradient{.kernel = is_lstm ? "lstm_sequence_grad" : "gru_sequence_grad", .name = name, .inputs = {states}};
    if (is_lstm) gradient.inputs.push_back(states);
    for (const Input& input : inputs) gradient.inputs.push_back(input);
    // y and cells have to be the sequence's own: made anew from the inputs, they stand in for them.
    gradient.dtypes = {DType::f32};
    gradient.call = [is_lstm, reverse](Tensors in) -> std::vector<Tensor> {
      if (!is_lstm) {
        const Tensor y = gru_sequence(in[1], in[2], in[3], in[4], reverse);
        const auto [dx, dh, dweight, dbias] = gru_sequence_grad(in[0], in[1], in[2], in[3], in[4], y, reverse);
        return {dx, dh, dweight, dbias};
      }
      const auto [y, cells] = lstm_sequence(in[2], in[3], in[4], in[5], in[6], reverse);
      const auto [dx, dh, dc, dweight, dbias] =
          lstm_sequence_grad(in[0], in[1], in[2], in[3], in[4], in[5], in[6], y, cells, reverse);
      return {dx, dh, dc, dweight, dbias};
    };
    gradient.reference = [is_lstm, reverse](HostTensors in) { return gradient_reference(in, is_lstm, reverse); };
    gradient.tolerance = terms(1e-4);
    gradient.fixed_shapes = true;
    add_case(gradient);
  }
}

struct Turn {
  double base = 10000;
  int64_t offset = 0;
  bool interleaved = false;
  int64_t axis = -2;
};

Expected turned(const HostTensor& x, const Turn& turn) {
  Expected y{x.shape, x.values, x.values};
  const int64_t d = x.shape.back();
  const int axis = normalize_axis("rope", turn.axis, x.shape.rank());
  int64_t inner = 1;
  for (int i = axis + 1; i < x.shape.rank(); i++) inner *= x.shape[i];
  for (int64_t at = 0; at < static_cast<int64_t>(x.values.size()); at++) {
    const int64_t c = at % d, position = turn.offset + at / inner % x.shape[axis];
    const int64_t pair = turn.interleaved ? c / 2 : c % (d / 2);
    const bool is_second = turn.interleaved ? c % 2 == 1 : c >= d / 2;
    const int64_t step = turn.interleaved ? 1 : d / 2;
    const double other = x.values[at + (is_second ? -step : step)];
    const double angle =
        static_cast<double>(position) * std::pow(turn.base, -2.0 * static_cast<double>(pair) / static_cast<double>(d));
    y.values[at] = x.values[at] * std::cos(angle) + (is_second ? other : -other) * std::sin(angle);
    // The angle is a product in f32.
    y.magnitudes[at] = (std::abs(x.values[at]) + std::abs(other)) * (1 + angle / 8);
  }
  return y;
}

}  // namespace

void add_recurrent_cases() {
  add_sequences(1, 1, 1, false);
  add_sequences(4, 3, 5, false);
  add_sequences(5, 2, 4, true);
  add_sequences(6, 9, 70, false);
  add_sequences(0, 2, 3, false);
  const struct {
    Shape shape;
    Turn turn;
    Layout layout = Layout::dense;
  } turns[] = {{{1, 2}, {}},
               {{2, 3, 9, 8}, {}},
               {{2, 3, 9, 8}, {.interleaved = true}},
               {{2, 33, 3, 64}, {.offset = 100, .axis = -3}},
               {{2, 33, 3, 20}, {.base = 500000, .offset = 7, .interleaved = true, .axis = 1}},
               {{5, 6}, {}, Layout::transposed},
               {{0, 4}, {}}};
  for (const auto& [shape, turn, layout] : turns) {
    add_case(
        {.kernel = "rope",
         .name =
             shape.str() + (turn.interleaved ? ", interleaved" : "") + (layout == Layout::dense ? "" : ", transposed"),
         .inputs = {{.shape = shape, .layout = layout}},
         .call =
             [turn = turn](Tensors in) {
               return std::vector{rope(in[0], turn.base, turn.offset, turn.interleaved, turn.axis)};
             },
         .reference = [turn = turn](HostTensors in) { return std::vector{turned(in[0], turn)}; },
         .tolerance = terms(),
         .differentiable =
             [turn = turn](Vars in) { return ad::rope(in[0], turn.base, turn.offset, turn.interleaved, turn.axis); },
         .fixed_shapes = true});
  }
}

}  // namespace ashlar::conformance
