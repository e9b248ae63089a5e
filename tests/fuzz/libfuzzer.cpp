// fuzz_readers READER [LIBFUZZER'S ARGUMENTS]: libFuzzer on one reader. Needs clang; `./dev fuzz` builds and calls it.
#include <algorithm>
#include <cstdlib>

#include "tests/fuzz/targets.h"

namespace {
const ashlar::fuzz::Target* target = nullptr;
}

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  target = ashlar::fuzz::find_target(*count > 1 ? (*arguments)[1] : "");
  if (target == nullptr) std::exit(2);
  std::rotate(*arguments + 1, *arguments + 2, *arguments + *count);  // libFuzzer doesn't see the name
  --*count;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  target->read({data, size});
  return 0;
}
