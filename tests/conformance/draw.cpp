#include "tests/conformance/draw.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

namespace ashlar::conformance {
namespace {

// 95 % of the draws have inputs of at most 2^12 elements, the others of at most 2^22, of a gradient 2^20.
constexpr double kLarge = 0.05;
constexpr double kGradients = 0.35;
constexpr int kSmallBits = 12;
constexpr int kLargeBits = 22;
constexpr int kLargeGradientBits = 20;
constexpr int kLargePiecesBits = 14;
constexpr int64_t kMostTerms = 1 << 24;

bool is_prime(int64_t n) {
  for (int64_t i = 2; i * i <= n; ++i) {
    if (n % i == 0) return false;
  }
  return n > 1;
}

// A number near `size`, of the kind that kernels treat differently: a prime, a power of two or a tile's multiple, one
// more or one less; or the number itself.
int64_t interesting(double size, Random& random) {
  auto n = std::max<int64_t>(1, std::llround(size));
  const int64_t tile = random.pick<int64_t>({4, 8, 16, 32, 64, 128, 256, 1024});
  const int64_t power = int64_t{1} << std::lround(std::log2(static_cast<double>(n)));
  switch (random.below(5)) {
    case 0:
      while (n > 2 && !is_prime(n)) --n;
      return n;
    case 1:
      return std::max<int64_t>(1, power + random.between(-1, 1));
    case 2:
    case 3:
      return n < tile ? n : n / tile * tile + random.between(-1, 1);
    default:
      return n;
  }
}

// Which extents of the inputs are one number.
void find_symbols(Draw& draw) {
  std::map<int64_t, int> known;
  for (const Input& input : draw.item.inputs) {
    std::vector<int>& of_axes = draw.symbols.emplace_back();
    for (const int64_t extent : input.shape) {
      if (extent == 1 || draw.item.fixed_shapes) {
        of_axes.push_back(-1);
        continue;
      }
      const auto [at, fresh] = known.emplace(extent, static_cast<int>(draw.extents.size()));
      if (fresh) draw.extents.push_back(extent);
      of_axes.push_back(at->second);
    }
  }
}

// Batches of products: no input has every symbol, and one has more than two axes. Each small matrix fills a tile of its
// own, so that millions of them take minutes.
bool has_many_pieces(const Draw& draw) {
  size_t most_symbols = 0;
  int rank = 0;
  for (size_t i = 0; i < draw.symbols.size(); ++i) {
    std::vector<int> of_axes = draw.symbols[i];
    std::ranges::sort(of_axes);
    const auto repeated = std::ranges::unique(of_axes);
    of_axes.erase(repeated.begin(), repeated.end());
    most_symbols = std::max<size_t>(most_symbols, of_axes.size() - std::ranges::count(of_axes, -1));
    rank = std::max(rank, draw.item.inputs[i].shape.rank());
  }
  return rank > 2 && most_symbols < draw.extents.size();
}

// Log-uniform sizes, shared out among the symbols at random: the largest input has about 2^bits elements.
void draw_extents(Draw& draw, double bits, Random& random) {
  std::vector<double> shares;
  for (size_t i = 0; i < draw.extents.size(); ++i) shares.push_back(-std::log(1 - random.fraction()));
  double most = 0;
  for (const std::vector<int>& of_axes : draw.symbols) {
    double sum = 0;
    for (const int symbol : of_axes) sum += symbol < 0 ? 0 : shares[symbol];
    most = std::max(most, sum);
  }
  for (size_t i = 0; i < draw.extents.size(); ++i) {
    draw.extents[i] = interesting(std::exp2(bits * shares[i] / most), random);
  }
  // No more than that, and not many more terms: outer products and contractions have more than their inputs.
  const int64_t most_elements = int64_t{1} << (bits <= kSmallBits ? kSmallBits : kLargeBits);
  const int64_t most_terms = std::min<int64_t>(8 * std::llround(std::exp2(bits)), kMostTerms);
  const auto fits = [&] {
    return draw.terms() <= most_terms && std::ranges::all_of(draw.symbols, [&](const std::vector<int>& of_axes) {
             int64_t elements = 1;
             for (const int symbol : of_axes) elements *= symbol < 0 ? 1 : draw.extents[symbol];
             return elements <= most_elements;
           });
  };
  while (!fits()) {
    int64_t& largest = *std::ranges::max_element(draw.extents);
    largest -= (largest + 7) / 8;
  }
  if (!draw.extents.empty() && random.chance(0.04)) random.pick(draw.extents) = 0;
}

std::optional<View> draw_view(int rank, bool may_repeat, Random& random) {
  if (random.chance(0.3)) return std::nullopt;
  View view{Shape::filled(rank, 0), Shape::filled(rank, 1), Shape::filled(rank, 0)};
  for (int i = 0; i < rank; ++i) view.order[i] = i;
  if (random.chance(0.6)) view.offset = random.between(1, 9);
  if (random.chance(0.5)) view.order = random.permutation(rank);
  const double busy = random.pick({0.0, 0.2, 0.5});  // most views differ from a dense tensor along few axes
  for (int i = 0; i < rank; ++i) {
    if (random.chance(busy)) view.steps[i] = random.pick<int64_t>({-1, -1, 2, 3, -2, may_repeat ? 0 : 2});
    if (random.chance(busy)) view.gaps[i] = random.between(1, 5);
  }
  return view;
}

Placement placed(const Shape& shape, const View& view) {
  Placement placement{Shape::filled(shape.rank(), 0), view.offset};
  int64_t inside = 1;  // elements of the axes further in
  for (int i = shape.rank() - 1; i >= 0; --i) {
    const auto axis = static_cast<int>(view.order[i]);
    const int64_t step = view.steps[axis];
    placement.strides[axis] = step * inside;
    if (step < 0) placement.offset -= std::max<int64_t>(shape[axis] - 1, 0) * step * inside;
    if (step != 0) inside *= std::max<int64_t>(shape[axis] * std::abs(step) + view.gaps[axis], 1);
  }
  return placement;
}

// Elements of storage that `shape` needs.
int64_t reach(const Shape& shape, const Placement& placement) {
  int64_t reached = 1;
  for (int i = 0; i < shape.rank(); ++i) reached += std::abs(placement.strides[i]) * std::max<int64_t>(shape[i] - 1, 0);
  return reached;
}

int64_t indexed_extent(const Case& item, const Input& input) {
  return item.inputs[input.index_of->input].shape[input.index_of->axis];
}

std::string kind_of(const Case& item) {
  std::string kind;
  for (const Input& input : item.inputs) {
    kind.append("/").append(std::to_string(static_cast<int>(input.values.pattern)));
    kind.append(",").append(std::to_string(input.values.low));
    if (!input.index_of) kind.append(",").append(std::to_string(input.values.high));
  }
  return kind;
}

}  // namespace

void Draw::apply() {
  for (size_t i = 0; i < item.inputs.size(); ++i) {
    Input& input = item.inputs[i];
    for (int axis = 0; axis < input.shape.rank(); ++axis) {
      if (symbols[i][axis] >= 0) input.shape[axis] = extents[symbols[i][axis]];
    }
    input.placement.reset();
    if (!views[i]) continue;
    input.placement = placed(input.shape, *views[i]);
    // Steps along many axes multiply: no more than a few times the elements, and some.
    if (reach(input.shape, *input.placement) > 4 * input.shape.numel() + 4096) {
      View plain = *views[i];
      for (int axis = 0; axis < input.shape.rank(); ++axis) {
        plain.steps[axis] = std::clamp<int64_t>(plain.steps[axis], -1, 1);
        plain.gaps[axis] = 0;
      }
      input.placement = placed(input.shape, plain);
    }
  }
  for (size_t i = 0; i < item.inputs.size(); ++i) {
    Input& input = item.inputs[i];
    if (!input.index_of) continue;
    input.values.high = static_cast<double>(indexed_extent(item, input)) + above[i];
  }
}

int64_t Draw::terms() const {
  int64_t product = 1;
  for (const int64_t extent : extents) {
    if (extent == 0) return 0;
    product = product > INT64_MAX / extent ? INT64_MAX : product * extent;
  }
  return product;
}

std::string Draw::describe() const {
  static constexpr const char* kPatterns[] = {"uniform", "integers", "distinct", "special",
                                              "masked",  "denormal", "huge",     "tiny"};
  std::string text;
  for (size_t i = 0; i < item.inputs.size(); ++i) {
    const Input& input = item.inputs[i];
    text.append(i == 0 ? "  x" : "\n  x").append(std::to_string(i)).append(": ");
    text.append(name_of(input.dtype.value_or(dtype))).append(input.shape.str());
    if (input.placement) {
      text.append(" with strides ").append(input.placement->strides.str());
      text.append(" from element ").append(std::to_string(input.placement->offset));
    } else {
      text.append(" dense");
    }
    char values[80];
    std::snprintf(values, sizeof values, ", %s over %g … %g", kPatterns[static_cast<size_t>(input.values.pattern)],
                  input.values.low, input.values.high);
    text.append(values);
  }
  return text;
}

namespace {

auto has_gradient(const Case& item) {
  return [&item](DType dtype) { return std::ranges::count(item.gradient_dtypes, dtype) > 0; };
}

}  // namespace

Drawer::Drawer(std::span<const Case> cases) {
  for (const Case& item : cases) {
    if (item.benchmark || !item.is_drawn) continue;
    for (const bool gradient : {false, true}) {
      if (gradient && (!item.differentiable || !std::ranges::any_of(item.dtypes, has_gradient(item)))) continue;
      Pool& pool = gradient ? gradients_ : results_;
      pool.cases.push_back(&item);
      pool.kernels[item.kernel][kind_of(item)].push_back(&item);
    }
  }
}

// Half of the draws are spread over the cases, half over the kernels, and then over a kernel's kinds of values: one
// size more is no reason to draw a case more often.
Drawer::Choice Drawer::choose(Random random) const {
  const bool gradient = !gradients_.cases.empty() && random.chance(kGradients);
  const Pool& pool = gradient ? gradients_ : results_;
  const std::string& kernel = random.chance(0.5) ? random.pick(pool.cases)->kernel : random.pick(pool.kernels).first;
  return {random.pick(random.pick(pool.kernels.at(kernel)).second), gradient};
}

Draw Drawer::draw(uint64_t seed) const {
  Random random(seed);
  Draw draw;
  draw.seed = seed;
  const Choice choice = choose(random.fork());
  draw.like = choice.like;
  draw.gradient = choice.gradient;
  draw.item = draw.like->vary ? draw.like->vary(*draw.like, random) : *draw.like;
  draw.item.gradient_is_rounded_once = false;  // said of the case's own shapes: of others a gradient may be no sum
  Case& item = draw.item;
  const std::string options = item.name == draw.like->name ? "" : " " + item.name;
  item.name = "draw_" + std::to_string(seed) + options;

  std::vector<DType> dtypes = item.dtypes;
  if (draw.gradient) {
    std::erase_if(dtypes, std::not_fn(has_gradient(item)));
  }
  draw.dtype = random.pick(dtypes);
  draw.setting = random.chance(0.25) ? random.between(1, 1 << 20) : 0;

  for (Input& input : item.inputs) {
    input.layout = Layout::dense;
    const double extent = input.index_of ? static_cast<double>(indexed_extent(item, input)) : 0;
    draw.above.push_back(input.values.high - extent);
  }
  find_symbols(draw);
  const int large = has_many_pieces(draw) ? kLargePiecesBits : draw.gradient ? kLargeGradientBits : kLargeBits;
  // The larger ones more rarely: a draw of millions takes as long as a thousand small ones.
  const double bits = random.chance(kLarge)
                          ? kSmallBits + (large - kSmallBits) * std::min(random.fraction(), random.fraction())
                          : kSmallBits * random.fraction();
  draw_extents(draw, bits, random);
  for (const Input& input : item.inputs) {
    draw.views.push_back(draw_view(input.shape.rank(), !item.in_place, random));
  }
  draw.apply();
  return draw;
}

Shape symbols(int rank, Random& random, int ones) {
  Shape shape;
  for (int i = 0; i < rank; ++i) shape.push_back(ones > 0 && random.below(ones) == 0 ? 1 : i + 2);
  return shape;
}

Case any_rank(const Case& like, Random& random) {
  Case item = like;
  const Shape before = item.inputs[0].shape;
  const Shape after = symbols(static_cast<int>(random.pick<int64_t>({0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6, 8})), random);
  for (Input& input : item.inputs) {
    if (input.shape == before) input.shape = after;
  }
  return item;
}

}  // namespace ashlar::conformance
