#include "tools/train/text.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <sstream>

#include "ashlar/ops.h"
#include "autograd/grad_mode.h"
#include "nn/optim/adam.h"
#include "runtime/random/philox.h"
#include "runtime/support/error.h"
#include "tools/options.h"

namespace ashlar::tools::train {
namespace {

/// AdamW with weight decay for matrices alone, as is usual for such networks.
std::vector<nn::ParameterGroup<nn::AdamOptions>> groups_of(const nn::Module& model, double learning_rate) {
  std::vector<nn::ParameterGroup<nn::AdamOptions>> groups(2);
  groups[0].options = {.learning_rate = learning_rate, .beta2 = 0.98, .weight_decay = 0.1};
  groups[1].options = {.learning_rate = learning_rate, .beta2 = 0.98, .weight_decay = 0.0};
  for (const Var& parameter : model.parameters()) groups[parameter.rank() > 1 ? 0 : 1].parameters.push_back(parameter);
  return groups;
}

/// What the generated text begins with: where nothing is said a line, or where there are no lines the whole text's
/// begin.
std::vector<int64_t> prompt_of(const TextSettings& settings, const Text& text) {
  const nn::CharVocabulary& vocabulary = text.vocabulary();
  if (!settings.prompt.empty()) return vocabulary.encode(settings.prompt);
  const bool has_lines = vocabulary.characters().find('\n') != std::string::npos;
  return has_lines ? vocabulary.encode("\n") : std::vector<int64_t>{text.training()[0]};
}

void generate(const TextSettings& settings, std::vector<int64_t> tokens, const Text& text, const TextNetwork& network) {
  if (settings.generate == 0) return;
  const int64_t characters = text.vocabulary().size();
  const int64_t k = settings.top_k == 0 ? characters : std::min(settings.top_k, characters);
  const Tensor state = philox_state(static_cast<int64_t>(settings.seed >> 1), Device::parse(settings.device));
  for (int64_t i = 0; i < settings.generate; i++) {
    const Tensor next = sample_top_k(network.next(tokens), state, k, settings.temperature, settings.top_p);
    tokens.push_back(static_cast<int64_t>(next.item()));
  }
  std::cout << "---- generated at temperature " << settings.temperature << "\n"
            << text.vocabulary().decode(tokens) << "\n----\n";
}

}  // namespace

void add_text_options(CLI::App& command, TextSettings& settings) {
  const CLI::Range counts(1, 1'000'000'000);
  command.add_option("--data", settings.data, "Text file in UTF-8; its last tenth is held out");
  add_device(command, settings);
  command.add_option("--steps", settings.steps, "Updates, rounded up to whole times of --evaluate-every")
      ->check(counts)
      ->capture_default_str();
  command.add_option("--evaluate-every", settings.evaluate_every, "Steps between two looks at the held-out text")
      ->check(counts)
      ->capture_default_str();
  add_batch(command, settings, "Windows of the text for each update");
  command.add_option("--context", settings.context, "Characters in a window")
      ->check(CLI::Range(1, 65'536))
      ->capture_default_str();
  command.add_option("--layers", settings.layers, "Layers of the network")
      ->check(CLI::Range(1, 128))
      ->capture_default_str();
  command.add_option("--width", settings.width, "Numbers for each character between the layers")
      ->check(CLI::Range(1, 65'536))
      ->capture_default_str();
  command.add_option("--dropout", settings.dropout, "Part of the numbers between layers that is left out")
      ->check(number_between(0, 0.99))
      ->capture_default_str();
  add_learning_rate(command, settings,
                    "AdamW's learning rate: risen to within the first tenth (100 steps at most), constant, and falling "
                    "along a line to 0 in the last three tenths");
  add_seed(command, settings, "Of the first weights, the windows, and the generated text");
  command.add_option("--generate", settings.generate, "Characters to generate at the end")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  command.add_option("--prompt", settings.prompt, "What the generated text begins with [a new line]");
  command
      .add_option("--temperature", settings.temperature,
                  "Of the generated text: below 1 likely characters, above 1 unlikely ones are preferred")
      ->check(positive_number())
      ->capture_default_str();
  command.add_option("--top-k", settings.top_k, "Draw it from so many of the likeliest characters; 0: from all")
      ->check(CLI::Range(0, 1'000'000'000))
      ->capture_default_str();
  command
      .add_option("--top-p", settings.top_p,
                  "Draw it from the likeliest characters that together reach this probability")
      ->check(number_between(1e-6, 1))
      ->capture_default_str();
  add_results(command, settings);
  add_resume(command, settings);
  add_amp(command, settings);
  add_detect_anomaly(command, settings);
}

Windows::Windows(std::span<const int64_t> tokens, int64_t length, int64_t batch, int64_t steps, bool follow)
    : all_(tokens, length), batch_(batch), steps_(steps), follow_(follow) {}

std::vector<Tensor> Windows::batch(std::span<const int64_t> indices, const Draw& draw) const {
  const auto starts = static_cast<uint64_t>(all_.size());
  std::vector<int64_t> windows;
  std::vector<float> follows;
  for (const int64_t index : indices) {
    const int64_t row = index % batch_, step = index / batch_;
    const auto start = static_cast<int64_t>(draw.of(follow_ ? row : index).below(starts));
    windows.push_back(follow_ ? (start + step * all_.length()) % all_.size() : start);
    follows.push_back(step > 0 ? 1.0F : 0.0F);
  }
  std::vector<Tensor> result = all_.batch(windows, draw);
  if (follow_) result.push_back(Tensor::from(follows, {static_cast<int64_t>(follows.size())}));
  return result;
}

int train_text(const TextSettings& settings, const Text& text, const TextNetwork& network) {
  const std::vector<int64_t> prompt = prompt_of(settings, text);
  const int64_t every = std::min(settings.steps, settings.evaluate_every);
  const int64_t epochs = (settings.steps + every - 1) / every, steps = epochs * every;
  const Windows windows(text.training(), settings.context, settings.batch, every, network.follow);
  nn::DataLoader loader(windows, {.batch = settings.batch, .seed = settings.seed});
  nn::AdamW optimizer(groups_of(network.model, settings.learning_rate));
  optimizer.set_clipping({.norm = 1});
  nn::Scheduler scheduler(optimizer,
                          nn::warm_up_stable_decay(steps, std::min<int64_t>(100, steps / 10), steps * 3 / 10));
  const auto log = nn::fit({network.model, optimizer, loader, network.loss, &scheduler, network.held_out},
                           fit_options(settings, static_cast<int>(epochs)));

  const NoGrad no_grad;
  network.model.eval();
  generate(settings, prompt, text, network);
  const bool all_written = save_weights(network.model, settings);
  std::cout << "held-out loss " << four_digits(log.back().validation) << " nats per character" << std::endl;
  return all_written ? 0 : 1;
}

}  // namespace ashlar::tools::train
