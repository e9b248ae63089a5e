// Recurrent sequences and rotary position embeddings.
#include <algorithm>
#include <array>
#include <cmath>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

enum class Unit : uint8_t { rnn, rnn_relu, gru, gru_original, lstm };

/// One call of a sequence: its sizes and options; members 0: no axis of them.
struct Sequence {
  Unit unit;
  int64_t steps, batch, hidden;
  bool reverse = false, is_bounded = false;
  int64_t members = 0;
  double bend = 0;  ///< below which a ReLU's result is 0

  bool is_lstm() const { return unit == Unit::lstm; }
  bool is_gru() const { return unit == Unit::gru || unit == Unit::gru_original; }
  int64_t gates() const { return is_lstm() ? 4 : (is_gru() ? 3 : 1); }
  size_t states() const { return is_lstm() ? 2 : 1; }
  /// x, states, weight and bias
  size_t variables() const { return 3 + states(); }
  int64_t numel() const { return steps * batch * hidden * std::max<int64_t>(members, 1); }
  const char* kernel() const { return is_lstm() ? "lstm_sequence" : (is_gru() ? "gru_sequence" : "rnn_sequence"); }
  std::string name() const {
    constexpr std::array kUnits{"", ", relu", "", ", reset before", ""};
    return Shape{steps, batch, hidden}.str() + kUnits[static_cast<size_t>(unit)] +
           (members > 0 ? ", " + std::to_string(members) + " members" : "") + (is_bounded ? ", lengths" : "") +
           (reverse ? ", from the end" : "");
  }
  Shape of_member(std::initializer_list<int64_t> sizes) const {
    Shape shape(sizes);
    if (members > 0) shape.insert(0, members);
    return shape;
  }
  Shape of_step(int64_t columns) const {
    Shape shape = of_member({batch, columns});
    shape.insert(0, steps);
    return shape;
  }

  std::vector<Input> inputs() const {
    const double bound = 1 / std::sqrt(static_cast<double>(hidden));
    std::vector<Input> all{{.shape = of_step(gates() * hidden)}};
    for (size_t i = 0; i < states(); i++) {
      all.push_back({.shape = of_member({batch, hidden}), .values = {.low = -1, .high = 1}});
    }
    all.push_back({.shape = of_member({gates() * hidden, hidden}), .values = {.low = -bound, .high = bound}});
    all.push_back({.shape = of_member({gates() * hidden}), .values = {.low = -bound, .high = bound}});
    if (is_bounded) {
      const Values lengths{.pattern = Pattern::integers, .low = 0, .high = static_cast<double>(steps)};
      all.push_back({.shape = {batch}, .values = lengths, .dtype = DType::i64});
    }
    return all;
  }
  Tensor lengths(Tensors in) const { return is_bounded ? in[variables()] : Tensor(); }
};

struct States {
  std::vector<double> h, cell;
};

// In four sums at a time, which don't wait for each other.
double dot(const double* a, const double* b, int64_t count) {
  double sums[4] = {};
  int64_t k = 0;
  for (; k + 4 <= count; k += 4) {
    for (int64_t i = 0; i < 4; i++) sums[i] += a[k + i] * b[k + i];
  }
  for (; k < count; k++) sums[0] += a[k] * b[k];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// One step of one row: gates x and their bias, weight [gates n, n]. Gates as PyTorch has them: r z n, or i f g o.
States stepped(const Sequence& of, const States& old, const double* x, const double* weight, const double* bias) {
  const int64_t n = of.hidden;
  States next = old;
  const auto product = [&](int64_t g, int64_t c, const std::vector<double>& state) {
    return bias[g * n + c] + dot(weight + (g * n + c) * n, state.data(), n);
  };
  const auto gate = [&](int64_t g, int64_t c) { return x[g * n + c] + product(g, c, old.h); };
  std::vector<double> reset_state(old.h);
  for (int64_t c = 0; c < n && of.unit == Unit::gru_original; c++) reset_state[c] *= sigmoid_of(gate(0, c));
  for (int64_t c = 0; c < n; c++) {
    if (of.is_lstm()) {
      next.cell[c] = sigmoid_of(gate(1, c)) * old.cell[c] + sigmoid_of(gate(0, c)) * std::tanh(gate(2, c));
      next.h[c] = sigmoid_of(gate(3, c)) * std::tanh(next.cell[c]);
    } else if (of.is_gru()) {
      const double z = sigmoid_of(gate(1, c));
      const double from_state =
          of.unit == Unit::gru ? sigmoid_of(gate(0, c)) * product(2, c, old.h) : product(2, c, reset_state);
      next.h[c] = (1 - z) * std::tanh(x[2 * n + c] + from_state) + z * old.h[c];
    } else {
      const double a = gate(0, c);
      next.h[c] = of.unit == Unit::rnn ? std::tanh(a) : (a > of.bend ? a : 0.0);
    }
  }
  return next;
}

// in: as Sequence::inputs(). Of one member alone where that isn't -1: zeros of the others.
std::vector<Expected> sequence_reference(const Sequence& of, HostTensors in, int64_t only = -1) {
  const int64_t n = of.hidden, gates = of.gates(), members = std::max<int64_t>(of.members, 1);
  const HostTensor &x = in[0], &weight = in[1 + of.states()], &bias = in[2 + of.states()];
  Expected y{of.of_step(n), std::vector<double>(static_cast<size_t>(of.numel())), {}}, cells = y;
  for (int64_t row = 0; row < members * of.batch; row++) {
    const int64_t member = row / of.batch;
    if (only >= 0 && member != only) continue;
    const auto state = [&](size_t i) {
      return std::vector<double>(&in[i].values[row * n], &in[i].values[row * n] + n);
    };
    States now{state(1), of.is_lstm() ? state(2) : std::vector<double>()};
    for (int64_t step = 0; step < of.steps; step++) {
      const int64_t t = of.reverse ? of.steps - 1 - step : step, at = t * members * of.batch + row;
      const bool is_over = of.is_bounded && t >= static_cast<int64_t>(in[of.variables()].values[row % of.batch]);
      if (!is_over) {
        now = stepped(of, now, &x.values[at * gates * n], &weight.values[member * gates * n * n],
                      &bias.values[member * gates * n]);
      }
      std::ranges::copy(now.h, &y.values[at * n]);
      std::ranges::copy(now.cell, &cells.values[at * n]);
    }
  }
  y.magnitudes = cells.magnitudes = std::vector<double>(y.values.size(), 1.0);
  return of.is_lstm() ? std::vector{y, cells} : std::vector{y};
}

// Σ dy y (+ Σ dcells cells), differentiated by differences of the sequence in double, at some of many places, but where
// a ReLU bends within a difference, or so near that f32 may see the other side of it. in: dy(, dcells) and the
// sequence's inputs.
std::vector<Expected> gradient_reference(const Sequence& of, HostTensors in) {
  constexpr size_t kMostPlaces = 150;
  std::vector<HostTensor> inputs(in.begin() + of.states(), in.end());
  double largest = 1;
  const auto loss = [&](int64_t member, double bend = 0) {
    Sequence bent = of;
    bent.bend = bend;
    const std::vector<Expected> results = sequence_reference(bent, inputs, member);
    for (double y : results[0].values) largest = std::max(largest, std::abs(y));
    double sum = 0;
    for (size_t k = 0; k < of.states(); k++) {
      for (size_t i = 0; i < results[k].values.size(); i++) sum += in[k].values[i] * results[k].values[i];
    }
    return sum;
  };
  std::vector<Expected> gradients;
  const int64_t members = std::max<int64_t>(of.members, 1);
  std::vector<double> losses;
  for (int64_t member = 0; member < members; member++) losses.push_back(loss(member));
  const double rounding = 1e-5 * largest;
  std::vector<bool> is_near_a_bend;
  for (int64_t member = 0; member < members; member++) {
    is_near_a_bend.push_back(of.unit == Unit::rnn_relu && loss(member, rounding) != loss(member, -rounding));
  }
  for (size_t k = 0; k < of.variables(); k++) {
    std::vector<double>& values = inputs[k].values;
    Expected gradient{inputs[k].shape, {}, {}};
    const size_t every = values.size() / kMostPlaces + 1;
    // Axes of inputs: x's steps, members, the member's own.
    const int64_t of_member =
        static_cast<int64_t>(values.size()) / members / (k == 0 ? std::max<int64_t>(of.steps, 1) : 1);
    for (size_t i = 0; i < values.size(); i += every) {
      constexpr double kStep = 1e-5;
      const int64_t member = static_cast<int64_t>(i) / of_member % members;
      const double middle = values[i], here = losses[static_cast<size_t>(member)];
      const auto loss_at = [&](double value, double bend) {
        values[i] = value;
        const double result = loss(member, bend);
        values[i] = middle;
        return result;
      };
      const auto slope_of = [&](double bend) {
        return (loss_at(middle + kStep, bend) - loss_at(middle - kStep, bend)) / (2 * kStep);
      };
      const double above = loss_at(middle + kStep, 0), below = loss_at(middle - kStep, 0);
      const double slope = (above - below) / (2 * kStep), bend = (above - here) / kStep - (here - below) / kStep;
      const auto differs = [&](double by) { return std::abs(by) > 5e-5 * (std::abs(slope) + 1); };
      if (of.unit == Unit::rnn_relu && differs(bend / 2)) continue;  // by so much the slope is wrong
      if (is_near_a_bend[static_cast<size_t>(member)] &&
          (differs(slope_of(rounding) - slope) || differs(slope_of(-rounding) - slope))) {
        continue;
      }
      gradient.values.push_back(slope);
      gradient.magnitudes.push_back(std::abs(slope) + 1);
      gradient.positions.push_back(static_cast<int64_t>(i));
    }
    gradients.push_back(gradient);
  }
  return gradients;
}

std::vector<Tensor> called(const Sequence& of, Tensors in) {
  const Tensor lengths = of.lengths(in);
  if (of.is_lstm()) {
    const auto [y, cells] = lstm_sequence(in[0], in[1], in[2], in[3], in[4], lengths, of.reverse);
    return {y, cells};
  }
  if (of.is_gru()) {
    return {gru_sequence(in[0], in[1], in[2], in[3], lengths, of.reverse, of.unit == Unit::gru)};
  }
  return {rnn_sequence(in[0], in[1], in[2], in[3], lengths, of.reverse, of.unit == Unit::rnn_relu)};
}

// What the sequence gave is made anew from its inputs.
std::vector<Tensor> called_back(const Sequence& of, Tensors all) {
  const Tensors in = all.subspan(of.states());
  const Tensor lengths = of.lengths(in);
  const std::vector<Tensor> made = called(of, in);
  if (of.is_lstm()) {
    const auto [dx, dh, dc, dweight, dbias] =
        lstm_sequence_grad(all[0], all[1], in[0], in[1], in[2], in[3], in[4], made[0], made[1], lengths, of.reverse);
    return {dx, dh, dc, dweight, dbias};
  }
  if (of.is_gru()) {
    const auto [dx, dh, dweight, dbias] =
        gru_sequence_grad(all[0], in[0], in[1], in[2], in[3], made[0], lengths, of.reverse, of.unit == Unit::gru);
    return {dx, dh, dweight, dbias};
  }
  const auto [dx, dh, dweight, dbias] =
      rnn_sequence_grad(all[0], in[0], in[1], in[2], in[3], made[0], lengths, of.reverse, of.unit == Unit::rnn_relu);
  return {dx, dh, dweight, dbias};
}

Var recorded(const Sequence& of, Vars in) {
  const Tensor lengths = of.is_bounded ? in[of.variables()].value() : Tensor();
  if (of.is_lstm()) return ad::lstm_sequence(in[0], in[1], in[2], in[3], in[4], lengths, of.reverse).y;
  if (of.is_gru()) {
    return ad::gru_sequence(in[0], in[1], in[2], in[3], lengths, of.reverse, of.unit == Unit::gru);
  }
  return ad::rnn_sequence(in[0], in[1], in[2], in[3], lengths, of.reverse, of.unit == Unit::rnn_relu);
}

void add_sequence(const Sequence& of) {
  const std::vector<Input> inputs = of.inputs();
  Case item{.kernel = of.kernel(),
            .name = of.name(),
            .inputs = inputs,
            .call = [of](Tensors in) { return called(of, in); },
            .reference = [of](HostTensors in) { return sequence_reference(of, in); },
            .tolerance = terms(),
            .fixed_shapes = true};
  if (of.numel() > 0 && of.hidden < 16) {
    item.differentiable = [of](Vars in) { return recorded(of, in); };
    for (int i = 1; i < static_cast<int>(of.variables()); i++) item.differentiated.push_back(i);
    item.gradient_dtypes = {DType::f32};
  }
  add_case(item);
  Case gradient{.kernel = of.kernel() + std::string("_grad"), .name = of.name()};
  for (size_t i = 0; i < of.states(); i++) gradient.inputs.push_back({.shape = of.of_step(of.hidden)});
  gradient.inputs.insert(gradient.inputs.end(), inputs.begin(), inputs.end());
  gradient.dtypes = {DType::f32};
  gradient.call = [of](Tensors in) { return called_back(of, in); };
  gradient.reference = [of](HostTensors in) { return gradient_reference(of, in); };
  gradient.tolerance = terms(1e-4);
  gradient.fixed_shapes = true;
  add_case(gradient);
}

struct Turn {
  double base = 10000;
  int64_t offset = 0;
  bool interleaved = false;
  int64_t axis = -2;
  int64_t offsets = 0;  // how many: none, one, or one for each index of axis 0
};

Expected turned(const HostTensor& x, const HostTensor* offsets, const Turn& turn) {
  Expected y{x.shape, x.values, x.values};
  const int64_t d = x.shape.back();
  const int axis = normalize_axis("rope", turn.axis, x.shape.rank());
  int64_t inner = 1;
  for (int i = axis + 1; i < x.shape.rank(); i++) inner *= x.shape[i];
  const int64_t of_sequence = static_cast<int64_t>(x.values.size()) / std::max(turn.offsets, int64_t{1});
  for (int64_t at = 0; at < static_cast<int64_t>(x.values.size()); at++) {
    const int64_t begin = offsets == nullptr ? 0 : static_cast<int64_t>(offsets->values[at / of_sequence]);
    const int64_t c = at % d, position = turn.offset + begin + at / inner % x.shape[axis];
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
  for (const Unit unit : {Unit::rnn, Unit::rnn_relu, Unit::gru, Unit::gru_original, Unit::lstm}) {
    add_sequence({unit, 1, 1, 1});
    add_sequence({unit, 4, 3, 5});
    add_sequence({unit, 5, 2, 4, true});
    add_sequence({unit, 0, 2, 3});
    add_sequence({unit, 5, 6, 4, false, true});
    add_sequence({unit, 5, 6, 4, true, true});
    add_sequence({unit, 1, 2, 40});    // a cell's
    add_sequence({unit, 3, 13, 70});   // whole tiles of every schedule, and more
    add_sequence({unit, 3, 2, 101});   // of a group of threads whose registers don't hold the weights
    add_sequence({unit, 2, 3, 140});   // of more units than a group of threads has, whole rounds of them and a rest
    add_sequence({unit, 1, 1060, 3});  // of many groups
    add_sequence({unit, 1, 33, 70, false, false, 3});  // products of matrices: of several gates,
    add_sequence({unit, 1, 20, 34, false, true, 24});  // and of one
    add_sequence({unit, 3, 2, 129, true, true});  // of groups of threads that meet after each step; some have nothing
    add_sequence({unit, 2, 9, 141, false, false, 2});
    add_sequence({unit, 12, 1, 200});
    add_sequence({unit, 2, 3, 256, false, true, 2});
    add_sequence({unit, 3, 2, 5, false, false, 5});
    add_sequence({unit, 2, 5, 37, true, true, 3});
  }
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
               {{3, 514}, {}},
               {{3, 514}, {.interleaved = true}},
               {{2, 3, 9, 8}, {.offset = 5, .offsets = 1}},
               {{4, 3, 9, 8}, {.offsets = 4}},
               {{3, 5, 2, 6}, {.offset = 2, .interleaved = true, .axis = 1, .offsets = 3}},
               {{9, 64}, {.offsets = 1}, Layout::transposed},
               {{0, 4}, {}}};
  for (const auto& [shape, turn, layout] : turns) {
    std::vector<Input> inputs{{.shape = shape, .layout = layout}};
    if (turn.offsets > 0) {
      inputs.push_back({.shape = {turn.offsets}, .values = {Pattern::integers, 0, 50}, .dtype = DType::i64});
    }
    const auto call = [turn = turn](const auto& x, const Tensor& offsets) {
      using namespace ad;
      return rope(x, turn.base, turn.offset, turn.interleaved, turn.axis, false, offsets);
    };
    add_case({.kernel = "rope",
              .name = shape.str() + (turn.interleaved ? ", interleaved" : "") +
                      (turn.offsets == 0   ? ""
                       : turn.offsets == 1 ? ", offset"
                                           : ", offsets") +
                      (layout == Layout::dense ? "" : ", transposed"),
              .inputs = inputs,
              .call = [call](Tensors in) { return std::vector{call(in[0], in.size() > 1 ? in[1] : Tensor())}; },
              .reference =
                  [turn = turn](HostTensors in) {
                    return std::vector{turned(in[0], turn.offsets > 0 ? &in[1] : nullptr, turn)};
                  },
              .tolerance = terms(),
              .differentiable = [call](Vars in) { return call(in[0], in.size() > 1 ? in[1].value() : Tensor()); },
              .fixed_shapes = true});
  }
}

}  // namespace ashlar::conformance
