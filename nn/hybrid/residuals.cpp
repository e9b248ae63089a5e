#include "nn/hybrid/residuals.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <unordered_map>
#include <utility>

#include "ashlar/ops.h"
#include "autograd/grad_mode.h"
#include "runtime/launch/launch.h"
#include "runtime/random/philox.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

constexpr const char* kName = "ResidualStore";
constexpr const char* kRemedy = "Load what a training of the same network with the same options saved";

Tensor as_matrix(const Tensor& x) { return x.reshape({x.size(0), x.numel() / x.size(0)}); }

}  // namespace

LowRank compress_residual(const Tensor& random, const Tensor& residual, int64_t rank) {
  const SvdLowrankResult parts = svd_lowrank(random, residual, rank);
  return {mul(parts.u, parts.s), parts.v, parts.s};
}

Tensor apply_correction(const Tensor& weights, const LowRank& correction, const Tensor& share) {
  const Tensor &left = correction.left, &right = correction.right;
  const auto is_factor = [](const Tensor& x) { return x.rank() == 2 && x.dtype() == DType::f32 && x.numel() > 0; };
  const bool fits = is_factor(weights) && is_factor(left) && is_factor(right) && left.size(1) == right.size(1) &&
                    weights.shape() == Shape{left.size(0), right.size(0)} && share.numel() == 1 &&
                    share.dtype() == DType::f32;
  if (!fits) return addcmul(weights, matmul(left, right, {.transpose_b = true}), share);
  const auto batch = [](const Tensor& x) { return x.reshape({1, x.size(0), x.size(1)}); };
  const Tensor moved = Tensor::empty({1, left.size(0), right.size(0)}, DType::f32, weights.device());
  launch(kernels::low_rank_update, {.elements = {DType::f32}},
         std::array{batch(weights.contiguous()), batch(left), batch(right).transpose(1, 2), share.reshape({})}, {},
         std::span(&moved, 1));
  return moved.reshape(weights.shape());
}

ResidualStore::ResidualStore(Optimizer& optimizer, int64_t capacity, int64_t rank, uint64_t seed)
    : optimizer_(optimizer), capacity_(capacity), rank_(rank) {
  if (capacity <= 0 || rank <= 0) {
    throw ValueError(kName, std::to_string(capacity) + " residuals of rank " + std::to_string(rank),
                     "positive numbers of both", "Start with 16 and 8");
  }
  random_ = philox_state(static_cast<int64_t>(seed), optimizer.arena_values().at(0).device());
}

bool ResidualStore::is_compressed(const Shape& shape) const {
  return shape.rank() >= 2 && std::min(shape[0], shape.numel() / shape[0]) > rank_;
}

/// visit(number of the parameter, its arena, number of the arena, number within it)
template <class Visit>
void ResidualStore::for_each_parameter(const Visit& visit) const {
  size_t number = 0, which = 0;
  for (const ParameterArena* arena : optimizer_.parameter_arenas()) {
    for (size_t i = 0; i < arena->parameters().size(); i++) visit(number++, *arena, which, i);
    which++;
  }
}

void ResidualStore::put(const TrainingState& key, std::span<const Tensor> foretold) {
  const NoGrad no_grad;
  Entry entry{.key = key, .parts = {}};
  for_each_parameter([&](size_t, const ParameterArena& arena, size_t which, size_t i) {
    const Tensor now = arena.parameters()[i].value().to(DType::f32);
    const Tensor residual = sub(now, arena.part(foretold[which], i));
    Part part;
    if (is_compressed(residual.shape())) {
      const Tensor random = random_.to(residual.device());
      part.matrix = compress_residual(random, as_matrix(residual), rank_);
      if (random.device() != random_.device()) random_.copy_(random);
    } else {
      part.whole = residual;
    }
    entry.parts.push_back(std::move(part));
  });
  entries_.push_back(std::move(entry));
  if (size() > capacity_) entries_.pop_front();
}

double ResidualStore::apply(const TrainingState& key, double share) {
  if (entries_.empty()) return 0;
  const auto distance = [&](const Entry& entry) {
    double squares = 0;
    for (size_t i = 0; i < key.size(); i++) {
      const double off = static_cast<double>(key[i]) - entry.key[i];
      squares += off * off;
    }
    return squares;
  };
  const auto nearest = std::ranges::min_element(entries_, {}, distance);
  const double similarity = std::exp(-distance(*nearest) / static_cast<double>(kStateFeatures));
  const NoGrad no_grad;
  for_each_parameter([&](size_t number, const ParameterArena& arena, size_t, size_t i) {
    const Part& part = nearest->parts[number];
    const Tensor& weights = arena.parameters()[i].value();
    const Tensor wide = weights.to(DType::f32);
    const Tensor factor = Tensor::full({}, share * similarity, DType::f32, weights.device());
    const Tensor corrected = part.whole.defined()
                                 ? addcmul(wide, part.whole, factor)
                                 : apply_correction(as_matrix(wide), part.matrix, factor).reshape(weights.shape());
    weights.copy_(corrected.to(weights.dtype()));
  });
  return similarity;
}

NamedTensors ResidualStore::state_dict() const {
  NamedTensors result{{"residual.random", random_}};
  for (size_t e = 0; e < entries_.size(); e++) {
    const std::string prefix = "residual." + std::to_string(e) + ".";
    result.emplace_back(prefix + "key", Tensor::from(std::span<const float>(entries_[e].key), {kStateFeatures}));
    for (size_t p = 0; p < entries_[e].parts.size(); p++) {
      const Part& part = entries_[e].parts[p];
      const std::string name = prefix + std::to_string(p) + ".";
      if (part.whole.defined()) {
        result.emplace_back(name + "whole", part.whole);
        continue;
      }
      result.emplace_back(name + "left", part.matrix.left);
      result.emplace_back(name + "right", part.matrix.right);
      result.emplace_back(name + "values", part.matrix.values);
    }
  }
  return result;
}

void ResidualStore::load_state_dict(const NamedTensors& state) {
  const std::unordered_map<std::string, Tensor> given(state.begin(), state.end());
  const auto find = [&](const std::string& name, const Shape& shape, DType dtype) {
    const auto found = given.find(name);
    if (found == given.end()) throw ValueError(kName, "no tensor \"" + name + "\"", "all of its own", kRemedy);
    if (found->second.shape() != shape || found->second.dtype() != dtype) {
      throw ShapeError(kName, "\"" + name + "\" as " + found->second.str(), std::string(name_of(dtype)) + shape.str(),
                       kRemedy);
    }
    return found->second;
  };
  std::deque<Entry> entries;
  for (int64_t e = 0; e < capacity_; e++) {
    const std::string prefix = "residual." + std::to_string(e) + ".";
    if (!given.contains(prefix + "key")) break;
    Entry entry;
    std::ranges::copy(find(prefix + "key", {kStateFeatures}, DType::f32).to_vector<float>(), entry.key.begin());
    for_each_parameter([&](size_t number, const ParameterArena& arena, size_t, size_t i) {
      const Tensor& weights = arena.parameters()[i].value();
      const Shape& shape = weights.shape();
      const std::string name = prefix + std::to_string(number) + ".";
      const auto part_of = [&](const char* what, const Shape& of) {
        return find(name + what, of, DType::f32).to(weights.device());
      };
      Part part;
      if (is_compressed(shape)) {
        part.matrix = {part_of("left", {shape[0], rank_}), part_of("right", {shape.numel() / shape[0], rank_}),
                       part_of("values", {rank_})};
      } else {
        part.whole = part_of("whole", shape);
      }
      entry.parts.push_back(std::move(part));
    });
    entries.push_back(std::move(entry));
  }
  random_.copy_(find("residual.random", random_.shape(), random_.dtype()));
  entries_ = std::move(entries);
}

}  // namespace ashlar::nn
