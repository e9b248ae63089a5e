#include "tools/train/program.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <optional>
#include <sstream>

#include "nn/data/file.h"
#include "nn/safetensors.h"
#include "runtime/support/error.h"
#include "tools/options.h"

namespace ashlar::tools::train {

void add_image_folder(CLI::App& command, Common& common) {
  command.add_option("--data", common.data, "Folder in MNIST's format: four IDX files, with or without .gz")
      ->capture_default_str();
}

void add_device(CLI::App& command, Common& common) {
  command.add_option("--device", common.device, "cpu, opencl, cuda, or with an index as in cuda:1")
      ->capture_default_str();
}

void add_epochs(CLI::App& command, Common& common, const char* description) {
  command.add_option("--epochs", common.epochs, description)->check(CLI::Range(1, 1'000'000))->capture_default_str();
}

void add_batch(CLI::App& command, Common& common, const char* description) {
  command.add_option("--batch", common.batch, description)->check(CLI::Range(1, 1'000'000))->capture_default_str();
}

void add_learning_rate(CLI::App& command, Common& common, const char* description) {
  command.add_option("--lr", common.learning_rate, description)->check(positive_number())->capture_default_str();
}

void add_seed(CLI::App& command, Common& common, const char* description) {
  command.add_option("--seed", common.seed, description)->check(whole_number())->capture_default_str();
}

void add_results(CLI::App& command, Common& common) {
  command.add_option("--metrics", common.metrics, "Write a CSV file with a row for each epoch");
  command.add_option("--save", common.save, "Write the trained weights as safetensors");
}

void add_resume(CLI::App& command, Common& common) {
  command.add_option("--resume", common.resume,
                     "Keep the training's state in this file, and go on from it where it is there");
}

void add_amp(CLI::App& command, Common& common) {
  command.add_option("--amp", common.amp, "Forward and backward in f16 or bf16; weights and updates are f32")
      ->check(CLI::IsMember({"f16", "bf16"}));
}

void add_detect_anomaly(CLI::App& command, Common& common) {
  command.add_flag("--detect-anomaly", common.detect_anomaly,
                   "Stop at the first NaN or infinity and name the operation that made it; several times slower");
}

std::optional<DType> amp_of(const Common& common) {
  if (common.amp.empty()) return {};
  return common.amp == "f16" ? DType::f16 : DType::bf16;
}

void check_places(const Common& common) {
  if (!common.save.empty()) nn::check_writable("--save", common.save);
  if (!common.metrics.empty()) nn::check_writable("--metrics", common.metrics);
  if (!common.resume.empty()) nn::check_writable("--resume", common.resume);
}

nn::FitOptions fit_options(const Common& common, int epochs) {
  return {.epochs = epochs,
          .checkpoint = common.resume,
          .checkpoint_every = 500,
          .metrics = common.metrics,
          .log = &std::cout,
          .amp = amp_of(common),
          .detect_anomaly = common.detect_anomaly};
}

std::string introduction(const char* name, const nn::Module& model, Device device) {
  std::ostringstream text;
  text << name << " with " << model.parameter_count() << " parameters on " << device.str() << " ("
       << device.description() << "): ";
  return text.str();
}

std::string four_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4f", value);
  return text;
}

bool save_weights(const nn::Module& model, const Common& common) {
  if (common.save.empty()) return true;
  const auto write = [&](const std::filesystem::path& to) {
    nn::write_safetensors(to, model.state_dict(), {{"format", "pt"}});
  };
  std::string failure;
  try {
    write(common.save);
    std::cout << "weights in " << common.save << "\n";
    return true;
  } catch (const std::exception& error) {
    failure = error.what();
  }
  std::string second;
  try {
    const std::string name = "ashlar-train-" + std::to_string(getpid()) + ".safetensors";
    second = (std::filesystem::temp_directory_path() / name).string();
    write(second);
  } catch (const std::exception& error) {
    throw DataError("--save", failure + " And in the second place: " + error.what(),
                    "a place for the weights, which are lost now",
                    "Free some space, or set TMPDIR to a folder that has it, and train again");
  }
  std::cerr << "ashlar-train: " << failure << "\nashlar-train: the weights are in " << second << " instead"
            << std::endl;
  return false;
}

}  // namespace ashlar::tools::train
