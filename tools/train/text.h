// What the programs that learn a text character by character have in common.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "nn/data/text.h"
#include "tools/train/characters.h"
#include "tools/train/program.h"

namespace ashlar::tools::train {

struct TextSettings : Common {
  int64_t steps = 1000;
  int64_t evaluate_every = 250;  // steps
  int64_t context = 64;          // characters
  int64_t width = 128;
  int64_t layers = 4;
  double dropout = 0;
  int64_t generate = 400;  // characters
  double temperature = 0.8;
  int64_t top_k = 0;  // of all
  double top_p = 1;
  std::string prompt;
};
/// All of them but those of Common that the text programs leave out.
void add_text_options(CLI::App& command, TextSettings& settings);

/// What a network learns from in the steps between two evaluations: `batch` · `steps` windows, each of which begins
/// anywhere. With `follow` a row of a batch goes on where the same row of the batch before ended, from a random start
/// in the first; a third tensor, f32 [batch], then is 0 in the first batch and 1 in all others. Not to be shuffled.
class Windows : public nn::Dataset {
 public:
  Windows(std::span<const int64_t> tokens, int64_t length, int64_t batch, int64_t steps, bool follow);
  int64_t size() const override { return batch_ * steps_; }
  std::vector<Tensor> batch(std::span<const int64_t> indices, const Draw& draw) const override;

 private:
  nn::CharDataset all_;
  int64_t batch_, steps_;
  bool follow_;
};

/// What is a network's own.
struct TextNetwork {
  nn::Module& model;
  bool follow;  ///< as in Windows
  std::function<Var(const std::vector<Tensor>& batch)> loss;
  std::function<double()> held_out;  ///< mean loss of a held-out character, in nats
  /// Logits of the character that follows a text, which grows from call to call.
  std::function<Tensor(std::span<const int64_t> text)> next;
};

/// Trains, generates, and says in the last line what the held-out loss is. Returns the exit status.
int train_text(const TextSettings& settings, const Text& text, const TextNetwork& network);

}  // namespace ashlar::tools::train
