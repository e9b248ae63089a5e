#include "nn/data/gunzip.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

constexpr size_t kChunk = size_t{1} << 16;  // bytes inflated at a time
constexpr int kGzipWindow = 15 + 16;        // zlib: largest window, gzip wrapper required

[[noreturn]] void damaged(const std::string& name, const std::string& what) {
  throw DataError("gunzip", name + ": " + what, "an intact gzip file", "Download the file again");
}

}  // namespace

bool is_gzip(std::span<const uint8_t> bytes) { return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b; }

struct GunzipStream::State {
  std::span<const uint8_t> input;
  std::string name;
  z_stream stream{};
  bool finished = false;
};

GunzipStream::GunzipStream(std::span<const uint8_t> bytes, std::string name) {
  auto state = std::make_unique<State>();
  state->input = bytes;
  state->name = std::move(name);
  if (inflateInit2(&state->stream, kGzipWindow) != Z_OK) damaged(state->name, "zlib refuses to start");
  state_ = state.release();
}

GunzipStream::~GunzipStream() {
  inflateEnd(&state_->stream);
  delete state_;
}

void GunzipStream::read(size_t count, std::vector<uint8_t>& out) {
  z_stream& stream = state_->stream;
  while (count > 0 && !state_->finished) {
    if (stream.avail_in == 0) {
      const size_t piece = std::min<size_t>(state_->input.size(), std::numeric_limits<uInt>::max());
      stream.next_in = const_cast<Bytef*>(state_->input.data());  // zlib reads only; its interface predates const
      stream.avail_in = static_cast<uInt>(piece);
      state_->input = state_->input.subspan(piece);
    }
    const size_t before = out.size(), room = std::min(count, kChunk);
    out.resize(before + room);
    stream.next_out = out.data() + before;
    stream.avail_out = static_cast<uInt>(room);
    const int result = inflate(&stream, Z_NO_FLUSH);
    const size_t produced = room - stream.avail_out;
    out.resize(before + produced);
    count -= produced;

    if (result == Z_STREAM_END) {
      if (stream.avail_in == 0 && state_->input.empty()) {
        state_->finished = true;
      } else {  // a second member must start here; zlib reports anything else as an incorrect header
        inflateReset(&stream);
      }
    } else if (result == Z_BUF_ERROR) {  // no progress: the input is used up
      damaged(state_->name, "compressed data that ends too early");
    } else if (result != Z_OK) {
      damaged(state_->name, stream.msg != nullptr ? stream.msg : "damaged compressed data");
    }
  }
}

}  // namespace ashlar::nn
