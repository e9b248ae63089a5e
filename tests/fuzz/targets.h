// Readers of files, each as a function of the bytes of one. It must take every input: either as what it claims to be or
// with the library's typed error. Anything else, another exception too, is a finding.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace ashlar::fuzz {

using Bytes = std::span<const uint8_t>;

void read_safetensors(Bytes bytes);
void read_idx(Bytes bytes);
void read_cifar(Bytes bytes);
void read_csv(Bytes bytes);
void read_jpeg(Bytes bytes);
void read_npy(Bytes bytes);
void read_npz(Bytes bytes);
void read_png(Bytes bytes);
void read_text(Bytes bytes);
void read_tuned_table(Bytes bytes);
void read_tune_results(Bytes bytes);
void read_tune_bundle(Bytes bytes);
void read_program_cache(Bytes bytes);
void read_conformance_results(Bytes bytes);

struct Target {
  std::string_view name;
  void (*read)(Bytes bytes);
};

inline constexpr Target kTargets[] = {{"safetensors", read_safetensors},
                                      {"idx", read_idx},
                                      {"cifar", read_cifar},
                                      {"csv", read_csv},
                                      {"jpeg", read_jpeg},
                                      {"npy", read_npy},
                                      {"npz", read_npz},
                                      {"png", read_png},
                                      {"text", read_text},
                                      {"tuned_table", read_tuned_table},
                                      {"tune_results", read_tune_results},
                                      {"tune_bundle", read_tune_bundle},
                                      {"program_cache", read_program_cache},
                                      {"conformance_results", read_conformance_results}};

/// Prints the names when there's none such. nullptr then.
const Target* find_target(std::string_view name);

/// Ends the process, so that libFuzzer keeps the input, unless `holds`.
void require(bool holds, const char* what);

/// A file with these bytes in a folder of this process's own, removed at its end. The name is always the same.
std::filesystem::path file_with(Bytes bytes, const char* name);

}  // namespace ashlar::fuzz
