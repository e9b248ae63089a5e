// Guard bands: what is written outside of a storage shows, on every device, and what isn't doesn't.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "runtime/cpu/scratch.h"
#include "runtime/device/stream_state.h"
#include "runtime/memory/guard_bands.h"
#include "runtime/tensor/storage.h"
#include "runtime/tensor/transfer.h"
#include "tests/runtime/devices.h"

namespace ashlar {
namespace {

using detail::Storage;
using detail::take_guard_reports;

class PoolGuards : public ::testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    take_guard_reports();
    before_ = detail::set_guard_bands(true);
  }
  void TearDown() override {
    detail::set_guard_bands(before_);
    take_guard_reports();
  }

  // Drops a storage of `bytes` after one byte at `offset` was written; what the bands said.
  static std::vector<std::string> reports_of(int64_t bytes, int64_t offset) {
    std::shared_ptr<Storage> storage = Storage::create(bytes, GetParam());
    const char byte = 0;
    storage->home().write(storage->handle(), offset, &byte, 1);
    storage.reset();
    return take_guard_reports();
  }

 private:
  bool before_ = false;
};

TEST_P(PoolGuards, AByteOutsideShowsAndOneInsideDoesNot) {
  for (const int64_t bytes : {0, 1, 7, 256, 5000, 300'001, 17'000'001}) {
    for (const int64_t offset : {-detail::kGuardBytes, int64_t{-1}}) {
      const auto reports = reports_of(bytes, offset);
      ASSERT_EQ(reports.size(), 1u) << bytes << " " << offset;
      EXPECT_NE(reports[0].find("before the first"), std::string::npos) << reports[0];
      EXPECT_NE(reports[0].find(GetParam().str()), std::string::npos) << reports[0];
    }
    for (const int64_t offset : {bytes, bytes + detail::kGuardBytes - 1}) {
      const auto reports = reports_of(bytes, offset);
      ASSERT_EQ(reports.size(), 1u) << bytes << " " << offset;
      EXPECT_NE(reports[0].find("behind the last"), std::string::npos) << reports[0];
    }
    if (bytes == 0) continue;
    EXPECT_TRUE(reports_of(bytes, 0).empty());
    EXPECT_TRUE(reports_of(bytes, bytes - 1).empty());
  }
}

TEST_P(PoolGuards, FreshMemoryIsNaNAndNeverTheSame) {
  std::set<uint32_t> seen;
  for (int i = 0; i < 20; ++i) {
    const std::shared_ptr<Storage> storage = Storage::create(200'000, GetParam());
    std::vector<float> values(50'000);
    detail::copy_to_host(values.data(), *storage, 0, 200'000);
    for (const float value : values) ASSERT_TRUE(std::isnan(value));
    uint32_t bits;
    std::memcpy(&bits, &values[0], sizeof bits);
    seen.insert(bits);
  }
  EXPECT_EQ(seen.size(), 20u);
  EXPECT_TRUE(take_guard_reports().empty());
}

TEST_P(PoolGuards, TransfersGoWhereTheySay) {
  const std::vector<float> values = testing::ramp(1000);
  const Tensor x = testing::upload(values, GetParam());
  const std::shared_ptr<Storage> other = Storage::create(4000, GetParam());
  detail::copy_bytes(*other, 400, *x.storage(), 0, 3600);
  detail::copy_rows(*other, 0, 40, *x.storage(), 4, 400, 4, 10);
  std::vector<float> got(1000);
  detail::copy_to_host(got.data(), *other, 0, 4000);
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(got[10 * i], static_cast<float>(100 * i + 1));
  for (size_t i = 100; i < 1000; ++i) EXPECT_EQ(got[i], static_cast<float>(i - 100));
  EXPECT_EQ(testing::download(x), values);
  EXPECT_TRUE(take_guard_reports().empty());
}

INSTANTIATE_TEST_SUITE_P(Devices, PoolGuards, ::testing::ValuesIn(testing::memory_devices()),
                         [](const auto& info) { return std::string(name_of(info.param.kind)); });

TEST(ScratchGuards, AByteOutsideShowsAndOneInsideDoesNot) {
  const bool before = detail::set_guard_bands(true);
  take_guard_reports();
  for (const int64_t bytes : {1, 130, 4097}) {
    for (const int64_t offset : {int64_t{-1}, int64_t{0}, bytes - 1, bytes}) {
      auto* memory = static_cast<char*>(detail::allocate_scratch(static_cast<size_t>(bytes)));
      memory[offset] = 0;
      detail::free_scratch(memory);
      EXPECT_EQ(take_guard_reports().size(), offset < 0 || offset == bytes ? 1u : 0u) << bytes << " " << offset;
    }
  }
  detail::set_guard_bands(before);
}

}  // namespace
}  // namespace ashlar
