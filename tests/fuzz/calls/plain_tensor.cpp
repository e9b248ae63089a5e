#include "tests/fuzz/calls/plain_tensor.h"

#include <algorithm>
#include <numeric>

namespace ashlar::fuzz {

PlainTensor PlainTensor::dense(const Shape& shape, const std::vector<int>& values) {
  PlainTensor made;
  made.memory_ = std::make_shared<std::vector<int>>(values);
  made.places_.resize(values.size());
  std::iota(made.places_.begin(), made.places_.end(), size_t{0});
  made.shape_ = shape;
  return made;
}

std::vector<int> PlainTensor::values() const {
  std::vector<int> values;
  for (const size_t place : places_) values.push_back((*memory_)[place]);
  return values;
}

bool PlainTensor::repeats_itself() const {
  std::vector<size_t> sorted = places_;
  std::ranges::sort(sorted);
  return std::ranges::adjacent_find(sorted) != sorted.end();
}

void PlainTensor::fill(int value) {
  for (const size_t place : places_) (*memory_)[place] = value;
}

void PlainTensor::copy(const PlainTensor& source) {
  const std::vector<int> values = source.values();
  for (size_t i = 0; i < places_.size(); ++i) (*memory_)[places_[i]] = values[i];
}

PlainTensor PlainTensor::view(const Shape& shape, const std::function<Shape(const Shape& index)>& from) const {
  PlainTensor made;
  made.memory_ = memory_;
  made.shape_ = shape;
  Shape index = Shape::filled(shape.rank(), 0);
  for (int64_t n = shape.numel(); n > 0; --n) {
    const Shape source = from(index);
    int64_t at = 0;
    for (int i = 0; i < source.rank(); ++i) at = at * shape_[i] + source[i];
    made.places_.push_back(places_[static_cast<size_t>(at)]);
    for (int i = shape.rank() - 1; i >= 0 && ++index[i] == shape[i]; --i) index[i] = 0;
  }
  return made;
}

PlainTensor PlainTensor::reshaped(const Shape& shape) const {
  PlainTensor made = *this;
  made.shape_ = shape;
  return made;
}

}  // namespace ashlar::fuzz
