// What a file pays that only handles tensors: tensor.h brings no streams. This one includes nothing else.
#include "runtime/tensor/tensor.h"

#if defined(_GLIBCXX_IOSTREAM) || defined(_GLIBCXX_SSTREAM) || defined(_GLIBCXX_FSTREAM)
#error "runtime/tensor/tensor.h includes a stream's header; <iosfwd> is enough for operator<<"
#endif
#if defined(_GLIBCXX_FUNCTIONAL) || defined(_GLIBCXX_RANDOM) || defined(_GLIBCXX_UNORDERED_MAP)
#error "runtime/tensor/tensor.h includes more of the standard library than it declares"
#endif

// Members that compute are reached without the header of the operators.
ashlar::Tensor mean_of_squares(const ashlar::Tensor& x);
ashlar::Tensor mean_of_squares(const ashlar::Tensor& x) {
  const ashlar::Tensor squares = x.clone();
  squares *= x;
  return squares.mean();
}
