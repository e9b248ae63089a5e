#include "dsl/build/ptx_rewriter.h"

#include <algorithm>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "dsl/build/ptx_clusters.h"
#include "dsl/ptx_markers.h"

namespace ashlar::dsl {
namespace {

using ptx::code_of;
using ptx::Lines;
using ptx::Marker;
using ptx::registers_of;
using ptx::starts_with;

bool is(const Marker& marker, const ptx::MarkerKind& kind) { return marker.kind == kind.name; }

// One .entry of the PTX: rewrites its lines in place.
class KernelRewriter {
 public:
  KernelRewriter(Lines& lines, size_t begin, size_t end, std::string name)
      : lines_(lines), begin_(begin), end_(end), name_(std::move(name)) {}

  void run() {
    for (size_t i = begin_; i < end_; i++) {
      if (starts_with(code_of(lines_[i]), "{") && lines_[i].find("callseq") != std::string::npos) i = read_call(i);
    }
    for (const Marker& conversion : conversions_) convert(conversion);
    if (markers_.empty()) return;
    check_complete();
    find_addresses();
    check_order();
    for (const Marker& marker : markers_) replace(marker);
    if (is_coherent_) load_coherently();
    if (cluster_ > 0) {
      const std::string unmoved = clusters::move_shared_memory(lines_, begin_, end_);
      if (!unmoved.empty()) fail(begin_, "can't move an access in a cluster: " + unmoved);
    }
    for (const size_t line : address_loads_) lines_[line].clear();
  }
  /// What stands between the kernel's parameters and its body.
  std::string directives() const {
    std::string all;
    if (cluster_ > 0) all += clusters::directives(cluster_);
    if (register_limit_) all += ".maxnreg " + std::to_string(*register_limit_) + "\n";
    return all;
  }

 private:
  [[noreturn]] void fail(size_t line, const std::string& what) const {
    throw std::runtime_error("PTX kernel " + name_ + ", line " + std::to_string(line + 1) + ": " + what);
  }

  // Reads "{ // callseq n … }" from its first line; returns its last.
  size_t read_call(size_t first) {
    static const std::regex kArgument(R"(st\.param\.b32\s+\[param(\d+)\],\s*(\S+);)"),
        kCall(R"(call\.uni\s+\(retval0\),\s*(\w+),\s*\(.*\);)"), kResult(R"(ld\.param\.b32\s+(%r\d+),\s*\[retval0\];)");
    size_t last = first;
    while (last < end_ && !starts_with(code_of(lines_[last]), "}")) last++;
    Marker marker{{}, {}, {}, {}, first, last};
    bool is_marker = false;
    for (size_t i = first; i <= last; i++)
      is_marker = is_marker || lines_[i].find(ptx::kMarkerPrefix) != std::string::npos;
    if (!is_marker) return last;
    for (size_t i = first + 1; i < last; i++) {
      const std::string code = code_of(lines_[i]);
      std::smatch match;
      if (std::regex_match(code, match, kArgument)) {
        if (std::stoul(match[1]) != marker.arguments.size()) fail(i, "arguments out of order");
        marker.arguments.push_back(match[2]);
      } else if (std::regex_match(code, match, kCall) && starts_with(match[1], ptx::kMarkerPrefix) &&
                 marker.kind.empty()) {
        std::istringstream words(match[1].str().substr(ptx::kMarkerPrefix.size()));
        std::getline(words, marker.kind, '_');
        for (std::string word; std::getline(words, word, '_');) marker.numbers.push_back(std::stoi(word));
      } else if (std::regex_match(code, match, kResult)) {
        marker.result = match[1];
      } else if (!starts_with(code, ".param")) {
        fail(i, "can't read the call of a marker: " + code);
      }
    }
    const bool is_known = std::ranges::any_of(ptx::kMarkerKinds, [&](const ptx::MarkerKind& kind) {
      return is(marker, kind) && marker.numbers.size() == kind.numbers && marker.arguments.size() == kind.arguments;
    });
    if (!is_known) fail(first, "an unknown marker");
    const bool is_function = is(marker, ptx::kNarrow) || is(marker, ptx::kNarrowPair);
    (is_function ? conversions_ : markers_).push_back(marker);
    return last;
  }

  // A function of its arguments: wherever LLVM has put it, once or several times, the instruction may stand.
  void convert(const Marker& marker) {
    if (marker.result.empty()) fail(marker.first, "a conversion without a result");
    for (size_t i = marker.first; i <= marker.last; i++) lines_[i].clear();
    // The first source becomes the upper half.
    const std::string upper = is(marker, ptx::kNarrowPair) ? marker.arguments[1] : "0f00000000";
    lines_[marker.first] = "\tcvt.rn.bf16x2.f32 \t" + marker.result + ", " + upper + ", " + marker.arguments[0] + ";";
  }

  // Every marker that the lowering pass made is there once, and no other.
  void check_complete() {
    std::map<int, std::set<int>> copies;
    std::map<int, int> commits;
    std::set<int> gives, meets;
    int ends = 0, waits_for_peers = 0, assemblies = 0;
    for (const Marker& m : markers_) {
      bool is_new = true;
      if (is(m, ptx::kCopy)) is_new = copies[m.numbers[1]].insert(m.numbers[2]).second;
      if (is(m, ptx::kCommit)) is_new = commits.emplace(m.numbers[0], m.numbers[1]).second;
      if (is(m, ptx::kWait)) is_new = waits_.insert(m.numbers[0]).second;
      if (is(m, ptx::kRegisters)) {
        is_new = !register_limit_;
        register_limit_ = m.numbers[0];
      }
      if (is(m, ptx::kCoherent)) {
        is_new = !is_coherent_;
        is_coherent_ = true;
      }
      if (is(m, ptx::kCluster)) {
        is_new = cluster_ == 0;
        cluster_ = m.numbers[0];
        exchanges_ = m.numbers[1];
      }
      if (is(m, ptx::kGroup)) {
        is_new = cluster_ == 0;
        cluster_ = m.numbers[0];
        shares_steps_ = true;
      }
      if (is(m, ptx::kAssemble)) is_new = assemblies++ == 0;
      if (is(m, ptx::kPeers)) is_new = waits_for_peers++ == 0;
      if (is(m, ptx::kGive)) is_new = gives.insert(m.numbers[0]).second;
      if (is(m, ptx::kMeet)) is_new = meets.insert(m.numbers[0]).second;
      if (is(m, ptx::kEnd)) {
        is_new = ends++ == 0;
        regions_ = m.numbers[0];
        wait_count_ = m.numbers[1];
      }
      if (!is_new) fail(m.first, "marker " + m.kind + " was duplicated");
    }
    const auto numbered = [](const std::set<int>& all, int count) {
      return static_cast<int>(all.size()) == count && (count == 0 || (*all.begin() == 0 && *all.rbegin() == count - 1));
    };
    if (!numbered(gives, exchanges_) || !numbered(meets, exchanges_) ||
        waits_for_peers != (cluster_ > 0 && !shares_steps_ ? 1 : 0) || assemblies != (shares_steps_ ? 1 : 0)) {
      fail(begin_, "a marker of a cluster was dropped");
    }
    if (copies.empty() && commits.empty() && waits_.empty() && ends == 0) return;
    if (cluster_ > 0) fail(begin_, "asynchronous copies in a cluster");
    if (ends == 0) fail(begin_, "marker end was dropped");
    if (!numbered(waits_, wait_count_)) fail(begin_, "a wait was dropped");
    for (int region = 0; region < regions_; region++) {
      if (commits.count(region) == 0) fail(begin_, "the commit of region " + std::to_string(region) + " was dropped");
      if (!numbered(copies[region], commits[region])) {
        fail(begin_, "a copy of region " + std::to_string(region) + " was dropped");
      }
    }
    if (static_cast<int>(commits.size()) != regions_ || static_cast<int>(copies.size()) != regions_ || regions_ < 2) {
      fail(begin_, "regions that the end marker doesn't know");
    }
  }

  // The one load that gives a marker's argument its value: in the same straight piece of code, read by nothing else,
  // its address unchanged in between.
  std::string address(const Marker& marker, const std::string& argument, const std::regex& load) {
    const std::vector<size_t>& lines = mentions_[argument];
    const size_t definition = lines.empty() ? end_ : lines.front();
    std::smatch match;
    const std::string code = definition == end_ ? "" : code_of(lines_[definition]);
    if (!std::regex_match(code, match, load) || match[1] != argument) {
      fail(marker.first, "no plain load gives the address " + argument + ": " + code);
    }
    if (lines.size() != 2 || lines.back() < marker.first || lines.back() > marker.last)
      fail(marker.first, "the load that gives an address is also read elsewhere: " + argument);
    const auto used = registers_of(match[2]);
    for (size_t i = definition + 1; i < marker.first; i++) {
      const std::string between = code_of(lines_[i]);
      if (starts_with(between, "$") || between.find("bra") != std::string::npos) {
        fail(marker.first, "an address comes from another block");
      }
      const auto written = registers_of(between);
      if (!written.empty() && std::find(used.begin(), used.end(), written[0]) != used.end() &&
          !starts_with(between, "st.")) {
        fail(marker.first, "the register of an address changes before its use");
      }
    }
    address_loads_.insert(definition);
    return match[2];
  }

  void find_addresses() {
    static const std::regex kShared(R"(ld\.shared\.[bu]32\s+(%r\d+),\s*(\[[^\]]+\]);)"),
        kGlobal(R"(ld\.global(?:\.nc)?\.[bu]32\s+(%r\d+),\s*(\[[^\]]+\]);)");
    for (size_t i = begin_; i < end_; i++) {
      for (const std::string& name : registers_of(code_of(lines_[i]))) mentions_[name].push_back(i);
    }
    for (Marker& marker : markers_) {
      if (!marker.result.empty() && mentions_[marker.result].size() != 1) {
        fail(marker.first, "something reads the result of a marker");
      }
      if (!is(marker, ptx::kCopy)) continue;
      marker.arguments[0] = address(marker, marker.arguments[0], kShared);
      marker.arguments[1] = address(marker, marker.arguments[1], kGlobal);
    }
  }

  // ---- the order of markers along every path ------------------------------------------------------------------
  // What a path has come past last: nothing, a commit, a wait, the barrier after a wait, or the end; in a cluster its
  // beginning, or what belongs before the given exchange.
  enum Phase { kStart, kCommitted, kWaiting, kWaited, kEnded, kInCluster, kExchange };
  using State = std::pair<Phase, int>;
  using States = std::set<State>;

  void require(size_t line, const States& at, const States& allowed, const std::string& what) const {
    for (const State& state : at) {
      if (allowed.count(state) == 0) fail(line, what + " was moved");
    }
  }
  // Where copies of a region may start.
  State before(int region) const {
    if (region == regions_ - 1) return {kWaited, 0};
    return region == 0 ? State{kStart, 0} : State{kCommitted, region - 1};
  }
  States after(const Marker& marker, const States& at) const {
    const auto& n = marker.numbers;
    const States committed{{kCommitted, regions_ - 2}, {kCommitted, regions_ - 1}};
    if (is(marker, ptx::kCopy)) require(marker.first, at, {before(n[1])}, "a copy");
    if (is(marker, ptx::kCommit)) {
      require(marker.first, at, {before(n[0])}, "a commit");
      return {{kCommitted, n[0]}};
    }
    if (is(marker, ptx::kWait)) {
      require(marker.first, at, committed, "a wait");
      return {{kWaiting, n[0]}};
    }
    if (is(marker, ptx::kEnd)) {
      require(marker.first, at, {{kWaited, wait_count_ - 1}}, "the end");
      return {{kEnded, 0}};
    }
    if (is(marker, ptx::kCluster)) {
      require(marker.first, at, {{kStart, 0}}, "the beginning of a cluster");
      return {{kInCluster, 0}};
    }
    if (is(marker, ptx::kPeers)) {
      require(marker.first, at, {{kInCluster, 0}}, "the wait for a cluster's beginning");
      return {{kExchange, 0}};
    }
    if (is(marker, ptx::kGive)) require(marker.first, at, {{kExchange, n[0]}}, "a gift to peers");
    if (is(marker, ptx::kMeet)) {
      require(marker.first, at, {{kExchange, n[0]}}, "a meeting of a cluster");
      return {{kExchange, n[0] + 1}};
    }
    return at;
  }

  void check_order() const {
    std::map<size_t, const Marker*> by_line;
    for (const Marker& marker : markers_) by_line[marker.first] = &marker;
    std::map<std::string, size_t> labels;
    for (size_t i = begin_; i < end_; i++) {
      const std::string code = code_of(lines_[i]);
      if (starts_with(code, "$") && code.back() == ':') labels[code.substr(0, code.size() - 1)] = i;
    }
    static const std::regex kBranch(R"((@!?%p\d+\s+)?bra(?:\.uni)?\s+(\$\w+);)");
    std::map<size_t, States> known{{begin_, {{kStart, 0}}}};  // at the beginning and at each label
    std::set<size_t> pending{begin_}, reached;
    const auto flow_to = [&](size_t line, const States& states) {
      States& there = known[line];
      const size_t count = there.size();
      there.insert(states.begin(), states.end());
      if (there.size() != count) pending.insert(line);
    };
    while (!pending.empty()) {
      size_t line = *pending.begin();
      pending.erase(pending.begin());
      States at = known[line];
      for (size_t first = line; line < end_; line++) {
        const std::string code = code_of(lines_[line]);
        std::smatch match;
        if (line != first && starts_with(code, "$")) {
          flow_to(line, at);
          break;
        }
        if (const auto marker = by_line.find(line); marker != by_line.end()) {
          at = after(*marker->second, at);
          reached.insert(line);
          line = marker->second->last;
        } else if (starts_with(code, "bar.sync") || starts_with(code, "barrier.sync")) {
          States passed;
          for (const State& s : at) passed.insert(s.first == kWaiting ? State{kWaited, s.second} : s);
          at = passed;
        } else if (code.find(".shared") != std::string::npos && address_loads_.count(line) == 0) {
          for (const auto& [phase, number] : at) {
            const bool is_early = phase == kCommitted && number < regions_ - 1 && regions_ > 0;
            if (phase == kWaiting || is_early) fail(line, "shared memory is used before its barrier: " + code);
          }
        } else if (std::regex_match(code, match, kBranch)) {
          const auto target = labels.find(match[2]);
          if (target == labels.end()) fail(line, "a branch to nowhere");
          flow_to(target->second, at);
          if (match[1].length() == 0) break;
        } else if (code.find("bra") != std::string::npos || starts_with(code, "brx")) {
          fail(line, "can't follow " + code);
        } else if (code == "ret;") {
          if (cluster_ > 0 && !shares_steps_)
            require(line, at, {{kExchange, exchanges_}}, "the end of a block of a cluster");
          break;
        }
      }
    }
    for (const Marker& marker : markers_) {
      if (reached.count(marker.first) == 0) fail(marker.first, "a marker that no path reaches");
    }
  }

  void replace(const Marker& marker) {
    std::string instruction;
    if (is(marker, ptx::kCopy)) {
      const std::string bytes = std::to_string(marker.numbers[0]);
      // .ca, also where .cg could leave out the first cache: blocks of one multiprocessor share what they read.
      instruction = "cp.async.ca.shared.global " + marker.arguments[0] + ", " + marker.arguments[1] + ", " + bytes;
      if (marker.arguments[2] != bytes) instruction += ", " + marker.arguments[2];
    } else if (is(marker, ptx::kCommit)) {
      instruction = "cp.async.commit_group";
    } else if (is(marker, ptx::kWait)) {
      instruction = "cp.async.wait_group " + std::to_string(marker.numbers[1]);
    } else if (is(marker, ptx::kCluster)) {
      instruction = clusters::kArrive;
    } else if (is(marker, ptx::kPeers)) {
      instruction = clusters::kWait;
    } else if (is(marker, ptx::kGive)) {
      instruction = clusters::give(marker);
    } else if (is(marker, ptx::kMeet) ||
               is(marker, ptx::kAssemble)) {  // takes the place of the block's barrier, which follows
      size_t barrier = marker.last + 1;
      while (barrier < end_ && code_of(lines_[barrier]).empty()) barrier++;
      if (barrier == end_ || !starts_with(code_of(lines_[barrier]), "bar.sync")) {
        fail(marker.first, "no barrier of the block follows a meeting of a cluster");
      }
      lines_[barrier].clear();
      instruction = std::string(clusters::kArrive) + ";\n\t" + clusters::kWait;
    }
    for (size_t i = marker.first; i <= marker.last; i++) lines_[i].clear();
    if (!instruction.empty()) lines_[marker.first] = "\t" + instruction + (instruction.back() == '}' ? "" : ";");
  }

  void load_coherently() {
    const std::string read_only = "ld.global.nc.";
    for (size_t i = begin_; i < end_; i++) {
      const size_t at = lines_[i].find(read_only);
      if (at != std::string::npos) lines_[i].replace(at, read_only.size(), "ld.global.");
    }
  }

  Lines& lines_;
  const size_t begin_, end_;
  const std::string name_;
  std::vector<Marker> markers_, conversions_;
  std::map<std::string, std::vector<size_t>> mentions_;  // the lines in which a register stands
  std::set<size_t> address_loads_;
  std::set<int> waits_;
  int regions_ = 0, wait_count_ = 0, cluster_ = 0, exchanges_ = 0;  // a cluster's blocks and exchanges
  std::optional<int> register_limit_;
  bool is_coherent_ = false, shares_steps_ = false;
};

}  // namespace

std::string rewrite_ptx(const std::string& ptx) {
  if (ptx.find(ptx::kMarkerPrefix) == std::string::npos) return ptx;
  Lines lines;
  std::istringstream in(ptx);
  for (std::string line; std::getline(in, line);) lines.push_back(line);

  static const std::regex kEntry(R"(\.visible \.entry (\w+)\()");
  for (size_t i = 0; i < lines.size(); i++) {
    std::smatch match;
    const std::string code = code_of(lines[i]);
    // .extern .func (.param .b32 func_retval0) ashlar_marker_… ( parameters ) ;   over several lines
    if (starts_with(code, ".extern .func") && code.find(ptx::kMarkerPrefix) != std::string::npos) {
      bool ends = false;
      for (; !ends && i < lines.size(); i++) {
        ends = lines[i].find(';') != std::string::npos;
        lines[i].clear();
      }
      i--;
      continue;
    }
    if (!std::regex_search(code, match, kEntry)) continue;
    const std::string name = match[1];
    size_t open = i;
    while (open < lines.size() && lines[open] != "{") open++;
    size_t close = open;
    while (close < lines.size() && lines[close] != "}") close++;
    if (close == lines.size()) throw std::runtime_error("PTX kernel " + name + ": no end");
    KernelRewriter kernel(lines, open + 1, close, name);
    kernel.run();
    lines[open] = kernel.directives() + "{";
    i = close;
  }
  std::string result;
  for (const std::string& line : lines) {
    if (!line.empty()) result += line + "\n";
  }
  if (result.find(ptx::kMarkerPrefix) != std::string::npos)
    throw std::runtime_error("PTX: a marker outside any kernel is left");
  return clusters::for_their_gpus(result);
}

}  // namespace ashlar::dsl
