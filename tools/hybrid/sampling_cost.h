// What drawing samples by forecast costs beside drawing them shuffled.
#pragma once

#include "tools/hybrid/tasks.h"

namespace ashlar::tools {

/// Microseconds of a step's part, as replayed: many in a row in one captured graph, from an idle device to an idle one.
struct SamplingCost {
  double shuffled = 0;  ///< DeviceDataset::next(): a batch in shuffled order
  double draw = 0;      ///< SampleForecast::draw(): one by forecast
  double update = 0;    ///< SampleForecast::observe(): what its losses change
};

SamplingCost sampling_cost(const Task& task, Device device);

}  // namespace ashlar::tools
