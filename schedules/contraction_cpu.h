// Contractions on the CPU: packed panels and a register micro-kernel (Goto & van de Geijn 2008), a plan for a few rows,
// where packing the right operand would cost more than the product, and those of contraction_cpu_small.h.
#pragma once

#include "schedules/contraction_cpu_small.h"

namespace ashlar::dsl {

/// Sizes of the packed plan: a micro-tile of micro_rows × 2 vectors (of 16 floats, 4), `depth` terms per packed panel
/// for vectors of up to 8 floats, fewer for longer ones: a panel of the right operand then stays within 32 KB, or 64 KB
/// of 16 floats.
struct PackedTile {
  int micro_rows, depth;
};

namespace detail {

/// Products of at most this many rows aren't packed where the right operand is contiguous along n.
inline constexpr int kFewRows = 16;

// product(n, m, b) = Σ_t part(n, m, t, b) + the k % U last terms,  part t = Σ_q Σ_{u<U} left(qU + u, m) · right(n, qU +
// u) A few rows, right operand contiguous along n: it is streamed once, U rows of it side by side, by tasks that each
// take a share of k. A vector of each of them is loaded once for all rows of the product, and the next U rows are asked
// for meanwhile. The last terms stand apart so that no condition is left in the inner loops. The shape alone says how
// many shares there are.
inline ContractionPlan stream_plan(const ContractionProblem& p, const Halide::Func& left, const Halide::Func& right,
                                   int lanes, const Expr& when) {
  using Halide::Func;
  using Halide::TailStrategy;
  constexpr int kShares = 16, kLeastGroups = 16, unroll = 8;
  const Var n = p.column, m = p.row, b = p.batch;
  Var share("share");
  Func part("stream_part"), product("stream");
  const Expr groups = p.inner / unroll;
  const Expr shares = Halide::clamp(groups / kLeastGroups, 1, kShares), length = (groups + shares - 1) / shares;
  Halide::RDom group(0, unroll, 0, length, "group");
  group.where(share * length + group.y < groups);
  const Halide::RDom rest(groups * unroll, p.inner % unroll, "rest"), r_share(0, shares, "r_share");
  const Expr k = (share * length + group.y) * unroll + group.x;
  part(n, m, share, b) = 0.0f;
  part(n, m, share, b) += left(Halide::unsafe_promise_clamped(k, 0, p.inner - 1), m, b) *
                          right(n, Halide::unsafe_promise_clamped(k, 0, p.inner - 1), b);
  product(n, m, b) = 0.0f;
  product(n, m, b) += part(n, m, r_share, b);
  product(n, m, b) += left(rest, m, b) * right(n, rest, b);

  // A strip's sums stay in a cache while long pieces of U rows pass by; 64: whole lines.
  constexpr int kElements = 16384, kLines = 64, kPadding = 272;
  const Expr width = Halide::clamp(kElements / p.rows / kLines * kLines, 256, 8192);
  const Var strip("stream_strip"), x("stream_x");
  return {.name = "stream",
          .when = {when},
          .product = product,
          .schedule_output =
              [=](Halide::Stage out) {
                out.split(n, strip, x, width, TailStrategy::GuardWithIf).reorder(x, m, strip, b);
                out.parallel(b).vectorize(x, lanes, TailStrategy::GuardWithIf);
              },
          .schedule_stages =
              [=](Func out) {
                Func sums = product, parts = part;
                parts.compute_at(out, strip).reorder(n, m, share, b).parallel(share);
                parts.vectorize(n, lanes, TailStrategy::RoundUp).align_storage(n, kPadding);  // rows in different sets
                parts.update().reorder(group.x, m, n, group.y, share, b).unroll(group.x).parallel(share);
                parts.update().vectorize(n, lanes, TailStrategy::GuardWithIf);
                parts.update().prefetch(inputs_of(right)[0], n, group.y, 1, Halide::PrefetchBoundStrategy::NonFaulting);
                sums.compute_at(out, strip).vectorize(n, lanes, TailStrategy::RoundUp);
                sums.update(0).reorder(n, m, r_share, b).vectorize(n, lanes, TailStrategy::RoundUp);
                sums.update(1).reorder(n, m, rest, b).vectorize(n, lanes, TailStrategy::GuardWithIf);
              },
          .microseconds = modelled_stream(p, shares, lanes)};
}

// left(k, row, panel, chunk, b): the left operand in panels of a few rows, a chunk of k of each, as it lies: the terms
// of a row side by side, or the rows of a term.
class PackedLeft {
 public:
  PackedLeft(const ContractionProblem& p, const Halide::Func& left, int lanes, int rows, int depth, const Expr& length)
      : rows_(rows), depth_(depth + 16), b_(p.batch), is_along_k_(p.left.column_stride == 1) {
    is_along_rows_ = p.left.row_stride == 1;
    each_ = Halide::RDom(0, lanes, 0, rows, 0, rounded_up(length, lanes), "each");
    const Expr k = each_.z * lanes + each_.x;
    func_(place_, panel_, chunk_, b_) = Halide::undef<float>();
    func_(place(k, each_.y), panel_, chunk_, b_) = left(chunk_ * length + k, panel_ * rows + each_.y, b_);
  }
  const Expr& is_along_k() const { return is_along_k_; }
  Expr operator()(const Expr& k, const Expr& row, const Expr& panel, const Expr& chunk, const Expr& b) const {
    return func_(place(k, row), panel, chunk, b);
  }
  void schedule(const Halide::LoopLevel& at) const {
    Halide::Func panels = func_;
    panels.compute_at(at).bound_storage(place_, rows_ * depth_);
    Halide::Stage stage = panels.update();
    stage.allow_race_conditions();  // each element has a place of its own
    Halide::Stage along_k = stage.specialize(is_along_k_), along_rows = stage.specialize(is_along_rows_);
    along_k.vectorize(each_.x).unroll(each_.y);
    along_rows.unroll(each_.x).vectorize(each_.y);
  }

 private:
  Expr place(const Expr& k, const Expr& row) const {
    const Expr place = k * select(is_along_k_, 1, rows_) + row * select(is_along_k_, depth_, 1);
    return Halide::unsafe_promise_clamped(place, 0, rows_ * depth_ - 1);
  }

  int rows_, depth_;
  Var b_, place_{"place"}, panel_{"left_panel"}, chunk_{"chunk"};
  Expr is_along_k_, is_along_rows_;
  Halide::RDom each_;
  Halide::Func func_{"packed_left"};
};

// total(n, m, b) = Σ_c tile(n mod N, m mod M, n / N, m / M, c, b): both operands are packed into panels of N columns
// and M rows, a chunk c of k at a time; an N × M tile of sums stays in registers. Tasks are blocks of rows, the right
// operand packed before them.
inline ContractionPlan packed_plan(const ContractionProblem& p, const Halide::Func& left, int lanes,
                                   const PackedTile& tile) {
  using Halide::Func;
  using Halide::Stage;
  using Halide::TailStrategy;
  const Var n = p.column, m = p.row, b = p.batch;
  const CpuTile micro_tile{widest_vectors(lanes) * lanes, tile.micro_rows, lanes};
  const int micro_columns = micro_tile.wide, micro_rows = micro_tile.narrow;
  const int depth = tile.depth * 8 / std::max(lanes, 8);
  Var i("i"), j("j"), right_panel("right_panel"), left_panel("left_panel"), chunk("chunk");
  const Expr chunks = rounded_up(p.inner, depth), length = (p.inner + chunks - 1) / chunks;  // alike
  const Panels packed_right("packed_right", p, vectors_of_columns(p), micro_tile);
  const PackedLeft packed_left(p, left, lanes, micro_rows, depth, length);
  Func micro("micro"), total("total");
  Halide::RDom r(0, length, "r"), r_chunk(0, chunks, "r_chunk");
  r.where(chunk * length + r < p.inner);
  const Expr term = Halide::unsafe_promise_clamped(chunk * length + r, 0, p.inner - 1);
  micro(i, j, right_panel, left_panel, chunk, b) = 0.0f;
  micro(i, j, right_panel, left_panel, chunk, b) +=
      packed_right(i % lanes, term, i / lanes, right_panel, b) * packed_left(r, j, left_panel, chunk, b);
  total(n, m, b) = 0.0f;
  total(n, m, b) += micro(n % micro_columns, m % micro_rows, n / micro_columns, m / micro_rows, r_chunk, b);

  // The shape alone decides about blocks, so that one shape gives the same bits on any number of threads: 32 blocks of
  // rows, of 3 to 16 panels.
  constexpr int kFewRowPanels = 3, kMostRowPanels = 16, kRowBlocks = 32, kMostColumns = 1024;
  const Expr left_panels = rounded_up(p.rows, micro_rows), right_panels = rounded_up(p.columns, micro_columns);
  const Expr row_panels = Halide::clamp((left_panels + kRowBlocks - 1) / kRowBlocks, kFewRowPanels, kMostRowPanels);
  const Expr column_blocks = rounded_up(right_panels, kMostColumns / micro_columns);
  const Expr column_panels = (right_panels + column_blocks - 1) / column_blocks;
  const Var column_block("column_block"), row_block("row_block");
  return {.name = "packed",
          .product = total,
          .schedule_output =
              [=](Stage out) {
                Var x("x"), y("y");
                out.split(n, column_block, x, column_panels * micro_columns, TailStrategy::GuardWithIf)
                    .split(m, row_block, y, row_panels * micro_rows, TailStrategy::GuardWithIf)
                    .reorder(x, y, row_block, column_block, b)
                    .parallel(row_block)
                    .parallel(b)
                    .vectorize(x, lanes, TailStrategy::GuardWithIf);
              },
          .schedule_stages =
              [=](Func out) {
                Func totals = total, sums = micro;
                Var x("x"), y("y"), panel_x("panel_x"), panel_y("panel_y");
                totals.compute_at(out, row_block).split(n, panel_x, x, micro_columns, TailStrategy::RoundUp);
                totals.vectorize(x, lanes).unroll(x);
                totals.update()
                    .split(n, panel_x, x, micro_columns, TailStrategy::RoundUp)
                    .split(m, panel_y, y, micro_rows, TailStrategy::RoundUp)
                    .reorder(x, y, panel_y, panel_x, r_chunk, b)
                    .vectorize(x, lanes)
                    .unroll(x)
                    .unroll(y);
                // bound_storage(…, 1) makes the tile's size a constant: on the stack, then in registers.
                sums.bound(i, 0, micro_columns).bound(j, 0, micro_rows);
                sums.bound_storage(right_panel, 1).bound_storage(left_panel, 1).bound_storage(chunk, 1);
                sums.bound_storage(b, 1).store_in(Halide::MemoryType::Stack).compute_at(totals, panel_y);
                sums.vectorize(i, lanes).unroll(i).unroll(j);
                sums.update().reorder(i, j, r, right_panel, left_panel, chunk, b);
                sums.update().vectorize(i, lanes).unroll(i).unroll(j).specialize(packed_left.is_along_k());
                packed_right.schedule({out, column_block}, PanelsPacked::before);
                packed_left.schedule({totals, r_chunk});
              },
          .tunables = {"micro_rows", "panel_depth"},
          .microseconds = modelled_packed(p, micro_tile, depth)};
}

}  // namespace detail

/// `is_f32`: masked loads are of numbers as they are computed with (schedules/lowering/load_masked.h).
inline std::vector<ContractionPlan> contraction_plans(Cpu, const ContractionProblem& p, const PackedTile& tile,
                                                      EpilogueLength epilogue, bool is_f32) {
  const int lanes = Descriptor::target.natural_vector_size<float>();
  const bool has_long_vectors = detail::has_long_vectors(lanes);
  Var k("k");
  const Var n = p.column, m = p.row, b = p.batch;
  Halide::Func left("left"), right("right");
  const Expr batch = Halide::clamp(b, 0, p.batches - 1);
  left(k, m, b) = p.left_at(k, m, batch);
  right(n, k, b) = p.right_at(n, k, batch);
  const Halide::Func padded_left =
      Halide::BoundaryConditions::constant_exterior(left, 0.0f, {{0, p.inner}, {0, p.rows}});
  const detail::TileSides of_columns = detail::vectors_of_columns(p), of_rows = detail::vectors_of_rows(p);
  const bool unpacked = is_f32 && epilogue == EpilogueLength::none && lanes >= 8;
  using detail::ShortSide;
  std::vector<ContractionPlan> plans{detail::dots_plan<4>("few_rows", p, of_columns, lanes, ShortSide::along_k)};
  // Without a bias they would be quickest for one product in fifty. Few columns are soon packed, as they lie or not.
  if (epilogue != EpilogueLength::none) {
    plans.push_back(detail::dots_plan<4>("few_columns", p, of_rows, lanes, ShortSide::packed));
  }
  // One column is one row of the transposed product (runtime/forms/contraction.cpp).
  if (epilogue != EpilogueLength::long_one)
    plans.push_back(detail::dots_plan<1>("one_row", p, of_columns, lanes, ShortSide::along_k));
  // 32 vector registers hold eight rows of two vectors, and there a tile of one is for results of few columns; of 16
  // two vectors are shared by six rows.
  if (has_long_vectors && !unpacked)
    plans.push_back(detail::direct_plan("direct_narrow", p, of_columns, {lanes, 8, lanes}, epilogue));
  plans.push_back(detail::direct_plan("direct", p, of_columns, {2 * lanes, has_long_vectors ? 8 : 6, lanes}, epilogue));
  // Of 16 registers a long epilogue's constants take those of the sums, which go to memory at each term.
  if (has_long_vectors || epilogue != EpilogueLength::long_one)
    plans.push_back(detail::direct_plan("direct_along", p, of_columns,
                                        {detail::widest_vectors(lanes) * lanes, has_long_vectors ? 4 : 6, lanes},
                                        epilogue, detail::PanelsPacked::before));
  // Layers have few columns and rows along k, where vectors of rows lose.
  if (epilogue == EpilogueLength::none) {
    plans.push_back(detail::direct_plan("direct_rows", p, of_rows, {2 * lanes, 4, lanes}, epilogue));
  }
  if (unpacked) {
    plans.push_back(detail::unpacked_plan("unpacked_row", p, of_columns, {8 * lanes, 1, lanes}));
    plans.push_back(detail::terms_plan("unpacked_terms", p, of_columns, lanes));
    plans.push_back(detail::unpacked_plan("unpacked_narrow", p, of_columns, {lanes, 8, lanes}));
    plans.push_back(
        detail::unpacked_plan("unpacked", p, of_columns, {detail::widest_vectors(lanes) * lanes, 4, lanes}));
    plans.push_back(detail::unpacked_plan("unpacked_rows", p, of_rows, {lanes, 8, lanes}));
  }
  if (is_f32 && epilogue == EpilogueLength::none) plans.push_back(detail::batched_plan(p, lanes));
  plans.push_back(detail::stream_plan(p, left, right, lanes, p.rows <= detail::kFewRows && p.right.column_stride == 1));
  plans.push_back(detail::packed_plan(p, padded_left, lanes, tile));
  return plans;
}

}  // namespace ashlar::dsl
