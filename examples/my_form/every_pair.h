// A form: every row of a with every row of b. a[…, k] and b[…, k] of any ranks become [rows, k] each, and the kernel's
// [rows of a, rows of b] the sizes of a before `axis` and then those of b.
#pragma once

#include "runtime/forms/check.h"
#include "runtime/launch/form.h"
#include "runtime/launch/launch.h"

struct EveryPair : ashlar::FormDefaults {
  // What the build writes functions from: f(a, b, axis = -1).
  static constexpr ashlar::FormOption options[] = {{"axis", ashlar::FormOption::Kind::integer, -1}};
  static constexpr ashlar::FormSignature signature{.name = "every_pair",
                                                   .type = "EveryPair",
                                                   .header = "every_pair.h",
                                                   .options = options,
                                                   .sizes = {"rows_a", "rows_b", "columns"}};

  // What the functions do.
  static std::vector<ashlar::Tensor> call(const ashlar::KernelInfo& kernel, const ashlar::FormCall& call) {
    using namespace ashlar;
    const KernelKey key = forms::key_of(kernel, call);
    Shape shape;
    std::vector<Tensor> rows;
    for (int i = 0; i < 2; i++) {
      const Tensor& x = call.inputs[static_cast<size_t>(i)];
      const Tensor columns_last = x.transpose(normalize_axis(kernel.name, call.integer(0), x.rank()), -1);
      Shape sizes = columns_last.shape();
      const int64_t columns = sizes.back();
      sizes.erase(sizes.rank() - 1);
      for (const int64_t size : sizes) shape.push_back(size);
      rows.push_back(forms::as_declared(kernel, i, columns_last, {sizes.numel(), columns}));
    }
    if (rows[0].size(1) != rows[1].size(1)) {
      throw forms::shape_error(kernel, call.inputs, "as many columns in a as in b", "Use slice() or transpose()");
    }
    const DType dtype = forms::dtype_in(forms::argument_of(kernel, Argument::Role::output, 0), key);
    const Tensor y = Tensor::empty({rows[0].size(0), rows[1].size(0)}, dtype, rows[0].device());
    if (rows[0].size(1) == 0) throw forms::shape_error(kernel, call.inputs, "at least one column", "Skip the call");
    launch(kernel, key, rows, call.scalars, std::span(&y, 1));
    return {y.reshape(shape)};
  }

  // What the tuner calls it with, and by which sizes its tables know a call.
  static ashlar::CanonicalSizes sizes(std::span<const ashlar::Tensor> inputs, std::span<const ashlar::Tensor>) {
    return {inputs[0].size(0), inputs[1].size(0), inputs[0].size(1), 1};
  }
  static std::vector<ashlar::FormSample> samples(const ashlar::KernelInfo&, ashlar::KernelKey,
                                                 std::span<const int64_t> sizes) {
    return {{{{sizes[0], sizes[2]}, {sizes[1], sizes[2]}}, default_options(signature)}};
  }
  static std::vector<std::vector<int64_t>> check_shapes(const ashlar::KernelInfo&) {
    return {{1, 1, 1}, {3, 33, 5}, {129, 65, 31}};
  }
};
