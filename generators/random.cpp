// Random numbers made where they are needed, of a state that lies on the device: a graph goes on with new ones. A block
// of Philox 4×32-10 (the counter state[1] + b under the key state[0]) is four words, of which a distribution makes one
// or two numbers each.
#include "dsl/functions.h"
#include "dsl/functions/parts.h"
#include "dsl/functions/philox.h"
#include "schedules/elementwise.h"
#include "schedules/lowering/accesses.h"
#include "schedules/lowering/index_arithmetic.h"
#include "schedules/lowering/rewrite.h"

namespace ashlar::dsl {
namespace {

/// One of a stage's values: what index i has, of blocks of `count`.
Value in_block(const Halide::Func& blocks, const Var& i, int count) {
  const Value at = Value(i) % count;
  Value chosen = Value(blocks(i / count)[count - 1]);
  for (int k = count - 2; k >= 0; k--) chosen = select(at == k, Value(blocks(i / count)[k]), chosen);
  return chosen;
}

/// A vector of blocks, or one of a thread: `y` has `count` elements of each. `aligned`: vectors may be accessed.
void by_blocks(Cpu, Halide::Func y, Halide::Func blocks, const Var& i, int count, const Expr&) {
  Var task("task"), chunk("chunk"), b = blocks.args()[0];
  const int lanes = Descriptor::target.natural_vector_size<uint32_t>();
  y.split(i, chunk, i, count * lanes, Halide::TailStrategy::GuardWithIf)
      .split(chunk, task, chunk, 512, Halide::TailStrategy::GuardWithIf)
      .parallel(task);
  y.vectorize(i);
  blocks.compute_at(y, chunk).vectorize(b);
}
void by_blocks(auto, Halide::Func y, Halide::Func blocks, const Var& i, int count, const Expr& aligned) {
  Var block("block"), thread("thread"), lane("lane"), b = blocks.args()[0];
  constexpr int kThreads = 128;
  vector_accesses();
  index_arithmetic();
  const auto nest = [&](auto&& stage) -> Halide::Stage {
    return stage.split(i, block, thread, kThreads * count, Halide::TailStrategy::GuardWithIf)
        .split(thread, thread, lane, count)
        .gpu_blocks(block)
        .gpu_threads(thread);
  };
  if (!Halide::Internal::is_const_one(aligned)) nest(y.specialize(aligned)).vectorize(lane);
  nest(y);
  if (Halide::Internal::is_const_one(aligned) && y.type().bits() <= 32) {
    y.vectorize(lane);
  } else {
    y.unroll(lane);
  }
  blocks.compute_at(y, thread).bound_storage(b, 1);
}

}  // namespace

/// y[n b + k] = number k of block first_block + b, by a distribution D: its parameters are Scalars of the struct.
template <class D>
struct Philox {
  template <ElementType T>
  class Draw : public Kernel<Draw<T>> {
   public:
    In<i64, 1> state{"state", {constant(2)}};
    Scalar<int64_t> first_block{"first_block"};
    D distribution;
    Out<T, 1> y{"y", {any_size}};

    Draw() { this->formula(D::formula).form(Form::movement).internal().widest_on_cpu(CodeTarget::cpu_avx2); }
    void algorithm() {
      const auto numbers =
          distribution.of_block(words_of_block(state(0), state(1) + first_block + cast<i64>(Value(b))));
      std::vector<Expr> exprs;
      for (const Value& number : numbers) exprs.push_back(number.expr());
      count = static_cast<int>(exprs.size());
      blocks(b) = Halide::Tuple(exprs);
      y(i) = in_block(blocks, i, count);
    }
    void schedule(auto target) { by_blocks(target, y.func(), blocks, i, count, Halide::Internal::const_true()); }

   private:
    int count = 0;
    Halide::Func blocks{"blocks"};
    Var i{"i"}, b{"b"};
  };
};

// A multiple of 2^-24 in [0, 1), k = k₁ 2^-12 + k₀ 2^-24, times a range c + f, where c, f, k₁ and k₀ have twelve
// digits: products without rounding, which it doesn't matter to whether they are fused with the sums. So the same on
// every target.
struct UniformNumbers {
  static constexpr const char* formula = "y = low + (coarse + fine) k, k of 24 random bits in [0, 1), at most top";
  Scalar<float> low{"low"}, coarse{"coarse"}, fine{"fine"}, top{"top"};
  std::array<Value, 4> of_block(const Words4& words) const {
    std::array<Value, 4> numbers{Value(0.0), Value(0.0), Value(0.0), Value(0.0)};
    for (size_t w = 0; w < 4; w++) {
      const Expr upper = (to_float(bit_cast<i32>(words[w] >> 20)) * 0x1p-12).expr();
      const Expr lower = (to_float(bit_cast<i32>((words[w] >> 8) & cast<u32>(0xfffu))) * 0x1p-24).expr();
      const Expr c = Value(coarse).expr(), f = Value(fine).expr();
      const Expr rest = parts::add(parts::add(parts::mul(f, lower), parts::mul(c, lower)), parts::mul(f, upper));
      const Expr sum = parts::add(parts::add(rest, parts::mul(c, upper)), Value(low).expr());
      numbers[w] = Value(Halide::select(parts::less(Value(top).expr(), sum), Value(top).expr(), sum));
    }
    return numbers;
  }
};

// (k + ½) 2^-31 in (0, 1), k of 31 random bits
Value inside_of_one(const Value& word) { return (to_float(bit_cast<i32>(word >> 1)) + 0.5) * 0x1p-31; }

// √(-2 ln u) (cos, sin)(π/2 (q + f)) of u in (0, 1), two bits q and f in [-½, ½) (Box and Muller 1958). Sine and cosine
// fitted for |f| <= ½ with the least error: 4e-8.
struct NormalNumbers {
  static constexpr const char* formula = "y = mean + std sqrt(-2 ln u) (cos, sin)(2 pi v), u, v of random words";
  Scalar<float> mean{"mean"}, std{"std"};
  std::array<Value, 4> of_block(const Words4& words) const {
    const auto [a, b] = pair(words[0], words[1]);
    const auto [c, d] = pair(words[2], words[3]);
    return {scaled(a), scaled(b), scaled(c), scaled(d)};
  }

 private:
  Value scaled(const Value& z) const { return Value(mean) + Value(std) * z; }
  static std::array<Value, 2> pair(const Value& first, const Value& second) {
    constexpr float kSine[] = {1.57079637f, -0.645964086f, 0.0796925798f, -0.00468126079f, 0.000158195078f};
    constexpr float kCosine[] = {1.0f, -1.23370051f, 0.253669173f, -0.0208599363f, 0.00090336299f};
    const Value radius = sqrt(log(inside_of_one(first)) * -2.0);
    const Value f = to_float(bit_cast<i32>(second << 2)) * 0x1p-32, q = second >> 30;
    const Value sine = f * Value(parts::polynomial((f * f).expr(), kSine));
    const Value cosine = Value(parts::polynomial((f * f).expr(), kCosine));
    const Value is_odd = (q & cast<u32>(1u)) != cast<u32>(0u), is_left = q == cast<u32>(1u) || q == cast<u32>(2u),
                is_below = q >= cast<u32>(2u);
    const Value x = select(is_odd, sine, cosine), y = select(is_odd, cosine, sine);
    return {radius * select(is_left, 0.0 - x, x), radius * select(is_below, 0.0 - y, y)};
  }
};

// The normal distribution between two bounds, by its inverse: from a number in [low, high] within (-1, 1)
// √2 erf⁻¹. erf⁻¹(x) = x P(w), w = -ln(1 - x²), or of √w where w >= 5 (Giles 2012 has the form; fitted anew: 1e-7).
struct TruncatedNumbers {
  static constexpr const char* formula = "y = mean + std sqrt(2) erfinv(low + range u), within [least, most]";
  Scalar<float> mean{"mean"}, std{"std"}, low{"low"}, range{"range"}, least{"least"}, most{"most"};
  std::array<Value, 4> of_block(const Words4& words) const {
    return {number(words[0]), number(words[1]), number(words[2]), number(words[3])};
  }

 private:
  Value number(const Value& word) const {
    constexpr float kNear[] = {1.50140941f,     0.246640727f,    -0.00417770771f, -0.00125370757f, 0.000218602188f,
                               -4.39678115e-6f, -3.52885946e-6f, 3.43727067e-7f,  2.85347905e-8f};
    constexpr float kFar[] = {2.83297706f,     1.00167465f,    0.00943154376f, -0.00763394451f, 0.00578686176f,
                              -0.00362936337f, 0.00124740822f, 5.67988791e-5f, -0.000127513504f};
    constexpr double kNearest = 0.99999994;  // to 1
    const Value x = clamp(Value(low) + Value(range) * inside_of_one(word), -kNearest, kNearest);
    const Value w = 0.0 - log((1.0 - x) * (1.0 + x));
    const Value near = Value(parts::polynomial((min(w, 5.0) - 2.5).expr(), kNear));
    const Value far = Value(parts::polynomial((sqrt(max(w, 5.0)) - 3.0).expr(), kFar));
    const Value z = x * select(w < 5.0, near, far) * 1.4142135623730951;
    return clamp(Value(mean) + Value(std) * z, Value(least), Value(most));
  }
};

// low + ⌊count r / 2^64⌋ of 64 random bits r: as likely as each other to count 2^-64
struct IntegerNumbers {
  static constexpr const char* formula = "y = low + floor(count r / 2^64), r of two random words";
  Scalar<int64_t> low{"low"}, count{"count"};
  std::array<Value, 2> of_block(const Words4& words) const {
    return {number(words[0], words[1]), number(words[2], words[3])};
  }

 private:
  Value number(const Value& lower, const Value& upper) const {
    const auto wide = [](const Expr& x) { return Halide::cast<uint64_t>(x); };
    const Expr n = Halide::reinterpret<uint64_t>(Value(count).expr()), mask = wide(Expr(0xffffffffu));
    const Expr n0 = n & mask, n1 = n >> 32, r0 = wide(lower.expr()), r1 = wide(upper.expr());
    const Expr crossed = r1 * n0, other = r0 * n1;
    const Expr middle = (r0 * n0 >> 32) + (crossed & mask) + (other & mask);
    const Expr product = r1 * n1 + (crossed >> 32) + (other >> 32) + (middle >> 32);
    return Value(Value(low).expr() + Halide::reinterpret<int64_t>(product));
  }
};

// y[4b + w] = x[4b + w] scale where the upper 24 bits of word w of block b are at least `threshold`, else 0
template <ElementType T>
class PhiloxDropout : public Kernel<PhiloxDropout<T>> {
 public:
  In<i64, 1> state{"state", {constant(2)}};
  In<T, 1> x{"x"};
  Scalar<int64_t> first_block{"first_block"};
  Scalar<int32_t> threshold{"threshold"};
  Scalar<float> scale{"scale"};
  Out<T, 1> y{"y", shape_of(x)};

  PhiloxDropout() {
    this->formula("y[4b + w] = scale x[4b + w] where 24 bits of word w of block b are at least threshold, else 0");
    this->form(Form::movement).internal().widest_on_cpu(CodeTarget::cpu_avx2);
  }
  void algorithm() {
    const Words4 words = words_of_block(state(0), state(1) + first_block + cast<i64>(Value(b)));
    std::vector<Expr> kept;
    for (const Value& word : words) kept.push_back((bit_cast<i32>(word >> 8) >= threshold).expr());
    for (Expr& keeps : kept) keeps = Halide::cast<uint32_t>(keeps);
    blocks(b) = Halide::Tuple(kept);
    y(i) = select(in_block(blocks, i, 4) != cast<u32>(0u), x(i) * scale, 0.0);
  }
  void schedule(auto target) {
    Expr aligned = Halide::Internal::const_true();
    for (const Halide::Parameter& input : inputs_of(y.func())) {
      if (input.name() == "x") aligned = Halide::Internal::simplify(hidden_min(input) % 4 == 0);
    }
    by_blocks(target, y.func(), blocks, i, 4, aligned);
  }

 private:
  Halide::Func blocks{"blocks"};
  Var i{"i"}, b{"b"};
};

// state[1] += blocks, in place
template <ElementType T>
class PhiloxAdvance : public Kernel<PhiloxAdvance<T>> {
 public:
  In<T, 1> state{"state"};
  Scalar<int64_t> blocks{"blocks"};
  OutTuple<1, T> advanced{"advanced", {{{"new_state", "state"}}}, shape_of(state)};

  PhiloxAdvance() {
    this->formula("state[1] += blocks").form(Form::movement).internal().widest_on_cpu(CodeTarget::cpu);
  }
  void algorithm() { advanced.define({i}, {state(i) + select(Value(i) == 1, blocks, cast<T>(0))}); }
  void schedule(auto target) { elementwise(target, advanced.func(), i); }

 private:
  Var i{"i"};
};

const bool registered_kernels = register_kernel<Philox<UniformNumbers>::Draw, f32>("philox_uniform") &&
                                register_kernel<Philox<NormalNumbers>::Draw, f32>("philox_normal") &&
                                register_kernel<Philox<TruncatedNumbers>::Draw, f32>("philox_truncated") &&
                                register_kernel<Philox<IntegerNumbers>::Draw, i64>("philox_integers") &&
                                register_kernel<PhiloxDropout, f32, f16, bf16>("philox_dropout") &&
                                register_kernel<PhiloxAdvance, i64>("philox_advance");

// ---- operators: `state` is philox_state()'s and is advanced, but for dropout_at's

const std::vector<OperatorTensor> kState{{"state", DType::i64}};
const std::vector<OperatorOption> kShape{{"shape", FormOption::Kind::integers}};

/// By the numbers that come next in the stream, of dropout_at and what advances it.
bool add_dropout(const std::string& name, const std::string& formula) {
  return register_operator({.name = name,
                            .formula = name + "(x, state, p) = " + formula +
                                       ", by the numbers that come next in the stream of state, which goes on",
                            .dtypes = {DType::f32, DType::f16, DType::bf16},
                            .inputs = {{"x"}, {"state", DType::i64}},
                            .scalars = {{"p", DType::f64, "0.5"}},
                            .outputs = {{"y"}},
                            .calls = {"philox_dropout", "philox_advance", "mul", "where", "lt", "affine", "fill"},
                            .composed = "operators/composed/dropout.h"});
}

const bool registered =
    register_operator({.name = "uniform",
                       .formula = "uniform(state, low, high, shape) = numbers in [low, high), of 24 random bits each",
                       .dtypes = {DType::f32},
                       .inputs = kState,
                       .scalars = {{"low"}, {"high"}},
                       .options = kShape,
                       .outputs = {{"y"}},
                       .calls = {"philox_uniform", "philox_advance"}}) &&
    register_operator({.name = "normal",
                       .formula = "normal(state, mean, std, shape) = normally distributed numbers",
                       .dtypes = {DType::f32},
                       .inputs = kState,
                       .scalars = {{"mean"}, {"std"}},
                       .options = kShape,
                       .outputs = {{"y"}},
                       .calls = {"philox_normal", "philox_advance"}}) &&
    register_operator({.name = "trunc_normal",
                       .formula = "trunc_normal(state, mean, std, a, b, shape) = normally distributed numbers among "
                                  "those in [a, b]",
                       .dtypes = {DType::f32},
                       .inputs = kState,
                       .scalars = {{"mean"}, {"std"}, {"a"}, {"b"}},
                       .options = kShape,
                       .outputs = {{"y"}},
                       .calls = {"philox_truncated", "philox_advance"}}) &&
    register_operator({.name = "randint",
                       .formula = "randint(state, low, high, shape) = integers in [low, high), all as likely",
                       .dtypes = {DType::i64},
                       .inputs = kState,
                       .scalars = {{"low", DType::i64}, {"high", DType::i64}},
                       .options = kShape,
                       .outputs = {{"y", DType::i64}},
                       .calls = {"philox_integers", "philox_advance"}}) &&
    register_operator({.name = "randperm",
                       .formula = "randperm(state, n) = 0 to n - 1 in random order",
                       .dtypes = {DType::i64},
                       .inputs = kState,
                       .scalars = {{"n", DType::i64}},
                       .outputs = {{"y", DType::i64}},
                       .calls = {"philox_integers", "philox_advance", "argsort"}}) &&
    register_operator({.name = "bernoulli",
                       .formula = "bernoulli(state, p)[i] = 1 with probability p[i], else 0",
                       .dtypes = {DType::f32, DType::f16, DType::bf16},
                       .inputs = {{"state", DType::i64}, {"p"}},
                       .outputs = {{"y"}},
                       .calls = {"philox_uniform", "philox_advance", "lt", "cast"},
                       .gradients = {{"p", kZeroGradient, {}}}}) &&
    register_operator({.name = "dropout_at",
                       .formula = "dropout_at(x, state, p)[i] = x[i] / (1 - p) where number i of the stream, which "
                                  "stays where it is, is at least p, else 0",
                       .dtypes = {DType::f32, DType::f16, DType::bf16},
                       .inputs = {{"x"}, {"state", DType::i64}},
                       .scalars = {{"p", DType::f64}},
                       .outputs = {{"y"}},
                       .calls = {"philox_dropout"},
                       .gradients = {{"x", "dropout_at(dy, state, p)", {}}}}) &&
    add_dropout("dropout", "x[i] with probability p 0, else x[i] / (1 - p)") &&
    add_dropout("feature_dropout", "dropout of whole channels of x [n, c, …]") &&
    add_dropout("alpha_dropout",
                "x[i], with probability p SELU's least value, then scaled and shifted so that a mean of 0 and a "
                "variance of 1 stay; with p = 1 0") &&
    add_dropout("feature_alpha_dropout", "alpha_dropout of whole channels of x [n, c, …]") &&
    register_operator({.name = "rrelu",
                       .formula = "rrelu(x, state, lower, upper)[i] = x[i], where it is at most 0 a x[i], a drawn for "
                                  "each element in [lower, upper) by the numbers that come next in the stream of "
                                  "state, which goes on (Xu et al. 2015)",
                       .dtypes = {DType::f32, DType::f16, DType::bf16},
                       .inputs = {{"x"}, {"state", DType::i64}},
                       .scalars = {{"lower", DType::f64, "1.0 / 8"}, {"upper", DType::f64, "1.0 / 3"}},
                       .outputs = {{"y"}},
                       .calls = {"philox_uniform", "philox_advance", "mul", "where", "le", "fill"},
                       .composed = "operators/composed/dropout.h"});

}  // namespace ashlar::dsl
