// The timeline that ASHLAR_TRACE asks for: what stands in it, that it is JSON, and that nothing is written without it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "ashlar/ops/binary.h"
#include "json/strict_json.h"
#include "runtime/graph/graph.h"
#include "runtime/support/trace.h"
#include "tests/runtime/devices.h"

namespace ashlar {
namespace {

using strict_json::json;

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class Trace : public ::testing::TestWithParam<Device> {
 protected:
  /// The events of what `work` does, by category.
  std::map<std::string, std::vector<json>> events_of(const std::function<void()>& work) const {
    const std::string path = ::testing::TempDir() + "ashlar_trace_" + std::to_string(getpid()) + ".json";
    detail::set_trace_file(path);
    work();
    detail::set_trace_file("");
    std::map<std::string, std::vector<json>> events;
    for (const json& event : strict_json::parse(text_of(path))) events[event.at("cat")].push_back(event);
    std::filesystem::remove(path);
    return events;
  }
  const Device device_ = GetParam();
};

TEST_P(Trace, SaysWhatWasCalledAndCopied) {
  const std::string device = device_.str();
  auto events = events_of([&] {
    const Tensor x = Tensor::from({1.F, 2.F, 3.F, 4.F}, {2, 2}, device_);
    add(x, x.select(0, 1)).to_vector<float>();
  });
  ASSERT_EQ(events["call"].size(), 1U);
  const json& call = events["call"][0];
  EXPECT_EQ(call.at("name"), "add");
  EXPECT_EQ(call.at("ph"), "X");
  EXPECT_EQ(call.at("args").at("device"), device);
  EXPECT_NE(call.at("args").at("tensors").get<std::string>().find("f32[1, 1, 2, 2]"), std::string::npos);
  EXPECT_EQ(events["launch"].size(), device_.kind == DeviceKind::cpu ? 0U : 1U);
  ASSERT_EQ(events["copy"].size(), 2U);
  const json &there = events["copy"][0], &back = events["copy"][1];
  EXPECT_EQ(there.at("args").at("bytes"), 16);
  EXPECT_EQ(there.at("args").at("to"), std::string(name_of(device_.kind)));
  EXPECT_EQ(back.at("name"), "copy to host");
  // In order, and a launch inside of its call.
  const auto end = [](const json& event) { return event.at("ts").get<double>() + event.at("dur").get<double>(); };
  EXPECT_LE(end(there), call.at("ts").get<double>());
  EXPECT_LE(end(call), back.at("ts").get<double>());
  for (const json& launch : events["launch"]) {
    EXPECT_GE(launch.at("ts"), call.at("ts"));
    EXPECT_LE(end(launch), end(call) + 1e-3);
  }
}

TEST_P(Trace, OfReplaysAndThreads) {
  const Tensor x = Tensor::ones({64}, DType::f32, device_);
  Tensor y;
  const Graph graph = capture(device_, [&] { y = add(x, x); });
  auto events = events_of([&] {
    graph.replay();
    std::thread([&] { add(x, x); }).join();
    add(x, x);
  });
  EXPECT_EQ(events["replay"].size(), 1U);
  std::set<int> threads;
  for (const json& call : events["call"]) threads.insert(call.at("tid").get<int>());
  EXPECT_EQ(threads.size(), 2U);
}

INSTANTIATE_TEST_SUITE_P(Devices, Trace, ::testing::ValuesIn(testing::kernel_devices()),
                         [](const auto& info) { return std::string(name_of(info.param.kind)); });

TEST(TraceFile, QuotesWhatIsOdd) {
  const std::string path = ::testing::TempDir() + "ashlar_trace_odd.json";
  detail::set_trace_file(path);
  {
    detail::TraceSpan span("call", "a \"name\" with \\ and \n");
    span.note("text", "\t\"");
    span.note("number", -7);
  }
  detail::set_trace_file("");
  const json events = strict_json::parse(text_of(path));
  EXPECT_EQ(events.at(0).at("name"), "a \"name\" with \\ and  ");
  EXPECT_EQ(events.at(0).at("args").at("number"), -7);
  detail::set_trace_file("/dev/null/no/such/folder");
  EXPECT_FALSE(detail::is_tracing());
}

TEST(TraceFile, CostsNextToNothingWhenOff) {
  detail::set_trace_file("");
  constexpr int kSpans = 2'000'000;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kSpans; i++) const detail::TraceSpan span("call", "nothing");
  const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
  // Far below what a look at the clock, a lock or a string costs even where sanitizers see each access, unoptimized.
  EXPECT_LT(elapsed.count() / kSpans, 500) << "ns a span; 1 to 2 on an idle machine, where none is instrumented";
}

}  // namespace
}  // namespace ashlar
