// Entries on disk: whole, damaged, written by many at once, and with no room. Then OpenCL programs through them, each
// test in a process of its own (see CMakeLists.txt).
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "ashlar/ops/unary.h"
#include "runtime/counters.h"
#include "runtime/disk_cache.h"
#include "tests/runtime/devices.h"

namespace ashlar {
namespace {

using detail::DiskCache;
using std::filesystem::path;

class DiskCaches : public ::testing::Test {
 protected:
  DiskCaches() {
    std::string name = std::filesystem::temp_directory_path() / "ashlar-cache-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  ~DiskCaches() override { std::filesystem::remove_all(folder_); }

  static std::string read(const path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void write(const path& file, const std::string& content) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << content;
  }
  size_t files() const { return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {})); }
  path folder_;
};

TEST_F(DiskCaches, GivesBackWhatWasStored) {
  const DiskCache cache(folder_ / "made" / "when needed");
  EXPECT_FALSE(cache.load("key"));
  const std::string value("a\0b\xff", 4);
  EXPECT_TRUE(cache.store("key", value));
  EXPECT_TRUE(cache.store("other", ""));
  EXPECT_EQ(cache.load("key"), value);
  EXPECT_EQ(cache.load("other"), "");
  EXPECT_FALSE(cache.load("third"));
  EXPECT_TRUE(cache.store("key", "newer"));
  EXPECT_EQ(cache.load("key"), "newer");
  cache.remove("key");
  EXPECT_FALSE(cache.load("key"));
}

TEST_F(DiskCaches, NoFolderIsNoCache) {
  const DiskCache cache("");
  EXPECT_FALSE(cache.enabled());
  EXPECT_FALSE(cache.store("key", "value"));
  EXPECT_FALSE(cache.load("key"));
}

// Every byte flipped, every length cut off, and something added: never believed, and gone afterwards.
TEST_F(DiskCaches, DamagedFilesAreNotBelieved) {
  const DiskCache cache(folder_);
  ASSERT_TRUE(cache.store("key", "some value"));
  const path file = cache.file_of("key");
  const std::string whole = read(file);
  std::vector<std::string> damaged = {whole + "x"};
  for (size_t i = 0; i < whole.size(); ++i) {
    damaged.push_back(whole);
    damaged.back()[i] = static_cast<char>(damaged.back()[i] ^ 0x10);
    damaged.push_back(whole.substr(0, i));
  }
  for (const std::string& content : damaged) {
    write(file, content);
    EXPECT_FALSE(cache.load("key"));
    EXPECT_FALSE(std::filesystem::exists(file));
  }
  write(file, whole);
  EXPECT_EQ(cache.load("key"), "some value");
}

TEST_F(DiskCaches, ManyWritersAndReadersAtOnce) {
  const DiskCache cache(folder_);
  std::atomic<int> wrong{0}, found{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 100; ++round) {
        const std::string key = "key " + std::to_string(round % 3);
        const std::string value(1000 + static_cast<size_t>(round % 3), static_cast<char>('a' + round % 3));
        if (t % 2 == 0) {
          wrong += !cache.store(key, value);
        } else if (const auto loaded = cache.load(key)) {
          ++found;
          wrong += *loaded != value;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(files(), 3u);
}

// A limit on the size of files stands in for a disk that fills up in the middle of an entry.
TEST_F(DiskCaches, AFullDiskKeepsNothingHalf) {
  const DiskCache cache(folder_);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_FALSE(cache.store("key", std::string(5000, 'x')));
  EXPECT_TRUE(cache.store("key", "fits"));
  EXPECT_FALSE(cache.store("key", std::string(5000, 'x')));
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, ignored);
  EXPECT_EQ(cache.load("key"), "fits");
  EXPECT_EQ(files(), 1u);
}

TEST_F(DiskCaches, AFolderThatCantBeMade) {
  write(folder_ / "file", "");
  const DiskCache cache(folder_ / "file" / "cache");
  EXPECT_FALSE(cache.store("key", "value"));
  EXPECT_FALSE(cache.load("key"));
}

class ProgramCache : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!Device::opencl().is_available()) GTEST_SKIP() << "no OpenCL device";
  }

  /// relu on OpenCL, checked. Returns what the counters saw.
  static Counters use_a_program() {
    const Counters before = counters(DeviceKind::opencl);
    EXPECT_EQ(relu(Tensor::from(testing::ramp(100, -50), {100}, Device::opencl())).to_vector<float>()[99], 49);
    const Counters span = counters(DeviceKind::opencl) - before;
    EXPECT_EQ(span.modules_loaded, 1);
    return span;
  }

  static std::vector<path> files() {
    std::vector<path> found;
    for (const auto& entry : std::filesystem::directory_iterator(path(std::getenv("ASHLAR_CACHE")) / "opencl")) {
      found.push_back(entry.path());
    }
    return found;
  }
};

TEST_F(ProgramCache, BuildsAndKeeps) {
  EXPECT_EQ(use_a_program().cache_hits, 0);
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(ProgramCache, TakesWhatWasKept) { EXPECT_EQ(use_a_program().cache_hits, 1); }

TEST_F(ProgramCache, BuildsAnewWhatIsDamaged) {
  ASSERT_EQ(files().size(), 1u);
  std::filesystem::resize_file(files()[0], std::filesystem::file_size(files()[0]) - 1);
  EXPECT_EQ(use_a_program().cache_hits, 0);
  EXPECT_EQ(files().size(), 1u);
}

// A whole entry under the right key, and yet no program.
TEST_F(ProgramCache, BuildsAnewWhatTheDriverRefuses) {
  ASSERT_EQ(files().size(), 1u);
  std::ifstream in(files()[0], std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  uint64_t sizes[2];  // of key and value, behind eight bytes of magic; the checksum follows
  std::memcpy(sizes, whole.data() + 8, sizeof(sizes));
  const std::string key = whole.substr(32, sizes[0]);
  const DiskCache cache(files()[0].parent_path());
  ASSERT_EQ(path(cache.file_of(key)), files()[0]);
  ASSERT_TRUE(cache.store(key, "no program"));
  EXPECT_EQ(use_a_program().cache_hits, 0);
  EXPECT_NE(cache.load(key), "no program");
}

TEST_F(ProgramCache, WorksWithout) { EXPECT_EQ(use_a_program().cache_hits, 0); }

}  // namespace
}  // namespace ashlar
