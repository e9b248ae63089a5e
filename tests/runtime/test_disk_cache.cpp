// Entries on disk: whole, damaged, written by many at once, and with no room. Then OpenCL programs through them, each
// test in a process of its own (see CMakeLists.txt).
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>
#include <vector>

#include "ashlar/ops/unary.h"
#include "runtime/device/counters.h"
#include "runtime/support/disk_cache.h"
#include "runtime/support/siphash.h"
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
    ::chmod(file.c_str(), 0600);
  }
  /// Beside the secret, once there is one.
  size_t files() const {
    const auto all = std::distance(std::filesystem::directory_iterator(folder_), {});
    return static_cast<size_t>(all) - std::filesystem::exists(folder_ / DiskCache::kSecretFile);
  }
  static mode_t mode_of(const path& file) {
    struct stat status {};
    return ::stat(file.c_str(), &status) == 0 ? status.st_mode & 0777 : 0;
  }
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

// As its authors' test vector: key 00 01 … 0f, message 00 01 … 0e.
TEST(SipHash, AsPublished) {
  std::string message;
  for (int i = 0; i < 15; ++i) message.push_back(static_cast<char>(i));
  for (size_t cut = 0; cut <= message.size(); ++cut) {
    detail::SipHash sum({0x0706050403020100u, 0x0f0e0d0c0b0a0908u});
    sum.add(std::string_view(message).substr(0, cut));
    sum.add(std::string_view(message).substr(cut));
    EXPECT_EQ(sum.finish(), 0xa129ca6149be45e5u);
  }
}

// What an entry says is for this user's processes alone.
TEST_F(DiskCaches, IsClosedToOthers) {
  const path made = folder_ / "cache";
  const DiskCache cache(made);
  ASSERT_TRUE(cache.store("key", "value"));
  EXPECT_EQ(mode_of(made), 0700u);
  EXPECT_EQ(mode_of(made / DiskCache::kSecretFile), 0600u);
  EXPECT_EQ(mode_of(cache.file_of("key")), 0600u);
  ::chmod(made.c_str(), 0777);
  EXPECT_EQ(cache.load("key"), "value");
  EXPECT_EQ(mode_of(made), 0700u);
  ::chmod(cache.file_of("key").c_str(), 0644);
  EXPECT_FALSE(cache.load("key")) << "somebody else may have written it while the folder was open";
  if (::geteuid() != 0) return;  // the rest takes somebody else's files
  constexpr uid_t kNobody = 65534;
  ASSERT_TRUE(cache.store("key", "value"));
  ASSERT_EQ(::chown(cache.file_of("key").c_str(), kNobody, kNobody), 0);
  EXPECT_FALSE(cache.load("key"));
  ASSERT_TRUE(cache.store("key", "value"));
  ASSERT_EQ(::chown(made.c_str(), kNobody, kNobody), 0);
  EXPECT_FALSE(cache.load("key"));
  EXPECT_FALSE(cache.store("key", "value"));
}

// What was hung, or read, by a process that only opened its cache.
TEST_F(DiskCaches, WhatIsNoFileIsRemoved) {
  const DiskCache cache(folder_);
  ASSERT_TRUE(cache.store("other", "value"));
  const std::string file = cache.file_of("key");
  const std::vector<std::function<int()>> plants = {
      [&] { return ::mkfifo(file.c_str(), 0600); },
      [&] { return ::symlink(cache.file_of("other").c_str(), file.c_str()); },
      [&] { return ::symlink("/dev/zero", file.c_str()); },
      [&] { return ::symlink("nowhere", file.c_str()); },
  };
  for (const auto& plant : plants) {
    ASSERT_EQ(plant(), 0);
    EXPECT_FALSE(cache.load("key"));
    EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(file)));
    ASSERT_EQ(plant(), 0);
    EXPECT_TRUE(cache.store("key", "mine"));
    EXPECT_EQ(cache.load("key"), "mine");
    EXPECT_EQ(cache.load("other"), "value");
    cache.remove("key");
  }
}

// An entry is worth nothing without the secret that it was written under, nor is one that was written for another key.
TEST_F(DiskCaches, ForgedEntriesAreNotBelieved) {
  const DiskCache cache(folder_), elsewhere(folder_ / "elsewhere");
  ASSERT_TRUE(cache.store("key", "value"));
  ASSERT_TRUE(elsewhere.store("key", "forged"));
  std::filesystem::rename(elsewhere.file_of("key"), cache.file_of("key"));
  EXPECT_FALSE(cache.load("key"));
  ASSERT_TRUE(cache.store("key", "value"));
  ASSERT_TRUE(cache.store("yek", "other"));
  const std::string whole = read(cache.file_of("yek"));
  std::string renamed = whole;
  renamed.replace(whole.find("yek"), 3, "key");
  std::filesystem::remove(cache.file_of("key"));
  write(cache.file_of("key"), renamed);
  EXPECT_FALSE(cache.load("key"));
}

// A secret that is gone, or no secret: another is made, and what was written under the old one is made anew.
TEST_F(DiskCaches, ALostSecretIsReplaced) {
  const DiskCache cache(folder_);
  const std::string secret = folder_ / DiskCache::kSecretFile;
  const std::vector<std::function<void()>> losses = {
      [&] {},
      [&] { write(secret, "short"); },
      [&] { ::mkfifo(secret.c_str(), 0600); },
      [&] { ::symlink("/dev/zero", secret.c_str()); },
      [&] { write(secret, std::string(16, 'x')), ::chmod(secret.c_str(), 0644); },
  };
  for (const auto& lose : losses) {
    ASSERT_TRUE(cache.store("key", "value"));
    ASSERT_EQ(cache.load("key"), "value");
    std::filesystem::remove(secret);
    lose();
    EXPECT_FALSE(cache.load("key"));
    ASSERT_TRUE(cache.store("key", "again"));
    EXPECT_EQ(cache.load("key"), "again");
    EXPECT_EQ(mode_of(secret), 0600u);
  }
  EXPECT_EQ(files(), 1u);
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
      if (entry.path().filename() != DiskCache::kSecretFile) found.push_back(entry.path());
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
