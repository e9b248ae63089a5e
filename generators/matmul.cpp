// Batched matrix product with a fused bias and activation.
#include "schedules/contraction_cpu.h"
#include "schedules/contraction_cuda.h"
#include "schedules/contraction_opencl.h"
#include "schedules/lowering/index_arithmetic.h"

namespace ashlar::dsl {

enum class Epilogue { none, bias, bias_relu, bias_gelu };

// y[b,m,n] = activation(Σ_k a[b,m,k] · b[b,k,n] + bias[n]), summed in f32
template <ElementType T>
class MatMul : public Kernel<MatMul<T>> {
 public:
  In<T, 3> a{"a", strided}, b{"b", strided};  // [batch, m, k], [batch, k, n]; a transpose is a pair of strides
  In<T, 1> bias{"bias"};                      // [n]; read only by the epilogues that add it
  Comptime<Epilogue> epilogue{"epilogue",
                              {{"none", Epilogue::none},
                               {"bias", Epilogue::bias},
                               {"bias_relu", Epilogue::bias_relu},
                               {"bias_gelu", Epilogue::bias_gelu}}};
  Tunable<int> tile_columns{"tile_columns", {64, 32, 128}, On::gpu}, tile_rows{"tile_rows", {64, 32, 128}, On::gpu};
  Tunable<int> thread_rows{"thread_rows", {8, 4}, On::gpu}, tile_depth{"tile_depth", {32, 16}, On::gpu},
      tile_unroll{"tile_unroll", {16, 8, 32}, On::gpu};
  // CUDA, f32: stages in flight, the place of a turn's copies among its work (-1: the tile's own), and at most so many
  // registers of a thread (0: any number)
  Tunable<int> large_stages{"large_stages", {-1, 2, 3}, On::cuda}, large_lead{"large_lead", {-1, 7, 40}, On::cuda},
      large_registers{"large_registers", {0, 168}, On::cuda};
  Tunable<int> medium_stages{"medium_stages", {-1, 2, 3}, On::cuda}, medium_lead{"medium_lead", {-1, 2}, On::cuda},
      medium_registers{"medium_registers", {0, 128}, On::cuda};
  Tunable<int> micro_rows{"micro_rows", {6, 4}, On::cpu}, panel_depth{"panel_depth", {512, 256}, On::cpu};
  Out<T, 3> y{"y", {a.size(0), a.size(1), b.size(2)}};

  MatMul() {
    this->formula("y[…,m,n] = activation(Σ_k a[…,m,k] b[…,k,n] + bias[n])")
        .form(Form::contraction)
        .vendor("cublaslt_matmul");
    this->gradient(kAllInputs, "matmul_grad(dy, a, b, bias, y, options, needs)");
    space_rule("a work-group has 64 to 512 threads", [this] {
      const int threads = tile_columns.value() * tile_rows.value() / (4 * thread_rows.value());
      return threads >= 64 && threads <= 512;
    });
    space_rule("a tile's totals and operands fit into 48 KB of local memory", [this] {
      const int columns = tile_columns.value(), rows = tile_rows.value();
      return 4 * (columns * rows + tile_depth.value() * (columns + rows + 8)) <= 48 * 1024;
    });
    space_rule("a chunk is unrolled no further than it is deep",
               [this] { return tile_unroll.value() <= tile_depth.value(); });
    space_rule("on CUDA, f32 and 16-bit products have different schedules: only what one reads varies", [this] {
      if (!Descriptor::target.has_feature(Halide::Target::CUDA)) return true;
      if (!std::is_same_v<T, f32>) {
        return large_is_default() && medium_is_default();
      }
      return tile_columns.value() == 64 && tile_rows.value() == 64 && thread_rows.value() == 8 &&
             tile_depth.value() == 32 && tile_unroll.value() == 16;
    });
    space_rule("large and medium products are different kernels: one of them varies at a time",
               [this] { return large_is_default() || medium_is_default(); });
    space_rule("fewer registers are for more blocks on a multiprocessor, as its registers and shared memory allow",
               [this] {
                 PipelinedTuning free = tuning();
                 free.large_registers = free.medium_registers = 0;
                 const WideTiles with(tuning()), without(free);
                 const auto pays = [](const PipelinedTile& some, const PipelinedTile& any) {
                   return some.registers == 0 || some.resident_blocks() > any.resident_blocks();
                 };
                 return pays(with.large_tn, without.large_tn) && pays(with.medium, without.medium);
               });
    space_rule("a tile's stages fit into the 99 KB of shared memory that GPUs have from sm_80 on", [this] {
      const WideTiles tiles(tuning());
      return std::max({tiles.large_nn.shared_bytes(), tiles.large_nt.shared_bytes(), tiles.large_tn.shared_bytes(),
                       tiles.large_tt.shared_bytes(), tiles.medium.shared_bytes(), tiles.medium_nt.shared_bytes(),
                       tiles.medium_tt.shared_bytes()}) <= 99 << 10;
    });
    this->saved_when("y", "options.activation == Activation::relu");
    this->saved_when("bias", "options.activation == Activation::gelu");
    this->flops("2.0 * static_cast<double>(shapes[0].numel()) * static_cast<double>(shapes[1].back())");
  }

  void algorithm() {
    const ContractionProblem problem{.batches = a.extent(0),
                                     .rows = a.extent(1),
                                     .columns = b.extent(2),
                                     .inner = a.extent(2),
                                     .left = matrix_operand(a),
                                     .right = matrix_operand(b),
                                     .result_batch_stride = y.dim(2).stride(),
                                     .result_row_stride = y.dim(1).stride(),
                                     .batch = batch,
                                     .row = m,
                                     .column = n};
    product.define(plans(problem));
    Value sum = product(batch, m, n);
    if (epilogue.value() != Epilogue::none) sum = sum + bias(n);
    if (epilogue.value() == Epilogue::bias_relu) sum = relu(sum);
    if (epilogue.value() == Epilogue::bias_gelu) sum = gelu(sum);
    y(batch, m, n) = sum;
  }
  void schedule(OpenCL) {
    product.schedule(y.func());
    index_arithmetic();
  }
  void schedule(auto) { product.schedule(y.func()); }

 private:
  PipelinedTuning tuning() const {
    return {large_stages.value(),  large_lead.value(),  large_registers.value(),
            medium_stages.value(), medium_lead.value(), medium_registers.value()};
  }
  bool large_is_default() const {
    return large_stages.value() == PipelinedTuning::kOwn && large_lead.value() == PipelinedTuning::kOwn &&
           large_registers.value() == 0;
  }
  bool medium_is_default() const {
    return medium_stages.value() == PipelinedTuning::kOwn && medium_lead.value() == PipelinedTuning::kOwn &&
           medium_registers.value() == 0;
  }
  std::vector<ContractionPlan> plans(const ContractionProblem& problem) const {
    const PackedTile packed{.micro_rows = micro_rows, .depth = panel_depth, .unroll = 4};
    const WorkgroupTile tile{.columns = tile_columns,
                             .rows = tile_rows,
                             .thread_columns = 4,
                             .thread_rows = thread_rows,
                             .depth = tile_depth,
                             .unroll = tile_unroll};
    if (Descriptor::target.has_feature(Halide::Target::CUDA)) {
      if (!std::is_same_v<T, f32>) return narrow_contraction_plans(problem, tile);
      const auto length =
          epilogue.value() == Epilogue::bias_gelu ? EpilogueLength::long_one : EpilogueLength::short_one;
      return contraction_plans(Cuda{}, problem, tuning(), length);
    }
    if (Descriptor::target.has_feature(Halide::Target::OpenCL)) {
      return std::is_same_v<T, f32> ? wide_contraction_plans(OpenCL{}, problem, tile)
                                    : contraction_plans(OpenCL{}, problem, tile);
    }
    const std::vector<ContractionPlan> on_cpu = contraction_plans(Cpu{}, problem, packed);
    // Plans for one row, few rows and the like cost 30 KB in each instance; the last one is for any size. The others
    // go, from AVX2 on, to f32, but for GELU's long code, and to plain 16-bit products.
    const bool all_plans = Descriptor::target.has_feature(Halide::Target::AVX2) &&
                           epilogue.value() != Epilogue::bias_gelu &&
                           (std::is_same_v<T, f32> || epilogue.value() == Epilogue::none);
    if (!all_plans) return {on_cpu.back()};
    return on_cpu;
  }
  Contraction product;
  Var batch{"batch"}, m{"m"}, n{"n"};
};

const bool registered = register_kernel<MatMul, f32, f16, bf16>("matmul");

}  // namespace ashlar::dsl
