#include "tests/faults/ways.h"

#include <typeinfo>

#include "runtime/support/error.h"
#include "tests/faults/host_memory.h"

namespace ashlar::testing {
namespace {

using detail::FaultScope;
using detail::FaultSite;
using detail::FaultSpan;

constexpr Way kWays[] = {
    {"allocation", FaultSite::allocation, FaultSpan::once},
    {"allocations", FaultSite::allocation, FaultSpan::from_then_on},
    {"driver_call", FaultSite::driver_call, FaultSpan::once},
    {"driver_calls", FaultSite::driver_call, FaultSpan::from_then_on},
    {"new", std::nullopt, FaultSpan::once},
    {"news", std::nullopt, FaultSpan::from_then_on},
};

/// Runs the job under a planted fault. The exception is looked at only when memory is to be had again.
template <class Fault>
bool run(const Job& job, Device device, Fault&& fault, std::vector<float>& result, std::exception_ptr& failure) {
  try {
    result = job.run(device);
  } catch (...) {
    failure = std::current_exception();
  }
  return fault.fired();
}

std::string problem_of(const std::exception_ptr& failure, const Way& way) {
  try {
    std::rethrow_exception(failure);
  } catch (const OutOfMemory&) {
    return "";
  } catch (const DriverError& error) {
    return way.site ? "" : std::string("not OutOfMemory, but ") + error.what();
  } catch (const std::exception& error) {
    return std::string("untyped: ") + typeid(error).name() + ": " + error.what();
  }
}

}  // namespace

std::span<const Way> ways() { return kWays; }

Attempt attempt(const Job& job, Device device, const Way& way, int64_t n, const std::vector<float>& expected) {
  Attempt outcome;
  std::vector<float> result;
  std::exception_ptr failure;
  outcome.fired = way.site ? run(job, device, FaultScope(*way.site, n, way.span), result, failure)
                           : run(job, device, FailingNew(n, way.span), result, failure);
  outcome.threw = failure != nullptr;
  if (failure) {
    outcome.problem = problem_of(failure, way);
    if (!outcome.fired) outcome.problem = "an exception without a fault. " + outcome.problem;
  } else if (result != expected) {
    outcome.problem = "another result";
  }
  return outcome;
}

}  // namespace ashlar::testing
