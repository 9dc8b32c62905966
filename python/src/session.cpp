// Owns Session of Python: the calls of prime::Session, one at a time, each of which lets signals in while it waits.
#include "prime/session.hpp"

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "python/src/errors.hpp"
#include "python/src/memory.hpp"
#include "python/src/module.hpp"
#include "python/src/waiting.hpp"

namespace nb = nanobind;

namespace prime::python {
namespace {

/// Of a session, what its waits look at; they may last longer than the object.
struct Watch {
  std::atomic<bool> stopped = false;  ///< by another thread
  Raised raised;
  bool go_on() { return !stopped && goes_on(raised); }
};

class PySession {
 public:
  PySession(Session session, std::shared_ptr<Watch> watch) : session_(std::move(session)), watch_(std::move(watch)) {}
  PySession(PySession&&) = delete;
  PySession& operator=(PySession&&) = delete;
  ~PySession() {
    if (!session_) return;
    if (!owner_.here()) {
      new Session(std::move(*session_));  // its agent is not this process's child
      return;
    }
    const nb::gil_scoped_release free;
    session_.reset();
  }

  /// `work(session)` without the GIL; what was raised meanwhile comes before what it returns.
  template <class Work>
  auto call(Work work) {
    owner_.check("session");
    const Turn turn(busy_, "session");
    if (!session_) raise_usage("the session is closed");
    auto result = [&] {
      const Away free;
      return work(*session_);
    }();
    watch_->raised.rethrow();
    return value_of(std::move(result));
  }
  [[nodiscard]] const Session& get() const {
    owner_.check("session");
    if (!session_) raise_usage("the session is closed");
    return *session_;
  }

  void bind(std::string name, nb::handle tensor, const std::string& role) {
    static const std::map<std::string, Role> ROLES{{"averaged", Role::Averaged}, {"copied", Role::Copied}, {"private", Role::Private}};
    const auto known = ROLES.find(role);
    if (known == ROLES.end()) raise_usage("`" + role + "` is no role of a tensor: averaged, copied or private");
    auto memory = tensor_of(tensor, "`" + name + "`");
    if (!memory.on_host) raise_usage("`" + name + "` does not lie in the host's memory");
    const TensorView view{std::move(name), memory.shape, {memory.type, memory.bytes}};
    call([&](Session& session) { return session.bind(view, known->second); });
    held_.push_back(std::move(memory));
  }
  nb::object allocate(std::uint64_t values) {
    auto* const kept = new std::shared_ptr<float[]>(call([&](Session& session) { return session.allocate(values); }));
    const nb::capsule holder(kept, [](void* each) noexcept { delete static_cast<std::shared_ptr<float[]>*>(each); });
    return nb::cast(nb::ndarray<nb::numpy, float, nb::ndim<1>>(kept->get(), {values}, holder));
  }
  void bind_blob(std::string name, std::uint64_t capacity, nb::callable save, nb::callable load) {
    // What these raise ends the session: a blob that is longer than its capacity is refused.
    // The session lets them go without the GIL, so that it may not hold Python's objects itself.
    const auto& calls = callables_.emplace_back(std::move(save), std::move(load));
    auto saves = [&calls, watch = watch_, capacity]() -> std::string {
      const nb::gil_scoped_acquire held;
      try {
        const auto saved = nb::cast<nb::bytes>(calls.first());
        return {saved.c_str(), saved.size()};
      } catch (nb::python_error& error) {
        watch->raised.keep(error);
        return std::string(capacity + 1, '\0');
      }
    };
    auto loads = [&calls, watch = watch_](std::string_view saved) -> Result<void> {
      const nb::gil_scoped_acquire held;
      try {
        calls.second(nb::bytes(saved.data(), saved.size()));
        return {};
      } catch (nb::python_error& error) {
        watch->raised.keep(error);
        return fail(ErrorName::TrainerFailed, "loading raised an exception");
      }
    };
    call([&](Session& session) { return session.bind(PrivateBlob{std::move(name), capacity, std::move(saves), std::move(loads)}); });
  }
  void finish(nb::callable answer) {
    call([&](Session& session) {
      return session.finish([&](const FinalPlan& plan) -> FinalAnswer {
        const nb::gil_scoped_acquire held;
        try {
          const auto [loss, tokens, sample] = nb::cast<std::tuple<std::optional<double>, std::uint64_t, std::string>>(
              answer(plan.evaluate.index, plan.evaluate.of, plan.sample));
          return {loss ? std::optional{HeldOut{*loss, tokens}} : std::nullopt, sample};
        } catch (nb::python_error& error) {
          watch_->raised.keep(error);
          return {};
        }
      });
    });
  }
  void interrupt() { watch_->stopped = true; }
  void leave() {
    watch_->stopped = false;
    call([](Session& session) { return session.leave(); });
  }
  void fail_with(const std::string& name, const std::string& detail) {
    const auto known = find_error(name).value_or(ErrorName::TrainerFailed);
    call([&](Session& session) -> Result<void> {
      session.fail(Error{known, detail});
      return {};
    });
  }
  void close() {
    owner_.check("session");
    const Turn turn(busy_, "session");
    {
      const nb::gil_scoped_release free;
      session_.reset();
    }
    held_.clear();
    callables_.clear();
  }
  [[nodiscard]] bool open() const { return session_.has_value(); }

 private:
  std::optional<Session> session_;
  std::shared_ptr<Watch> watch_;
  std::vector<Tensor> held_;
  std::deque<std::pair<nb::callable, nb::callable>> callables_;  ///< of blobs
  std::atomic<bool> busy_ = false;
  Owner owner_;
};

template <class Start>
std::unique_ptr<PySession> begin(const Start& start) {
  auto watch = std::make_shared<Watch>();
  auto session = [&] {
    const Away free;
    return start([watch] { return watch->go_on(); });
  }();
  watch->raised.rethrow();
  return std::make_unique<PySession>(value_of(std::move(session)), std::move(watch));
}

std::unique_ptr<PySession> join(std::string invite, std::string primectl, std::string name, std::string state_dir, double timeout,
                                std::string replica, std::uint32_t shard) {
  return begin([&](GoesOn goes_on) {
    return Session::join({std::move(invite), std::move(primectl), std::move(name), std::move(state_dir),
                          std::chrono::ceil<std::chrono::milliseconds>(std::chrono::duration<double>(timeout)), std::move(replica), shard,
                          std::move(goes_on)});
  });
}

InnerReport report_of(double loss, std::uint64_t tokens, std::optional<std::uint64_t> samples, std::optional<double> held_out,
                      std::uint64_t held_out_tokens, std::optional<double> data_wait_s) {
  InnerReport report{.loss = loss, .tokens = tokens, .samples = samples, .data_wait_s = data_wait_s};
  if (held_out) report.held_out = HeldOut{*held_out, held_out_tokens};
  return report;
}

void bind_values(nb::module_& module) {
  nb::class_<Samples>(module, "Samples").def_ro("first", &Samples::first).def_ro("count", &Samples::count);
  nb::class_<InnerStep>(module, "InnerStep")
      .def_prop_ro("outer_step", [](const InnerStep& step) { return step.outer_step.value; })
      .def_prop_ro("base", [](const InnerStep& step) { return step.base.value; })
      .def_ro("rank", &InnerStep::rank)
      .def_ro("peers", &InnerStep::peers)
      .def_ro("index", &InnerStep::index)
      .def_ro("inner_steps", &InnerStep::inner_steps)
      .def_ro("clock", &InnerStep::clock)
      .def_ro("total", &InnerStep::total)
      .def_prop_ro("first", [](const InnerStep& step) { return step.samples.first; })
      .def_prop_ro("count", [](const InnerStep& step) { return step.samples.count; })
      .def_prop_ro("evaluate", [](const InnerStep& step) { return nb::make_tuple(step.evaluate.index, step.evaluate.of); })
      .def_ro("loaded", &InnerStep::loaded)
      .def_ro("restored", &InnerStep::restored)
      .def_ro("stored", &InnerStep::stored);
  nb::class_<Committed>(module, "Committed")
      .def_prop_ro("step", [](const Committed& commit) { return commit.step.value; })
      .def_prop_ro("revision", [](const Committed& commit) { return commit.revision.value; })
      .def_prop_ro("state", [](const Committed& commit) { return to_string(commit.state); })
      .def_ro("peers", &Committed::peers);
}

}  // namespace

void bind_session(nb::module_& module) {
  bind_values(module);
  nb::class_<PySession>(module, "Session")
      .def_prop_ro("manifest", [](const PySession& self) { return self.get().manifest(); })
      .def_prop_ro("local_manifest", [](const PySession& self) { return self.get().local_manifest(); })
      .def_prop_ro("peer", [](const PySession& self) { return to_string(self.get().peer()); })
      .def_prop_ro("fresh", [](const PySession& self) { return self.get().fresh(); })
      .def_prop_ro("shard", [](const PySession& self) { return self.get().shard(); })
      .def_prop_ro("shards", [](const PySession& self) { return self.get().shards(); })
      .def_prop_ro("replica", [](const PySession& self) { return self.get().replica(); })
      .def_prop_ro("open", &PySession::open)
      .def("bind", &PySession::bind, nb::arg("name"), nb::arg("tensor"), nb::arg("role"))
      .def("allocate", &PySession::allocate, nb::arg("values"))
      .def("bind_blob", &PySession::bind_blob, nb::arg("name"), nb::arg("capacity"), nb::arg("save"), nb::arg("load"))
      .def("export_file",
           [](PySession& self, std::string name, const nb::bytes& content) {
             std::string text(content.c_str(), content.size());
             self.call([&](Session& session) -> Result<void> {
               session.export_file(std::move(name), std::move(text));
               return {};
             });
           })
      .def("describe_data",
           [](PySession& self, const std::string& digest, std::string summary) {
             const auto parsed = parse_digest(digest);
             if (!parsed) raise_usage("`" + digest + "` is no digest of 32 hexadecimal digits");
             self.call([&](Session& session) { return session.describe_data({*parsed, std::move(summary)}); });
           })
      .def("describe_device",
           [](PySession& self, std::string device) {
             self.call([&](Session& session) { return session.describe_device(std::move(device)); });
           })
      .def("next", [](PySession& self) { return self.call([](Session& session) { return session.next(); }); })
      .def(
          "report",
          [](PySession& self, double loss, std::uint64_t tokens, std::optional<std::uint64_t> samples, std::optional<double> held_out,
             std::uint64_t held_out_tokens, std::optional<double> data_wait_s) {
            return self.call(
                [&](Session& session) { return session.report(report_of(loss, tokens, samples, held_out, held_out_tokens, data_wait_s)); });
          },
          nb::arg("loss"), nb::arg("tokens"), nb::arg("samples").none(), nb::arg("held_out").none(), nb::arg("held_out_tokens"),
          nb::arg("data_wait_s").none())
      .def("contribute", [](PySession& self) { return self.call([](Session& session) { return session.contribute(); }); })
      .def("upcoming",
           [](PySession& self, std::size_t count) {
             return self.call([&](Session& session) -> Result<std::vector<Samples>> { return session.upcoming(count); });
           })
      .def("finish", &PySession::finish, nb::arg("answer"))
      .def("alive",
           [](PySession& self, const std::string& waits_for) { self.call([&](Session& session) { return session.alive(waits_for); }); })
      .def("interrupt", &PySession::interrupt)
      .def("leave", &PySession::leave)
      .def("fail", &PySession::fail_with, nb::arg("name"), nb::arg("detail"))
      .def("close", &PySession::close);
  module.def("join", &join, nb::arg("invite"), nb::arg("primectl"), nb::arg("name"), nb::arg("state_dir"), nb::arg("timeout"),
             nb::arg("replica"), nb::arg("shard"));
  module.def("attach", [] { return begin([](GoesOn goes_on) { return Session::attach(std::move(goes_on)); }); });
}

}  // namespace prime::python
