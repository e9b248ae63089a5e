#include "nn/data/jpeg.h"

// clang-format off: jpeglib.h needs FILE
#include <jerror.h>
#include <jpeglib.h>
#include <cstdio>
// clang-format on

#include <algorithm>
#include <csetjmp>

#include "nn/data/file.h"
#include "nn/data/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

constexpr const char* kName = "read_jpeg";
constexpr uint64_t kPixelsPerByte = 64 * 8;  // a block of 8×8 pixels has at least one bit
constexpr int kMostScans = 500;              // of a progressive image, each of which goes over all pixels

/// Libjpeg's state. It reports errors by longjmp, so nothing with a destructor may stand between a call and setjmp:
/// the functions below have none.
struct Decoder {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf failed{};
  char message[JMSG_LENGTH_MAX] = "";

  Decoder() {
    info.err = jpeg_std_error(&errors);
    info.client_data = this;
    errors.error_exit = [](j_common_ptr common) { fail(common); };
    errors.output_message = [](j_common_ptr) {};
    errors.emit_message = [](j_common_ptr common, int level) {
      const int code = common->err->msg_code;
      const bool is_harmless = code == JWRN_EXTRANEOUS_DATA || code == JWRN_JFIF_MAJOR || code == JWRN_ADOBE_XFORM;
      if (level < 0 && !is_harmless) fail(common);  // a warning: pixels are made up where data are damaged
    };
  }
  ~Decoder() { jpeg_destroy_decompress(&info); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  [[noreturn]] static void fail(j_common_ptr common) {
    auto& self = *static_cast<Decoder*>(common->client_data);
    self.errors.format_message(common, self.message);
    std::longjmp(self.failed, 1);
  }
};

bool read_header(Decoder& decoder, std::span<const uint8_t> bytes) {
  if (setjmp(decoder.failed) != 0) return false;
  jpeg_create_decompress(&decoder.info);
  jpeg_mem_src(&decoder.info, bytes.data(), bytes.size());
  jpeg_read_header(&decoder.info, TRUE);
  return true;
}

bool read_pixels(Decoder& decoder, uint8_t* to, size_t row_bytes) {
  if (setjmp(decoder.failed) != 0) return false;
  jpeg_decompress_struct& info = decoder.info;
  decoder.progress.progress_monitor = [](j_common_ptr common) {
    if (reinterpret_cast<j_decompress_ptr>(common)->input_scan_number > kMostScans) Decoder::fail(common);
  };
  info.progress = &decoder.progress;
  info.out_color_space = info.num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_start_decompress(&info);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = to + info.output_scanline * row_bytes;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  return true;
}

[[noreturn]] void damaged(const std::string& name, const std::string& came, const std::string& needed) {
  throw DataError(kName, name + ": " + came, needed, "Check that the file is an undamaged JPEG image");
}

Tensor parse(std::span<const uint8_t> bytes, const std::string& name) {
  Decoder decoder;
  if (!read_header(decoder, bytes)) damaged(name, decoder.message, "a JPEG image");
  const jpeg_decompress_struct& info = decoder.info;
  if ((info.num_components != 1 && info.num_components != 3) || info.arith_code != FALSE) {
    damaged(name, std::to_string(info.num_components) + " colours" + (info.arith_code ? ", arithmetic coding" : ""),
            "grey or three colours, Huffman coding");
  }
  const uint64_t pixels = uint64_t{info.image_height} * info.image_width;  // each at most 65500
  const auto channels = static_cast<uint64_t>(info.num_components);
  if (pixels > kPixelsPerByte * bytes.size() || pixels * channels > read_limit()) {
    damaged(name,
            std::to_string(info.image_height) + "×" + std::to_string(info.image_width) + " pixels in " +
                std::to_string(bytes.size()) + " bytes",
            "as many as the bytes can hold, and at most " + std::to_string(read_limit()) + " bytes of them");
  }
  const int64_t h = info.image_height, w = info.image_width;
  const Tensor image = Tensor::empty(channels == 1 ? Shape{h, w} : Shape{h, w, 3}, DType::u8);
  if (!read_pixels(decoder, static_cast<uint8_t*>(image.data()), static_cast<size_t>(w) * channels)) {
    damaged(name, decoder.message, "an undamaged JPEG image");
  }
  return image;
}

}  // namespace

Tensor parse_jpeg(std::span<const uint8_t> bytes, const std::string& name) {
  return with_host_memory(kName, name, [&] { return parse(bytes, name); });
}

Tensor read_jpeg(const std::filesystem::path& file) { return parse_jpeg(read_file(kName, file), file.string()); }

}  // namespace ashlar::nn
