#include <gtest/gtest.h>

#include "tests/faults/drivers.h"
#include "tests/faults/host_memory.h"

int main(int count, char** arguments) {
  ::testing::InitGoogleTest(&count, arguments);
  ashlar::testing::count_host_blocks_of_this_thread();
  ashlar::testing::watch_drivers();
  ashlar::testing::run_cpu_kernels_on_fake_cuda();
  return RUN_ALL_TESTS();
}
