// Family: dense [rows, columns]; y(row, column) from a scan along the columns.
#pragma once

#include <algorithm>
#include <bit>

#include "dsl/kernel.h"

namespace ashlar::dsl {

/// Long rows are cut into blocks, and these into groups: what stands before a block is merged from the states of whole
/// groups and of the blocks of its own group. A block is what a work-group holds in its local memory, so that of a
/// state of many values it has fewer columns.
constexpr int scan_block(int values) {
  return 4096 / static_cast<int>(std::bit_ceil(std::max(2U, static_cast<unsigned>(values))));
}
inline constexpr int kBlocksOfScanGroup = 64, kMostScanValues = 32;
constexpr int scan_group(int values) { return kBlocksOfScanGroup * scan_block(values); }

/// The stages of such a kernel: out(row, column) reads `running` at the same indices. `blocks` and `groups` hold the
/// states of those, (value, row, block) and (value, row, group), as bits in i64; they are defined here.
struct ScanStages {
  Halide::Func running, out, blocks, groups;
  Var row, column;
};

/// Rows and their groups in parallel; within, eight elements by three vector steps, and these one after the other.
void scan(Cpu, const ScanStages& stages);
/// Rows of up to 512 columns (fewer of states beyond 32 bytes) by 32 threads each; longer ones by a work-group for each
/// block, in three launches.
void scan(OpenCL, const ScanStages& stages);
void scan(Cuda, const ScanStages& stages);

/// What a scan by blocks keeps of rows × columns, as a member of a kernel behind its outputs; `values`: how many a
/// state has.
///   ScanScratch states{x.size(0), x.size(1)};
///   running(r, k) = states.scan(k, {x(r, k)}, merge);
class ScanScratch {
 public:
  ScanScratch(const Size& rows, const Size& columns, int values = 1)
      : blocks("blocks", sizes(rows, columns, values, 1)),
        groups("groups", sizes(rows, columns, values, kBlocksOfScanGroup)),
        values_(values) {}

  Scanning scan(const Axis& k, Values element, Merge merge) {
    if (static_cast<int>(merge.init.size()) != values_) {
      mistake("a scan by a merge of " + std::to_string(merge.init.size()) + " values, and its ScanScratch is for " +
              std::to_string(values_) + ": say how many behind rows and columns, ScanScratch states{…, …, " +
              std::to_string(merge.init.size()) + "}");
    }
    Var v("v"), r("r"), b("b"), g("g");
    blocks(v, r, b) = Value(0);
    groups(v, r, g) = Value(0);
    Scanning scanning = dsl::scan(k, std::move(element), std::move(merge));
    scanning.scratch = {blocks.func(), groups.func()};
    return scanning;
  }

  // The bits of states: one dtype for all instances.
  Scratch<i64, 3> blocks, groups;

 private:
  // Of one row where rows are shorter than a block.
  static Sizes sizes(const Size& rows, const Size& columns, int values, int blocks) {
    if (values < 1 || values > kMostScanValues) {
      mistake("a ScanScratch for " + std::to_string(values) + " values; a scan's state has 1 to " +
              std::to_string(kMostScanValues));
    }
    const Size has_several = constant(1) + constant(-1) * (constant(1) / count(columns, scan_block(values)));
    return {constant(values), constant(1) + (rows + constant(-1)) * has_several,
            count(columns, blocks * scan_block(values))};
  }
  // One more than whole ones, so that there is always one.
  static Size count(const Size& columns, int each) { return columns / constant(each) + constant(1); }

  int values_;
};

/// A kernel of Form::rows that scans by a merge of the author's. `S` says which:
///
///   struct RunningSum {
///     static Merge merge(Halide::Type accumulator);   // an element is {x, its index}
///     static Value finish(const Values& state);       // y of a state; its first value without it
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
    static Merge merge() { return S::merge(Halide::type_of<typename Element<A>::Arithmetic>()); }

   public:
    In<T, 2> x{"x"};
    Out<T, 2> y{"y", shape_of(x)};
    ScanScratch states{x.size(0), x.size(1), static_cast<int>(merge().init.size())};

    Rows() {
      this->form(Form::rows);
      S::describe(*this);
    }
    void algorithm() {
      k = x.reduce(1);
      running(r, k) = states.scan(k, {x(r, k), k}, merge());
      if constexpr (requires { S::finish(Values{}); })
        y(r, c) = S::finish(running(r, c));
      else
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
