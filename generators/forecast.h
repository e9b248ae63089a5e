// What the kernels that draw samples and the operators that call them have to agree on (operators/forecast.cpp).
#pragma once

namespace ashlar {

constexpr int kForecastGroup = 64;  ///< samples whose weights are added up before the running sum

}  // namespace ashlar
