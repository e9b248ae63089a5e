// Kernels for GPUs that begin one before the last has ended: each of its threads waits before it touches memory.
#include <gtest/gtest.h>

#include "dsl/build/ptx_overlap.h"

namespace ashlar::dsl {
namespace {

const std::string kHead = ".version 7.0\n.target sm_80\n.address_size 64\n";
const std::string kNext = "\tgriddepcontrol.launch_dependents;\n", kWait = "\tgriddepcontrol.wait;\n";

std::string entry(const std::string& body) { return ".visible .entry f(\n\t.param .u64 x\n)\n{\n" + body + "}\n"; }

TEST(PtxOverlap, WaitsBehindWhatNeedsParametersAlone) {
  const std::string before =
      "\t.reg .b32 \t%r<3>;\n\n// %bb.0:\n\tld.param.b64 \t%rd1, [x];\n\tmov.u32 \t%r1, %tid.x;\n";
  const std::string load = "\tld.global.nc.b32 \t%r2, [%rd1];\n\tret;\n";
  EXPECT_EQ(overlapping(kHead + entry(before + load)),
            ".version 8.0\n.target sm_90\n.address_size 64\n" + entry(kNext + before + kWait + load));
}

TEST(PtxOverlap, WaitsBeforeThreadsPart) {
  const std::string add = "\tadd.s32 \t%r1, %r1, 1;\n";
  for (const std::string first :
       {"\t@%p1 bra \t$L__BB0_2;\n", "\tbra.uni \t$L__BB0_2;\n", "$L__BB0_1:\n", "\tret;\n",
        "\tst.global.b32 \t[%rd1], %r1;\n", "\tld.shared.b32 \t%r1, [%rd1];\n", "\tbar.sync \t0;\n",
        "\tbarrier.cluster.arrive.release.aligned;\n", "\tcp.async.ca.shared.global [%rd1], [%rd2], 16;\n",
        "\tatom.global.add.u32 \t%r1, [%rd1], 1;\n", "\ttrap;\n", "\t{\n"}) {
    const std::string ptx = overlapping(kHead + entry(add + first + add + "\tret;\n"));
    EXPECT_NE(ptx.find(kNext + add + kWait + first), std::string::npos) << ptx;
  }
  EXPECT_NE(overlapping(kHead + entry("")).find("{\n" + kNext + kWait + "}"), std::string::npos);
}

TEST(PtxOverlap, ServesEachKernelAndLeavesTheRest) {
  const std::string head = ".version 8.3\n.target sm_90a\n.address_size 64\n.extern .shared .align 16 .b8 shared[];\n";
  EXPECT_EQ(overlapping(head + entry("\tret;\n") + entry("\tret;\n")),
            head + entry(kNext + kWait + "\tret;\n") + entry(kNext + kWait + "\tret;\n"));
}

}  // namespace
}  // namespace ashlar::dsl
