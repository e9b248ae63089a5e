// Convolutions: which of the ways they go by. Of those by frames (generators/convolution.cpp), what lies where in one.
#include "ashlar/ops/convolution.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "ashlar/ops/binary.h"
#include "ashlar/ops/convolution_frame.h"
#include "ashlar/ops/depthwise_convolution.h"
#include "ashlar/ops/matmul.h"
#include "ashlar/ops/movement.h"
#include "ashlar/ops/pointwise_convolution.h"
#include "ashlar/ops/reduction.h"
#include "ashlar/ops/unfold.h"
#include "operators/unfolded_convolution.h"
#include "runtime/forms/check.h"
#include "runtime/forms/promotion.h"
#include "runtime/launch/plans.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"
#include "runtime/vendor/vendor.h"

namespace ashlar {
namespace {

const KernelKey kF32{.elements = {DType::f32}};
// The CPU's vectors reach so far beyond the last output, and the bounds that Halide checks a plane more. A GPU's
// threads read what a tap reads.
constexpr int64_t kSlack = 128;
constexpr float kNone = -std::numeric_limits<float>::infinity();

/// x[a, b, h, w] with its border, rows and columns that are read together side by side: [phases, a, b, rows, columns].
struct Frame {
  Tensor elements;  ///< all of them, and `slack` more, which are 0
  Pair strides;     ///< of the convolution that reads it
  int64_t a = 0, b = 0, rows = 0, columns = 0, slack = 0;

  int64_t plane() const { return rows * columns; }
  int64_t phase_step() const { return a * b * plane(); }
};

/// The frame that outputs of this size read. `reads_beyond`: whatever the tap, as many as a plane has will be read.
Frame frame_of(const Tensor& x, const Window& window, const Pair& outputs, bool reads_beyond) {
  Frame frame{{}, window.stride, x.size(0), x.size(1)};
  const auto side = [&](int axis) { return outputs[axis] + (window.extent(axis) - 1) / window.stride[axis]; };
  frame.rows = side(0);
  frame.columns = side(1);
  const int64_t phases = std::min(window.stride[0], window.extent(0)) * window.stride[1],
                size = frame.phase_step() * phases;
  const bool is_itself = !reads_beyond && phases == 1 && x.is_contiguous() && window.padding == Pair{0, 0} &&
                         frame.rows == x.size(2) && frame.columns == x.size(3) && x.device().kind != DeviceKind::cpu;
  if (is_itself) {
    frame.elements = x.reshape({x.numel()});
    return frame;
  }
  const bool is_cpu = x.device().kind == DeviceKind::cpu;
  frame.slack = reads_beyond || is_cpu ? kSlack + frame.plane() : 0;
  const int64_t whole = size + frame.slack;
  const Tensor all = Tensor::empty({whole}, DType::f32, x.device());
  if (frame.slack > 0) all.slice(0, size, whole).fill_(0);
  const Tensor out = all.slice(0, 0, size).reshape({phases, frame.a, frame.b, frame.rows, frame.columns});
  const std::array inputs{x};
  const std::array<Scalar, 4> scalars{window.stride[0], window.stride[1], window.padding[0], window.padding[1]};
  launch(kernels::convolution_frame, kF32, inputs, scalars, std::span(&out, 1));
  frame.elements = all;
  return frame;
}

/// offsets[(c, i, j)] for `channels`, `channel_step` apart.
Tensor offsets_of(const Frame& frame, const Window& window, int64_t channels, int64_t channel_step, bool is_flipped) {
  const Tensor offsets =
      Tensor::empty({channels * window.taps[0] * window.taps[1]}, DType::i32, frame.elements.device());
  const std::array<Scalar, 10> scalars{window.taps[0],     window.taps[1],     window.stride[0],    window.stride[1],
                                       window.dilation[0], window.dilation[1], int64_t{is_flipped}, frame.phase_step(),
                                       channel_step,       frame.columns};
  launch(kernels::convolution_offsets, {.elements = {DType::i32}}, {}, scalars, std::span(&offsets, 1));
  return offsets;
}

/// y[n, (g,o), p, q] = max(low, bias + Σ weight[g, o, t] · frame), `weight` in three axes, of any strides.
Tensor convolved(const Frame& frame, const Tensor& offsets, const Tensor& weight, const Tensor& bias,
                 const Pair& outputs, float low) {
  const int64_t groups = weight.size(0), rows = weight.size(1), images = frame.a;
  const Tensor y = Tensor::empty({images, groups * rows, outputs[0], outputs[1]}, DType::f32, weight.device());
  const bool is_cpu = weight.device().kind == DeviceKind::cpu;
  const int64_t image_step = frame.b * frame.plane();
  const std::array<Scalar, 7> scalars{image_step,
                                      frame.b / groups * frame.plane(),
                                      frame.columns,
                                      outputs[1],
                                      (outputs[0] - 1) * frame.columns + outputs[1] + frame.slack,
                                      int64_t{bias.defined()},
                                      low};
  // Images and groups stand along the third dimension of the grid, which CUDA limits.
  const int64_t at_once = is_cpu ? images : std::max<int64_t>(1, 65535 / groups);
  for (int64_t first = 0; first < images; first += at_once) {
    const int64_t count = std::min(at_once, images - first);
    const Tensor out = y.slice(0, first, first + count)
                           .reshape(is_cpu ? Shape{count * groups, rows, outputs[0], outputs[1]}
                                           : Shape{count * groups, rows, 1, outputs[0] * outputs[1]});
    const std::array inputs{frame.elements.slice(0, first * image_step), weight,
                            bias.defined() ? bias.contiguous() : frame.elements.slice(0, 0, 1), offsets};
    launch(kernels::convolution, kF32, inputs, scalars, std::span(&out, 1));
  }
  return y;
}

/// One tap, no border: a product of matrices, which needs no frame.
bool is_product(const Window& window) { return window.taps == Pair{1, 1} && window.padding == Pair{0, 0}; }

/// Whether y and the gradient by x are computed as one: on the CPU.
bool is_product_of_places(const Window& window, const Device& device) {
  return device.kind == DeviceKind::cpu && is_product(window);
}
/// Whether the gradient by the weight is: also on CUDA, 1.05 to 5.4 times as quick there as by frames (23 of 24 sizes,
/// H100; one 0.78).
bool is_product_over_places(const Window& window, int64_t groups, const Shape& weight, const Device& device) {
  const bool is_vector = weight[0] == groups && weight[1] == 1;  // depthwise
  return is_product(window) && (device.kind == DeviceKind::cpu || (device.kind == DeviceKind::cuda && !is_vector));
}

/// y[n, (g,o), p, q] = max(low, bias + Σ_c weight[g, o, c] x[n, (g,c), p, q]), `weight` of any strides.
Tensor product_of_places(const Tensor& x, const Tensor& weight, const Tensor& bias, float low) {
  const int64_t images = x.size(0), groups = weight.size(0), places = x.size(2) * x.size(3);
  const Tensor y = Tensor::empty({images, groups * weight.size(1), x.size(2), x.size(3)}, DType::f32, x.device());
  const Tensor matrices = x.contiguous().reshape({images * groups, weight.size(2), places});
  const std::array inputs{matrices, weight,
                          bias.defined() ? bias.contiguous() : matrices.reshape({x.numel()}).slice(0, 0, 1)};
  const std::array<Scalar, 2> scalars{int64_t{bias.defined()}, low};
  const Tensor out = y.reshape({images * groups, weight.size(1), places});
  launch(kernels::pointwise_convolution, kF32, inputs, scalars, std::span(&out, 1));
  return y;
}

std::string described(const Tensor& x, const Tensor& weight, const Tensor& bias = {}) {
  return "x: " + x.str() + ", weight: " + weight.str() + (bias.defined() ? ", bias: " + bias.str() : "");
}

void check_groups(const char* operation, int64_t groups, int64_t outputs, const std::string& came) {
  if (groups < 1 || outputs % groups != 0) {
    throw ValueError(operation, std::to_string(groups) + " groups for " + came, "groups that divide the channels",
                     "Set groups to a divisor of both numbers of channels");
  }
}

void check_device(const char* operation, const Tensor& x, const Tensor& y) {
  if (y.defined() && x.device() != y.device()) {
    throw DeviceError(operation, x.str() + " and " + y.str(), "all tensors on one device", "Copy with to(Device)");
  }
  if (y.defined() && x.dtype() != y.dtype()) {
    throw DTypeError(operation, x.str() + " and " + y.str(), "one dtype", "Convert one of them with to(dtype)");
  }
}

/// Each output reads one channel, and there is no product of matrices in it. With stride 1 the CPU's strips of a frame
/// are quicker.
bool is_depthwise(const Window& window, int64_t channels_of_group, const Device& device) {
  return channels_of_group == 1 && (device.kind != DeviceKind::cpu || window.stride != Pair{1, 1});
}

/// The planes [n · channels, h, w] of images, or of taps [channels, 1, kh, kw], as a kernel's input.
Tensor planes_of(const KernelInfo& kernel, int input, const Tensor& images) {
  return forms::as_declared(kernel, input, images, {images.size(0) * images.size(1), images.size(2), images.size(3)});
}

Tensor depthwise(const Tensor& x, const Tensor& weight, const Tensor& bias, const Window& window, const Pair& outputs,
                 float low, bool is_reversed = false) {
  const KernelInfo& kernel = kernels::depthwise_convolution;
  const Tensor y = Tensor::empty({x.size(0) * weight.size(0), outputs[0], outputs[1]}, DType::f32, x.device());
  const Tensor taps = planes_of(kernel, 1, weight);
  const std::array inputs{planes_of(kernel, 0, x), taps,
                          bias.defined() ? bias.contiguous() : taps.reshape({taps.numel()})};
  const auto scalars = window.scalars(weight.size(0) / x.size(1), int64_t{bias.defined()}, int64_t{is_reversed}, low);
  launch(kernel, kF32, inputs, scalars, std::span(&y, 1));
  return y.reshape({x.size(0), weight.size(0), outputs[0], outputs[1]});
}

/// How a convolution's gradient by its input reads dy: by the taps in reverse, with as much padding as makes it the
/// input's size. None of a convolution with a stride, or with padding that a whole window fits into.
std::optional<Window> reversed(const Window& window) {
  Window back = window;
  for (int axis = 0; axis < 2; axis++) {
    if (window.stride[axis] != 1 || window.padding[axis] >= window.extent(axis)) return {};
    back.padding[axis] = window.extent(axis) - 1 - window.padding[axis];
  }
  return back;
}

Tensor depthwise_input(const Tensor& dy, const Tensor& weight, const Shape& shape, const Window& window) {
  const KernelInfo& kernel = kernels::depthwise_convolution_input;
  const std::optional<Window> back = reversed(window);
  if (dy.device().kind != DeviceKind::cpu && back && weight.size(0) == shape[1]) {
    return depthwise(dy, weight, {}, *back, {shape[2], shape[3]}, kNone, true);
  }
  const Tensor dx = Tensor::empty({shape[0] * shape[1], shape[2], shape[3]}, DType::f32, dy.device());
  const std::array inputs{planes_of(kernel, 0, dy), planes_of(kernel, 1, weight)};
  const auto scalars = window.scalars(window.candidates(0), window.candidates(1), weight.size(0) / shape[1]);
  launch(kernel, kF32, inputs, scalars, std::span(&dx, 1));
  return dx.reshape(shape);
}

/// In shares of the images' rows, so many that there is work for all of a device. A GPU counts a share's terms by
/// floats, exactly below 2²¹.
Tensor depthwise_weight(const Tensor& dy, const Tensor& x, const Shape& shape, const Window& window) {
  const KernelInfo& kernel = kernels::depthwise_convolution_weight;
  const int64_t rows = dy.size(0) * dy.size(2), terms = rows * dy.size(3);
  int64_t most = 0;
  if (dy.device().kind == DeviceKind::cpu) {
    constexpr int64_t kSums = 1 << 19, kTermsOfShare = 256;
    most = std::min(kSums / shape.numel(), terms / kTermsOfShare);
  } else {
    constexpr int64_t kBlocks = 2048, kTaps = 4, kTermsOfShare = 2048, kCounted = 1 << 20;
    const int64_t blocks = shape[0] * shape[2] * ((shape[3] + kTaps - 1) / kTaps);
    most = std::max(std::min(kBlocks / blocks, terms / kTermsOfShare), terms / kCounted + 1);
  }
  most = std::clamp<int64_t>(most, 1, rows);
  const int64_t rows_of_share = (rows + most - 1) / most, shares = (rows + rows_of_share - 1) / rows_of_share;
  const Tensor parts = Tensor::empty({shares, shape[0], shape[2], shape[3]}, DType::f32, dy.device());
  const std::array inputs{planes_of(kernel, 0, dy), planes_of(kernel, 1, x)};
  const auto scalars = window.scalars(shape[0] / x.size(1), rows_of_share);
  launch(kernel, kF32, inputs, scalars, std::span(&parts, 1));
  return (shares == 1 ? parts : sum(parts, {0})).reshape(shape);
}

/// A convolution of two dense tensors, or one of its gradients, by a vendor's library; undefined where that is left to
/// us, as it is, unless a vendor is asked for, where ours is known to be quicker.
Tensor by_vendor(const KernelInfo& kernel, const Tensor& left, const Tensor& right, const Window& window,
                 int64_t groups, const Shape& shape, bool is_ours_quicker = false) {
  if (kernel.vendor == nullptr || kernel.vendor->kind != left.device().kind) return {};
  if (is_ours_quicker && vendor_policy() != VendorPolicy::always) return {};
  const Tensor result = Tensor::empty(shape, DType::f32, left.device());
  const std::array inputs{left, right};
  const auto scalars = window.scalars(groups);
  const bool is_done = run_by_vendor(
      {.kernel = kernel, .key = kF32, .inputs = inputs, .outputs = std::span(&result, 1), .scalars = scalars});
  return is_done ? result : Tensor();
}

/// y = max(low, y + bias), a channel's own
void add_bias(const Tensor& y, const Tensor& bias, float low) {
  if (!bias.defined() && low == kNone) return;
  const Tensor none = bias.defined() ? bias : Tensor::zeros({1}, DType::f32, y.device());
  const Tensor sums = y.reshape({y.size(0), y.size(1), 1, y.size(2) * y.size(3)});
  const std::array inputs{sums, none.reshape({1, none.numel(), 1, 1}).broadcast_to(sums.shape())};
  const std::array<Scalar, 1> scalars{low};
  launch(kernels::convolution_bias, kF32, inputs, scalars, std::span(&sums, 1));
}

/// Whether it is quicker to work out each output's share of each tap, a product over the outputs' channels, and to fold
/// these, than to gather. The product of few channels has few terms for each share that is written and read; large ones
/// cuDNN, or our gathering, has at its best speed. Of 25 sizes on an H100 these are 17, 0.99 to 10 times as quick. A
/// CPU gathers for tiles of eight channels: of 60 sizes of 3×3 taps these are 36, 1.04 to 11 times as quick (EPYC).
bool is_quicker_folded(const Tensor& dy, const Tensor& weight, int64_t groups) {
  constexpr int64_t kFewChannels = 4, kFewRows = 6, kRows = 32, kManyRows = 128, kMostShares = int64_t{1} << 28;
  constexpr int64_t kRowsOfChannel = 13;
  constexpr double kMuchWork = 3e9;  // multiplications
  const int64_t rows = weight.size(0), channels = weight.size(1), taps = weight.size(2) * weight.size(3);
  const int64_t shares = channels * taps * dy.size(0) * dy.size(2) * dy.size(3);
  if (groups != 1 || taps == 1 || shares > kMostShares) return false;
  if (dy.device().kind == DeviceKind::cpu) return rows >= kRowsOfChannel * channels;
  if (dy.device().kind != DeviceKind::cuda) return false;
  if (channels <= kFewChannels) return rows >= kFewRows;
  const bool is_much = static_cast<double>(shares) * static_cast<double>(rows) > kMuchWork;
  return is_much ? rows >= kManyRows && channels <= rows : rows >= kRows && channels <= 2 * rows;
}

/// Whether windows are written down, for products of matrices, or gathered from a frame as a product goes on: always
/// those of images that have more of them than there shall be in memory.
bool is_unfolded(const char* operation, Device device, const Window& window, int64_t elements_of_image,
                 bool is_quicker) {
  const bool fits = is_product(window) || elements_of_image <= kMostWindowElements;
  const std::array plans{Plan{"unfolded", fits, device.kind != DeviceKind::cpu && is_quicker}, Plan{"gathered"}};
  return choose_plan(operation, device, plans) == 0;
}

/// On CUDA few rows of many windows don't pay for writing these down, nor do few terms, whose results are most of the
/// memory: of 121 drawn sizes this has 0.97 of the quicker way's speed, gathering alone 0.74 (H200). OpenCL's gathering
/// is nearer to its products: 70 sizes (H100).
bool is_quicker_unfolded(Device device, int64_t rows, int64_t terms, int64_t places) {
  constexpr int64_t kFewRows = 16, kManyElements = 1 << 24, kFewTerms = 4, kManyResults = 1 << 20;
  constexpr int64_t kRowsOfOpenCl = 32, kPlacesOfOpenCl = 1 << 14, kElementsOfOpenCl = 1 << 22;
  const int64_t elements = terms * places;
  if (device.kind == DeviceKind::opencl) {
    return elements < kElementsOfOpenCl || (rows < kRowsOfOpenCl && places < kPlacesOfOpenCl);
  }
  if (terms <= kFewTerms) return rows * places <= kManyResults;
  return rows >= kFewRows || elements < kManyElements;
}

/// Of the gradient by the weight. On CUDA gathering is quicker for few rows of many windows (of 61 drawn sizes 1.4 to
/// 2.3 times for seven; H200).
bool is_weight_quicker_unfolded(Device device, int64_t rows, int64_t terms, int64_t places) {
  constexpr int64_t kFewRows = 32, kFewTerms = 128, kManyElements = 1 << 23, kElementsOfOpenCl = 1 << 22;
  const int64_t elements = terms * places;
  if (device.kind == DeviceKind::opencl) return elements < kElementsOfOpenCl;
  return elements < kManyElements || rows > kFewRows || terms <= kFewTerms;
}

/// The gradient of a convolution by its input [n, c, h, w], of f32 tensors with elements.
Tensor input_gradient(const Tensor& dy, const Tensor& weight, const Shape& shape, const Window& window,
                      int64_t groups) {
  const int64_t n = dy.size(0), rows = weight.size(0) / groups, channels = weight.size(1);
  const int64_t taps = window.taps[0] * window.taps[1];
  if (is_product_of_places(window, dy.device())) {
    const Tensor turned = weight.reshape({groups, rows, channels}).permute({0, 2, 1});
    const Tensor read = product_of_places(dy, turned, {}, kNone);
    if (window.stride == Pair{1, 1}) return read;
    const Tensor dx = Tensor::zeros(shape, DType::f32, dy.device());
    subsampled(dx, window.stride).copy_(read);
    return dx;
  }
  const bool is_each_apart = is_depthwise(window, channels, dy.device());
  const bool is_folded = !is_each_apart && is_quicker_folded(dy, weight, groups);
  const Tensor vendors =
      by_vendor(kernels::conv2d_input, dy, weight, window, groups, shape, is_folded || is_product(window));
  if (vendors.defined()) return vendors;
  if (is_each_apart) return depthwise_input(dy, weight, shape, window);
  if (const std::optional<Window> back = reversed(window); back && !is_folded) {
    const Pair size{shape[2], shape[3]};
    const Tensor turned = weight.reshape({groups, rows, channels, taps}).permute({0, 2, 1, 3});
    const Shape matrices{groups, channels, rows * taps};
    const int64_t places = size[0] * size[1];
    const bool is_quicker =
        dy.device().kind == DeviceKind::cuda || is_quicker_unfolded(dy.device(), channels, rows * taps, n * places);
    if (is_unfolded("conv2d_input", dy.device(), *back, dy.size(1) * taps * places, is_quicker)) {
      return convolved_unfolded(dy, (taps == 1 ? turned : flip(turned, {3})).reshape(matrices), *back, size);
    }
    const Frame frame = frame_of(dy, *back, size, false);
    return convolved(frame, offsets_of(frame, *back, rows, frame.plane(), true), turned.contiguous().reshape(matrices),
                     {}, size, kNone);
  }
  // Each output's share of each tap, then all that fall on one place.
  const Tensor matrices = weight.contiguous().reshape({1, groups, rows, channels * taps});
  const Tensor columns =
      matmul(matrices, dy.contiguous().reshape({n, groups, rows, dy.size(2) * dy.size(3)}), {.transpose_a = true});
  return fold(columns.reshape({n, groups * channels * taps, dy.size(2) * dy.size(3)}), {shape[2], shape[3]},
              {window.taps[0], window.taps[1]}, {window.dilation[0], window.dilation[1]},
              {window.padding[0], window.padding[1]}, {window.stride[0], window.stride[1]});
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Axes& stride, const Axes& padding,
              const Axes& dilation, int64_t groups, Conv2dActivation activation) try {
  constexpr const char* kName = "conv2d";
  const Tensor images = as_images(kName, forms::as_f32(kName, x)), filters = forms::as_f32(kName, weight);
  check_device(kName, x, weight);
  check_device(kName, x, bias);
  if (weight.rank() != 4 || groups < 1 || weight.size(1) * groups != images.size(1) ||
      (bias.defined() && bias.shape() != Shape{weight.size(0)})) {
    throw ShapeError(kName, described(x, weight, bias) + " and " + std::to_string(groups) + " groups",
                     "x [n, c, h, w], weight [o, c / groups, kh, kw], bias [o]",
                     "Check the numbers of channels, and groups");
  }
  const int64_t out_channels = weight.size(0), inner = weight.size(1);
  check_groups(kName, groups, out_channels, described(x, weight));
  const Window window = window_of(kName, {weight.size(2), weight.size(3)}, stride, padding, dilation);
  const Pair outputs{window.outputs(kName, 0, images.size(2)), window.outputs(kName, 1, images.size(3))};
  Tensor y;
  if (images.size(0) * out_channels == 0) {
    y = Tensor::empty({images.size(0), out_channels, outputs[0], outputs[1]}, DType::f32, x.device());
  } else if (inner == 0 || images.numel() == 0 || filters.numel() == 0) {
    throw ShapeError(kName, described(x, weight), "at least one channel and one tap",
                     "Skip the call where there is none");
  } else {
    const int64_t taps = inner * window.taps[0] * window.taps[1];
    const Tensor matrices = filters.contiguous().reshape({groups, out_channels / groups, taps});
    const Tensor added = bias.defined() ? forms::as_f32(kName, bias) : bias;
    const float low = activation == Conv2dActivation::relu ? 0.0F : kNone;
    if (is_product_of_places(window, x.device())) {
      y = product_of_places(subsampled(images, window.stride), matrices, added, low);
    } else if (y = by_vendor(kernels::conv2d, images, filters, window, groups,
                             {images.size(0), out_channels, outputs[0], outputs[1]}, is_product(window));
               y.defined()) {
      add_bias(y, added, low);
    } else if (is_depthwise(window, inner, x.device())) {
      y = depthwise(images, filters, added, window, outputs, low);
    } else if (const int64_t places = outputs[0] * outputs[1];
               is_unfolded(kName, x.device(), window, groups * taps * places,
                           is_quicker_unfolded(x.device(), out_channels / groups, taps, images.size(0) * places))) {
      y = convolved_unfolded(images, matrices, window, outputs);
      add_bias(y, added, low);
    } else {
      const Frame frame = frame_of(images, window, outputs, false);
      y = convolved(frame, offsets_of(frame, window, inner, frame.plane(), false), matrices, added, outputs, low);
    }
  }
  return without_batch_unless(y, x.rank() == 4).to(x.dtype());
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("conv2d");
}

Tensor conv2d_input(const Tensor& dy, const Tensor& weight, const Axes& input_size, const Axes& stride,
                    const Axes& padding, const Axes& dilation, int64_t groups) try {
  constexpr const char* kName = "conv2d_input";
  const Tensor images = as_images(kName, forms::as_f32(kName, dy)), filters = forms::as_f32(kName, weight);
  check_device(kName, dy, weight);
  if (weight.rank() != 4 || images.size(1) != weight.size(0)) {
    throw ShapeError(kName, "dy: " + dy.str() + ", weight: " + weight.str(),
                     "dy [n, o, p, q], weight [o, c / groups, kh, kw]", "Check the numbers of channels");
  }
  check_groups(kName, groups, weight.size(0), "weight: " + weight.str());
  const Window window = window_of(kName, {weight.size(2), weight.size(3)}, stride, padding, dilation);
  const Pair size = pair_of(kName, "input_size", input_size, -1, 0);
  for (int axis = 0; axis < 2; axis++) {
    if (window.outputs(kName, axis, size[axis]) == images.size(2 + axis)) continue;
    throw ShapeError(
        kName, "dy: " + dy.str() + " for an input of " + input_size.str(),
        "the size that conv2d gives for such an input: " + std::to_string(window.outputs(kName, axis, size[axis])) +
            " along axis " + std::to_string(axis - 2),
        "Check stride, padding and dilation");
  }
  const Shape shape{images.size(0), groups * weight.size(1), size[0], size[1]};
  const bool is_empty = shape.numel() == 0 || images.numel() == 0 || filters.numel() == 0;
  const Tensor dx =
      is_empty ? Tensor::zeros(shape, DType::f32, dy.device()) : input_gradient(images, filters, shape, window, groups);
  return without_batch_unless(dx, dy.rank() == 4).to(dy.dtype());
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("conv2d_input");
}

Tensor conv2d_weight(const Tensor& dy, const Tensor& x, const Axes& kernel_size, const Axes& stride,
                     const Axes& padding, const Axes& dilation, int64_t groups) try {
  constexpr const char* kName = "conv2d_weight";
  const Tensor grads = as_images(kName, forms::as_f32(kName, dy)), images = as_images(kName, forms::as_f32(kName, x));
  check_device(kName, dy, x);
  check_groups(kName, groups, grads.size(1), "dy: " + dy.str());
  check_groups(kName, groups, images.size(1), "x: " + x.str());
  const Window window = window_of(kName, pair_of(kName, "kernel_size", kernel_size, 1, 1), stride, padding, dilation);
  const Pair outputs{window.outputs(kName, 0, images.size(2)), window.outputs(kName, 1, images.size(3))};
  if (grads.size(0) != images.size(0) || grads.size(2) != outputs[0] || grads.size(3) != outputs[1]) {
    throw ShapeError(kName, "dy: " + dy.str() + ", x: " + x.str(),
                     "dy of " + Shape{images.size(0), grads.size(1), outputs[0], outputs[1]}.str(),
                     "Check stride, padding and dilation");
  }
  const int64_t rows = grads.size(1) / groups, channels = images.size(1) / groups;
  const Shape shape{grads.size(1), channels, window.taps[0], window.taps[1]};
  if (shape.numel() == 0 || grads.numel() == 0 || images.numel() == 0)
    return Tensor::zeros(shape, dy.dtype(), dy.device());
  if (const Tensor dweight = by_vendor(kernels::conv2d_weight, grads, images, window, groups, shape);
      dweight.defined()) {
    return dweight.to(dy.dtype());
  }
  if (is_product_over_places(window, groups, shape, dy.device())) {
    return product_over_places(grads, subsampled(images, window.stride), groups).reshape(shape).to(dy.dtype());
  }
  if (is_depthwise(window, channels, dy.device())) return depthwise_weight(grads, images, shape, window).to(dy.dtype());
  const int64_t terms = channels * window.taps[0] * window.taps[1], places = outputs[0] * outputs[1];
  if (is_unfolded(kName, dy.device(), window, groups * terms * places,
                  is_weight_quicker_unfolded(dy.device(), rows, terms, images.size(0) * places))) {
    return weight_gradient_unfolded(grads, images, window, groups).reshape(shape).to(dy.dtype());
  }
  // Images beside each other in each channel, so that all of them are one sum.
  const Frame frame = frame_of(images.permute({1, 0, 2, 3}), window, outputs, window.taps != Pair{1, 1});
  const Tensor offsets = offsets_of(frame, window, channels, frame.b * frame.plane(), false);
  Window plain;
  const Frame of_dy = frame_of(grads.permute({1, 0, 2, 3}), plain, {frame.rows, frame.columns}, false);
  const int64_t inner = frame.b * frame.plane(), taps = offsets.numel();
  const Tensor left = of_dy.elements.slice(0, 0, groups * rows * inner).reshape({groups, rows, inner});
  // So many shares of the sum that on a GPU there's work for all of it, and on a CPU each share stays in a cache (16 MB
  // of partial sums at most); the sizes alone say how many.
  constexpr int64_t kTile = 64, kTiles = 512, kPartialSums = 1 << 22;
  const int64_t tiles = groups * ((rows + kTile - 1) / kTile) * ((taps + kTile - 1) / kTile);
  const bool is_cpu = dy.device().kind == DeviceKind::cpu;
  const int64_t most = is_cpu ? kPartialSums / (groups * rows * taps) : std::min<int64_t>(kTiles / tiles, 256);
  const int64_t least = is_cpu ? 1024 : 128;  // terms of a share
  const int64_t shares = std::clamp(std::min(most, inner / least), int64_t{1}, inner);
  const Tensor parts = Tensor::empty({shares * groups, rows, taps}, DType::f32, dy.device());
  const std::array inputs{frame.elements, left, offsets};
  const std::array<Scalar, 2> scalars{channels * inner, shares};
  launch(kernels::convolution_weight, kF32, inputs, scalars, std::span(&parts, 1));
  const Tensor whole = shares == 1 ? parts : sum(parts.reshape({shares, groups * rows, taps}), {0});
  return whole.reshape(shape).to(dy.dtype());
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("conv2d_weight");
}

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Axes& stride, const Axes& padding,
              const Axes& dilation, int64_t groups, Conv1dActivation activation) try {
  constexpr const char* kName = "conv1d";
  if (!x.defined() || !weight.defined() || (x.rank() != 2 && x.rank() != 3) || weight.rank() != 3) {
    throw ShapeError(kName, described(x, weight, bias), "x [n, c, l] or [c, l], weight [o, c / groups, k]",
                     "Use reshape() or unsqueeze()");
  }
  const auto along = [&](const char* name, const Axes& given, int64_t otherwise, int64_t across) {
    if (given.rank() > 1) {
      throw ValueError(kName, std::string(name) + " = " + given.str(), "one number",
                       "Leave out what isn't of the axis");
    }
    return Shape{across, given.empty() ? otherwise : given[0]};
  };
  return conv2d(x.unsqueeze(-2), weight.unsqueeze(-2), bias, along("stride", stride, 1, 1),
                along("padding", padding, 0, 0), along("dilation", dilation, 1, 1), groups,
                static_cast<Conv2dActivation>(activation))
      .squeeze(-2);
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("conv1d");
}

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Axes& stride,
                        const Axes& padding, const Axes& output_padding, int64_t groups, const Axes& dilation) try {
  constexpr const char* kName = "conv_transpose2d";
  const Tensor images = as_images(kName, x);
  check_device(kName, x, weight);
  check_device(kName, x, bias);
  check_groups(kName, groups, images.size(1), "x: " + x.str());
  if (weight.rank() != 4 || weight.size(0) != images.size(1) ||
      (bias.defined() && bias.shape() != Shape{weight.size(1) * groups})) {
    throw ShapeError(kName, described(x, weight, bias), "x [n, o, p, q], weight [o, c / groups, kh, kw], bias [c]",
                     "Check the numbers of channels, and groups");
  }
  const Window window = window_of(kName, {weight.size(2), weight.size(3)}, stride, padding, dilation);
  const Pair more = pair_of(kName, "output_padding", output_padding, 0, 0);
  Shape size;
  for (int axis = 0; axis < 2; axis++) {
    if (more[axis] >= std::max(window.stride[axis], window.dilation[axis])) {
      throw ValueError(kName, "output_padding = " + output_padding.str(), "less than the stride or the dilation",
                       "Pad the result with pad()");
    }
    size.push_back((images.size(2 + axis) - 1) * window.stride[axis] - 2 * window.padding[axis] + window.extent(axis) +
                   more[axis]);
    if (size.back() < 1) {
      throw ShapeError(kName, described(x, weight), "a result of at least one element", "Pad less");
    }
  }
  // In f32, so that the bias is added before the sum is rounded.
  const Tensor y =
      conv2d_input(forms::as_f32(kName, x), forms::as_f32(kName, weight), size, stride, padding, dilation, groups);
  if (!bias.defined()) return y.to(x.dtype());
  return add(y, forms::as_f32(kName, bias).reshape({bias.numel(), 1, 1})).to(x.dtype());
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("conv_transpose2d");
}

}  // namespace ashlar
