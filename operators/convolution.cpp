// Convolutions: which of the ways they go by.
#include "ashlar/ops/convolution.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "ashlar/ops/binary.h"
#include "ashlar/ops/depthwise_convolution.h"
#include "ashlar/ops/matmul.h"
#include "ashlar/ops/movement.h"
#include "ashlar/ops/pointwise_convolution.h"
#include "ashlar/ops/reduction.h"
#include "ashlar/ops/unfold.h"
#include "operators/gathered_convolution.h"
#include "operators/unfolded_convolution.h"
#include "runtime/forms/check.h"
#include "runtime/forms/promotion.h"
#include "runtime/launch/plans.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"
#include "runtime/support/rounding.h"
#include "runtime/vendor/vendor.h"

namespace ashlar {
namespace {

const KernelKey kF32{.elements = {DType::f32}};
constexpr float kNone = -std::numeric_limits<float>::infinity();

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
    const int64_t blocks = shape[0] * shape[2] * detail::over(shape[3], kTaps);
    most = std::max(std::min(kBlocks / blocks, terms / kTermsOfShare), terms / kCounted + 1);
  }
  most = std::clamp<int64_t>(most, 1, rows);
  const int64_t rows_of_share = detail::over(rows, most), shares = detail::over(rows, rows_of_share);
  const Tensor parts = Tensor::empty({shares, shape[0], shape[2], shape[3]}, DType::f32, dy.device());
  const std::array inputs{planes_of(kernel, 0, dy), planes_of(kernel, 1, x)};
  const auto scalars = window.scalars(shape[0] / x.size(1), rows_of_share);
  launch(kernel, kF32, inputs, scalars, std::span(&parts, 1));
  return (shares == 1 ? parts : sum(parts, {0})).reshape(shape);
}

/// A convolution of two dense tensors, or one of its gradients.
struct Problem {
  const KernelInfo& operation;
  const Tensor &left, &right;
  const Window& window;
  int64_t groups;
  Shape shape;             ///< of the result
  int64_t rows, channels;  ///< of a group
  int64_t images, places;  ///< of the outputs
};

/// The ways of convolutions and their gradients, in the order of the operators' plans (generators/convolution.cpp).
enum Way : size_t { kByVendor, kProduct, kDepthwise, kFolded, kUnfolded, kGathered, kWays };
using Ways = std::array<Plan, kWays>;

/// None but gathering applies yet.
Ways ways_of(const Problem& problem) {
  Ways ways;
  for (size_t i = 0; i < kWays; i++) {
    ways[i] = {problem.operation.form->signature.plans[i], i == kGathered, false};
  }
  return ways;
}

struct VendorsOwn {
  const Problem& problem;
  Tensor result;
  std::array<Tensor, 2> inputs;
  std::array<Scalar, 9> scalars;

  explicit VendorsOwn(const Problem& of)
      : problem(of),
        result(Tensor::empty(of.shape, DType::f32, of.left.device())),
        inputs{of.left, of.right},
        scalars(of.window.scalars(of.groups)) {}
  VendorCall call() const {
    return {.kernel = problem.operation,
            .key = kF32,
            .inputs = inputs,
            .outputs = std::span(&result, 1),
            .scalars = scalars};
  }
};

/// The way that a call goes; undefined but for kByVendor, what the vendor's library has computed.
struct Gone {
  Way way;
  Tensor result = {};
};

/// Which of a vendor's library and our own ways is known to be quicker.
enum class Quicker : uint8_t { unknown, ours, vendors };

/// Chooses among the ways of our own that apply and a vendor's library. One that is asked for ("always") comes first.
Gone choose_way(const Problem& problem, Ways ways, Quicker quicker = Quicker::unknown) {
  const Device device = problem.left.device();
  const std::array<int64_t, 7> sizes{problem.images,
                                     problem.groups,
                                     problem.rows,
                                     problem.channels,
                                     problem.places,
                                     problem.window.taps[0] * problem.window.taps[1],
                                     problem.window.stride[0] * problem.window.stride[1]};
  const VendorRoutine* routine = problem.operation.vendor;
  const VendorPolicy policy = vendor_policy();
  if (routine != nullptr && routine->kind == device.kind && policy != VendorPolicy::never) {
    const VendorsOwn vendors(problem);
    ways[kByVendor].applies = true;
    ways[kByVendor].preferred =
        quicker == Quicker::vendors || (quicker == Quicker::unknown && is_vendors(vendors.call(), device));
    const bool is_asked_for = policy == VendorPolicy::always;
    const size_t chosen = is_asked_for ? kByVendor : choose_plan(problem.operation, device, ways, sizes);
    if (chosen != kByVendor) return {static_cast<Way>(chosen)};
    if (run_by_vendor(vendors.call())) return {kByVendor, vendors.result};
    ways[kByVendor].applies = false;
  }
  return {static_cast<Way>(choose_plan(problem.operation, device, ways, sizes))};
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
/// CPU gathers for tiles of eight channels: of 60 sizes of 3×3 taps these are 36, 1.04 to 11 times as quick (EPYC); and
/// of few places it gathers more than it computes (four of ResNet's layers, 1.1 to 2.2 times; EPYC).
bool is_quicker_folded(const Tensor& dy, const Tensor& weight, int64_t groups) {
  constexpr int64_t kFewChannels = 4, kFewRows = 6, kRows = 32, kManyRows = 128, kMostShares = int64_t{1} << 28;
  constexpr int64_t kRowsOfChannel = 13, kFewPlaces = 400, kRowsOfFewPlaces = 256;
  constexpr double kMuchWork = 3e9;  // multiplications
  const int64_t rows = weight.size(0), channels = weight.size(1), taps = weight.size(2) * weight.size(3);
  const int64_t shares = channels * taps * dy.size(0) * dy.size(2) * dy.size(3);
  if (groups != 1 || taps == 1 || shares > kMostShares) return false;
  if (dy.device().kind == DeviceKind::cpu) {
    const bool is_of_few_places = dy.size(0) * dy.size(2) * dy.size(3) <= kFewPlaces;
    return rows >= kRowsOfChannel * channels || (is_of_few_places && rows >= kRowsOfFewPlaces);
  }
  if (dy.device().kind != DeviceKind::cuda) return false;
  if (channels <= kFewChannels) return rows >= kFewRows;
  const bool is_much = static_cast<double>(shares) * static_cast<double>(rows) > kMuchWork;
  return is_much ? rows >= kManyRows && channels <= rows : rows >= kRows && channels <= 2 * rows;
}

/// Whether windows may be written down, for products of matrices: not those of images that have more of them than there
/// shall be in memory.
bool can_be_unfolded(const Window& window, int64_t elements_of_image) {
  return is_product(window) || elements_of_image <= kMostWindowElements;
}

/// On CUDA few rows of many windows don't pay for writing these down, nor do few terms, whose results are most of the
/// memory: of 121 drawn sizes this has 0.97 of the quicker way's speed, gathering alone 0.74 (H200). OpenCL's gathering
/// is nearer to its products: 70 sizes (H100).
bool is_quicker_unfolded(Device device, int64_t rows, int64_t terms, int64_t places) {
  if (device.kind == DeviceKind::cpu) return false;
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
/// 2.3 times for seven; H200). On a CPU writing the windows down is for many rows: of 18 layers of ResNet and VGG with
/// so many all are, 1.04 to 8.4 times, of 12 with fewer two, 1.1 times (Intel Xeon with AVX-512). So it is for few
/// terms that no group has to itself: of VGG, LeNet and DCGAN three such layers take 1.04 to 1.3 times as long as
/// gathered in one minute and half as long in another, which reads far apart (EPYC, a virtual machine). Of ten
/// depthwise layers with stride 1 gathering is 4 to 13 times as quick.
bool is_weight_quicker_unfolded(Device device, int64_t groups, int64_t rows, int64_t terms, int64_t places) {
  constexpr int64_t kManyRows = 256, kTermsOfOneVector = 32;
  if (device.kind == DeviceKind::cpu) return rows >= kManyRows || (groups == 1 && terms <= kTermsOfOneVector);
  constexpr int64_t kFewRows = 32, kFewTerms = 128, kManyElements = 1 << 23, kElementsOfOpenCl = 1 << 22;
  const int64_t elements = terms * places;
  if (device.kind == DeviceKind::opencl) return elements < kElementsOfOpenCl;
  return elements < kManyElements || rows > kFewRows || terms <= kFewTerms;
}

/// Whether cuDNN's transformed tiles (Lavin and Gray 2016) are quicker than our gradient by the input: where there are
/// many of them, and channels enough. Of 8 such layers of ResNet and VGG these are 8, 2.1 to 2.5 times as quick (H200).
bool is_quicker_transformed(const Problem& of) {
  constexpr int64_t kManyPlaces = 20'000, kChannels = 64, kTooMany = 512, kMultiple = 8;
  const bool is_3x3 = of.window.taps == Pair{3, 3} && of.window.stride == Pair{1, 1} && of.groups == 1;
  const int64_t fewer = std::min(of.rows, of.channels);
  return is_3x3 && of.images * of.places >= kManyPlaces && fewer >= kChannels && fewer < kTooMany &&
         of.rows % kMultiple == 0 && of.channels % kMultiple == 0;
}

/// Whether a product of few windows by many filters is quicker than a vendor's library, whose blocks have all terms of
/// their results: of 17 layers of ResNet and VGG with so few places all are, 1.3 to 7 times (H200).
bool has_few_places(const Problem& of) {
  constexpr int64_t kFewPlaces = 3200, kManyRows = 128, kChannels = 64;
  return of.groups == 1 && of.images * of.places <= kFewPlaces && of.rows >= kManyRows && of.channels >= kChannels;
}

/// Whether all filters read the one channel that there is: on CUDA its gradients by products are 1.4 to 5.7 times as
/// quick as those of each filter apart (8 layers of one channel, H200), on a CPU with a stride 3.1 and 4.5 times, and
/// the convolution 2.3 times (DCGAN's, Intel Xeon with AVX-512).
bool is_of_one_channel(const Problem& of, const Device& device) {
  constexpr int64_t kRows = 16;
  return device.kind != DeviceKind::opencl && of.groups == 1 && of.channels == 1 && of.rows >= kRows;
}

/// dx of one tap and no border, all of whose elements are one product.
Tensor input_gradient_as_product(const Problem& of) {
  const Tensor turned = of.right.reshape({of.groups, of.rows, of.channels}).permute({0, 2, 1});
  const Tensor read = product_of_places(of.left, turned, {}, kNone);
  if (of.window.stride == Pair{1, 1}) return read;
  const Tensor dx = Tensor::zeros(of.shape, DType::f32, of.left.device());
  subsampled(dx, of.window.stride).copy_(read);
  return dx;
}

/// Each output's share of each tap, then all that fall on one place.
Tensor input_gradient_folded(const Problem& of) {
  const Window& window = of.window;
  const int64_t shares = of.channels * window.taps[0] * window.taps[1];
  const Tensor matrices = of.right.contiguous().reshape({1, of.groups, of.rows, shares});
  const Tensor columns =
      matmul(matrices, of.left.contiguous().reshape({of.images, of.groups, of.rows, of.places}), {.transpose_a = true});
  return fold(columns.reshape({of.images, of.groups * shares, of.places}), {of.shape[2], of.shape[3]},
              {window.taps[0], window.taps[1]}, {window.dilation[0], window.dilation[1]},
              {window.padding[0], window.padding[1]}, {window.stride[0], window.stride[1]});
}

/// The gradient of a convolution by its input [n, c, h, w], of f32 tensors with elements.
Tensor input_gradient(const Tensor& dy, const Tensor& weight, const Shape& shape, const Window& window,
                      int64_t groups) {
  const Device device = dy.device();
  const int64_t n = dy.size(0), rows = weight.size(0) / groups, channels = weight.size(1);
  const int64_t taps = window.taps[0] * window.taps[1];
  const Problem problem{kernels::conv2d_input,  dy, weight, window, groups, shape, rows, channels, n,
                        dy.size(2) * dy.size(3)};
  const Pair size{shape[2], shape[3]};
  const int64_t places = size[0] * size[1];
  const std::optional<Window> back = reversed(window);
  const bool is_folded = is_quicker_folded(dy, weight, groups);
  Ways ways = ways_of(problem);
  const bool is_of_places = is_product_of_places(window, device),
             is_each_apart = is_depthwise(window, channels, device);
  ways[kProduct].applies = ways[kProduct].preferred = is_of_places;
  ways[kDepthwise].applies = channels == 1;
  ways[kDepthwise].preferred = is_each_apart && !is_of_one_channel(problem, device);
  ways[kFolded].applies = true;
  ways[kFolded].preferred = is_folded || !back;
  ways[kUnfolded].applies = back && can_be_unfolded(*back, dy.size(1) * taps * places);
  ways[kUnfolded].preferred =
      device.kind == DeviceKind::cuda || is_quicker_unfolded(device, channels, rows * taps, n * places);
  ways[kGathered].applies = back.has_value();
  const bool is_ours = (is_folded && !ways[kDepthwise].preferred) || is_product(window);
  const Gone gone = choose_way(problem, ways,
                               is_quicker_transformed(problem) ? Quicker::vendors
                               : is_ours                       ? Quicker::ours
                                                               : Quicker::unknown);
  if (gone.way == kByVendor) return gone.result;
  if (gone.way == kProduct) return input_gradient_as_product(problem);
  if (gone.way == kDepthwise) return depthwise_input(dy, weight, shape, window);
  if (gone.way == kFolded) return input_gradient_folded(problem);
  const Tensor turned = weight.reshape({groups, rows, channels, taps}).permute({0, 2, 1, 3});
  const Shape matrices{groups, channels, rows * taps};
  if (gone.way == kUnfolded) {
    return convolved_unfolded(dy, (taps == 1 ? turned : flip(turned, {3})).reshape(matrices), *back, size);
  }
  return convolved_gathered(dy, turned.contiguous().reshape(matrices), {}, *back, size, kNone, true);
}

/// y = max(low, conv(x, weight) + bias), all f32 with elements.
Tensor convolution(const Tensor& x, const Tensor& weight, const Tensor& bias, const Window& window, const Pair& outputs,
                   int64_t groups, float low) {
  const Device device = x.device();
  const int64_t rows = weight.size(0) / groups, channels = weight.size(1), places = outputs[0] * outputs[1];
  const int64_t terms = channels * window.taps[0] * window.taps[1], images = x.size(0);
  const Problem problem{
      kernels::conv2d, x,      weight, window, groups, {images, weight.size(0), outputs[0], outputs[1]}, rows,
      channels,        images, places};
  Ways ways = ways_of(problem);
  ways[kProduct].applies = ways[kProduct].preferred = is_product_of_places(window, device);
  ways[kDepthwise].applies = channels == 1;
  ways[kDepthwise].preferred =
      is_depthwise(window, channels, device) && !(device.kind == DeviceKind::cpu && is_of_one_channel(problem, device));
  ways[kUnfolded].applies = can_be_unfolded(window, groups * terms * places);
  ways[kUnfolded].preferred = is_quicker_unfolded(device, rows, terms, images * places);
  const bool is_ours = is_product(window) || has_few_places(problem);
  const Gone gone = choose_way(problem, ways, is_ours ? Quicker::ours : Quicker::unknown);
  const Tensor matrices = weight.contiguous().reshape({groups, rows, terms});
  if (gone.way == kProduct) return product_of_places(subsampled(x, window.stride), matrices, bias, low);
  if (gone.way == kDepthwise) return depthwise(x, weight, bias, window, outputs, low);
  if (gone.way == kGathered) return convolved_gathered(x, matrices, bias, window, outputs, low);
  const Tensor y = gone.way == kByVendor ? gone.result : convolved_unfolded(x, matrices, window, outputs);
  add_bias(y, bias, low);
  return y;
}

/// The gradient of a convolution by its weight, of f32 tensors with elements; as `shape`, or to be seen so.
Tensor weight_gradient(const Tensor& dy, const Tensor& x, const Shape& shape, const Window& window, const Pair& outputs,
                       int64_t groups) {
  const Device device = dy.device();
  const int64_t rows = dy.size(1) / groups, channels = x.size(1) / groups, images = x.size(0);
  const int64_t terms = channels * window.taps[0] * window.taps[1], places = outputs[0] * outputs[1];
  const Problem problem{kernels::conv2d_weight, dy, x, window, groups, shape, rows, channels, images, places};
  Ways ways = ways_of(problem);
  const bool is_over_places = is_product_over_places(window, groups, shape, device);
  ways[kProduct].applies = is_product(window);
  ways[kProduct].preferred = is_over_places;
  ways[kDepthwise].applies = channels == 1;
  ways[kDepthwise].preferred = is_depthwise(window, channels, device) && !is_of_one_channel(problem, device);
  ways[kUnfolded].applies = can_be_unfolded(window, groups * terms * places);
  ways[kUnfolded].preferred = is_weight_quicker_unfolded(device, groups, rows, terms, images * places);
  const Gone gone = choose_way(problem, ways);
  if (gone.way == kByVendor) return gone.result;
  if (gone.way == kProduct) return product_over_places(dy, subsampled(x, window.stride), groups);
  if (gone.way == kDepthwise) return depthwise_weight(dy, x, shape, window);
  if (gone.way == kUnfolded) return weight_gradient_unfolded(dy, x, window, groups);
  return weight_gradient_gathered(dy, x, window, outputs, groups);
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
    const Tensor added = bias.defined() ? forms::as_f32(kName, bias) : bias;
    const float low = activation == Conv2dActivation::relu ? 0.0F : kNone;
    y = convolution(images, filters, added, window, outputs, groups, low);
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
  const Shape shape{grads.size(1), images.size(1) / groups, window.taps[0], window.taps[1]};
  if (shape.numel() == 0 || grads.numel() == 0 || images.numel() == 0)
    return Tensor::zeros(shape, dy.dtype(), dy.device());
  return weight_gradient(grads, images, shape, window, outputs, groups).reshape(shape).to(dy.dtype());
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
