// Family: dense [rows, columns]; y(row, column) from a scan along the columns.
#pragma once

#include "dsl/kernel.h"

namespace ashlar::dsl {

/// Long rows are cut into blocks, and these into groups: what stands before a block is merged from the states of whole
/// groups and of the blocks of its own group.
inline constexpr int kScanBlock = 2048, kScanGroup = 64 * kScanBlock;

/// The stages of such a kernel: out(row, column) reads `running` at the same indices. `blocks` and `groups` hold the
/// states of those, (row, block) and (row, group), as bits in i64; they are defined here.
struct ScanStages {
  Halide::Func running, out, blocks, groups;
  Var row, column;
};

/// Rows and their groups in parallel; within, eight elements by three vector steps, and these one after the other.
void scan(Cpu, const ScanStages& stages);
/// Rows of up to 512 columns by 32 threads each; longer ones by a work-group for each block, in three launches.
void scan(OpenCL, const ScanStages& stages);
void scan(Cuda, const ScanStages& stages);

/// What a scan by blocks keeps of rows × columns, as a member of a kernel behind its outputs:
///   ScanScratch states{x.size(0), x.size(1)};
///   running(r, k) = states.scan(k, {x(r, k)}, merge);
class ScanScratch {
 public:
  ScanScratch(const Size& rows, const Size& columns)
      : blocks("blocks", {scratch_rows(rows, columns), count(columns, kScanBlock)}),
        groups("groups", {scratch_rows(rows, columns), count(columns, kScanGroup)}) {}

  Scanning scan(const Axis& k, Values element, Merge merge) {
    Var r("r"), b("b"), g("g");
    blocks(r, b) = Value(0);
    groups(r, g) = Value(0);
    Scanning scanning = dsl::scan(k, std::move(element), std::move(merge));
    scanning.scratch = {blocks.func(), groups.func()};
    return scanning;
  }

  // The bits of states: one dtype for all instances.
  Scratch<i64, 2> blocks, groups;

 private:
  // One more than whole ones, so that there is always one; one row of them where rows are shorter than a block.
  static Size count(const Size& columns, int each) { return columns / constant(each) + constant(1); }
  static Size scratch_rows(const Size& rows, const Size& columns) {
    const Size has_several = constant(1) + constant(-1) * (constant(1) / count(columns, kScanBlock));
    return constant(1) + (rows + constant(-1)) * has_several;
  }
};

/// A kernel of Form::rows that scans by a merge of the author's. `S` says which:
///
///   struct RunningSum {
///     static Merge merge(Halide::Type accumulator);   // an element is {x}
///     static void describe(auto& kernel) { kernel.formula("…").gradient("x", "…"); }
///   };
///   const bool registered = register_scan<RunningSum, f32, f16, bf16>("cumsum");
template <class S>
struct MergedScan {
  template <ElementType T>
  class Rows : public Kernel<Rows<T>> {
    // f16 and bf16 are accumulated in f32.
    static constexpr bool is_narrow = std::is_same_v<T, f16> || std::is_same_v<T, bf16>;
    using A = std::conditional_t<is_narrow, f32, T>;

   public:
    In<T, 2> x{"x"};
    Out<T, 2> y{"y", shape_of(x)};
    ScanScratch states{x.size(0), x.size(1)};

    Rows() {
      this->form(Form::rows);
      S::describe(*this);
    }
    void algorithm() {
      k = x.reduce(1);
      running(r, k) = states.scan(k, {x(r, k)}, S::merge(Halide::type_of<typename Element<A>::Arithmetic>()));
      y(r, c) = running(r, c);
    }
    void schedule(auto target) {
      scan(target, {running.func(), y.func(), states.blocks.func(), states.groups.func(), r, c});
    }

   private:
    Axis k;
    Stage running{"running"};
    Var r{"r"}, c{"c"};
  };
};

template <class S, ElementType... T>
bool register_scan(const std::string& name) {
  return register_kernel<MergedScan<S>::template Rows, T...>(name);
}

}  // namespace ashlar::dsl
