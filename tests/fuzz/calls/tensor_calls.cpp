// Random calls of Tensor, and the same on a plain restatement: after each, what was made is what it should be; now and
// then all tensors are looked at, since a write may have reached what it shouldn't. Mistakes are made on purpose, too:
// they have to be the error that the header promises, and to change nothing.
#include <algorithm>
#include <cstdio>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ashlar/ops.h"
#include "runtime/support/error.h"
#include "runtime/tensor/tensor.h"
#include "tests/fuzz/calls/options.h"
#include "tests/fuzz/calls/plain_tensor.h"

namespace ashlar::fuzz {
namespace {

constexpr size_t kTensors = 20;
constexpr int kMostRank = 5;
constexpr int kMostElements = 400;
constexpr DType kDTypes[] = {DType::f32,  DType::f64, DType::i32, DType::i64, DType::u8, DType::f16,
                             DType::bf16, DType::u32, DType::i8,  DType::u16, DType::i16};

struct Pair {
  Tensor tensor;
  PlainTensor plain;
};

template <class T>
std::vector<int> whole_numbers(const Tensor& x) {
  std::vector<int> values;
  for (const T value : x.to_vector<T>()) {
    values.push_back(static_cast<int>(static_cast<std::conditional_t<sizeof(T) == 2, float, T>>(value)));
  }
  return values;
}

std::vector<int> values_of(const Tensor& x) {
  switch (x.dtype()) {
    case DType::f32:
      return whole_numbers<float>(x);
    case DType::f64:
      return whole_numbers<double>(x);
    case DType::i32:
      return whole_numbers<int32_t>(x);
    case DType::i64:
      return whole_numbers<int64_t>(x);
    case DType::u8:
      return whole_numbers<uint8_t>(x);
    case DType::u32:
      return whole_numbers<uint32_t>(x);
    case DType::i8:
      return whole_numbers<int8_t>(x);
    case DType::u16:
      return whole_numbers<uint16_t>(x);
    case DType::i16:
      return whole_numbers<int16_t>(x);
    case DType::f16:
      return whole_numbers<Half>(x);
    case DType::bf16:
      return whole_numbers<BFloat16>(x);
    case DType::boolean:
      break;
  }
  throw std::logic_error("a dtype that no call here makes");
}

class Calls {
 public:
  explicit Calls(const Options& options) : options_(options), random_(options.seed) {}

  /// Throws std::runtime_error at the first thing that isn't as it should be.
  void run() {
    const Clock clock(options_.seconds);
    pairs_.resize(kTensors);
    for (Pair& pair : pairs_) pair = make();
    while (clock.runs()) {
      for (int i = 0; i < 100; ++i) step();
    }
    look_at_all();
    std::printf("%lld calls\n", static_cast<long long>(calls_));
  }
  int64_t calls() const { return calls_; }
  const char* last() const { return last_; }

 private:
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  Pair& any() { return pairs_[static_cast<size_t>(below(kTensors))]; }
  Device device() {
    return options_.devices[static_cast<size_t>(below(static_cast<int64_t>(options_.devices.size())))];
  }

  static void require(bool holds, const std::string& what) {
    if (!holds) throw std::runtime_error(what);
  }
  static void compare(const Pair& pair) {
    require(pair.tensor.shape() == pair.plain.shape(),
            "shape " + pair.tensor.shape().str() + " instead of " + pair.plain.shape().str());
    require(values_of(pair.tensor) == pair.plain.values(), "other elements in " + pair.tensor.str());
  }
  void look_at_all() {
    last_ = "a look at all";
    for (const Pair& pair : pairs_) compare(pair);
  }

  template <class Expected, class Call>
  void refused(Call call) {
    try {
      call();
    } catch (const Expected&) {
      return;
    }
    throw std::runtime_error("no error where one is due");
  }

  Pair make() {
    Shape shape;
    for (int64_t rank = below(kMostRank + 1); rank > 0; --rank) {
      const int64_t size = below(12) == 0 ? 0 : 1 + below(7);
      if (shape.numel() * size <= kMostElements) shape.push_back(size);
    }
    std::vector<int> values(static_cast<size_t>(shape.numel()));
    for (int& value : values) value = static_cast<int>(below(128));
    const std::vector<int32_t> given(values.begin(), values.end());
    const Tensor tensor = Tensor::from(given, shape, device());
    return {tensor.to(kDTypes[below(std::size(kDTypes))]), PlainTensor::dense(shape, values)};
  }

  /// A copy with memory of its own, of the elements that `plain` shows now.
  static Pair dense(Tensor tensor, const PlainTensor& plain) {
    return {std::move(tensor), PlainTensor::dense(plain.shape(), plain.values())};
  }

  void step() {
    ++calls_;
    const Pair& from = any();
    Pair& to = any();
    const int64_t kind = below(20);
    if (kind < 8) {
      to = view(from);
    } else if (kind < 15) {
      write(from, to);
    } else if (kind < 19) {
      to = result(from);
    } else {
      last_ = "making";
      to = make();
    }
    compare(to);
    if (below(50) == 0) look_at_all();
  }

  Pair view(const Pair& from) {
    const Tensor& x = from.tensor;
    const PlainTensor& plain = from.plain;
    const int rank = x.rank();
    if (rank == 0 || below(8) == 0) return widened(from);
    const int64_t axis = below(rank), shown_axis = below(2) ? axis : axis - rank,
                  size = x.shape()[static_cast<int>(axis)];
    const int at = static_cast<int>(axis);
    const auto changed = [&](int64_t new_size) {
      Shape shape = x.shape();
      shape[at] = new_size;
      return shape;
    };
    switch (below(6)) {
      case 0: {
        last_ = "permute";
        Shape axes, shape;
        for (int i = 0; i < rank; ++i) axes.push_back(i);
        std::shuffle(axes.begin(), axes.end(), random_);
        for (const int64_t a : axes) shape.push_back(x.shape()[static_cast<int>(a)]);
        return {x.permute(axes), plain.view(shape, [&](const Shape& index) {
                  Shape source = index;
                  for (int i = 0; i < rank; ++i) source[static_cast<int>(axes[i])] = index[i];
                  return source;
                })};
      }
      case 1: {
        last_ = "slice";
        // As in Python: negative bounds count from the end, and those outside are moved inside.
        const int64_t start = below(2 * size + 5) - size - 2,
                      stop = below(3) == 0 ? Tensor::kEnd : below(2 * size + 5) - size - 2;
        const int64_t step = 1 + below(3);
        const auto inside = [size](int64_t bound) {
          return std::clamp<int64_t>(bound < 0 ? bound + size : bound, 0, size);
        };
        const int64_t first = inside(start), last = stop == Tensor::kEnd ? size : inside(stop);
        return {x.slice(shown_axis, start, stop, step),
                plain.view(changed(std::max<int64_t>(0, (last - first + step - 1) / step)), [&](Shape index) {
                  index[at] = first + index[at] * step;
                  return index;
                })};
      }
      case 2: {
        last_ = "select";
        if (size == 0 || below(10) == 0) {
          refused<IndexError>([&] { x.select(shown_axis, below(2) ? size : -size - 1); });
          return from;
        }
        const int64_t chosen = below(size);
        Shape shape = x.shape();
        shape.erase(at);
        return {x.select(shown_axis, below(2) ? chosen : chosen - size), plain.view(shape, [&](Shape index) {
                  index.insert(at, chosen);
                  return index;
                })};
      }
      case 3:
        last_ = "flip";
        return {x.flip(shown_axis), plain.view(x.shape(), [&](Shape index) {
                  index[at] = size - 1 - index[at];
                  return index;
                })};
      case 4: {
        last_ = "squeeze";
        if (size != 1) {
          refused<ShapeError>([&] { x.squeeze(shown_axis); });
          return from;
        }
        Shape shape = x.shape();
        shape.erase(at);
        return {x.squeeze(shown_axis), plain.reshaped(shape)};
      }
      default:
        return reshaped(from);
    }
  }

  Pair reshaped(const Pair& from) {
    last_ = "reshape";
    const int64_t count = from.tensor.numel();
    if (below(10) == 0) {
      refused<ShapeError>([&] { from.tensor.reshape({count + 1}); });
      return from;
    }
    Shape shape;
    int64_t rest = count;
    for (const int64_t factor : {7, 5, 3, 2}) {
      if (rest > 0 && rest % factor == 0 && shape.rank() + 1 < kMostRank && below(2)) {
        shape.push_back(factor);
        rest /= factor;
      }
    }
    shape.push_back(rest);
    Shape asked = shape;
    if (count > 0 && below(3) == 0) asked[static_cast<int>(below(asked.rank()))] = -1;
    const Tensor y = from.tensor.reshape(asked);
    // A copy where strides force one, else a view: which one is seen by its memory.
    if (y.storage() == from.tensor.storage()) return {y, from.plain.reshaped(shape)};
    return dense(y, from.plain.reshaped(shape));
  }

  /// More axes, or longer ones.
  Pair widened(const Pair& from) {
    const Shape& before = from.tensor.shape();
    Shape shape = before;
    if (shape.rank() < kMostRank && below(2)) {
      last_ = "unsqueeze";
      const int at = static_cast<int>(below(shape.rank() + 1));
      shape.insert(at, 1);
      return {from.tensor.unsqueeze(at), from.plain.reshaped(shape)};
    }
    last_ = "broadcast_to";
    const int lead = shape.rank() < kMostRank ? static_cast<int>(below(2)) : 0;
    if (lead) shape.insert(0, 1 + below(3));
    for (int i = 0; i < before.rank(); ++i) {
      if (before[i] == 1) shape[lead + i] = 1 + below(3);
    }
    if (shape.numel() > kMostElements) return from;
    return {from.tensor.broadcast_to(shape), from.plain.view(shape, [&](const Shape& index) {
              Shape source = before;
              for (int i = 0; i < before.rank(); ++i) source[i] = before[i] == 1 ? 0 : index[lead + i];
              return source;
            })};
  }

  void write(const Pair& from, Pair& to) {
    const bool cant = to.plain.repeats_itself();
    const auto perform = [&](const auto& call, const auto& model) {
      if (cant) return refused<ValueError>(call);
      const uint64_t version = to.tensor.version();
      call();
      model();
      require(to.tensor.numel() == 0 || to.tensor.version() > version, "the version is the old one");
    };
    if (below(3) == 0) {
      last_ = "fill_";
      const int value = static_cast<int>(below(128));
      return perform([&] { to.tensor.fill_(value); }, [&] { to.plain.fill(value); });
    }
    last_ = "copy_";
    // A source of the same shape: the other tensor, cut and spread to fit; itself turned round, which overlaps; or new.
    Pair source = to;
    if (to.tensor.rank() > 0 && below(2)) {
      const int axis = static_cast<int>(below(to.tensor.rank()));
      const int64_t last = to.tensor.shape()[axis] - 1;
      source = {to.tensor.flip(axis), to.plain.view(to.plain.shape(), [&](Shape index) {
                  index[axis] = last - index[axis];
                  return index;
                })};
    } else if (from.tensor.numel() == to.tensor.numel()) {
      source = {from.tensor.reshape(to.tensor.shape()), from.plain.reshaped(to.plain.shape())};
    } else if (below(4) == 0) {
      if (from.tensor.shape() == to.tensor.shape()) return;
      return refused<ShapeError>([&] { to.tensor.copy_(from.tensor); });
    } else {
      std::vector<int> values(static_cast<size_t>(to.tensor.numel()));
      for (int& value : values) value = static_cast<int>(below(128));
      const std::vector<int32_t> given(values.begin(), values.end());
      source = {Tensor::from(given, to.tensor.shape(), device()), PlainTensor::dense(to.tensor.shape(), values)};
    }
    if (source.tensor.dtype() != to.tensor.dtype()) {
      if (below(4) == 0) return refused<DTypeError>([&] { to.tensor.copy_(source.tensor); });
      source.tensor = source.tensor.to(to.tensor.dtype());
    }
    perform([&] { to.tensor.copy_(source.tensor); }, [&] { to.plain.copy(source.plain); });
  }

  /// Copies, casts, moves and reductions: new memory, mostly.
  Pair result(const Pair& from) {
    const Tensor& x = from.tensor;
    switch (below(6)) {
      case 0:
        last_ = "clone";
        return dense(x.clone(), from.plain);
      case 1: {
        last_ = "contiguous";
        const Tensor y = x.contiguous();
        require(y.is_contiguous(), "a dense copy isn't dense");
        if (y.storage() == x.storage()) return {y, from.plain};
        return dense(y, from.plain);
      }
      case 2: {
        last_ = "to(device)";
        const Tensor y = x.to(device());
        return y.storage() == x.storage() ? Pair{y, from.plain} : dense(y, from.plain);
      }
      case 3: {
        last_ = "to(dtype)";
        const Tensor y = x.to(kDTypes[below(std::size(kDTypes))]);
        return y.storage() == x.storage() ? Pair{y, from.plain} : dense(y, from.plain);
      }
      case 4: {
        last_ = "sum";
        const std::vector<int> values = from.plain.values();
        double expected = 0;
        for (const int value : values) expected += value;
        require(sum(x.to(DType::f32)).item() == expected, "another sum of " + x.str());
        return from;
      }
      default: {
        last_ = "max";
        if (x.numel() == 0) {
          refused<ShapeError>([&] { max(x.to(DType::f32)); });
          return from;
        }
        const std::vector<int> values = from.plain.values();
        require(max(x.to(DType::f32)).item() == *std::ranges::max_element(values), "another maximum of " + x.str());
        return from;
      }
    }
  }

  const Options& options_;
  std::mt19937_64 random_;
  std::vector<Pair> pairs_;
  int64_t calls_ = 0;
  const char* last_ = "";
};

}  // namespace
}  // namespace ashlar::fuzz

int main(int count, char** arguments) {
  const auto options = ashlar::fuzz::Options::parse(count, arguments, "Random calls of Tensor against a plain model");
  ashlar::fuzz::Calls calls(options);
  try {
    calls.run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "call %lld (%s), --seed %llu: %s\n", static_cast<long long>(calls.calls()), calls.last(),
                 static_cast<unsigned long long>(options.seed), error.what());
    return 1;
  }
}
