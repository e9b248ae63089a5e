// A stand-in for libcublasLt.so beside fake_cuda: it multiplies on the host, by the book of NVIDIA's manual; in
// 16 bits it says how it would.
#pragma once

#include <cstdint>

extern "C" {

struct FakeCublasLtLog {
  int64_t products;
  int64_t plans;  // heuristics asked for
  int64_t tf32_products;
  int64_t live_objects;   // descriptions, layouts and preferences not destroyed
  bool refuses;           // set by a test: the heuristic then finds nothing
  int32_t splits;         // set by a test: of so many partial sums, added in place where there is no room for them
  int64_t sums_in_place;  // products computed that way
  int64_t products_in_parts;
};

FakeCublasLtLog* fake_cublaslt_log();

}  // extern "C"

/// The workspace that every algorithm asks for.
inline constexpr int64_t kFakeWorkspaceBytes = 1000;
