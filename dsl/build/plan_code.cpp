#include "dsl/build/plan_code.h"

#include <map>
#include <sstream>

namespace ashlar::dsl {

// As Halide divides: the remainder is never negative, and by zero gives zero.
const char* const kPlanHelpers = R"(static inline long long plan_div(long long a, long long b) {
  if (b == 0) return 0;
  const long long q = a / b;
  return a % b < 0 ? (b > 0 ? q - 1 : q + 1) : q;
}
static inline long long plan_mod(long long a, long long b) { return b == 0 ? 0 : a - plan_div(a, b) * b; }
static inline double plan_ceil(double x) {
  const double whole = (double)(long long)x;
  return whole < x ? whole + 1 : whole;
}
template <class T> static inline T plan_min(T a, T b) { return b < a ? b : a; }
template <class T> static inline T plan_max(T a, T b) { return a < b ? b : a; }
)";

namespace {

using namespace Halide::Internal;
using Halide::Expr;

/// A field of an argument's buffer, in the order of PlanSet::features.
struct Feature {
  size_t argument;
  int dimension;
  std::string field;
  auto operator<=>(const Feature&) const = default;
};

[[noreturn]] void refuse(const std::string& plan, const std::string& what) {
  mistake("the plan " + plan + " asks for " + what +
          "; its conditions and model may read extents, strides and offsets of inputs and outputs, and models numbers "
          "of the device");
}

/// "a.stride.0", "y$1.extent.2"
class Features {
 public:
  explicit Features(const KernelSummary& kernel) : kernel_(kernel) {}

  std::string name_of(const std::string& variable) {
    std::istringstream parts(variable);
    std::string buffer, field, dimension;
    std::getline(parts, buffer, '.');
    std::getline(parts, field, '.');
    std::getline(parts, dimension);
    buffer = buffer.substr(0, buffer.find('$'));
    for (size_t i = 0; i < kernel_.arguments.size(); i++) {
      const ArgumentDescription& argument = kernel_.arguments[i];
      const bool is_tensor = argument.role == Argument::Role::input || argument.role == Argument::Role::output;
      if (argument.name != buffer || !is_tensor || dimension.empty()) continue;
      for (const char* known : {"min", "extent", "stride"}) {
        if (field != known) continue;
        used_[{i, std::stoi(dimension), known}] = true;
        return "f_" + buffer + "_" + field + "_" + dimension;
      }
    }
    return {};
  }
  const std::map<Feature, bool>& used() const { return used_; }

 private:
  const KernelSummary& kernel_;
  std::map<Feature, bool> used_;
};

/// An expression as C++ over features and numbers of the device. Integers are 64 bits wide.
class AsCpp : public IRVisitor {
 public:
  AsCpp(Features& features, const std::string& plan) : features_(features), plan_(plan) {}

  std::string operator()(const Expr& e) {
    e.accept(this);
    return std::move(text_);
  }

 private:
  using IRVisitor::visit;
  std::string of(const Expr& e) { return AsCpp(features_, plan_)(e); }
  void infix(const Expr& a, const char* sign, const Expr& b) { text_ = "(" + of(a) + " " + sign + " " + of(b) + ")"; }
  void call(const char* function, const Expr& a, const Expr& b) {
    text_ = std::string(function) + "(" + of(a) + ", " + of(b) + ")";
  }
  static bool is_real(const Expr& e) { return e.type().is_float(); }

  void visit(const IntImm* op) override { text_ = std::to_string(op->value) + "ll"; }
  void visit(const UIntImm* op) override {
    text_ = op->type.is_bool() ? (op->value ? "true" : "false") : std::to_string(op->value) + "ll";
  }
  void visit(const FloatImm* op) override {
    std::ostringstream number;
    number.precision(17);
    number << std::scientific << op->value;
    text_ = number.str();
  }
  void visit(const StringImm* op) override { refuse(plan_, "the text " + op->value); }
  void visit(const Variable* op) override {
    constexpr const char* kDevice[] = {"device.multiprocessors", "device.gigahertz", "device.gigabytes_per_second",
                                       "device.vector_bytes"};
    static_assert(std::size(kDevice) == kPlanDeviceNumbers);
    for (size_t i = 0; i < std::size(kDevice); i++) {
      if (op->name == kDevice[i]) {
        text_ = "device[" + std::to_string(i) + "]";
        return;
      }
    }
    text_ = features_.name_of(op->name);
    if (text_.empty()) refuse(plan_, op->name);
  }
  void visit(const Cast* op) override {
    const std::string value = of(op->value);
    text_ = is_real(op) ? "(double)" + value : op->type.is_bool() ? "(bool)" + value : "(long long)" + value;
  }
  void visit(const Add* op) override { infix(op->a, "+", op->b); }
  void visit(const Sub* op) override { infix(op->a, "-", op->b); }
  void visit(const Mul* op) override { infix(op->a, "*", op->b); }
  void visit(const Div* op) override { is_real(op) ? infix(op->a, "/", op->b) : call("plan_div", op->a, op->b); }
  void visit(const Mod* op) override { call("plan_mod", op->a, op->b); }
  void visit(const Min* op) override { call(is_real(op) ? "plan_min<double>" : "plan_min<long long>", op->a, op->b); }
  void visit(const Max* op) override { call(is_real(op) ? "plan_max<double>" : "plan_max<long long>", op->a, op->b); }
  void visit(const EQ* op) override { infix(op->a, "==", op->b); }
  void visit(const NE* op) override { infix(op->a, "!=", op->b); }
  void visit(const LT* op) override { infix(op->a, "<", op->b); }
  void visit(const LE* op) override { infix(op->a, "<=", op->b); }
  void visit(const GT* op) override { infix(op->a, ">", op->b); }
  void visit(const GE* op) override { infix(op->a, ">=", op->b); }
  void visit(const And* op) override { infix(op->a, "&&", op->b); }
  void visit(const Or* op) override { infix(op->a, "||", op->b); }
  void visit(const Not* op) override { text_ = "!" + of(op->a); }
  void visit(const Select* op) override {
    text_ = "(" + of(op->condition) + " ? " + of(op->true_value) + " : " + of(op->false_value) + ")";
  }
  void visit(const Halide::Internal::Let* op) override { refuse(plan_, "a value with a name, " + op->name); }
  void visit(const Call* op) override {
    if (op->is_intrinsic(Call::likely) || op->is_intrinsic(Call::likely_if_innermost) ||
        op->is_intrinsic(Call::unsafe_promise_clamped)) {
      text_ = of(op->args[0]);
    } else if (op->name == "ceil_f32" || op->name == "ceil_f64") {
      text_ = "plan_ceil(" + of(op->args[0]) + ")";
    } else {
      refuse(plan_, "the value of " + op->name);
    }
  }
  void visit(const Load* op) override { refuse(plan_, "elements of " + op->name); }
  void visit(const Ramp*) override { refuse(plan_, "a vector"); }
  void visit(const Broadcast*) override { refuse(plan_, "a vector"); }
  void visit(const Shuffle*) override { refuse(plan_, "a vector"); }
  void visit(const VectorReduce*) override { refuse(plan_, "a vector"); }

  Features& features_;
  const std::string& plan_;
  std::string text_;
};

}  // namespace

PlanCode plan_code(const KernelSummary& kernel, const std::vector<PlanDescription>& plans) {
  const NamedKernel named(kernel.entry->name);
  Features features(kernel);
  std::string judge, cost;
  for (size_t i = 0; i < plans.size(); i++) {
    const PlanDescription& plan = plans[i];
    const auto text = [&](const Expr& e) { return AsCpp(features, plan.name)(e); };
    const std::string bit = std::to_string(i);
    const bool is_last = i + 1 == plans.size();
    judge +=
        "  a |= (unsigned long long)" + (plan.applies.defined() ? text(plan.applies) : "true") + " << " + bit + ";\n";
    judge += "  p |= (unsigned long long)" + (plan.preferred.defined() && !is_last ? text(plan.preferred) : "true") +
             " << " + bit + ";\n";
    if (plan.microseconds.defined()) cost += "  cost[" + bit + "] = " + text(plan.microseconds) + ";\n";
  }
  if (features.used().size() > static_cast<size_t>(kMostPlanFeatures)) {
    mistake("its plans ask for " + std::to_string(features.used().size()) +
            " extents, strides and offsets; there may be " + std::to_string(kMostPlanFeatures));
  }
  std::string list, names;
  for (const auto& [feature, is_used] : features.used()) {
    const std::string &field = feature.field, dimension = std::to_string(feature.dimension);
    names += "  const long long f_" + kernel.arguments[feature.argument].name + "_" + field + "_" + dimension +
             " = f[" + std::to_string(std::ranges::count(list, '{')) + "];\n";
    list += "{" + std::to_string(feature.argument) + ", " + dimension + ", " +
            (field == "min"      ? "0"
             : field == "extent" ? "1"
                                 : "2") +
            "}, ";
  }
  PlanCode code;
  const std::string body = list + judge + cost;
  char hash[17];
  std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(identity_hash(body)));
  code.name = hash;
  code.features = static_cast<int>(features.used().size());
  code.has_model = !cost.empty();
  code.text = "static const Feature features_" + code.name + "[] = {" + (list.empty() ? "{0, 0, 0}" : list) + "};\n" +
              "static void judge_" + code.name +
              "(const int* f, unsigned long long* applies, unsigned long long* preferred) {\n" + names +
              "  unsigned long long a = 0, p = 0;\n" + judge + "  *applies = a;\n  *preferred = p;\n}\n";
  if (code.has_model)
    code.text += "static void cost_" + code.name + "(const int* f, const double* device, double* cost) {\n" + names +
                 cost + "}\n";
  return code;
}

}  // namespace ashlar::dsl
