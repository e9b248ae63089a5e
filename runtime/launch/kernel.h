// What a compiled kernel says about itself: constant tables written by the generators, read by dispatch.
// The only place where the build-time half (dsl, schedules, generators) and the run-time half meet.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <numbers>
#include <optional>
#include <span>
#include <string_view>

#include "runtime/device/device.h"
#include "runtime/tensor/dtype.h"
#include "runtime/tensor/shape.h"

namespace ashlar {

/// What machine code was made for. cpu runs on every x86-64; cpu_avx2 needs AVX2, FMA and F16C; cpu_avx512 needs
/// AVX-512 F, CD, BW, DQ and VL as well, and has f32 instances alone.
enum class CodeTarget : uint8_t { cpu, cpu_avx2, cpu_avx512, opencl, cuda };
inline constexpr int kCodeTargets = 5;
inline constexpr std::array<const char*, kCodeTargets> kCodeTargetNames{"cpu", "cpu_avx2", "cpu_avx512", "opencl",
                                                                        "cuda"};
constexpr const char* name_of(CodeTarget target) { return kCodeTargetNames[static_cast<size_t>(target)]; }
/// Whether machine code of that name runs on a GPU.
constexpr bool is_gpu(std::string_view code_target) {
  return code_target == name_of(CodeTarget::opencl) || code_target == name_of(CodeTarget::cuda);
}

/// The most sizes by which a tuner tells two calls of one form apart (FormSignature::sizes).
inline constexpr int kMostSizes = 8;

/// The class of a size is its logarithm to base 2, rounded: 725 … 1448 are class 10. 0 and 1 are class 0.
constexpr int size_class(int64_t size) {
  const auto square = static_cast<uint64_t>(size) * static_cast<uint64_t>(size);  // sizes are below 2^31
  return std::bit_width(square) / 2;
}

/// What a reduction over no elements is: a ShapeError, or a number.
enum class OfNone : uint8_t { refused, zero, one, nan, minus_infinity };

/// What a reduction over one element is, where that is known without its kernel: the element, or its place, 0.
enum class OfOne : uint8_t { computed, element, place };

/// Argument::element of an input that an operator written by hand takes in whatever dtype.
inline constexpr int8_t kAnyElement = -2;

/// One parameter of a kernel, in the order of its definition.
struct Argument {
  enum class Role : uint8_t { input, scalar, output, scratch };
  const char* name;
  Role role;
  int8_t element;  ///< index into KernelKey::elements, or -1 when the dtype is fixed; kAnyElement
  DType dtype;     ///< the fixed dtype where element is -1
  int8_t rank;
  int8_t in_place_of;       ///< for an output that overwrites an input: that input's index among the inputs; else -1
  bool is_strided = false;  ///< an input whose innermost dimension may have any stride, 0 too; else that stride is 1
  /// Which of the kernel's axes each dimension is: dimensions that must be of one size have one number. Of Form::rows
  /// the rows are 0 and the columns 1.
  std::array<int8_t, kMaxRank> axes = {};
  bool optional = false;  ///< an input that a call may leave undefined
  int8_t given_of = -1;   ///< for a scalar that the form sets to whether an optional input is there: that input's index
  std::optional<double> default_value = {};  ///< of a scalar that a call may leave out
};

/// Which compiled instance of a kernel: its element types and its comptime values (mixed radix, first fastest).
struct KernelKey {
  std::array<DType, 2> elements{DType::f32, DType::f32};
  uint16_t variant = 0;  ///< below kMostVariants

  /// Bits 0 to 4 and 5 to 9 are the elements, 10 to 23 the variant; of a KernelInstance's key, bits 32 to 47 a setting.
  constexpr uint32_t packed() const {
    return static_cast<uint32_t>(elements[0]) | static_cast<uint32_t>(elements[1]) << 5 | uint32_t{variant} << 10;
  }
  /// The key that packed() made, whatever setting stands with it.
  static constexpr KernelKey unpacked(uint64_t key) {
    return {{static_cast<DType>(key & 31), static_cast<DType>(key >> 5 & 31)},
            static_cast<uint16_t>(key >> 10 & 16383)};
  }
};
/// The most combinations of comptime values that one kernel may have.
inline constexpr int kMostVariants = 1 << 14;

/// The most settings of its tunables and plans that one instance may be compiled with.
inline constexpr int kMostSettings = 65534;
/// In a TunedGrid, in place of a setting: as if there were no table. None near: no size near was measured.
inline constexpr uint16_t kUntuned = 65534, kNoneNear = 65535;

/// One compiled function, called the Halide way: addresses of the user context, then of each argument.
struct KernelInstance {
  uint64_t key;  ///< KernelKey::packed(), and from bit 32 on the setting: 0 serves every call
  int (*function)(void** arguments);
  const char* symbol;
  const char* tunables = "";          ///< those that aren't the default's: "tile_rows=128 tile_depth=16"
  const char* device_functions = "";  ///< the GPU functions among which it chooses, separated by blanks
  const char* plan = "";              ///< which of the kernel's plans it is; none: the kernel has one way only
  int plan_index = -1;                ///< its place in PlanSet::settings, also with other tunables

  constexpr int setting() const { return static_cast<int>(key >> 32); }
};
/// The key of another setting of the same instance.
constexpr uint64_t with_setting(uint64_t key, int setting) {
  return (key & 0xffffffffu) | static_cast<uint64_t>(setting) << 32;
}

/// A number by which plans are chosen: a field of an argument's buffer, as compiled kernels see it (Halide's order of
/// dimensions, the innermost first; an input's offset is the negative min of the one behind its last).
struct PlanFeature {
  enum class Field : uint8_t { min, extent, stride };
  uint8_t argument;  ///< index into KernelInfo::arguments
  uint8_t dimension;
  Field field;
};
inline constexpr int kMostPlanFeatures = 48;
inline constexpr int kMostPlans = 64;

/// The plans of one instance, which are compiled by themselves. Made by the build from what the kernel declares
/// (dsl/plans.h).
struct PlanSet {
  uint32_t key;              ///< KernelKey::packed()
  int count;                 ///< of plans
  const uint16_t* settings;  ///< of each plan with default tunables, in the order in which they are tried
  const PlanFeature* features;
  int feature_count;
  /// Which plans may be called, and which of those the kernel's author prefers: a bit each, the first plan's the
  /// lowest. The last plan's are always set.
  void (*judge)(const int* features, uint64_t* applies, uint64_t* preferred);
  /// What each call would take by the author's model, for a device with these numbers (PlanDevice). Null: no model.
  void (*cost)(const int* features, const double* device, double* microseconds);
};
/// What models know of a device, by their indices.
enum class PlanDevice : uint8_t { multiprocessors, gigahertz, gigabytes_per_second, vector_bytes };
inline constexpr int kPlanDeviceNumbers = 4;

/// By which a device and its like are known in a table (FNV-1a). Given the hash of a text, that of it and `text`.
constexpr uint64_t identity_hash(std::string_view text, uint64_t hash = 0xcbf29ce484222325u) {
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return hash;
}

/// Which setting of an instance one measured device runs quickest, by the classes of a call's sizes: a dense box,
/// filled by the build from schedules/tuned/.
struct TunedGrid {
  uint32_t key;             ///< KernelKey::packed()
  uint64_t device, family;  ///< identity_hash() of the device's name, and of what is like it
  const char* device_name;
  std::array<uint8_t, kMostSizes> low;    ///< per size, the lowest class of the box
  std::array<uint8_t, kMostSizes> count;  ///< per size, its number of classes
  const uint16_t* settings;               ///< row-major, the last size fastest; or kUntuned, kNoneNear
};

/// Sizes by half octaves, 8 bits each, the first size's the lowest: 54 … 76 are one with 64. At most kMostSizes.
constexpr uint64_t half_octaves(std::span<const int64_t> sizes) {
  uint64_t classes = 0;
  for (size_t i = 0; i < sizes.size(); i++) {
    const uint64_t size = sizes[i] < 1 ? 1 : static_cast<uint64_t>(sizes[i]), square = size * size;
    const int octaves = std::bit_width(square) - 1;  // of the square: half octaves of the size, rounded down
    constexpr double kHalf = std::numbers::sqrt2;
    const bool is_nearer_above = static_cast<double>(square) >= kHalf * static_cast<double>(uint64_t{1} << octaves);
    classes |= static_cast<uint64_t>(octaves + is_nearer_above) << 8 * i;
  }
  return classes;
}

/// Which of its form's or operator's own plans (FormSignature::plans) one measured device runs quickest.
struct TunedPlans {
  uint64_t device, family;  ///< as TunedGrid has them
  const char* device_name;
  int count;
  const uint64_t* classes;  ///< ascending; half_octaves() of sizes that were measured
  const uint8_t* plans;     ///< of each, an index into FormSignature::plans
};

/// The instances of one kernel for one code target, sorted by key; empty where the target wasn't linked.
struct TargetTable {
  const KernelInstance* instances = nullptr;
  int count = 0;
  const TunedGrid* grids = nullptr;  ///< sorted by key
  int grid_count = 0;
  uint64_t code_hash = 0;  ///< of the compiled code of all instances and settings, the same wherever it was built
  const PlanSet* plans = nullptr;  ///< sorted by key
  int plan_count = 0;
  const TunedPlans* tuned_plans = nullptr;  ///< one for each device that was measured
  int tuned_plans_count = 0;
};

/// A comptime parameter: its name and its values' names.
struct ComptimeInfo {
  const char* name;
  std::span<const char* const> values;
};

/// A vendor library's routine for the same mathematics (runtime/vendor/vendor.h).
struct VendorRoutine;

struct Form;  // runtime/launch/form.h

/// Counts the layouts that the tables in this header have had: raised with every change of one.
inline constexpr uint32_t kTablesVersion = 8;

/// A kernel's constant self-description; or that of an operator written by hand, which calls kernels and has no
/// instances of its own.
struct KernelInfo {
  uint32_t version;  ///< kTablesVersion of the headers that the table was compiled with
  const char* name;
  const char* formula;  ///< one line, the mathematics
  const Form* form;
  std::span<const Argument> arguments;
  std::span<const ComptimeInfo> comptimes;
  int element_count;
  /// Checks the inputs' shapes against each other and writes the outputs' and then the scratch buffers' shapes.
  /// Returns nullptr, or the violated rule as text ("gain[0] == x[1]"). Null where the form gives the shapes.
  const char* (*shape_rule)(const Shape* inputs, Shape* outputs);
  /// Floating-point operations and bytes moved by one call, for the roofline. Shapes: inputs, then outputs.
  double (*flops)(const Shape* shapes);
  std::array<const TargetTable*, kCodeTargets> targets;
  OfNone of_none = OfNone::refused;
  OfOne of_one = OfOne::computed;
  const VendorRoutine* vendor = nullptr;  ///< or none
  /// For a reduction in two passes: what reduces to parts, and the parts to the result. Null: the kernel itself does
  /// both.
  const KernelInfo* parts = nullptr;
  const KernelInfo* last = nullptr;
  /// Of parts that leave a few terms: the last one's work and theirs. Null: they are a part of their own.
  const KernelInfo* last_with_rest = nullptr;
  /// No public function of its own: the runtime or another operator calls it.
  bool is_internal = false;
  bool is_by_hand = false;
  /// Of an operator written by hand: the kernels that it calls, of which some may be internal to it. Else empty.
  std::span<const KernelInfo* const> calls = {};
  std::span<const char* const> axis_names = {};  ///< by the numbers in Argument::axes; "" for those without a name

  int count(Argument::Role role) const {
    int n = 0;
    for (const Argument& a : arguments) n += a.role == role;
    return n;
  }
};

}  // namespace ashlar
