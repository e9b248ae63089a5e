// Trainings that are killed: a test of this program, run in a process of its own.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ashlar::testing {

/// The variable that names the folder in which a test that is meant for a process of its own works.
inline constexpr const char* kChildFolder = "ASHLAR_TEST_TRAINING_FOLDER";

/// The variable that says in how many folders a training is killed twice; 4 without it.
inline constexpr const char* kKillRounds = "ASHLAR_TEST_KILL_ROUNDS";

/// Runs `test` ("Suite.Name") in a folder without a break, then in others with SIGKILL at random moments until it is
/// let come to its end, and expects the same bytes in `files`, which it leaves there.
void expect_same_bits_when_killed(const std::string& test, const std::vector<std::string>& files);

}  // namespace ashlar::testing
