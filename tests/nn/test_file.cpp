// Whole files: replaced at once, whoever else writes or dies; refused where they must be; read up to a limit.
#include "nn/data/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <thread>

#include "runtime/support/error.h"
#include "tests/nn/temporary_folder.h"

namespace ashlar::nn {
namespace {

using std::filesystem::path;
using testing::read_bytes;
using testing::TemporaryFolder;
using testing::write_bytes;

std::vector<uint8_t> filled(size_t count, uint8_t value) { return std::vector<uint8_t>(count, value); }

void write(const path& file, const std::vector<uint8_t>& bytes) { write_file_atomically("test", file, {bytes}); }

std::vector<std::string> names_in(const path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

mode_t mode_of(const path& file) {
  struct stat status {};
  EXPECT_EQ(::stat(file.c_str(), &status), 0);
  return status.st_mode & 07777;
}

/// The message of the DataError that writing there is; the same beforehand. Neither leaves anything behind.
std::string refusal(const path& file) {
  const std::vector<std::string> before = names_in(file.parent_path());
  std::string said, beforehand;
  try {
    write(file, {1});
  } catch (const DataError& error) {
    said = error.what();
  }
  try {
    check_writable("test", file);
  } catch (const DataError& error) {
    beforehand = error.what();
  }
  EXPECT_EQ(said, beforehand);
  EXPECT_EQ(names_in(file.parent_path()), before);
  return said;
}

TEST(AtomicFile, ManyWritersAndReadersNeverSeeATornFile) {
  const TemporaryFolder folder;
  constexpr size_t kBytes = 300'000;
  write(folder / "a", filled(kBytes, 0));
  std::atomic<int> writing = 4, torn = 0, reads = 0;
  std::vector<std::thread> threads;
  for (uint8_t writer = 0; writer < 4; writer++) {
    threads.emplace_back([&, writer] {
      for (int i = 0; i < 25; i++) write(folder / "a", filled(kBytes - 1000U * writer, writer));
      writing--;
    });
  }
  for (int reader = 0; reader < 2; reader++) {
    threads.emplace_back([&] {
      while (writing > 0) {
        const std::vector<uint8_t> bytes = read_file("test", folder / "a");
        const bool whole = !bytes.empty() && bytes == filled(kBytes - 1000U * bytes[0], bytes[0]);
        torn += whole ? 0 : 1;
        reads++;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(torn, 0) << "of " << reads;
  EXPECT_GT(reads, 0);
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a"});
}

TEST(AtomicFile, AKilledWriterLeavesTheOldFileAndTheNextOneCleansUp) {
  const TemporaryFolder folder;
  write(folder / "a", filled(100, 7));
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {  // half of a file, then nothing more
    AtomicFile file("test", folder / "a");
    file.write(filled(50, 8));
    if (::write(ready[1], "x", 1) == 1) ::pause();
    ::_exit(1);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ASSERT_EQ(names_in(folder.path()).size(), 2U);
  write(folder / "a", filled(100, 9));
  EXPECT_EQ(names_in(folder.path()).size(), 2U) << "its writer is alive";
  EXPECT_EQ(read_bytes(folder / "a"), filled(100, 9));

  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
  EXPECT_EQ(read_bytes(folder / "a"), filled(100, 9));
  EXPECT_EQ(names_in(folder.path()).size(), 2U);
  // Names that look nearly like it are somebody's own files.
  for (const char* name :
       {".a.part-1", "a.part-0123456789abcdef", ".a.part-0123456789abcdeF", ".ab.part-0123456789abcdef"}) {
    write_bytes(folder / name, filled(1, 1));
  }
  write(folder / "a", filled(100, 10));
  EXPECT_EQ(names_in(folder.path()),
            (std::vector<std::string>{".a.part-0123456789abcdeF", ".a.part-1", ".ab.part-0123456789abcdef", "a",
                                      "a.part-0123456789abcdef"}));
}

TEST(AtomicFile, KillingAtAnyMomentLeavesAWholeFile) {
  const TemporaryFolder folder;
  constexpr size_t kBytes = 200'000;
  write(folder / "a", filled(kBytes, 255));
  for (int round = 0; round < 20; round++) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (uint8_t i = 0;; i = static_cast<uint8_t>(i + 1)) write(folder / "a", filled(kBytes, i));
    }
    ::usleep(static_cast<useconds_t>(500 + 700 * round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const std::vector<uint8_t> bytes = read_bytes(folder / "a");
    ASSERT_EQ(bytes, filled(kBytes, bytes.empty() ? 0 : bytes[0])) << "round " << round;
  }
  check_writable("test", folder / "a");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a"}) << "what they left is gone";
}

TEST(AtomicFile, ASymbolicLinkStaysAndItsTargetIsReplaced) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "far");
  write(folder / "far" / "target", filled(3, 1));
  std::filesystem::create_symlink("far/target", folder / "link");
  std::filesystem::create_symlink(folder / "link", folder / "link to link");
  write(folder / "link to link", filled(4, 2));
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link to link"));
  EXPECT_EQ(read_bytes(folder / "far" / "target"), filled(4, 2));
  EXPECT_EQ(names_in(folder / "far"), std::vector<std::string>{"target"});

  std::filesystem::create_symlink("far/new", folder / "dangling");
  write(folder / "dangling", filled(5, 3));
  EXPECT_EQ(read_bytes(folder / "far" / "new"), filled(5, 3));
  std::filesystem::create_symlink("loop", folder / "loop");
  EXPECT_NE(refusal(folder / "loop").find("Too many levels"), std::string::npos);
}

TEST(AtomicFile, TheOldFilesModeStays) {
  const TemporaryFolder folder;
  const mode_t mask = ::umask(022);
  write(folder / "a", filled(3, 1));
  EXPECT_EQ(mode_of(folder / "a"), 0644U) << "as the umask says";
  for (const mode_t mode : {0600U, 0640U, 0666U, 0755U}) {
    ASSERT_EQ(::chmod((folder / "a").c_str(), mode), 0);
    write(folder / "a", filled(3, 2));
    EXPECT_EQ(mode_of(folder / "a"), mode);
  }
  ::umask(mask);
}

TEST(AtomicFile, DevicesPipesFoldersAndMissingFoldersAreRefused) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0666), 0);
  std::filesystem::create_directory(folder / "folder");
  std::filesystem::create_symlink("/dev/null", folder / "null");
  EXPECT_NE(refusal(folder / "fifo").find("a device, pipe or socket"), std::string::npos);
  EXPECT_NE(refusal(folder / "null").find("a device, pipe or socket"), std::string::npos);
  EXPECT_NE(refusal(folder / "folder").find("Is a directory"), std::string::npos);
  EXPECT_THROW(write(folder / "missing" / "a", {1}), DataError);
  EXPECT_THROW(check_writable("test", folder / "missing" / "a"), DataError);
  EXPECT_THROW(check_writable("test", folder / "new" / ""), DataError);
  EXPECT_THROW(check_writable("test", ""), DataError);
  EXPECT_THROW(check_writable("test", "/dev/full"), DataError);
  EXPECT_THROW(check_writable("test", folder / std::string(300, 'x')), DataError);
  EXPECT_NO_THROW(write(folder / std::string(255, 'x'), {1})) << "the longest name there is";
}

TEST(AtomicFile, WhoMayNotWriteIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  const TemporaryFolder folder;
  ASSERT_EQ(::chmod(folder.path().c_str(), 01777), 0);  // as /tmp
  write(folder / "theirs", filled(3, 1));
  ASSERT_EQ(::chmod((folder / "theirs").c_str(), 0444), 0);
  std::filesystem::create_directory(folder / "closed");
  ASSERT_EQ(::chmod((folder / "closed").c_str(), 0755), 0);
  std::filesystem::create_directory(folder / "open");
  ASSERT_EQ(::chmod((folder / "open").c_str(), 0777), 0);
  std::filesystem::create_symlink("open/a", folder / "planted");  // root's, in root's folder: root's word counts
  std::filesystem::create_symlink(folder / "open" / "a", folder / "of another");
  ASSERT_EQ(::lchown((folder / "of another").c_str(), 12345, 12345), 0);
  EXPECT_NE(refusal(folder / "of another").find("another user"), std::string::npos) << "for root as well";
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(9);
    int wrong = 0;
    wrong += refusal(folder / "theirs").find("Permission denied") == std::string::npos ? 1 : 0;
    wrong += refusal(folder / "closed" / "a").find("Permission denied") == std::string::npos ? 2 : 0;
    wrong += refusal(folder / "of another").find("another user") == std::string::npos ? 4 : 0;
    wrong += refusal(folder / "planted").empty() ? 0 : 8;
    ::_exit(wrong);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(AtomicFile, ADiskThatTakesNoMoreLeavesTheOldFile) {
  const TemporaryFolder folder;
  write(folder / "a", filled(100, 7));
  const pid_t child = ::fork();
  if (child == 0) {  // a limit on the size of files, in a process of its own
    const struct rlimit limit { 65536, 65536 };
    ::signal(SIGXFSZ, SIG_IGN);
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(9);
    try {
      write(folder / "a", filled(100'000, 8));
      ::_exit(1);
    } catch (const DataError& error) {
      ::_exit(std::string(error.what()).find("File too large") == std::string::npos ? 2 : 0);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(read_bytes(folder / "a"), filled(100, 7));
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a"});
}

TEST(ReadFile, ReadsUpToItsLimit) {
  const TemporaryFolder folder;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{65535}, size_t{65536}, size_t{65537}, size_t{1'000'003}}) {
    std::vector<uint8_t> bytes(size);
    for (size_t i = 0; i < size; i++) bytes[i] = static_cast<uint8_t>(i * 7);
    write_bytes(folder / "a", bytes);
    EXPECT_EQ(read_file("test", folder / "a"), bytes);
    EXPECT_EQ(read_file("test", folder / "a", size), bytes);
    if (size == 0) continue;
    try {
      read_file("test", folder / "a", size - 1);
      ADD_FAILURE() << size;
    } catch (const DataError& error) {
      const std::string said = error.what();
      EXPECT_NE(said.find("more than " + std::to_string(size - 1) + " bytes"), std::string::npos) << said;
      EXPECT_NE(said.find("ASHLAR_READ_LIMIT"), std::string::npos) << said;
    }
  }
  EXPECT_THROW(read_file("test", "/dev/zero", 1'000'000), DataError) << "no end to it";
  EXPECT_FALSE(read_file("test", "/proc/self/stat").empty()) << "of unknown size";
  EXPECT_THROW(read_file("test", folder.path()), DataError);
  EXPECT_THROW(read_file("test", folder / "none"), DataError);
}

TEST(ReadFileDeathTest, TheLimitCanBeRaisedFromOutside) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a new process reads the environment anew
  ::setenv("ASHLAR_READ_LIMIT", "12345", 1);
  EXPECT_EXIT(::_exit(read_limit() == 12345 ? 0 : 1), ::testing::ExitedWithCode(0), "");
  ::unsetenv("ASHLAR_READ_LIMIT");
  EXPECT_EXIT(::_exit(read_limit() == uint64_t{2} << 30 ? 0 : 1), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace ashlar::nn
