// Kernels with one mistake each in their schedule, or that generic() can't schedule (see algorithms.cpp).
#include "schedules/generic.h"

namespace ashlar::dsl {

template <class Derived, ElementType T>
class Row : public Kernel<Derived> {
 public:
  In<T, 1> x{"x"};
  Out<T, 1> y{"y", shape_of(x)};

 protected:
  Row() { this->formula("y[i] = x[i] - …"); }
  Axis k;
  Stage total{"total"};
  Var i{"i"};
};

template <ElementType T>
struct ReadBeyond : Row<ReadBeyond<T>, T> {
  void algorithm() { this->y(this->i) = this->x(Value(this->i) + 1) - this->x(this->i); }
  void schedule(auto target) { generic(target, this->y); }
};

// One total for all elements has no place in their loops, and nothing is allocated on a GPU.
template <ElementType T>
struct TotalOfAll : Row<TotalOfAll<T>, T> {
  void algorithm() {
    this->k = this->x.reduce(0);
    this->total() = sum(this->k, this->x(this->k));
    this->y(this->i) = this->x(this->i) - this->total();
  }
  void schedule(auto target) { generic(target, this->y); }
};

template <ElementType T>
struct UnscheduledUpdate : Row<UnscheduledUpdate<T>, T> {
  void algorithm() {
    this->y(this->i) = this->x(this->i);
    this->y(this->i) = Value(this->y(this->i)) * 2.0;
  }
  void schedule(Cpu) { this->y.func().vectorize(this->i, 8); }
  void schedule(auto) {
    Var block("block"), thread("thread");
    this->y.func().gpu_tile(this->i, block, thread, 64, Halide::TailStrategy::GuardWithIf);
  }
};

template <ElementType T>
struct StageByItself : Row<StageByItself<T>, T> {
  void algorithm() {
    this->total(this->i) = this->x(this->i) * 2.0;
    this->y(this->i) = this->x(this->i) - this->total(this->i);
  }
  void schedule(auto target) {
    generic(target, this->y);
    this->total.func().compute_root().vectorize(this->i, 8);
  }
};

// A scan by generic() without memory for the states of its blocks.
template <ElementType T>
class ScanWithoutScratch : public Kernel<ScanWithoutScratch<T>> {
 public:
  In<T, 2> x{"x"};
  Out<T, 2> y{"y", shape_of(x)};
  ScanWithoutScratch() { this->formula("y[r,c] = Σ_{k <= c} x[r,k]"); }
  void algorithm() {
    k = x.reduce(1);
    const auto plus = [](const Values& a, const Values& b) { return Values{a[0] + b[0]}; };
    running(r, k) = scan(k, {x(r, k)}, {.init = {0.0}, .step = plus, .merge = plus});
    y(r, c) = running(r, c);
  }
  void schedule(auto target) { generic(target, y); }

 private:
  Axis k;
  Stage running{"running"};
  Var r{"r"}, c{"c"};
};

// A scan by generic() that is read elsewhere than at the output's own indices.
template <ElementType T>
class ScanReadBefore : public Kernel<ScanReadBefore<T>> {
 public:
  In<T, 2> x{"x"};
  Out<T, 2> y{"y", shape_of(x)};
  ScanScratch states{x.size(0), x.size(1)};
  ScanReadBefore() { this->formula("y[r,c] = Σ_{k < c} x[r,k]"); }
  void algorithm() {
    k = x.reduce(1);
    const auto plus = [](const Values& a, const Values& b) { return Values{a[0] + b[0]}; };
    running(r, k) = states.scan(k, {x(r, k)}, {.init = {0.0}, .step = plus, .merge = plus});
    y(r, c) = select(Value(c) > 0, running(r, max(Value(c) - 1, 0)), 0.0);
  }
  void schedule(auto target) { generic(target, y); }

 private:
  Axis k;
  Stage running{"running"};
  Var r{"r"}, c{"c"};
};

// A scan of two values whose memory is for one.
template <ElementType T>
class ScanOfTwo : public Kernel<ScanOfTwo<T>> {
 public:
  In<T, 2> x{"x"};
  Out<T, 2> y{"y", shape_of(x)};
  ScanScratch states{x.size(0), x.size(1)};
  ScanOfTwo() { this->formula("y[r,c] = Σ_{k <= c} x[r,k] (1 + x[r,k])"); }
  void algorithm() {
    k = x.reduce(1);
    const auto plus = [](const Values& a, const Values& b) { return Values{a[0] + b[0], a[1] + b[1]}; };
    running(r, k) = states.scan(k, {x(r, k), square(x(r, k))}, {.init = {0.0, 0.0}, .step = plus, .merge = plus});
    y(r, c) = running(r, c)[0] + running(r, c)[1];
  }
  void schedule(auto target) { generic(target, y); }

 private:
  Axis k;
  Stage running{"running"};
  Var r{"r"}, c{"c"};
};

namespace {
const bool registered =
    register_kernel<ReadBeyond, f32>("read_beyond") && register_kernel<TotalOfAll, f32>("total_of_all") &&
    register_kernel<ScanWithoutScratch, f32>("scan_without_scratch") &&
    register_kernel<ScanReadBefore, f32>("scan_read_before") && register_kernel<ScanOfTwo, f32>("scan_of_two") &&
    register_kernel<UnscheduledUpdate, f32>("unscheduled_update") &&
    register_kernel<StageByItself, f32>("stage_by_itself");
}

}  // namespace ashlar::dsl
