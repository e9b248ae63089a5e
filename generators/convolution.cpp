// Convolution of images, as a product of matrices whose right-hand one is never written down.
//
// The input is copied once into a frame (convolution_frame.cpp). There the elements that a tap reads for all outputs
// follow one another, `offset[tap]` behind the first one's: y[o, f] = Σ_t w[o, t] frame[offset[t] + f]. What lies
// between two rows' outputs is worked out and dropped (on the CPU) or skipped (on a GPU).
#include "generators/window.h"
#include "schedules/broadcast.h"
#include "schedules/contraction_plans.h"

namespace ashlar::dsl {
namespace {

// How a GPU computes a product whose right-hand operand is gathered: by tiles with as many rows as there are, or where
// these are too few for all of it, by small ones whose threads share the terms. Of few terms most of the work is to
// store results.
constexpr int kColumns = 128, kRows = 64;  // of a tile
constexpr int kFewTerms = 16;
constexpr int kNoQuads = 1;  // a stride of batches that keeps operands from being copied by quads

bool on_cuda() { return Descriptor::target.has_feature(Halide::Target::CUDA); }

std::vector<PlanDescription> gathered_plans(const ContractionProblem& p) {
  const auto tiles = [&](int rows) {
    return (p.columns + kColumns - 1) / kColumns * ((p.rows + rows - 1) / rows) * p.batches;
  };
  const Expr least = on_cuda() ? 96 : 12;
  const Expr is_few = Halide::select(p.rows <= 16, tiles(16), p.rows <= 32, tiles(32), tiles(kRows)) < least;
  return {{.name = "shared_terms", .applies = is_few},
          {.name = "tiles_of_16", .applies = p.rows <= 16},
          {.name = "tiles_of_32", .applies = p.rows <= 32},
          {.name = "tiles"}};
}

ContractionPlan gathered_plan(const ContractionProblem& p, const std::string& name) {
  const bool is_split = name == "shared_terms";
  const int rows = name == "tiles_of_16" ? 16 : name == "tiles_of_32" ? 32 : kRows;
  if (is_split && !on_cuda()) return split_plan(p, {.columns = 16, .rows = 16, .parts = 4, .unroll = 4}, name);
  if (name == "few_terms" || !on_cuda()) {
    const WorkgroupTile tile{
        .columns = 64, .rows = rows, .thread_columns = 4, .thread_rows = rows / 8, .depth = kFewTerms, .unroll = 4};
    return tile_plan(p, tile, TileLoads::single, name, {});
  }
  // Of few rows a warp has little to do between its copies: two of them share a tile's terms.
  const bool is_wide = rows == kRows && !is_split;
  const PipelinedTile tile{.lane_rows = rows == 16 ? 4 : 8,
                           .lane_columns = rows == kRows ? 8 : 4,
                           .lanes_n = 8,
                           .warps_m = is_wide ? 2 : 1,
                           .warps_n = is_wide    ? 2
                                      : is_split ? 1
                                                 : 4,
                           .warps_k = is_wide    ? 1
                                      : is_split ? 4
                                                 : 2,
                           .depth = is_wide ? 16 : 8,
                           .stages = 3,
                           .order = PipelinedOrder::rows,
                           .lead = 8};
  return pipelined_plan(p, tile, {}, name, {});
}

}  // namespace

// y[b,o,p,q] = max(low, bias[g,o] + Σ_t weight[g,o,t] frame[n image_step + g group_step + offsets[t] + f]), b = (n, g)
// On the CPU f = p row_step + q. On a GPU an image is one row, p = 0: f = q / width row_step + q % width.
template <ElementType T>
class Convolution : public Kernel<Convolution<T>> {
 public:
  In<T, 1> frame{"frame"};
  In<T, 3> weight{"weight", strided};  // [groups, rows, taps]
  In<T, 1> bias{"bias"};               // [groups · rows]
  In<i32, 1> offsets{"offsets", {weight.size(2)}};
  Scalar<int32_t> image_step{"image_step"}, group_step{"group_step"}, row_step{"row_step"}, width{"width"},
      reach{"reach"}, has_bias{"has_bias"};
  Scalar<float> low{"low"};
  Plans plans;
  Out<T, 4> y{"y", {any_size, weight.size(1), any_size, any_size}};

  Convolution() {
    this->formula("y[b,o,p,q] = max(low, bias[o] + Σ_t weight[g,o,t] frame[offsets[t] + p row_step + q])").internal();
    this->flops("2.0 * static_cast<double>(shapes[4].numel()) * static_cast<double>(shapes[1][2])");
  }

  void algorithm() {
    const Expr rows = weight.extent(1), groups = weight.extent(0);
    Expr sum;
    if (!on_gpu()) {
      plans.declare({{.name = "one_row", .applies = rows <= kFewRows}, {.name = "rows"}});
      define_strips();
      sum = strip(p * scalar_of(row_step) + q, o, b);
    } else {
      define_product(groups);
      sum = plan.product(q, o, b);
    }
    const Value added = select(Value(scalar_of(has_bias) != 0), bias(Value(bias_of(b, o))), 0.0f);
    y(b, o, p, q) = max(Value(sum) + added, Value(low));
  }

  void schedule(Cpu) {
    const int lanes = Descriptor::target.natural_vector_size<float>();
    const int rows = micro_rows(), wide = micro_vectors() * lanes;
    const auto y_extent = [this](int d) { return y.func().output_buffer().dim(d).extent(); };
    // A strip of the frame that stays in the first-level cache's part for one row of sums; tasks of equal work.
    constexpr int kStrip = 1024, kWorkOfTask = 1 << 18;
    const Expr lines = Halide::clamp(kStrip / Halide::max(1, scalar_of(row_step)), 1, Halide::max(1, y_extent(1)));
    const Expr work = lines * Halide::max(1, y_extent(0)) * rows * Halide::max(1, weight.extent(2));
    Var o_tile("o_tile"), o_in("o_in"), p_block("p_block"), p_in("p_in"), item("item"), task("task");
    using Halide::TailStrategy;
    plans.schedule(y.func(), [&](const std::string&, Halide::Stage out) {
      out.split(o, o_tile, o_in, rows, TailStrategy::GuardWithIf)
          .split(p, p_block, p_in, lines, TailStrategy::GuardWithIf)
          .reorder(q, p_in, o_in, o_tile, p_block, b)
          .fuse(o_tile, p_block, item)
          .fuse(item, b, item)
          .split(item, task, item, Halide::max(1, kWorkOfTask / work), TailStrategy::GuardWithIf)
          .parallel(task)
          .vectorize(q, lanes, TailStrategy::GuardWithIf);
    });
    Var f("f"), f_tile("f_tile"), f_in("f_in");
    strip.compute_at(y.func(), item)
        .split(f_, f_tile, f_in, wide, TailStrategy::RoundUp)
        .split(o, o_tile, o_in, rows, TailStrategy::RoundUp)
        .reorder(f_in, o_in, f_tile, o_tile, b)
        .vectorize(f_in, lanes)
        .unroll(f_in)
        .unroll(o_in);
    sums.compute_at(strip, f_tile).store_in(Halide::MemoryType::Stack);
    sums.bound_extent(f_, wide).bound_extent(o, rows).bound_extent(b, 1);
    sums.vectorize(f_, lanes).unroll(f_).unroll(o);
    sums.update().reorder(f_, o, taps, b).vectorize(f_, lanes).unroll(f_).unroll(o);
  }
  void schedule(auto target) {
    plans.schedule(y.func(), [&](const std::string&, Halide::Stage out) {
      out.reorder(q, o, b, p);
      plan.schedule_output(out);
    });
    plan.schedule_stages(y.func());
    if (plans.chosen() == "by_element" || std::is_same_v<decltype(target), OpenCL>) index_arithmetic();
  }

 private:
  static constexpr int kFewRows = 2;

  bool is_one_row() const { return plans.chosen() == "one_row"; }
  // As many sums as there are vector registers for: 16, or with AVX-512 32.
  int micro_rows() const { return is_one_row() ? 1 : Descriptor::target.has_feature(Halide::Target::AVX512) ? 8 : 4; }
  int micro_vectors() const {
    return is_one_row() ? 4 : Descriptor::target.has_feature(Halide::Target::AVX512) ? 2 : 3;
  }

  Expr bias_of(const Expr& batch, const Expr& row) const {
    const Expr rows = weight.extent(1);
    return Halide::unsafe_promise_clamped(batch % weight.extent(0) * rows + Halide::min(row, rows - 1), 0,
                                          bias.extent(0) - 1);
  }
  /// Where the frame of batch b begins, behind offset `tap`.
  Expr base(const Expr& batch, const Expr& tap) const {
    const Expr groups = weight.extent(0);
    return batch / groups * scalar_of(image_step) + batch % groups * scalar_of(group_step) + offsets(Value(tap)).expr();
  }

  // strip(f,o,b) = sums(f,o,b) = Σ_t frame[base + f] · weight[g,o,t]: the sums in registers, strips in a cache
  void define_strips() {
    const Expr rows = weight.extent(1), groups = weight.extent(0);
    taps = Halide::RDom(0, weight.extent(2), "taps");
    // The frame is as much longer as the last vectors reach.
    const Expr beyond = scalar_of(reach);
    const Expr begin = Halide::unsafe_promise_clamped(base(b, taps.x), 0, frame.extent(0) - beyond);
    const Expr row = Halide::clamp(o, 0, rows - 1);
    sums(f_, o, b) = 0.0f;
    sums(f_, o, b) += frame(Value(begin + f_)).expr() * weight(Value(b % groups), Value(row), Value(taps.x)).expr();
    strip(f_, o, b) = sums(f_, o, b);
  }

  void define_product(const Expr& groups) {
    const Expr wide = Halide::max(scalar_of(width), 1), step = scalar_of(row_step);
    const auto frame_at = [this, wide, step](const Expr& batch, const Expr& tap, const Expr& column) {
      const Expr at = base(batch, tap) + column / wide * step + column % wide;
      return frame(Value(Halide::unsafe_promise_clamped(at, 0, frame.extent(0) - 1))).expr();
    };
    const auto weight_at = [this, groups](const Expr& batch, const Expr& row, const Expr& tap) {
      return weight(Value(batch % groups), Value(row), Value(tap)).expr();
    };
    const Expr columns = y.func().output_buffer().dim(0).extent(), batches = y.func().output_buffer().dim(3).extent();
    const ContractionProblem problem{.batches = batches,
                                     .rows = weight.extent(1),
                                     .columns = columns,
                                     .inner = weight.extent(2),
                                     .left = {weight_at, kNoQuads, weight.axis(1).stride(), weight.axis(2).stride(), 0},
                                     .right = {frame_at, kNoQuads, 0, 1, 0},
                                     .result_batch_stride = y.dim(3).stride(),
                                     .result_row_stride = y.dim(2).stride(),
                                     .batch = b,
                                     .row = o,
                                     .column = q};
    std::vector<PlanDescription> all = gathered_plans(problem);
    all.insert(all.begin(), {.name = "by_element", .applies = weight.extent(1) <= kFewRows});
    if (on_cuda()) all.insert(all.end() - 1, {.name = "few_terms", .preferred = weight.extent(2) <= kFewTerms});
    plans.declare(all);
    if (plans.chosen() != "by_element") {
      plan = gathered_plan(problem, plans.chosen());
    } else {
      taps = Halide::RDom(0, weight.extent(2), "taps");
      sums(q, o, b) = 0.0f;
      sums(q, o, b) += frame_at(b, taps.x, Halide::min(q, columns - 1)) * weight_at(b, o, taps.x);
      plan.product = sums;
      plan.schedule_output = [this](Halide::Stage out) {
        Var block("block"), thread("thread");
        out.split(q, block, thread, 128, Halide::TailStrategy::GuardWithIf)
            .fuse(block, o, block)
            .fuse(block, b, block)
            .gpu_blocks(block)
            .gpu_threads(thread);
        sums.compute_at(y.func(), thread).store_in(Halide::MemoryType::Register);
        sums.bound_extent(q, 1).bound_extent(o, 1).bound_extent(b, 1);
      };
      plan.schedule_stages = [](Halide::Func) {};
    }
  }

  ContractionPlan plan;
  Halide::Func strip{"strip"}, sums{"sums"};
  Halide::RDom taps;
  Var b{"b"}, o{"o"}, p{"p"}, q{"q"}, f_{"f"};
};

// part[s,o,t] = Σ_f dy[g,o,f] frame[g group_step + offsets[t] + f], over the s-th share of f; s = (share, g)
template <ElementType T>
class ConvolutionWeight : public Kernel<ConvolutionWeight<T>> {
 public:
  In<T, 1> frame{"frame"};
  In<T, 3> dy{"dy"};  // [groups, rows, f]: rows of outputs as far apart as the frame's
  In<i32, 1> offsets{"offsets"};
  Scalar<int32_t> group_step{"group_step"}, shares{"shares"};
  Plans plans;
  Out<T, 3> part{"part", {any_size, dy.size(1), offsets.size(0)}};

  ConvolutionWeight() {
    this->formula("part[s,o,t] = Σ_f dy[g,o,f] frame[g group_step + offsets[t] + f], the s-th share of f").internal();
    this->flops("2.0 * static_cast<double>(shapes[1].numel()) * static_cast<double>(shapes[2][0])");
  }

  void algorithm() {
    if (!on_gpu()) return define_dots();
    const Expr groups = dy.extent(0), all = dy.extent(2);
    const Expr length = (all + scalar_of(shares) - 1) / Halide::max(scalar_of(shares), 1);
    const auto dy_at = [this, groups, all, length](const Expr& batch, const Expr& row, const Expr& k) {
      const Expr at = batch / groups * length + k;
      return Halide::select(at < all,
                            dy(Value(batch % groups), Value(row), Value(Halide::clamp(at, 0, all - 1))).expr(), 0.0f);
    };
    const auto frame_at = [this, groups, all, length](const Expr& batch, const Expr& k, const Expr& tap) {
      const Expr at = batch / groups * length + Halide::min(k, length - 1);
      const Expr place = batch % groups * scalar_of(group_step) + offsets(Value(tap)).expr() + Halide::min(at, all - 1);
      return frame(Value(Halide::unsafe_promise_clamped(place, 0, frame.extent(0) - 1))).expr();
    };
    const Expr batches = part.func().output_buffer().dim(2).extent();
    const ContractionProblem problem{.batches = batches,
                                     .rows = dy.extent(1),
                                     .columns = offsets.extent(0),
                                     .inner = length,
                                     .left = {dy_at, 0, 0, 1, 0},
                                     .right = {frame_at, 0, 1, 0, 0},
                                     .result_batch_stride = part.dim(2).stride(),
                                     .result_row_stride = part.dim(1).stride(),
                                     .batch = s,
                                     .row = o,
                                     .column = t};
    plans.declare(gathered_plans(problem));
    plan = gathered_plan(problem, plans.chosen());
    part(s, o, t) = Value(plan.product(t, o, s));
  }

  // Tiles of rows and taps; each task has some, of one share or of several.
  void schedule(Cpu) {
    constexpr int kWorkOfTask = 1 << 18;
    const Expr work = Halide::max(1, length()) * micro_rows() * micro_taps();
    Var o_tile("o_tile"), o_in("o_in"), t_tile("t_tile"), t_in("t_in"), item("item"), task("task");
    using Halide::TailStrategy;
    plans.schedule(part.func(), [&](const std::string&, Halide::Stage out) {
      out.split(o, o_tile, o_in, micro_rows(), TailStrategy::GuardWithIf)
          .split(t, t_tile, t_in, micro_taps(), TailStrategy::GuardWithIf)
          .reorder(t_in, o_in, t_tile, o_tile, s)
          .fuse(t_tile, o_tile, item)
          .fuse(item, s, item)
          .split(item, task, item, Halide::max(1, kWorkOfTask / work), TailStrategy::GuardWithIf)
          .parallel(task);
    });
    total.compute_at(part.func(), item).store_in(Halide::MemoryType::Stack);
    total.bound_extent(t, micro_taps()).bound_extent(o, micro_rows()).bound_extent(s, 1).unroll(t).unroll(o);
    total.update().reorder(lane.x, t, o).unroll(t).unroll(o).atomic().vectorize(lane.x);
    sums.compute_at(part.func(), item).store_in(Halide::MemoryType::Stack);
    sums.bound_extent(l, lanes()).bound_extent(t, micro_taps()).bound_extent(o, micro_rows()).bound_extent(s, 1);
    sums.vectorize(l).unroll(t).unroll(o);
    sums.update(0).reorder(l, t, o, whole.x, s).vectorize(l).unroll(t).unroll(o);
    sums.update(1).reorder(l, t, o, s).vectorize(l).unroll(t).unroll(o);
  }
  void schedule(auto target) {
    plans.schedule(part.func(), [&](const std::string&, Halide::Stage out) { plan.schedule_output(out); });
    plan.schedule_stages(part.func());
    if (std::is_same_v<decltype(target), OpenCL>) index_arithmetic();
  }

 private:
  static constexpr int kFewRows = 2;

  static int lanes() { return Descriptor::target.natural_vector_size<float>(); }
  bool is_one_row() const { return plans.chosen() == "one_row"; }
  // As many sums as there are vector registers for, and multiples of three taps.
  int micro_rows() const { return is_one_row() ? 1 : Descriptor::target.has_feature(Halide::Target::AVX512) ? 8 : 4; }
  int micro_taps() const { return is_one_row() ? 9 : 3; }
  /// Of a share, but the last: whole vectors.
  Expr length() const {
    const Expr least = (dy.extent(2) + scalar_of(shares) - 1) / Halide::max(scalar_of(shares), 1);
    return (least + lanes() - 1) / lanes() * lanes();
  }

  // On the CPU, along f, where both factors are dense: sums(l,t,o,s) over f = l mod the vectors' lanes, in registers,
  // total(t,o,s) = Σ_l sums
  void define_dots() {
    plans.declare({{.name = "one_row", .applies = dy.extent(1) <= kFewRows}, {.name = "rows"}});
    const Expr groups = dy.extent(0), all = dy.extent(2);
    const Expr row = Halide::clamp(o, 0, dy.extent(1) - 1), tap = Halide::clamp(t, 0, offsets.extent(0) - 1);
    const Expr first = s / groups * length();
    const Expr vectors = Halide::clamp(all - first, 0, length()) / lanes();
    const auto product = [&](const Expr& at) {
      const Expr place = s % groups * scalar_of(group_step) + offsets(Value(tap)).expr() + at;
      return dy(Value(s % groups), Value(row), Value(Halide::unsafe_promise_clamped(at, 0, all - 1))).expr() *
             frame(Value(Halide::unsafe_promise_clamped(place, 0, frame.extent(0) - 1))).expr();
    };
    whole = Halide::RDom(0, length() / lanes(), "whole");
    whole.where(whole.x < vectors);
    sums(l, t, o, s) = 0.0f;
    sums(l, t, o, s) += product(first + whole.x * lanes() + l);
    // What is left of the last share, no vector.
    const Expr rest = first + vectors * lanes() + l;
    sums(l, t, o, s) +=
        Halide::select(rest < Halide::min(first + length(), all), product(Halide::clamp(rest, 0, all - 1)), 0.0f);
    lane = Halide::RDom(0, lanes(), "lane");
    total(t, o, s) = 0.0f;
    total(t, o, s) += sums(lane.x, t, o, s);
    part(s, o, t) = Value(total(t, o, s));
  }

  ContractionPlan plan;
  Halide::Func sums{"sums"}, total{"total"};
  Halide::RDom whole, lane;
  Var s{"part_index"}, o{"o"}, t{"t"}, l{"l"};
};

// y[p,q,r,s] = max(low, sums[p,q,r,s] + bias[p,q,r,s]): what a vendor's convolution leaves to do
template <ElementType T>
class ConvolutionBias : public Kernel<ConvolutionBias<T>> {
 public:
  In<T, 4> sums{"sums", strided}, bias{"bias", strided};
  Scalar<float> low{"low"};
  Out<T, 4> y{"y", {any_size, any_size, any_size, any_size}};
  BroadcastTunables tunables;

  ConvolutionBias() { this->formula("y = max(low, sums + bias), broadcasting").form(Form::broadcast).internal(); }
  void algorithm() { y(p, q, r, s) = max(sums(p, q, r, s) + bias(p, q, r, s), Value(low)); }
  void schedule(auto target) { broadcast(target, y.func(), {p, q, r, s}, &tunables); }

 private:
  Var p{"p"}, q{"q"}, r{"r"}, s{"s"};
};

const std::vector<DType> kConvolved{DType::f32, DType::f16, DType::bf16};
/// operators/convolution.cpp tells them apart by their places.
const std::vector<std::string> kPlans{"vendor", "product", "depthwise", "folded", "unfolded", "gathered"};
const std::vector<std::string> kPlanSizes{"images", "groups", "rows", "channels", "places", "taps", "stride"};

const std::vector<std::string> kForward{"convolution_frame",     "convolution_offsets",   "convolution",
                                        "pointwise_convolution", "depthwise_convolution", "convolution_bias"};
const std::vector<std::string> kInput{
    "convolution_frame",           "convolution_offsets", "convolution", "pointwise_convolution", "matmul",
    "depthwise_convolution_input", "fold_planes"};
const std::vector<std::string> kWeight{
    "convolution_frame", "convolution_offsets", "convolution_weight", "depthwise_convolution_weight", "sum", "matmul"};
using Kind = FormOption::Kind;

std::vector<OperatorOption> window_options(std::vector<OperatorOption> more = {}) {
  std::vector<OperatorOption> options{{"stride", Kind::integers},
                                      {"padding", Kind::integers},
                                      {"dilation", Kind::integers},
                                      {"groups", Kind::integer, 1}};
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

const std::vector<OperatorOption> kTransposeOptions{{"stride", Kind::integers},
                                                    {"padding", Kind::integers},
                                                    {"output_padding", Kind::integers},
                                                    {"groups", Kind::integer, 1},
                                                    {"dilation", Kind::integers}};

/// Convolutions over other axes than an image's, composed of those over images.
bool add_composed_convolution(const std::string& name, const std::string& formula,
                              const std::vector<OperatorOption>& options, std::vector<std::string> calls,
                              const std::string& more = {}) {
  if (!more.empty()) calls.push_back(more);
  return register_operator({.name = name,
                            .formula = name + "(x, weight, bias)" + formula,
                            .dtypes = kConvolved,
                            .inputs = {{"x"}, {"weight"}, {.name = "bias", .is_optional = true}},
                            .options = options,
                            .outputs = {{"y"}},
                            .calls = std::move(calls),
                            .composed = "operators/composed/convolution.h"});
}

const bool registered =
    register_kernel<Convolution, f32>("convolution") && register_kernel<ConvolutionWeight, f32>("convolution_weight") &&
    register_kernel<ConvolutionBias, f32>("convolution_bias") &&
    register_operator(
        {.name = "conv2d",
         .formula = "conv2d(x, weight, bias)[n,o,p,q] = activation(bias[o] + Σ_{c,i,j} weight[o,c,i,j] x[n, c, "
                    "p stride - padding + i dilation, q stride - padding + j dilation]), x 0 outside, c in o's group",
         .dtypes = kConvolved,
         .inputs = {{"x"}, {"weight"}, {.name = "bias", .is_optional = true}},
         .options = window_options({{"activation", Kind::choice, 0, {"none", "relu"}}}),
         .outputs = {{"y"}},
         .calls = kForward,
         .gradients = {{"x",
                        "conv2d_input(activated_grad(dy, y), weight, image_size(x.shape()), stride, padding, dilation, "
                        "groups)"},
                       {"weight",
                        "conv2d_weight(activated_grad(dy, y), x, image_size(weight.shape()), stride, padding, "
                        "dilation, groups)"},
                       {"bias", "channel_sums(activated_grad(dy, y), bias.shape())"}},
         .saved_when = {{"y", "activation == Conv2dActivation::relu"}},
         .flops = "2.0 * static_cast<double>(shapes[3].numel()) * static_cast<double>(shapes[1].numel()) / "
                  "static_cast<double>(shapes[1][0] + (shapes[1][0] == 0))",
         .vendor = "cudnn_convolution",
         .plans = kPlans,
         .plan_sizes = kPlanSizes}) &&
    register_operator(
        {.name = "conv2d_input",
         .formula = "conv2d_input(dy, weight)[n,c,h,w] = Σ weight[o,c,i,j] dy[n,o,p,q], h = p stride - padding + "
                    "i dilation, w likewise: the gradient of conv2d with respect to x",
         .dtypes = kConvolved,
         .inputs = {{"dy"}, {"weight"}},
         .options = {{"input_size", Kind::integers},
                     {"stride", Kind::integers},
                     {"padding", Kind::integers},
                     {"dilation", Kind::integers},
                     {"groups", Kind::integer, 1}},
         .outputs = {{"dx"}},
         .calls = kInput,
         .gradients = {{"dy", "conv2d_without_bias(ddx, weight, stride, padding, dilation, groups)"},
                       {"weight",
                        "conv2d_weight(dy, ddx, image_size(weight.shape()), stride, padding, dilation, groups)"}},
         .vendor = "cudnn_convolution_input",
         .plans = kPlans,
         .plan_sizes = kPlanSizes}) &&
    register_operator(
        {.name = "conv2d_weight",
         .formula = "conv2d_weight(dy, x)[o,c,i,j] = Σ_{n,p,q} dy[n,o,p,q] x[n, c, p stride - padding + i dilation, "
                    "q stride - padding + j dilation]: the gradient of conv2d with respect to weight",
         .dtypes = kConvolved,
         .inputs = {{"dy"}, {"x"}},
         .options = {{"kernel_size", Kind::integers},
                     {"stride", Kind::integers},
                     {"padding", Kind::integers},
                     {"dilation", Kind::integers},
                     {"groups", Kind::integer, 1}},
         .outputs = {{"dweight"}},
         .calls = kWeight,
         .gradients = {{"dy", "conv2d_without_bias(x, ddweight, stride, padding, dilation, groups)"},
                       {"x", "conv2d_input(dy, ddweight, image_size(x.shape()), stride, padding, dilation, groups)"}},
         .vendor = "cudnn_convolution_weight",
         .plans = kPlans,
         .plan_sizes = kPlanSizes}) &&
    register_operator(
        {.name = "conv1d",
         .formula = "conv1d(x, weight, bias)[n,o,q] = activation(bias[o] + Σ_{c,j} weight[o,c,j] x[n, c, q stride - "
                    "padding + j dilation]), x 0 outside, c in o's group",
         .dtypes = kConvolved,
         .inputs = {{"x"}, {"weight"}, {.name = "bias", .is_optional = true}},
         .options = window_options({{"activation", Kind::choice, 0, {"none", "relu"}}}),
         .outputs = {{"y"}},
         .calls = kForward,
         .gradients = {{kAllInputs,
                        "conv1d_grad(dy, x, weight, y, bias.shape(), stride, padding, dilation, groups, needs)"}},
         .saved_when = {{"y", "activation == Conv1dActivation::relu"}}}) &&
    register_operator(
        {.name = "conv_transpose2d",
         .formula =
             "conv_transpose2d(x, weight, bias)[n,c,h,w] = bias[c] + Σ weight[o,c,i,j] x[n,o,p,q], h = p stride - "
             "padding + i dilation, w likewise: as large as conv2d's input would be, and output_padding larger",
         .dtypes = kConvolved,
         .inputs = {{"x"}, {"weight"}, {.name = "bias", .is_optional = true}},
         .options = kTransposeOptions,
         .outputs = {{"y"}},
         .calls = kInput,
         .gradients = {{"x", "conv2d_without_bias(dy, weight, stride, padding, dilation, groups)"},
                       {"weight",
                        "conv2d_weight(x, dy, image_size(weight.shape()), stride, padding, dilation, groups)"},
                       {"bias", "channel_sums(dy, bias.shape())"}}}) &&
    add_composed_convolution("conv_transpose1d",
                             "[n,c,h] = bias[c] + Σ weight[o,c,j] x[n,o,q], h = q stride - padding + j dilation: as "
                             "long as conv1d's input would be, and output_padding longer",
                             kTransposeOptions, kInput) &&
    add_composed_convolution("conv3d",
                             "[n,o,…,q] = activation(bias[o] + Σ weight[o,c,…,j] x[n, c, …, q stride - padding + j "
                             "dilation]), three axes alike, x 0 outside, c in o's group",
                             window_options({{"activation", Kind::choice, 0, {"none", "relu"}}}), kForward,
                             "unfold_planes") &&
    add_composed_convolution("conv_transpose3d",
                             "[n,c,…,h] = bias[c] + Σ weight[o,c,…,j] x[n,o,…,q], h = q stride - padding + j dilation, "
                             "three axes alike: as large as conv3d's input would be, and output_padding larger",
                             kTransposeOptions, kInput, "add");

}  // namespace ashlar::dsl
