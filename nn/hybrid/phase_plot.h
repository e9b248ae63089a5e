// The phases of a hybrid training as a picture.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "nn/hybrid/statistics.h"
#include "nn/trainer/fit.h"

namespace ashlar::nn {

/// An SVG (plot.h) over steps, predicted ones counted. Above, losses: where phases ended, means of epochs and what was
/// held out, which stand at `epoch_ends`; phases as bands; a dot where each jump began, at the loss before it, that
/// says what became of it. Below, the seconds that jumps saved and cost so far. Steps that were rolled back are their
/// jump's dot alone.
std::string phase_plot(const std::string& title, const std::vector<PhaseRecord>& records,
                       const std::vector<FitEpoch>& epochs, const std::vector<int64_t>& epoch_ends);

/// The same as a file. Throws WriteError.
void write_phase_plot(const std::filesystem::path& file, const std::string& title,
                      const std::vector<PhaseRecord>& records, const std::vector<FitEpoch>& epochs,
                      const std::vector<int64_t>& epoch_ends);

}  // namespace ashlar::nn
