// What keeps compiled code apart in the cache: two lowered kernels have one digest only where they are the same.
#include <gtest/gtest.h>

#include <Halide.h>

#include <cmath>

#include "dsl/build/lowered_digest.h"

namespace {

using namespace Halide;
using namespace Halide::Internal;

std::string digest_of(const Stmt& statement) {
  ashlar::dsl::Digest digest;
  ashlar::dsl::add_lowered(digest, statement);
  return digest.text();
}
std::string digest_of(const Expr& e) { return digest_of(Evaluate::make(e)); }

Expr variable(const std::string& name, Type type = Int(32)) { return Variable::make(type, name); }
Stmt loop(const std::string& name, ForType kind = ForType::Serial, DeviceAPI api = DeviceAPI::None) {
  return For::make(name, 0, variable("n"), kind, Partition::Auto, api, Evaluate::make(variable(name)));
}

TEST(LoweredDigest, IsOfTheContentAlone) {
  EXPECT_EQ(digest_of(loop("x")), digest_of(loop("x")));
  const Expr shared = variable("a") * 2;
  EXPECT_EQ(digest_of(shared + 1), digest_of(variable("a") * 2 + 1));
}

TEST(LoweredDigest, TellsNumbersApartBitForBit) {
  EXPECT_NE(digest_of(Expr(1e-9f)), digest_of(Expr(2e-9f)));  // both are printed as 0.000000f
  EXPECT_NE(digest_of(Expr(1.0f)), digest_of(Expr(std::nextafter(1.0f, 2.0f))));
  EXPECT_NE(digest_of(Expr(0.0f)), digest_of(Expr(-0.0f)));
  EXPECT_NE(digest_of(make_const(Int(32), 1)), digest_of(make_const(UInt(32), 1)));
  EXPECT_NE(digest_of(make_const(Int(32), 1)), digest_of(make_const(Int(64), 1)));
}

TEST(LoweredDigest, TellsNamesTypesAndOrderApart) {
  const Expr a = variable("a"), b = variable("b");
  EXPECT_NE(digest_of(a - b), digest_of(b - a));
  EXPECT_NE(digest_of(a), digest_of(b));
  EXPECT_NE(digest_of(a), digest_of(variable("a", Int(32, 4))));
  EXPECT_NE(digest_of((a + b) + a), digest_of(a + (b + a)));
  EXPECT_NE(digest_of(Call::make(Int(32), "ab", {a, b}, Call::Extern)),
            digest_of(Call::make(Int(32), "a", {a, b}, Call::Extern)));
  EXPECT_NE(digest_of(Call::make(Int(32), "f", {a}, Call::Extern)),
            digest_of(Call::make(Int(32), "f", {a}, Call::PureExtern)));
  EXPECT_NE(digest_of(Call::make(Int(32), "f", {a, a}, Call::Extern)),
            digest_of(Call::make(Int(32), "f", {a}, Call::Extern)));
}

TEST(LoweredDigest, TellsStatementsApart) {
  EXPECT_NE(digest_of(loop("x")), digest_of(loop("y")));
  EXPECT_NE(digest_of(loop("x")), digest_of(loop("x", ForType::Parallel)));
  EXPECT_NE(digest_of(loop("x", ForType::GPUBlock, DeviceAPI::CUDA)),
            digest_of(loop("x", ForType::GPUBlock, DeviceAPI::OpenCL)));
  const Expr a = variable("a");
  const auto store = [&](const std::string& name, ModulusRemainder alignment) {
    return Store::make(name, a, a, Parameter(), const_true(), alignment);
  };
  EXPECT_NE(digest_of(store("y", {})), digest_of(store("z", {})));
  EXPECT_NE(digest_of(store("y", {})), digest_of(store("y", {4, 0})));
  const Stmt one = store("y", {}), other = store("z", {});
  EXPECT_NE(digest_of(IfThenElse::make(a > 0, one)), digest_of(IfThenElse::make(a > 0, one, one)));
  EXPECT_NE(digest_of(IfThenElse::make(a > 0, one, other)), digest_of(IfThenElse::make(a > 0, other, one)));
  const auto allocate = [&](MemoryType memory, int size) {
    return Allocate::make("s", Float(32), memory, {size}, const_true(), one);
  };
  EXPECT_NE(digest_of(allocate(MemoryType::Register, 8)), digest_of(allocate(MemoryType::GPUShared, 8)));
  EXPECT_NE(digest_of(allocate(MemoryType::Register, 8)), digest_of(allocate(MemoryType::Register, 9)));
}

TEST(LoweredDigest, TellsWhatIsSaidOfArgumentsApart) {
  const auto digest = [](const Parameter& argument) {
    ashlar::dsl::Digest of;
    ashlar::dsl::add_estimates(of, argument);
    return of.text();
  };
  const auto rows = [](int size) {
    Parameter y(Float(32), true, 2, "y");
    y.set_min_constraint(0, 0);
    y.set_extent_constraint(0, size);
    y.set_min_constraint_estimate(1, 0);
    y.set_extent_constraint_estimate(1, size);
    return y;
  };
  EXPECT_EQ(digest(rows(1)), digest(rows(1)));
  EXPECT_NE(digest(rows(1)), digest(rows(2)));
  EXPECT_NE(digest(rows(1)), digest(Parameter(Float(32), true, 2, "y")));
  Parameter scale(Float(32), false, 0, "scale");
  const std::string unsaid = digest(scale);
  scale.set_default_value(make_const(Float(32), 1));
  EXPECT_NE(digest(scale), unsaid);
}

}  // namespace
