// Family: every output element depends on the input elements at its own index, over dense rank-1 tensors.
#pragma once

#include "dsl/kernel.h"

namespace ashlar::dsl {

/// `stages` are intermediates at the same index, held in registers. A kernel that writes over its inputs needs them:
/// all loads of an element then come before its first store.
using Intermediates = std::vector<Stage*>;

/// What a tuner may vary on GPUs: threads of a block, and vectors of each, a block's threads apart (of one tensor on
/// CUDA twice as many). A kernel that has one as a member gives it to elementwise().
struct ElementwiseTunables {
  Tunable<int> threads{"threads", {128, 256, 512}, On::gpu}, vectors{"vectors", {1, 2, 4}, On::gpu};

  ElementwiseTunables() {
    space_rule("OpenCL: a work-group has at most 256 threads",
               [this] { return !Descriptor::target.has_feature(Halide::Target::OpenCL) || threads.value() <= 256; });
  }
};

/// The i-th element, row by row, of an operator's only tensor, which is declared strided: Form::pointwise brings a
/// GPU's view into rows and columns of any strides, and gives the CPU one dense row.
template <ElementType T>
Value element_of(const In<T, 2>& x, const Var& i) {
  if (!on_gpu()) return x(0, i);
  const Expr row = i / x.extent(1), column = i % x.extent(1);
  return x(row, column);
}

/// Vectors, in parallel chunks of 16384 elements.
void elementwise(Cpu, Halide::Func out, const Var& i, const Intermediates& stages = {},
                 const ElementwiseTunables* tunables = nullptr);
/// 16-byte accesses where every tensor is dense and starts at a multiple of it, else four elements of a thread, a block
/// apart, as also where one tensor of 32 bits has too few for threads of two vectors. A thread for each
/// element where there are few of 16 bits, since it would fetch the code of eight one after the other, and for views.
/// With stages a thread has one vector.
void elementwise(OpenCL, Halide::Func out, const Var& i, const Intermediates& stages = {},
                 const ElementwiseTunables* tunables = nullptr);
void elementwise(Cuda, Halide::Func out, const Var& i, const Intermediates& stages = {},
                 const ElementwiseTunables* tunables = nullptr);

}  // namespace ashlar::dsl
