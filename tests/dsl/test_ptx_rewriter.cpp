// Markers in PTX become instructions; PTX in which one was lost, doubled or moved is refused.
#include <gtest/gtest.h>

#include "dsl/build/ptx_rewriter.h"

namespace ashlar::dsl {
namespace {

std::string call(const std::string& name, const std::vector<std::string>& arguments = {}) {
  static int number = 0;
  const std::string id = std::to_string(number++);
  std::string text = "\t{ // callseq " + id + ", 0\n", list;
  for (size_t i = 0; i < arguments.size(); i++) {
    const std::string parameter = "param" + std::to_string(i);
    text += "\t.param .b32 \t" + parameter + ";\n\tst.param.b32 \t[" + parameter + "], " + arguments[i] + ";\n";
    list += (i == 0 ? "" : ", ") + parameter;
  }
  return text + "\t.param .b32 \tretval0;\n\tcall.uni (retval0), ashlar_marker_" + name + ", (" + list +
         ");\n\tld.param.b32 \t%r9" + id + ", [retval0];\n\t} // callseq " + id + "\n";
}

// One copy with its two addresses. Registers are numbered by `first`.
std::string copy(int bytes, int region, int index, int first, const std::string& valid = "16") {
  const std::string to = "%r" + std::to_string(first), from = "%r" + std::to_string(first + 1);
  return "\tld.shared.b32 \t" + to + ", [%rd1+" + std::to_string(16 * index) + "];\n\tld.global.nc.b32 \t" + from +
         ", [%rd2];\n" +
         call("copy_" + std::to_string(bytes) + "_" + std::to_string(region) + "_" + std::to_string(index),
              {to, from, valid});
}
const std::string kBarrier = "\tbar.sync \t0;\n";
const std::string kRead = "\tld.shared.b32 \t%r80, [%rd1];\n";

// Two stages: one filled before the loop, one in it.
struct Parts {
  std::string before = copy(16, 0, 0, 1) + call("commit_0_1");
  std::string wait = call("wait_0_0") + kBarrier;
  std::string fill = copy(16, 1, 0, 3, "%r50") + call("commit_1_1");
  std::string use = kRead;
  std::string after = call("wait_1_0") + kBarrier + call("end_2_2");
};

std::string kernel(const Parts& p, const std::string& extra = "") {
  return ".version 7.0\n.target sm_80\n.address_size 64\n\n.extern .func  (.param .b32 func_retval0) "
         "ashlar_marker_copy_16_0_0\n(\n\t.param .b32 a\n)\n;\n.visible .entry f(\n\t.param .u64 x\n)\n{\n" +
         extra + p.before + "$L__BB0_1:\n" + p.wait + p.fill + p.use + "\t@%p1 bra \t$L__BB0_1;\n" + p.after +
         "\tret;\n}\n";
}

std::string error_of(const std::string& ptx) {
  try {
    rewrite_ptx(ptx);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}
void expect_error(const std::string& ptx, const std::string& part) {
  const std::string error = error_of(ptx);
  EXPECT_NE(error.find(part), std::string::npos) << "\"" << error << "\" in place of \"" << part << "\"";
}

TEST(PtxRewriter, LeavesOtherPtxAlone) {
  const std::string ptx = ".version 7.0\n.visible .entry f(\n)\n{\n\tbar.sync \t0;\n\tret;\n}\n";
  EXPECT_EQ(rewrite_ptx(ptx), ptx);
}

TEST(PtxRewriter, TurnsMarkersIntoInstructions) {
  const std::string ptx = rewrite_ptx(kernel({}, call("registers_128")));
  for (const char* part : {"cp.async.ca.shared.global [%rd1+0], [%rd2], 16;", "[%rd2], 16, %r50;",
                           "cp.async.commit_group;", "cp.async.wait_group 0;\n\tbar.sync", ".maxnreg 128\n{"}) {
    EXPECT_NE(ptx.find(part), std::string::npos) << part << " isn't in\n" << ptx;
  }
  for (const char* part : {"ashlar_marker", "callseq", "ld.global", ".extern"}) {
    EXPECT_EQ(ptx.find(part), std::string::npos) << part << " is left in\n" << ptx;
  }
  EXPECT_NE(ptx.find("ld.shared.b32 \t%r80"), std::string::npos) << "a real load is gone";
}

TEST(PtxRewriter, LoadsSeeStoresWhereAsked) {
  const std::string load = "\tld.global.nc.b32 \t%r81, [%rd3];\n";
  EXPECT_NE(rewrite_ptx(kernel({}, load)).find("ld.global.nc.b32 \t%r81"), std::string::npos);
  const std::string ptx = rewrite_ptx(kernel({}, call("coherent") + load));
  EXPECT_NE(ptx.find("ld.global.b32 \t%r81"), std::string::npos) << ptx;
  EXPECT_EQ(ptx.find("ld.global.nc"), std::string::npos) << ptx;
}

// Functions: LLVM may have repeated or dropped them, unlike the others.
TEST(PtxRewriter, TurnsConversionsIntoInstructions) {
  const std::string two = call("bf16x2", {"%r1", "%r2"}), one = call("bf16", {"%r3"});
  const std::string ptx = rewrite_ptx(".visible .entry f(\n)\n{\n" + two + two + one + "\tret;\n}\n");
  EXPECT_EQ(ptx.find("ashlar_marker"), std::string::npos) << ptx;
  const size_t first = ptx.find(", %r2, %r1;");  // the upper half comes first
  EXPECT_NE(first, std::string::npos) << ptx;
  EXPECT_NE(ptx.find(", %r2, %r1;", first + 1), std::string::npos) << ptx;
  EXPECT_NE(ptx.find(", 0f00000000, %r3;"), std::string::npos) << ptx;
  expect_error(".visible .entry f(\n)\n{\n" + call("bf16x2", {"%r1"}) + "\tret;\n}\n", "unknown marker");
}

// Two blocks, one exchange.
struct ClusterParts {
  std::string begin = call("cluster_2_1"), wait = kBarrier + call("peers");
  std::string give = "\t@%p1 bra \t$L__BB0_1;\n" + call("give_0_512", {"%r1", "%r2"}) + "$L__BB0_1:\n";
  std::string meet = call("meet_0") + kBarrier + kRead;
};
std::string cluster_kernel(const ClusterParts& p) {
  return ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry f(\n\t.param .u64 x\n)\n{\n" + p.begin +
         p.wait + p.give + p.meet + "\tret;\n}\n.visible .entry g(\n)\n{\n\tret;\n}\n";
}

TEST(PtxRewriter, TurnsMarkersOfAClusterIntoInstructions) {
  const std::string original = cluster_kernel({}), ptx = rewrite_ptx(original);
  for (const char* part :
       {".version 8.0\n.target sm_90\n", ")\n.explicitcluster\n.reqnctapercluster 1, 2, 1\n{\n",
        "mapa.shared::cluster.u32 %ashlar_place, %ashlar_place, %r2;\n"
        "\tst.shared::cluster.b32 [%ashlar_place+512], %r1;",
        ".extern .shared .align 16 .b8 ashlar_shared_memory[];\n", "mov.u64 %ashlar_base, ashlar_shared_memory;\n",
        "add.s64 \t%ashlar_at, %rd1, %ashlar_base;\n\tld.shared.b32 \t%r80, [%ashlar_at];",
        "\tbarrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;\n\tadd.s64"}) {
    EXPECT_NE(ptx.find(part), std::string::npos) << part << " isn't in\n" << ptx;
  }
  EXPECT_EQ(ptx.find("ashlar_marker"), std::string::npos) << ptx;
  const std::string plain = without_clusters(ptx, original);
  EXPECT_NE(plain.find(".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry f("), std::string::npos)
      << plain;
  EXPECT_NE(plain.find(")\n{\n\ttrap;\n}\n.visible .entry g(\n)\n{\n\tret;\n}\n"), std::string::npos) << plain;
  EXPECT_EQ(without_clusters(rewrite_ptx(kernel({})), kernel({})), rewrite_ptx(kernel({})));
}

TEST(PtxRewriter, RefusesAClusterThatCouldHang) {
  ClusterParts twice, late, lost, early, alone;
  twice.meet += call("meet_0") + kBarrier;
  expect_error(cluster_kernel(twice), "marker meet was duplicated");
  std::swap(late.give, late.meet);
  expect_error(cluster_kernel(late), "a gift to peers was moved");
  lost.wait = kBarrier;
  expect_error(cluster_kernel(lost), "a marker of a cluster was dropped");
  early.wait += "\t@%p2 bra \t$L__BB0_2;\n\tret;\n$L__BB0_2:\n";
  expect_error(cluster_kernel(early), "the end of a block of a cluster was moved");
  alone.meet = call("meet_0") + "\tmov.b32 \t%r5, 0;\n" + kBarrier;
  expect_error(cluster_kernel(alone), "no barrier of the block follows a meeting of a cluster");
}

TEST(PtxRewriter, RefusesAMarkerTwice) {
  Parts p;
  p.use += copy(16, 1, 0, 5);
  expect_error(kernel(p), "marker copy was duplicated");
  Parts q;
  q.before += call("commit_0_1");
  expect_error(kernel(q), "marker commit was duplicated");
}

TEST(PtxRewriter, RefusesALostMarker) {
  Parts p;
  p.fill = call("commit_1_1");
  expect_error(kernel(p), "a copy of region 1 was dropped");
  Parts q;
  q.before = copy(16, 0, 0, 1);
  expect_error(kernel(q), "the commit of region 0 was dropped");
  Parts r;
  r.wait = kBarrier;
  expect_error(kernel(r), "a wait was dropped");
  Parts s;
  s.after = call("wait_1_0") + kBarrier;
  expect_error(kernel(s), "marker end was dropped");
}

TEST(PtxRewriter, RefusesAMovedMarker) {
  Parts p;  // the copy over the tile that others may still be reading
  p.wait = call("wait_0_0") + p.fill + kBarrier;
  p.fill = "";
  expect_error(kernel(p), "a copy was moved");
  Parts q;  // a wait after the barrier
  q.wait = kBarrier + call("wait_0_0");
  expect_error(kernel(q), "was moved");
  Parts r;  // a copy after its commit
  r.before = call("commit_0_1") + copy(16, 0, 0, 1);
  expect_error(kernel(r), "a copy was moved");
}

TEST(PtxRewriter, FollowsBranches) {
  Parts p;  // on one path the commit comes before the copy
  p.before = "\t@%p2 bra \t$L__BB0_7;\n" + copy(16, 0, 0, 1) + "$L__BB0_7:\n" + call("commit_0_1");
  EXPECT_EQ(error_of(kernel(p)), "");
  Parts q;  // a path around the wait
  q.wait = "\t@%p2 bra \t$L__BB0_7;\n" + call("wait_0_0") + kBarrier + "$L__BB0_7:\n";
  expect_error(kernel(q), "was moved");
}

TEST(PtxRewriter, RefusesReadsBeforeTheBarrier) {
  Parts p;
  p.wait = call("wait_0_0") + kRead + kBarrier;
  p.use = "";
  expect_error(kernel(p), "shared memory is used before its barrier");
}

TEST(PtxRewriter, RefusesAddressesThatAreUsedElsewhere) {
  Parts p;
  p.before += "\tadd.s32 \t%r81, %r1, 1;\n";
  expect_error(kernel(p), "also read elsewhere");
  Parts q;
  q.before =
      "\tld.shared.v2.b32 \t{%r1, %r2}, [%rd1];\n" + call("copy_16_0_0", {"%r1", "%r2", "16"}) + call("commit_0_1");
  expect_error(kernel(q), "no plain load gives the address");
  Parts r;
  r.before = "\tld.shared.b32 \t%r1, [%rd1];\n\tld.global.b32 \t%r2, [%rd2];\n\tadd.s64 \t%rd2, %rd2, 4;\n" +
             call("copy_16_0_0", {"%r1", "%r2", "16"}) + call("commit_0_1");
  expect_error(kernel(r), "the register of an address changes");
}

TEST(PtxRewriter, RefusesUnknownMarkers) {
  expect_error(kernel({}, call("fly_1")), "an unknown marker");
  expect_error(kernel({}, "\tbrx.idx \t%r60, table;\n"), "can't follow");
}

}  // namespace
}  // namespace ashlar::dsl
