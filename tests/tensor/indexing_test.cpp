// Indices outside of their axis: refused where they can be seen, and nowhere read or written beyond memory.
#include <cmath>
#include <limits>

#include "ashlar/ops/argsort.h"
#include "ashlar/ops/gather.h"
#include "ashlar/ops/scatter_add.h"
#include "runtime/graph/graph.h"
#include "runtime/support/error.h"
#include "tests/tensor/devices.h"

namespace ashlar {
namespace {

using testing::expect_error;
using testing::OnDevice;

constexpr int64_t kFarthest = std::numeric_limits<int64_t>::max();

class Indexing : public OnDevice {
 protected:
  Tensor numbers(int64_t count) const { return Tensor::arange(count, DType::f32).to(device()); }
  Tensor index(std::initializer_list<int64_t> values) const { return Tensor::from<int64_t>(values, device()); }
  /// What `call` gives where indices aren't looked at on the host: on a GPU, and when a graph is replayed.
  template <class Call>
  Tensor unchecked(Call call) const {
    Tensor result;
    const Graph graph = capture(device(), [&] { result = call(); });
    graph.replay();
    return result;
  }
  bool checks() const { return device().kind == DeviceKind::cpu; }
};
INSTANTIATE_TEST_SUITE_P(Devices, Indexing, ::testing::ValuesIn(testing::usable_devices()), testing::device_name);

TEST_P(Indexing, ReadsNothingOutside) {
  const Tensor x = numbers(5), at = index({1, -1, 5, 4, kFarthest, -kFarthest - 1, int64_t{1} << 32});
  const Tensor y = unchecked([&] { return gather(x, at); });
  const std::vector<float> values = y.to_vector<float>();
  EXPECT_EQ(values[0], 1);
  EXPECT_EQ(values[3], 4);
  for (const size_t outside : {1, 2, 4, 5, 6}) EXPECT_TRUE(std::isnan(values[outside])) << outside;
  const Tensor integers = unchecked([&] { return index_select(x.to(DType::i64), at); });
  EXPECT_EQ(integers.to_vector<int64_t>(), (std::vector<int64_t>{1, 0, 0, 4, 0, 0, 0}));
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64}) {
    EXPECT_TRUE(std::isnan(unchecked([&] { return gather(x.to(dtype), at); }).to_doubles()[1]));
  }
}

TEST_P(Indexing, AddsNothingOutside) {
  // As many terms as a thread walks along itself, and more of them.
  for (const int64_t more : {0, 100}) {
    std::vector<int64_t> at{1, -1, 5, 4, kFarthest, -kFarthest - 1, int64_t{1} << 32};
    at.resize(at.size() + static_cast<size_t>(more), 2);
    const auto count = static_cast<int64_t>(at.size());
    const Tensor places = Tensor::from<int64_t>(at, {count}, device()),
                 ones = Tensor::ones({count}, DType::f32, device());
    const Tensor x = numbers(5);
    const Tensor y = unchecked([&] { return scatter_add(x, places, ones); });
    EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{0, 2, 2 + static_cast<float>(more), 3, 5}));
    const Tensor rows = ones.reshape({count, 1});
    const Tensor weight = unchecked([&] { return embedding_grad(rows, places, 5, 4); });
    EXPECT_EQ(weight.to_vector<float>(), (std::vector<float>{0, 1, static_cast<float>(more), 0, 0}));
  }
}

TEST_P(Indexing, IsRefusedWhereItIsSeen) {
  const Tensor x = numbers(5), at = index({1, 2, 7});
  if (checks()) {
    expect_error<IndexError>([&] { gather(x, at); }, {"gather", "index 7 at element 2", "from 0 to 4"});
    expect_error<IndexError>([&] { index_select(x, index({-1})); }, {"index_select", "index -1", "add the size"});
    expect_error<IndexError>([&] { scatter_add(x, at, numbers(3)); }, {"scatter_add", "index 7"});
    expect_error<IndexError>([&] { index_add(x, at, numbers(3)); }, {"index_add", "index 7"});
    expect_error<IndexError>([&] { embedding(at, x.reshape({5, 1})); }, {"embedding", "index 7"});
  }
  expect_error<IndexError>([&] { gather(numbers(0), at); }, {"gather", "axis of size 0"});
}

TEST_P(Indexing, WrongCallsSayWhatIsNeeded) {
  const Tensor x = numbers(6).reshape({2, 3}), at = index({0, 1});
  expect_error<ShapeError>([&] { gather(x, at); }, {"gather", "f32[2, 3]", "i64[2]", "of the same rank"});
  expect_error<ShapeError>([&] { gather(x, Tensor::zeros({3, 2}, DType::i64, device())); }, {"at most 2 along axis 0"});
  expect_error<DTypeError>([&] { gather(x, x); }, {"gather", "i64"});
  expect_error<ShapeError>([&] { take_along(x, at); }, {"take_along", "x's rank"});
  expect_error<ShapeError>([&] { index_select(x, at.reshape({1, 2})); }, {"index_select", "rank 1"});
  expect_error<ShapeError>([&] { index_add(x, at, x, 1); }, {"index_add", "src of shape [2, 2]"});
  expect_error<DTypeError>([&] { index_add(x, at, x.to(DType::f64)); }, {"index_add", "DType"});
  expect_error<ValueError>([&] { embedding(at, x, 2); }, {"embedding", "padding_idx = 2"});
  expect_error<ValueError>([&] { topk(x, 4); }, {"topk", "k from 0 to 3"});
  expect_error<IndexError>([&] { argsort(x, 2); }, {"argsort"});
}

TEST_P(Indexing, SortsInsideOfAGraph) {
  const Tensor x = Tensor::from({3.f, 1.f, 2.f}, device());
  Tensor order;
  const Graph graph = capture(device(), [&] { order = argsort(x); });
  graph.replay();
  EXPECT_EQ(order.to_vector<int64_t>(), (std::vector<int64_t>{1, 2, 0}));
  x.copy_(Tensor::from({1.f, 3.f, 2.f}, device()));
  graph.replay();
  EXPECT_EQ(order.to_vector<int64_t>(), (std::vector<int64_t>{0, 2, 1}));
}

}  // namespace
}  // namespace ashlar
