// char-transformer: a transformer that foretells characters.
#include <iostream>
#include <memory>
#include <vector>

#include "ashlar/ops.h"
#include "nn/data/data_loader.h"
#include "nn/loss.h"
#include "runtime/support/error.h"
#include "tools/train/text.h"
#include "tools/train/transformer.h"

namespace ashlar::tools::train {
namespace {

struct Settings : TextSettings {
  int64_t heads = 4;
};

int train(const Settings& settings) {
  const Device device = Device::parse(settings.device);
  check_places(settings);
  if (settings.width % settings.heads != 0) {
    throw ValueError("--heads", std::to_string(settings.heads) + " heads of " + std::to_string(settings.width),
                     "a --width that is a multiple of --heads", "Give each head the same width");
  }
  const Text text(settings.data, settings.context);
  Random random(settings.seed);
  CharTransformer model(text.vocabulary().size(),
                        {.context = settings.context,
                         .layers = settings.layers,
                         .heads = settings.heads,
                         .width = settings.width,
                         .dropout = settings.dropout},
                        random);
  model.to(device);

  const auto loss = [&](const std::vector<Tensor>& batch) {
    const Var logits = model(batch[0].to(device));
    return nn::cross_entropy(logits.reshape({-1, logits.size(2)}), batch[1].to(device).reshape({-1}));
  };
  const nn::CharDataset windows(text.held_out(), settings.context, settings.context);
  const auto held_out = [&] {
    nn::DataLoader loader(windows, {.batch = settings.batch});
    loader.start(0);
    double sum = 0;
    while (const auto batch = loader.next()) sum += loss(*batch).item() * static_cast<double>((*batch)[0].size(0));
    return sum / static_cast<double>(windows.size());
  };
  // Always a whole window, so that kernels see one shape; what stands behind the text isn't seen from it.
  const auto next = [&](std::span<const int64_t> so_far) {
    const size_t seen = std::min(so_far.size(), static_cast<size_t>(model.context()));
    std::vector<int64_t> window(so_far.end() - static_cast<int64_t>(seen), so_far.end());
    window.resize(static_cast<size_t>(model.context()), 0);
    return model(Tensor::from(window, {1, model.context()}, device))
        .value()
        .select(0, 0)
        .select(0, static_cast<int64_t>(seen) - 1);
  };
  std::cout << introduction("char-transformer", model, device) << text.description() << std::endl;
  return train_text(settings, text, {model, /*follow=*/false, loss, held_out, next});
}

std::function<int()> add(CLI::App& command) {
  const auto settings = std::make_shared<Settings>();
  settings->data.clear();
  settings->batch = 32;
  add_text_options(command, *settings);
  command.add_option("--heads", settings->heads, "Of each layer's attention")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command.footer(
      "The defaults suit a CPU. For a GPU, about 10 million parameters: --device cuda --layers 6 --heads 6 --width 384 "
      "--context 256 --batch 64 --dropout 0.2 --steps 1750");
  return [settings] { return train(*settings); };
}

}  // namespace

const Program kCharTransformer{"char-transformer",
                               "A transformer that learns a text by its characters and goes on writing", add};

}  // namespace ashlar::tools::train
