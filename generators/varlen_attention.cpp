// Attention within packed sequences, on their rows as they lie: tables of tiles, the kernels that go by them, and rows
// of tiles back to packed ones. Calls: operators/varlen_attention.cpp.
#include "generators/attention.h"
#include "generators/attention_gradient.h"
#include "generators/attention_gradients.h"
#include "generators/attention_pair_gradients.h"
#include "schedules/generic.h"

namespace ashlar::dsl {

/// Where packed sequences begin and end, whatever the offsets say: among `total` rows.
struct PackedSequences {
  In<i64, 1> offsets{"offsets"};
  Scalar<int32_t> rows{"rows"}, steps{"steps"};  // of a tile; bits of the number of sequences

  Expr count() const { return offsets.extent(0) - 1; }
  static Expr offset(const In<i64, 1>& of, const Expr& b, const Expr& total) {
    const Expr at = of(Value(Halide::unsafe_promise_clamped(b, 0, of.extent(0) - 1))).expr();
    return Halide::cast<int32_t>(Halide::clamp(at, Halide::cast<int64_t>(0), Halide::cast<int64_t>(total)));
  }
  /// The last of them that begins at or before a place, by `begin`, the largest power of two first; the first where
  /// none does.
  template <class Begin>
  void define_last(Halide::Func last, const Var& place, const Begin& begin) const {
    const Halide::RDom step(0, Value(steps).expr(), "step");
    last(place) = Expr(0);
    const Expr before = last(place), next = before + (Expr(1) << (Value(steps).expr() - 1 - step));
    last(place) = Halide::select(next < count() && begin(Halide::min(next, count())) <= place, next, before);
  }
  Expr first_tile(const Expr& begin, const Expr& b) const {
    return forms::SequenceTiles::first(begin, b, Value(rows).expr());
  }
};

// A row of SequenceTiles' table (runtime/forms/sequence_tiles.h) for each tile.
template <ElementType T>
class SequenceTileTable : public Kernel<SequenceTileTable<T>>, PackedSequences {
 public:
  In<i64, 1> other_offsets{"other_offsets", {offsets.size(0)}};
  Scalar<int32_t> total{"total"}, other_total{"other_total"}, is_causal{"is_causal"}, are_keys{"are_keys"};
  Out<T, 2> table{"table", {any_size, constant(forms::SequenceTiles::kNumbers)}};

  SequenceTileTable() {
    this->formula("which rows of which sequence a tile has, and which of the other side's it meets").internal();
    this->widest_on_cpu(CodeTarget::cpu);
  }
  void algorithm() {
    const Expr all = Value(total).expr(), all_others = Value(other_total).expr(), each = Value(rows).expr();
    define_last(sequence, u, [&](const Expr& b) { return first_tile(offset(offsets, b, all), b); });
    const Expr own = Halide::unsafe_promise_clamped(sequence(u), 0, count() - 1);
    const auto length = [&](const In<i64, 1>& of, const Expr& most) {
      return Halide::max(offset(of, own + 1, most) - offset(of, own, most), 0);
    };
    const Expr begin = offset(offsets, own, all), place = (u - first_tile(begin, own)) * each;
    const Expr own_length = length(offsets, all), others = length(other_offsets, all_others);
    const Expr rows_left = Halide::select(place >= 0, Halide::clamp(own_length - place, 0, each), 0);
    const Expr is_of_keys = Value(are_keys).expr() != 0;
    // The last query sees the last key.
    constexpr int kAll = 1 << 30;
    const Expr shift =
        Halide::select(Value(is_causal).expr() == 0, kAll, is_of_keys, own_length - others, others - own_length);
    const Expr other_place = Halide::select(is_of_keys, Halide::clamp(place - shift, 0, others), 0);
    const Expr last = Halide::select(is_of_keys, others, Halide::clamp(place + rows_left + shift, 0, others));
    const Expr met = Halide::select(rows_left > 0, last - other_place, 0);
    table(u, number) =
        Value(Halide::select(number == 0, begin + Halide::min(place, own_length), number == 1, place, number == 2,
                             rows_left, number == 3, offset(other_offsets, own, all_others) + other_place, number == 4,
                             other_place, number == 5, met, number == 6, shift, own));
  }
  void schedule(Cpu) {
    table.func().unroll(number, forms::SequenceTiles::kNumbers, Halide::TailStrategy::GuardWithIf);
    sequence.compute_at(table.func(), u);
  }
  void schedule(auto) {
    Var thread("thread"), line("line");
    table.func().fuse(number, u, line).gpu_tile(line, thread, 64, Halide::TailStrategy::GuardWithIf);
    sequence.compute_at(table.func(), thread);
  }

 private:
  Halide::Func sequence{"sequence"};
  Var u{"u"}, number{"number"};
};

// y[t,a,c] = x[row of packed row t among tiles, a, c]; 0 for a row of no sequence
template <ElementType T>
class RowsOfTiles : public Kernel<RowsOfTiles<T>>, PackedSequences {
 public:
  In<T, 3> x{"x", strided};
  Out<T, 3> y{"y", {any_size, x.size(1), x.size(2)}};

  RowsOfTiles() {
    this->formula("y[t,a,c] = x[rows (offsets[b] / rows + b) + t - offsets[b], a, c], b the sequence of row t")
        .internal();
    this->widest_on_cpu(CodeTarget::cpu);
  }
  void algorithm() {
    const Expr total = y.func().output_buffer().dim(2).extent();
    define_last(sequence, t, [&](const Expr& b) { return offset(offsets, b, total); });
    const Expr own = Halide::unsafe_promise_clamped(sequence(t), 0, count() - 1);
    const Expr begin = offset(offsets, own, total), end = offset(offsets, own + 1, total);
    const Expr is_there = t >= begin && t < end;
    const Expr at = first_tile(begin, own) * Value(rows).expr() + t - begin;
    const Expr place = Halide::unsafe_promise_clamped(Halide::select(is_there, Halide::min(at, x.extent(0) - 1), 0), 0,
                                                      x.extent(0) - 1);
    const Expr read = x(Value(place), Value(a), Value(c)).expr();
    y(t, a, c) = Value(Halide::select(is_there, read, Halide::Internal::make_zero(read.type())));
  }
  void schedule(Cpu) {
    Var task("task"), each("each");
    const auto nest = [&](Halide::Stage stage) {
      stage.split(t, task, each, 16, Halide::TailStrategy::GuardWithIf).parallel(task);
    };
    Halide::Stage dense = y.func().specialize(x.axis(2).stride() == 1);
    nest(dense);
    dense.vectorize(c, Descriptor::target.natural_vector_size<typename Element<T>::Storage>(),
                    Halide::TailStrategy::GuardWithIf);
    nest(y.func());
    sequence.compute_at(y.func(), each);
  }
  void schedule(auto) {
    constexpr int kPlaces = 64, kRows = 4;
    Var line("line"), block("block"), of_rows("of_rows"), each("each");
    y.func()
        .fuse(c, a, line)
        .split(line, block, line, kPlaces, Halide::TailStrategy::GuardWithIf)
        .split(t, of_rows, each, kRows, Halide::TailStrategy::GuardWithIf)
        .reorder(line, each, of_rows, block)
        .gpu_blocks(of_rows, block)
        .gpu_threads(line, each);
    sequence.compute_at(y.func(), line);
  }

 private:
  Halide::Func sequence{"sequence"};
  Var t{"t"}, a{"a"}, c{"c"};
};

template <ElementType T>
class VarlenAttention : public AttentionOf<VarlenAttention<T>, T, NoDropout, RowsOfSequences> {
 public:
  VarlenAttention() {
    this->formula("y = softmax(scale query keyᵀ) value within each sequence, tile by tile").internal();
  }
};
template <ElementType T>
class VarlenGradients : public AttentionGradients<VarlenGradients<T>, T, RowsOfSequences> {};
template <ElementType T>
class VarlenQueryGradient : public AttentionGradient<VarlenQueryGradient<T>, T, Wanted::query, RowsOfSequences> {};
template <ElementType T>
class VarlenKeyGradient : public AttentionGradient<VarlenKeyGradient<T>, T, Wanted::key, RowsOfSequences> {};
template <ElementType T>
class VarlenValueGradient : public AttentionGradient<VarlenValueGradient<T>, T, Wanted::value, RowsOfSequences> {};
template <ElementType T>
class VarlenPairGradients : public AttentionPairGradients<VarlenPairGradients<T>, T, PairsOfSequences> {};

const bool registered =
    register_kernel<SequenceTileTable, i32>("sequence_tiles") && register_kernel<RowsOfTiles, f32>("rows_of_tiles") &&
    register_kernel<VarlenAttention, f32>("varlen_attention") &&
    register_kernel<VarlenGradients, f32>("varlen_attention_grads") &&
    register_kernel<VarlenQueryGradient, f32>("varlen_query_grad") &&
    register_kernel<VarlenKeyGradient, f32>("varlen_key_grad") &&
    register_kernel<VarlenValueGradient, f32>("varlen_value_grad") &&
    register_kernel<VarlenPairGradients, f32>("varlen_pair_grads") &&
    register_operator(
        {.name = "varlen_attn",
         .formula =
             "varlen_attn(query, key, value, cu_seq_q, cu_seq_k).y of sequence b, rows cu_seq_q[b] to cu_seq_q[b "
             "+ 1] of query and cu_seq_k[b] to cu_seq_k[b + 1] of key and value: attention among these, "
             "[rows, heads, width]. With is_causal its last query sees all of its keys, each before it one less; "
             "scale 0: 1/√width; max_q, max_k: the longest sequences' rows, 0 for as many as there are; logsumexp "
             "[heads, rows]",
         .dtypes = {DType::f32, DType::f16, DType::bf16},
         .inputs = {{"query"}, {"key"}, {"value"}, {"cu_seq_q", DType::i64}, {"cu_seq_k", DType::i64}},
         .scalars = {{.name = "scale", .default_value = "0.0"}},
         .options = {{"max_q"}, {"max_k"}, {.name = "is_causal", .kind = FormOption::Kind::boolean}},
         .scalars_last = true,
         .outputs = {{"y"}, {"logsumexp", DType::f32}},
         .calls = {"sequence_tiles", "rows_of_tiles", "varlen_attention", "cast"},
         .gradients = {{kAllInputs,
                        "varlen_attn_grad(dy, query, key, value, cu_seq_q, cu_seq_k, y, logsumexp, max_q, max_k, "
                        "is_causal, scale, needs)",
                        "autograd/recipes/ragged.h"}}});

}  // namespace ashlar::dsl
