// One draw of the random property test: a case whose sizes, layouts, dtype and options are drawn anew.
//
// Sizes are symbols: extents of a case's inputs that are equal stay equal, those of 1 stay 1 (they broadcast), each
// other one becomes a number of its own. So every case is a template, and a new operator takes part by having one.
// Case::vary draws what a case's functions hold: ranks, axes and options.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/conformance/case.h"
#include "tests/conformance/random.h"

namespace ashlar::conformance {

/// How an input lies in its storage, whatever its extents.
struct View {
  Shape order;  ///< the axes from the outermost in memory to the innermost
  Shape steps;  ///< of each axis: 1 dense, n every n-th element, negative backwards, 0 the same element throughout
  Shape gaps;   ///< of each axis: how much storage is left out after its end
  int64_t offset = 0;  ///< elements before the first
};

struct Draw {
  uint64_t seed = 0;
  const Case* like = nullptr;  ///< the case it was made from
  Case item;                   ///< what to run
  DType dtype = DType::f32;
  bool gradient = false;
  int64_t setting = 0;  ///< modulo the number of the kernel's ways (jobs.h): which one; 0: dispatch

  std::vector<int64_t> extents;            ///< of each symbol
  std::vector<std::vector<int>> symbols;   ///< of each input's axes: an index into `extents`, or −1: fixed
  std::vector<std::optional<View>> views;  ///< of each input; none: dense
  std::vector<double> above;               ///< of each input that holds indices: by how much they exceed the extent

  /// Gives `item` its shapes and placements after `extents` or `views` have changed.
  void apply();
  /// The product of all extents: an upper bound of results and terms of sums, up to constants.
  int64_t terms() const;
  /// Shapes, dtypes, strides, offsets and patterns of the inputs, one a line.
  std::string describe() const;
};

/// Draws from a list of cases, which must outlive it and hold at least one to draw from.
class Drawer {
 public:
  explicit Drawer(std::span<const Case> cases);
  /// The draw of a seed: the same for the same cases.
  Draw draw(uint64_t seed) const;
  /// The kernel of draw(seed), for less.
  const std::string& kernel(uint64_t seed) const { return choose(Random(seed).fork()).like->kernel; }

 private:
  struct Choice {
    const Case* like;
    bool gradient;
  };
  struct Pool {
    std::vector<const Case*> cases;
    std::map<std::string, std::map<std::string, std::vector<const Case*>>> kernels;  ///< and kinds of values
  };
  Choice choose(Random random) const;

  Pool results_, gradients_;
};

/// A shape of that many symbols, one in `ones` of which is a 1 instead (0: none).
Shape symbols(int rank, Random& random, int ones = 6);

/// A Case::vary: `like` with another rank of all inputs that have the first one's shape.
Case any_rank(const Case& like, Random& random);

}  // namespace ashlar::conformance
