// Random numbers made where they are needed, of a state that lies on the device: a graph goes on with new ones.
#include "dsl/functions/philox.h"
#include "schedules/elementwise.h"

namespace ashlar::dsl {

// y[4b + w] = word w of Philox 4×32-10 of the counter state[1] + first_block + b under the key state[0], as a number in
// [0, 1)
template <ElementType T>
class PhiloxUniform : public Kernel<PhiloxUniform<T>> {
 public:
  In<i64, 1> state{"state", {constant(2)}};
  Scalar<int64_t> first_block{"first_block"};
  Out<T, 1> y{"y", {any_size}};

  PhiloxUniform() {
    this->formula(
        "y[4b + w] = word w of Philox 4x32-10 of counter state[1] + first_block + b and key state[0], in [0, 1)");
    this->form(Form::movement).internal().widest_on_cpu(CodeTarget::cpu_avx2);
  }
  void algorithm() {
    const auto words = [](const Value& x) { return Words2{cast<u32>(x), cast<u32>(x >> 32)}; };
    const Words2 counter = words(state(1) + first_block + cast<i64>(Value(b))), key = words(state(0));
    const Value none = cast<u32>(0u);
    const Words4 random = philox4x32({counter[0], counter[1], none, none}, key);
    block_words(b) = Halide::Tuple(random[0], random[1], random[2], random[3]);
    const Value word = Value(i) & 3;
    const auto at = [this](int w) { return Value(block_words(i / 4)[w]); };
    y(i) = uniform_from_bits(select(word == 0, at(0), select(word == 1, at(1), select(word == 2, at(2), at(3)))));
  }
  // A vector of blocks, or one of a thread: each gives four numbers.
  void schedule(Cpu) {
    Var task("task"), chunk("chunk");
    const int blocks = Descriptor::target.natural_vector_size<uint32_t>();
    y.func()
        .split(i, chunk, i, 4 * blocks, Halide::TailStrategy::GuardWithIf)
        .split(chunk, task, chunk, 512, Halide::TailStrategy::GuardWithIf)
        .parallel(task);
    y.func().vectorize(i);
    block_words.compute_at(y.func(), chunk).vectorize(b);
  }
  void schedule(OpenCL) { by_threads(); }
  void schedule(Cuda) { by_threads(); }

 private:
  void by_threads() {
    Var block("block"), thread("thread"), word("word");
    y.func()
        .split(i, thread, word, 4, Halide::TailStrategy::GuardWithIf)
        .split(thread, block, thread, 128, Halide::TailStrategy::GuardWithIf)
        .unroll(word)
        .gpu_blocks(block)
        .gpu_threads(thread);
    block_words.compute_at(y.func(), thread).bound_storage(b, 1);
  }
  Halide::Func block_words{"block_words"};
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

const bool registered =
    register_kernel<PhiloxUniform, f32>("philox_uniform") && register_kernel<PhiloxAdvance, i64>("philox_advance");

}  // namespace ashlar::dsl
