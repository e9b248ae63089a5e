// A tensor as text: what and where it is, then its values, those in the middle left out where there are many.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ostream>

#include "runtime/tensor/tensor.h"

namespace ashlar {
namespace {

constexpr int64_t kMostPrinted = 1000;
constexpr int64_t kEnds = 3;  // printed from each end of an axis, where there are more elements than that
constexpr size_t kLineLength = 100;

bool is_shortened(int64_t size) { return size > 2 * kEnds; }

/// The corners of `x`, side by side.
Tensor ends_of(const Tensor& x) {
  Shape shape = x.shape();
  std::vector<int> shortened;
  for (int i = 0; i < x.rank(); i++) {
    if (!is_shortened(shape[i])) continue;
    shape[i] = 2 * kEnds;
    shortened.push_back(i);
  }
  const Tensor result = Tensor::empty(shape, x.dtype(), x.device());
  for (unsigned corner = 0; corner < 1u << shortened.size(); corner++) {
    Tensor from = x, to = result;
    for (size_t i = 0; i < shortened.size(); i++) {
      const bool is_last = corner >> i & 1;
      const auto part = [&](const Tensor& t) {
        const int64_t size = t.size(shortened[i]);
        return is_last ? t.slice(shortened[i], size - kEnds) : t.slice(shortened[i], 0, kEnds);
      };
      from = part(from);
      to = part(to);
    }
    to.copy_(from);
  }
  return result;
}

std::string formatted(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

/// Floats like each other: all with a point alone where none has a fraction, else four digits behind it, or as powers
/// of ten where that would hide too much.
std::vector<std::string> floats_as_text(const std::vector<double>& values) {
  double largest = 0, smallest = INFINITY;
  bool all_whole = true;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    all_whole = all_whole && value == std::trunc(value);
    largest = std::max(largest, std::abs(value));
    if (value != 0) smallest = std::min(smallest, std::abs(value));
  }
  const bool by_powers = largest >= 1e8 || (!all_whole && (smallest < 1e-4 || largest > 1000 * smallest));
  const char* format = by_powers ? "%.4e" : all_whole ? "%.0f." : "%.4f";
  std::vector<std::string> texts;
  for (const double value : values) {
    texts.push_back(std::isnan(value)   ? "nan"
                    : std::isinf(value) ? (value < 0 ? "-inf" : "inf")
                                        : formatted(format, value));
  }
  return texts;
}

std::vector<std::string> as_text(const Tensor& x) {
  if (is_floating(x.dtype())) return floats_as_text(x.to_doubles());
  std::vector<std::string> texts;
  if (x.dtype() == DType::boolean) {
    for (const bool value : x.to_vector<bool>()) texts.push_back(value ? "true" : "false");
  } else if (x.dtype() == DType::i64) {
    for (const int64_t value : x.to_vector<int64_t>()) texts.push_back(std::to_string(value));
  } else {
    for (const double value : x.to_doubles()) texts.push_back(formatted("%.0f", value));
  }
  return texts;
}

/// Writes texts[at], texts[at + 1], … as nested lists of `shape`'s axes from `axis` on.
class Lists {
 public:
  Lists(std::ostream& out, const Shape& shape, bool is_shortened, std::vector<std::string> texts)
      : out_(out), shape_(shape), is_shortened_(is_shortened), texts_(std::move(texts)) {
    for (const std::string& text : texts_) width_ = std::max(width_, text.size());
  }
  void write(int axis) {
    if (axis == shape_.rank()) {
      const std::string& text = texts_[next_++];
      out_ << std::string(width_ - text.size(), ' ') << text;
      return;
    }
    const bool is_last = axis + 1 == shape_.rank();
    const auto indent = static_cast<size_t>(axis) + 1;
    // Rows lie below each other, matrices with an empty line between them.
    const std::string break_line =
        std::string(is_last ? 1 : static_cast<size_t>(shape_.rank() - 1 - axis), '\n') + std::string(indent, ' ');
    const size_t on_a_line = std::max<size_t>((kLineLength - indent) / (width_ + 2), 1);
    out_ << '[';
    for (int64_t i = 0; i < shape_[axis]; i++) {
      if (i > 0) out_ << ',' << (is_last && static_cast<size_t>(i) % on_a_line != 0 ? " " : break_line);
      if (is_shortened_ && ashlar::is_shortened(shape_[axis]) && i == kEnds) {
        out_ << "..." << (is_last ? ", " : "," + break_line);
        i = shape_[axis] - kEnds;
      }
      write(axis + 1);
    }
    out_ << ']';
  }

 private:
  std::ostream& out_;
  const Shape& shape_;
  bool is_shortened_;
  std::vector<std::string> texts_;
  size_t width_ = 0;
  size_t next_ = 0;
};

}  // namespace

std::ostream& operator<<(std::ostream& out, const Tensor& x) {
  out << x.str();
  if (!x.defined()) return out;
  out << '\n';
  if (x.numel() == 0) return out << "[]";
  const bool is_long = x.numel() > kMostPrinted;
  Lists(out, x.shape(), is_long, as_text(is_long ? ends_of(x) : x)).write(0);
  return out;
}

}  // namespace ashlar
