// OpenCL C as Halide writes it becomes what every compiler of it takes.
#include <gtest/gtest.h>

#include <stdexcept>

#include "dsl/build/opencl_source.h"

namespace ashlar::dsl {
namespace {

TEST(OpenClSource, DefinesConversionsForTheWidthsInUse) {
  EXPECT_EQ(rewrite_opencl("  float8 _5 = ashlar_f32_from_f16(_4);\n  ushort _7 = ashlar_f16_from_f32(_6);\n"),
            "ushort ashlar_f16_from_f32(float f) { ushort h; vstore_half_rte(f, 0, (half*)&h); return h; }\n"
            "float8 ashlar_f32_from_f16_8(ushort8 h) { return vload_half8(0, (const half*)&h); }\n"
            "float8 _5 = ashlar_f32_from_f16_8(_4);\nushort _7 = ashlar_f16_from_f32(_6);\n");
}

TEST(OpenClSource, DefinesEachFunctionOnce) {
  const std::string call = "float4 _5 = ashlar_f32_from_f16(_4);\n";
  const std::string program = rewrite_opencl(call + call);
  EXPECT_EQ(program.find("vload_half4"), program.rfind("vload_half4")) << program;
}

TEST(OpenClSource, RoundsToBf16ByTheInstructionThatADeviceHas) {
  const std::string program = rewrite_opencl("ushort2 _5 = ashlar_bf16_from_f32(_4);\n");
  EXPECT_EQ(program.find("#ifdef ASHLAR_PTX_BF16\nushort2 ashlar_bf16_from_f32_2(float2 f) { uint w0; "
                         "asm(\"cvt.rn.bf16x2.f32 %0, %1, %2;\" : \"=r\"(w0) : \"f\"(f.s1), \"f\"(f.s0)); "
                         "return as_ushort2((uint)(w0)); }\n#else\nushort2 ashlar_bf16_from_f32_2(float2 f) { uint2 u"),
            0u)
      << program;
  EXPECT_NE(rewrite_opencl("ushort _5 = ashlar_bf16_from_f32(_4);\n").find("cvt.rn.bf16.f32"), std::string::npos);
  EXPECT_NE(rewrite_opencl("ushort8 _5 = ashlar_bf16_from_f32(_4);\n").find("\"=r\"(w3) : \"f\"(f.s7), \"f\"(f.s6)"),
            std::string::npos);
}

TEST(OpenClSource, RefusesAnUnknownFunction) {
  EXPECT_THROW(rewrite_opencl("float _1 = ashlar_unheard_of(_0);\n"), std::runtime_error);
}

TEST(OpenClSource, FencesEveryBarrier) {
  EXPECT_EQ(rewrite_opencl("  barrier(0);\n  barrier(0 | CLK_LOCAL_MEM_FENCE);\n"),
            "barrier(CLK_LOCAL_MEM_FENCE);\nbarrier(0 | CLK_LOCAL_MEM_FENCE);\n");
}

TEST(OpenClSource, LeavesNoCommentsAndNoIndentation) {
  EXPECT_EQ(rewrite_opencl("// Address spaces\n\n  {\n   _y[_1] = _2;\n  } // if _0\n"), "{\n_y[_1] = _2;\n}\n");
}

}  // namespace
}  // namespace ashlar::dsl
