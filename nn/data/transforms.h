// Changes of samples while they are drawn: torchvision's transforms, for a data set's batches.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "nn/data/dataset.h"

namespace ashlar::nn {

/// Makes another tensor of one part of a batch, samples along axis 0, on the CPU. What it does by chance to sample i it
/// draws from randoms[i], which the transforms of a part share one after the other. Called by several threads at once.
using Transform = std::function<Tensor(const Tensor& samples, std::span<Random> randoms)>;

/// Elements of another dtype; `scale`: u8 from 0 to 255 become f32 in [0, 1]. Throws DTypeError where scaling meets
/// other dtypes.
struct ToDtype {
  DType dtype = DType::f32;
  bool scale = false;
  Tensor operator()(const Tensor& samples, std::span<Random> randoms) const;
};

/// (x - mean) / std of each channel of f32 [n, c, …]; of one number each, of every element. Throws ValueError unless
/// mean and std are as many and no std is 0, ShapeError on another number of channels, DTypeError.
class Normalize {
 public:
  Normalize(std::vector<double> mean, std::vector<double> std);
  Tensor operator()(const Tensor& samples, std::span<Random> randoms) const;

 private:
  std::vector<float> mean_, scale_;
};

/// height × width pixels from a place drawn for each sample of [n, …, h, w] with `padding` zeros on all four sides, all
/// places as likely. Throws ValueError on sizes below 1, ShapeError where the padded image is smaller than the crop.
class RandomCrop {
 public:
  RandomCrop(int64_t height, int64_t width, int64_t padding = 0);
  Tensor operator()(const Tensor& samples, std::span<Random> randoms) const;

 private:
  int64_t height_, width_, padding_;
};

/// Turns left and right of each sample of [n, …, w] with probability p. Throws ValueError unless 0 ≤ p ≤ 1.
class RandomHorizontalFlip {
 public:
  explicit RandomHorizontalFlip(double p = 0.5);
  Tensor operator()(const Tensor& samples, std::span<Random> randoms) const;

 private:
  float p_;
};

/// Class numbers, u8, i32 or i64 [n, …], as f32 [n, …, classes]: 1 at the class, else 0. Throws ValueError unless there
/// is a class, IndexError on a number outside, DTypeError.
class OneHot {
 public:
  explicit OneHot(int64_t classes);
  Tensor operator()(const Tensor& samples, std::span<Random> randoms) const;

 private:
  int64_t classes_;
};

/// A data set with transforms for each part of its batches, applied one after the other:
///   TransformedDataset train(data, {{RandomCrop(32, 32, 4), ToDtype{.scale = true}}, {OneHot(10)}});
/// A sample comes out the same for the same seed, epoch and index, whatever the batch and the thread.
class TransformedDataset : public Dataset {
 public:
  /// Parts beyond the lists stay as they are. The data set must outlive this one.
  TransformedDataset(const Dataset& data, std::vector<std::vector<Transform>> transforms);
  int64_t size() const override { return data_.size(); }
  /// Throws ShapeError when there are transforms of more parts than the data set has, and what they throw.
  std::vector<Tensor> batch(std::span<const int64_t> indices, const Draw& draw) const override;

 private:
  const Dataset& data_;
  std::vector<std::vector<Transform>> transforms_;
};

}  // namespace ashlar::nn
