// Owns Group and Reduction of Python: buffers that live as long as a reduce, and who is told of its end.
#include "prime/group.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>
#include <utility>

#include "prime/device_memory.hpp"
#include "python/src/errors.hpp"
#include "python/src/memory.hpp"
#include "python/src/module.hpp"
#include "python/src/waiting.hpp"

namespace nb = nanobind;

namespace prime::python {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using Clock = std::chrono::steady_clock;

/// So often a wait looks for signals.
constexpr nanoseconds LOOK_EVERY = milliseconds{20};

milliseconds duration_of(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) raise_usage("a timeout of " + std::to_string(seconds) + " s");
  return std::chrono::ceil<milliseconds>(std::chrono::duration<double>(seconds));
}

template <class Value>
Value named(const std::string& text, std::uint8_t count, const char* what) {
  std::string known;
  for (std::uint8_t i = 0; i < count; ++i) {
    const auto each = static_cast<Value>(i);
    if (to_string(each) == text) return each;
    known += (known.empty() ? "" : ", ") + std::string{to_string(each)};
  }
  raise_usage("`" + text + "` is no " + what + "; there are: " + known);
}

/// The group, which a reduce that still runs may outlive.
struct Core {
  std::mutex mutex;
  std::optional<Group> group;  ///< none once it is closed; guarded by mutex
};

/// A reduce and what it reads and writes. Holds Python's objects, so that the last reference must go with the GIL held.
struct Flight {
  Flight(Reduction started, std::shared_ptr<Core> of) : reduction(std::move(started)), core(std::move(of)) {}
  Reduction reduction;
  std::shared_ptr<Core> core;
  Tensor input;
  Tensor output;
  std::optional<Tensor> residual;
  std::vector<nb::object> told;  ///< who wants to hear of the end
  bool registered = false;       ///< with Endings; guarded by the GIL
  std::optional<Result<ReduceInfo>> outcome;

  bool ended(nanoseconds limit = {}) {
    if (!outcome) outcome = reduction.wait_for(limit);
    return outcome.has_value();
  }
  void cancel() {
    const std::lock_guard lock(core->mutex);
    if (core->group) reduction.cancel();
  }
};

/// Reduces that have ended, for the one thread that tells Python so: the group's own never waits for the GIL.
class Endings {
 public:
  void push(std::shared_ptr<Flight> flight) {
    const std::lock_guard lock(mutex_);
    ended_.push_back(std::move(flight));
    changed_.notify_one();
  }
  /// Empty when there will be none any more.
  std::shared_ptr<Flight> pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopped_ || !ended_.empty(); });
    if (ended_.empty()) return {};
    auto first = std::move(ended_.front());
    ended_.pop_front();
    return first;
  }
  void stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Flight>> ended_;
  bool stopped_ = false;
};

/// Never destroyed: a lane's thread may speak to it until the process ends.
Endings& endings() {
  static auto* const all = new Endings;
  return *all;
}

void watch(std::shared_ptr<Flight> flight) {
  if (std::exchange(flight->registered, true)) return;
  Reduction& reduction = flight->reduction;
  reduction.when_done([flight = std::move(flight)]() mutable { endings().push(std::move(flight)); });
}

void serve_endings() {
  while (true) {
    std::shared_ptr<Flight> flight;
    {
      const nb::gil_scoped_release free;
      flight = endings().pop();
    }
    if (!flight) return;
    for (const auto& told : std::exchange(flight->told, {})) {
      try {
        told();
      } catch (nb::python_error& error) {
        error.discard_as_unraisable("the end of a reduce is told");
      }
    }
  }
}

class PyReduction {
 public:
  explicit PyReduction(std::shared_ptr<Flight> flight) : flight_(std::move(flight)) {}
  PyReduction(PyReduction&&) noexcept = default;
  PyReduction& operator=(PyReduction&&) = delete;
  ~PyReduction() {
    if (!flight_) return;
    if (!owner_.here()) {
      new std::shared_ptr<Flight>(std::move(flight_));  // of another process: its threads do not exist here, nobody may end it
    } else if (!flight_->ended()) {
      flight_->cancel();
      watch(std::move(flight_));  // its buffers stay until it has ended
    }
  }

  ReduceInfo wait(std::optional<double> timeout) {
    owner_.check("reduce");
    const Inside inside;  // also while it asks what is pending
    const auto deadline = timeout ? std::optional{Clock::now() + duration_of(*timeout)} : std::nullopt;
    while (!done_within(deadline ? std::min(LOOK_EVERY, std::max(nanoseconds{}, nanoseconds{*deadline - Clock::now()})) : LOOK_EVERY)) {
      run_pending();
      if (deadline && Clock::now() >= *deadline) {
        PyErr_SetString(PyExc_TimeoutError, "the reduce still runs");
        throw nb::python_error();
      }
    }
    return value_of(*flight_->outcome);
  }
  bool done() {
    owner_.check("reduce");
    return done_within({});
  }
  void cancel() {
    owner_.check("reduce");
    const Away free;
    flight_->cancel();
  }
  void when_done(nb::object told) {
    owner_.check("reduce");
    if (flight_->registered && done()) return void(told());
    flight_->told.push_back(std::move(told));
    watch(flight_);
  }

 private:
  bool done_within(nanoseconds limit) {
    if (flight_->outcome) return true;
    auto copy = flight_;
    std::optional<Result<ReduceInfo>> outcome;
    {
      const Away free;
      outcome = copy->reduction.wait_for(limit);
    }
    if (outcome) copy->outcome = std::move(outcome);
    return copy->outcome.has_value();
  }

  std::shared_ptr<Flight> flight_;
  Owner owner_;
};

class PyGroup {
 public:
  explicit PyGroup(Group group) : rank_(group.rank()), size_(group.size()) { core_->group.emplace(std::move(group)); }
  PyGroup(PyGroup&&) = delete;
  PyGroup& operator=(PyGroup&&) = delete;
  ~PyGroup() {
    if (owner_.here()) close();
    else new std::shared_ptr<Core>(std::move(core_));  // its threads do not exist here
  }
  void close() {
    owner_.check("group");
    const nb::gil_scoped_release free;
    const std::lock_guard lock(core_->mutex);
    core_->group.reset();
  }
  PyReduction reduce(nb::handle input, nb::handle output, const std::string& op, const std::string& codec,
                     const std::optional<std::string>& result_codec, const std::string& schedule, std::uint64_t tag,
                     std::vector<std::uint64_t> weights, nb::handle residual, bool stochastic, std::uint64_t seed, std::uint64_t version,
                     std::optional<double> timeout) {
    owner_.check("group");
    ReduceOptions options;
    options.tag = tag;
    options.combine = named<ReduceOperator>(op, REDUCE_OPERATORS, "operator");
    options.codec = named<Codec>(codec, CODECS, "codec");
    if (result_codec) options.result_codec = named<Codec>(*result_codec, CODECS, "codec");
    options.schedule = named<Schedule>(schedule, SCHEDULES, "schedule");
    options.stochastic = stochastic;
    options.seed = seed;
    options.version = version;
    options.weights = std::move(weights);
    if (timeout) options.timeout = duration_of(*timeout);
    auto from = tensor_of(input, "the input");
    auto into = output.is(input) ? from : tensor_of(output, "the output");
    if (from.type != into.type || from.size() != into.size())
      raise_usage("input and output differ: " + std::to_string(from.size()) + " of " + std::string{to_string(from.type)} + ", " +
                  std::to_string(into.size()) + " of " + std::string{to_string(into.type)});
    if (from.on_host != into.on_host || from.device != into.device) raise_usage("input and output lie on different devices");
    options.type = from.type;
    if (!from.on_host) options.memory = memory_of(from.device);
    std::optional<Tensor> kept;
    if (!residual.is_none()) {
      kept = tensor_of(residual, "the residual");
      if (!kept->on_host || kept->type != DataType::F32 || kept->size() != from.size())
        raise_usage("a residual is of f32, lies in the host's memory, and has a value for each of the input");
      options.residual = {reinterpret_cast<float*>(kept->bytes.data()), kept->size()};
    }
    auto flight = start(from, into, options);
    flight->input = std::move(from);
    flight->output = std::move(into);
    flight->residual = std::move(kept);
    return PyReduction(std::move(flight));
  }
  nb::object allocate(std::size_t bytes) {
    owner_.check("group");
    auto memory = value_of([&] {
      const Away free;
      const std::lock_guard lock(core_->mutex);
      return core_->group ? core_->group->allocate(bytes) : Result<std::shared_ptr<std::byte[]>>{fail(closed())};
    }());
    auto* const kept = new std::shared_ptr<std::byte[]>(std::move(memory));
    const nb::capsule holder(kept, [](void* each) noexcept { delete static_cast<std::shared_ptr<std::byte[]>*>(each); });
    return nb::cast(nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>>(kept->get(), {bytes}, holder));
  }
  [[nodiscard]] std::uint32_t rank() const { return rank_; }
  [[nodiscard]] std::uint32_t size() const { return size_; }
  std::size_t peak_bytes() {
    owner_.check("group");
    const std::lock_guard lock(core_->mutex);
    if (!core_->group) raise(closed());
    return core_->group->peak_bytes();
  }

 private:
  static Error closed() { return Error{ErrorName::Usage, "the group is closed"}; }
  std::shared_ptr<Flight> start(const Tensor& from, const Tensor& into, const ReduceOptions& options) {
    std::optional<Reduction> started;
    {
      const Away free;
      const std::lock_guard lock(core_->mutex);
      if (core_->group) started.emplace(core_->group->reduce_async(from.bytes, into.bytes, options));
    }
    if (!started) raise(closed());
    return std::make_shared<Flight>(std::move(*started), core_);
  }
  std::shared_ptr<DeviceMemory> memory_of(std::uint32_t device) {
    auto& known = devices_[device];
    if (!known) known = value_of(cuda_memory(device));
    return known;
  }

  std::shared_ptr<Core> core_ = std::make_shared<Core>();
  std::map<std::uint32_t, std::shared_ptr<DeviceMemory>> devices_;
  std::uint32_t rank_;
  std::uint32_t size_;
  Owner owner_;
};

std::unique_ptr<PyGroup> form(std::uint32_t rank, std::vector<std::string> members, std::string key, bool memory, bool plain,
                              std::uint32_t streams, double timeout) {
  GroupOptions options;
  options.rank = rank;
  options.members = std::move(members);
  options.key = std::move(key);
  options.memory = memory;
  options.plain = plain;
  options.streams = streams;
  options.timeout = duration_of(timeout);
  auto group = [&] {
    const Away free;
    return Group::form(options);
  }();
  return std::make_unique<PyGroup>(value_of(std::move(group)));
}

}  // namespace

void bind_group(nb::module_& module) {
  nb::class_<ReduceInfo>(module, "ReduceInfo")
      .def_ro("wire_bytes_sent", &ReduceInfo::wire_bytes_sent)
      .def_ro("wire_bytes_received", &ReduceInfo::wire_bytes_received)
      .def_prop_ro("elapsed_s", [](const ReduceInfo& info) { return std::chrono::duration<double>(info.elapsed).count(); })
      .def_prop_ro("digest", [](const ReduceInfo& info) { return to_string(info.digest); })
      .def("__repr__", [](const ReduceInfo& info) {
        return "<ReduceInfo " + to_string(info.digest) + ": " + std::to_string(info.wire_bytes_sent) + " bytes sent, " +
               std::to_string(info.wire_bytes_received) + " received>";
      });
  nb::class_<PyReduction>(module, "Reduction")
      .def("wait", &PyReduction::wait, nb::arg("timeout").none() = nb::none())
      .def("done", &PyReduction::done)
      .def("cancel", &PyReduction::cancel)
      .def("when_done", &PyReduction::when_done, nb::arg("told"));
  nb::class_<PyGroup>(module, "Group")
      .def("reduce", &PyGroup::reduce, nb::arg("input"), nb::arg("output"), nb::arg("op"), nb::arg("codec"), nb::arg("result_codec").none(),
           nb::arg("schedule"), nb::arg("tag"), nb::arg("weights"), nb::arg("residual").none(), nb::arg("stochastic"), nb::arg("seed"),
           nb::arg("version"), nb::arg("timeout").none())
      .def("allocate", &PyGroup::allocate, nb::arg("bytes"))
      .def("close", &PyGroup::close)
      .def_prop_ro("rank", &PyGroup::rank)
      .def_prop_ro("size", &PyGroup::size)
      .def_prop_ro("peak_bytes", &PyGroup::peak_bytes);
  module.def("form_group", &form, nb::arg("rank"), nb::arg("members"), nb::arg("key"), nb::arg("memory"), nb::arg("plain"),
             nb::arg("streams"), nb::arg("timeout"));
  module.def("_serve_endings", &serve_endings);
  module.def("_stop_endings", [] { endings().stop(); });
}

}  // namespace prime::python
