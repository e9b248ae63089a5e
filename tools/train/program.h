// What the subcommands of ashlar-train have in common: how they are listed, their options, and where results go.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "nn/module.h"
#include "nn/trainer/fit.h"

namespace ashlar::tools::train {

/// A subcommand.
struct Program {
  const char* name;
  const char* description;
  /// Adds its options to the command. Returns what runs after they were read and says the exit status.
  std::function<int()> (*add)(CLI::App& command);
};

extern const Program kXor, kMlp, kCnn, kVae, kDcgan, kCharGru, kCharTransformer;

/// Options that mean the same everywhere. What a program leaves out stays as it is.
struct Common {
  std::string data = "/usr/share/datasets/fashion-mnist";  // where Debian's dataset-fashion-mnist puts it
  std::string device = "cpu";
  int epochs = 8;
  int64_t batch = 128;
  double learning_rate = 0.001;
  uint64_t seed = 0;
  std::string metrics;
  std::string save;
  std::string resume;
  std::string amp;
  bool detect_anomaly = false;
};

void add_image_folder(CLI::App& command, Common& common);
void add_device(CLI::App& command, Common& common);
void add_epochs(CLI::App& command, Common& common, const char* description);
void add_batch(CLI::App& command, Common& common, const char* description);
void add_learning_rate(CLI::App& command, Common& common, const char* description);
void add_seed(CLI::App& command, Common& common, const char* description);
/// --metrics and --save
void add_results(CLI::App& command, Common& common);
void add_resume(CLI::App& command, Common& common);
void add_amp(CLI::App& command, Common& common);
/// For programs that train by nn::fit.
void add_detect_anomaly(CLI::App& command, Common& common);
/// What --amp said.
std::optional<DType> amp_of(const Common& common);

/// Throws WriteError, before hours of work, where what shall be written can't be.
void check_places(const Common& common);

/// How nn::fit is to run: its log goes to standard output.
nn::FitOptions fit_options(const Common& common, int epochs);

/// What a network computes in at the moment: f32, or 16 bits in a training with --amp.
inline DType compute_dtype(const nn::Module& model) { return model.parameters().front().dtype(); }

/// "cnn with 421642 parameters on cpu (…): "
std::string introduction(const char* name, const nn::Module& model, Device device);

/// "0.9213"
std::string four_digits(double value);

/// Weights at --save, if that was given; where that fails, for whatever reason, in the folder for temporary files: a
/// training isn't lost for a full disk. False in the latter case, after saying so. Throws DataError when neither works.
bool save_weights(const nn::Module& model, const Common& common);

}  // namespace ashlar::tools::train
