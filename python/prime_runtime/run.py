"""Owns Run: this process as the trainer of a peer, from ``join`` to the end of the run."""

from __future__ import annotations

import math
import os
import pathlib
import shutil
import sys
import sysconfig
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from . import _prime, binding, launched, ranks as ranks_of
from ._errors import Error, usage
from ._prime import Committed, Samples
from .data import Loader

if TYPE_CHECKING:
    import torch

Role = Literal["averaged", "copied", "private"]
# (share, of) of the held-out data -> (mean loss, tokens)
Evaluate = Callable[[int, int], tuple[float, int]]


class Step:
    """One step of the optimizer. The bound tensors are as the run's algorithm wants them."""

    def __init__(self, run: Run, inner: _prime.InnerStep | ranks_of.InnerStep) -> None:
        self._run = run
        self._inner = inner
        self.samples = range(inner.first, inner.first + inner.count)  #: numbers in the run's order of samples that are this peer's alone
        self.outer_step = inner.outer_step  #: that it works towards
        self.rank = inner.rank
        self.peers = inner.peers
        self.index = inner.index  #: in its outer step, from 0 on
        self.inner_steps = inner.inner_steps  #: of one outer step
        self.clock = inner.clock  #: inner steps that the run makes before this one: learning rates follow it
        self.total = inner.total  #: inner steps of the whole run
        self.loaded = inner.loaded  #: the averaged tensors were written since the step before
        self.restored = inner.restored  #: and the private ones: this process goes on where an earlier one was
        self._data_wait_s: float | None = None  # that its Loader took

    def report(
        self, loss: Any, tokens: int, *, samples: int | None = None, data_wait_s: float | None = None
    ) -> Sequence[Committed | ranks_of.Committed]:
        """The boundary after a step: publishes, waits and applies where the algorithm does. What was applied; nothing within an outer step.

        ``loss``         in nats per token (or your own objective): a number, or a tensor of one value
        ``tokens``       trained on in this step; their sum over an outer step is its weight in the mean
        ``samples``      taken from ``self.samples``, from the first on; None: all
        ``data_wait_s``  seconds that the step waited for its samples, which ``status`` shows as a share of the peer's time; None: as ``run.data`` measured
                         it, if that gave them

        Error ``Usage``: a step that was reported, tensors that moved; ``NonFiniteValue``, ``AgentLost`` …: the session is over.
        """
        value = loss.detach() if hasattr(loss, "detach") else loss
        return self._run._report(self, float(value), int(tokens), samples, self._data_wait_s if data_wait_s is None else float(data_wait_s))


class Run:
    """A peer's trainer. Made by ``join``; used in a ``with``::

        with prime.join() as run:
            run.bind(model, optimizer)
            for step in run:
                loss = train(step.samples)
                step.report(loss, tokens)

    Leaving the ``with`` at the end of the run, by ``break``, Ctrl-C or ``sys.exit`` leaves the run: the others see ``left``. Any other exception is told to
    the agent as the trainer's failure, which starts the trainer again where it started it.
    """

    def __init__(self, session: _prime.Session | ranks_of.Ranks) -> None:
        self._session = session
        self._bound: list[binding.Bound] = []
        self._evaluate: Evaluate | None = None
        self._step: Step | None = None
        self._held_out: tuple[float, int] | None = None
        self._may_load = True
        self._optimizers = 0  # that have state that is no tensor
        self._has_random = False
        self._warned = False

    # --- what it is

    @property
    def manifest(self) -> str:
        """The shared half of the run's manifest, as YAML."""
        return self._session.manifest

    @property
    def peer(self) -> str:
        return self._session.peer

    @property
    def fresh(self) -> bool:
        """False when the agent has started its trainer again."""
        return self._session.fresh

    @property
    def shard(self) -> int:
        """Which part of the model this process holds, from 0 on; of a run without shards 0."""
        return self._session.shard

    @property
    def shards(self) -> int:
        """How many processes hold one model together."""
        return self._session.shards

    @property
    def replica(self) -> str:
        """The name that all processes of this model share, and no others: where they find each other. Empty in a run without shards."""
        return self._session.replica

    # --- what it has

    def bind(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer | None = None, *, evaluate: Evaluate | None = None) -> None:
        """Before the first step, alike on every peer: the model's parameters are averaged, all else is this peer's own and kept for its next life.

        ``model``      parameters of float32 or bfloat16, by the names of ``state_dict``. Contiguous ones on the CPU are read and written where they lie;
                       others (CUDA) by a mirror in page-locked memory. Buffers of ``state_dict`` are copied: a joiner begins with its donor's. What follows
                       is private
        ``optimizer``  its state, by ``PARAMETER.KEY``; what torch.optim makes with the first step is made now. Learning rates are not bound: they follow ``step.clock``
        ``evaluate``   ``evaluate(index, of) -> (loss, tokens)``: the held-out loss of the model on the ``index``-th of ``of`` equal parts of the held-out data

        torch's random generator on the CPU is private, too. Another call binds another model beside it, whose tensors have other names. Error ``Usage``: types that cannot be bound, an optimizer that is not known and has no state;
        ``LayoutUnusable``: names that are not 1 to 256 printable ASCII characters, no tensor, too many.
        """
        if not hasattr(model, "named_parameters"):
            raise usage(f"a {type(model).__name__} is no nn.Module: tensors are bound by `bind_tensor`")
        parameters, buffers = list(binding.parameters_of(model)), list(binding.buffers_of(model))
        tensors, numbers = binding.state_of(model, optimizer) if optimizer is not None else ([], None)
        self._evaluate = evaluate or self._evaluate
        for name, tensor in parameters:
            self._bind(name, tensor, "averaged")
        for name, tensor in buffers:
            self._bind(name, tensor, "copied")
        for name, tensor in tensors:
            self._bind(name, tensor, "private")
        if numbers is not None:
            self._optimizers += 1
            name = numbers.name if self._optimizers == 1 else f"{numbers.name}.{self._optimizers}"
            self.bind_blob(name, numbers.capacity, numbers.save, numbers.load)
        if not self._has_random:
            self._has_random = True
            random = binding.random_state()
            self.bind_blob(random.name, random.capacity, random.save, random.load)

    def bind_tensor(self, name: str, tensor: Any, role: Role = "averaged") -> None:
        """One tensor of torch's or numpy's, contiguous and on the CPU.

        ``averaged``  a part of the model: f32 or bf16
        ``copied``    a part of the model that is neither averaged nor compared: each peer has its own, a joiner begins with its donor's, and checkpoints
                      have it. f32, bf16, f16, i64, i32 or u8; named like no other tensor
        ``private``   this peer's own, of the same types
        """
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(tensor, torch.Tensor):
            self._bind(name, tensor, role)
        else:
            self._session.bind(name, tensor, role)

    def bind_blob(self, name: str, capacity: int, save: Callable[[], bytes], load: Callable[[bytes], object]) -> None:
        """Private state that is no tensor, at most ``capacity`` bytes. ``save`` is called when a record is made, ``load`` by the first step of a life that
        goes on from one; what they raise ends the session."""
        self._session.bind_blob(name, capacity, save, load)

    def empty(self, shape: int | Sequence[int]) -> Any:
        """A tensor of f32, zeros, in memory that the agent has as well, before the first step: of torch where that is imported, else an array of numpy's.

        Where all averaged tensors are such, made in the order in which they are bound (``share`` does that for a module), and ``sync.algorithm`` is ``diloco``,
        with one fragment or ``sequential`` ones, what is published is read where it lies: without a copy, in time or in memory. Elsewhere it is memory like
        any other. While ``report`` publishes, and after one that failed then, it holds no parameters.

        Error ``MemoryUnavailable``: more than this machine has. Binding raises ``LayoutUnusable`` for a tensor that lies where another one does.
        """
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        memory = self._session.allocate(math.prod(sizes))
        torch = sys.modules.get("torch")
        return memory.reshape(sizes) if torch is None else torch.from_numpy(memory).view(sizes)

    def share(self, model: torch.nn.Module) -> None:
        """Moves the model's parameters, of f32 on the CPU, to memory of ``empty``, in the order in which ``bind`` takes them. Before ``bind``; an optimizer
        may have them already."""
        for name, parameter in binding.parameters_of(model):
            if parameter.dtype.itemsize != 4 or parameter.device.type != "cpu":
                raise usage(f"`{name}` is of {parameter.dtype}, on {parameter.device}; what can be shared is of float32, on the CPU")
            parameter.data = self.empty(parameter.shape).copy_(parameter.data)

    def _bind(self, name: str, tensor: torch.Tensor, role: Role) -> None:
        if isinstance(self._session, ranks_of.Ranks):
            self._session.bind(name, tensor, role)
            return
        bound = binding.Bound.of(name, tensor)
        self._session.bind(name, bound.memory, role)
        self._bound.append(bound)

    def export_file(self, name: str, content: bytes) -> None:
        """A small file (``config.json``, a tokenizer) for each checkpoint directory."""
        self._session.export_file(name, content)

    def describe_data(self, digest: str, summary: str) -> None:
        """Tells what this process trains on, before the first step: who tells another digest (32 hexadecimal digits) is refused (``DataMismatch``)."""
        self._session.describe_data(digest, summary)

    def data(self, dataset: Any, **options: Any) -> Loader:
        """The samples of each step out of ``dataset``: ``for step, batch in run.data(dataset)``; see Loader."""
        return Loader(self, dataset, **options)

    # --- the loop

    def __iter__(self) -> Iterator[Step]:
        """The steps, until the run is done. A step that was not reported is given once more."""
        while (step := self.next()) is not None:
            yield step

    def next(self) -> Step | None:
        """The next step; waits where the run does. None when the run is done."""
        if self._step is not None and not self._warned:
            self._warned = True
            warnings.warn("a step was not reported, and is given once more: `step.report` ends one", RuntimeWarning, stacklevel=2)
        if self._may_load:
            self._check()
        inner = self._session.next()
        if inner is None:
            self._take()
            self._session.finish(self._answer)
            return None
        self._may_load = False
        if inner.loaded or inner.restored:
            self._take()
        self._step = Step(self, inner)
        index, of = inner.evaluate
        self._held_out = self._evaluate(index, of) if of > 0 and self._evaluate is not None else None
        return self._step

    def _report(
        self, step: Step, loss: float, tokens: int, samples: int | None, data_wait_s: float | None
    ) -> Sequence[Committed | ranks_of.Committed]:
        if step is not self._step:
            raise usage("this step was reported already, or another one was given since")
        for what, count in (("tokens", tokens), ("samples", samples or 0)):
            if count < 0:
                raise usage(f"`{what}` is {count}: it is how many, from 0 on")
        if data_wait_s is not None and not 0 <= data_wait_s < math.inf:
            raise usage(f"`data_wait_s` is {data_wait_s}: it is seconds, from 0 on")
        self._may_load = step._inner.stored  # what publishes applies, and may have the next step load
        if self._may_load:
            self._bring()
        held_out, held_out_tokens = self._held_out or (None, 0)
        committed = self._session.report(loss, tokens, samples, held_out, held_out_tokens, data_wait_s)
        self._step = None
        return committed

    def _answer(self, index: int, of: int, sample: bool) -> tuple[float | None, int, str]:
        if of == 0 or self._evaluate is None:
            return None, 0, ""
        loss, tokens = self._evaluate(index, of)
        return float(loss), int(tokens), ""

    def contribute(self) -> Sequence[Committed | ranks_of.Committed]:
        """Publishes now what was reported of this outer step, however many steps that are, and does what ``report`` does then. A step that was not
        reported hands its samples back."""
        self._may_load = True
        self._bring()
        self._step = None
        return self._session.contribute()

    def upcoming(self, count: int) -> Sequence[Samples | ranks_of.Samples]:
        """The samples of up to ``count`` steps after the present one, for who reads ahead."""
        return self._session.upcoming(count)

    def alive(self, waits_for: str = "") -> None:
        """A sign of life in long work that is no step; ``waits_for`` is what it stands still for, which ``primectl status`` shows."""
        self._session.alive(waits_for)

    def _check(self) -> None:
        for bound in self._bound:
            bound.check()
        if isinstance(self._session, ranks_of.Ranks):
            self._session.check()

    def _bring(self) -> None:
        self._check()
        for bound in self._bound:
            bound.bring()
        if isinstance(self._session, ranks_of.Ranks):
            self._session.bring()

    def _take(self) -> None:
        for bound in self._bound:
            bound.take()

    # --- its end

    def interrupt(self) -> None:
        """From another thread: the call that waits ends with ``Interrupted``, and so does each later one but ``leave``."""
        self._session.interrupt()

    def leave(self) -> None:
        """Leaves the run: the others see ``left``, not ``lost``. Ends the session."""
        if self._session.open:
            try:
                self._session.leave()
            finally:
                self.close()

    def fail(self, cause: BaseException | str) -> None:
        """Ends the session with a cause that the journal and the other peers see."""
        if self._session.open:
            name, detail = "TrainerFailed", cause if isinstance(cause, str) else f"{type(cause).__name__}: {cause}"
            if isinstance(cause, Error):
                name, detail = cause.name, cause.detail
            try:
                self._session.fail(name, detail)
            finally:
                self.close()

    def close(self) -> None:
        """Ends the session without a word; its agent leaves by itself."""
        if self._session.open:
            self._session.close()
        self._bound.clear()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None or isinstance(error, (KeyboardInterrupt, SystemExit, GeneratorExit)):
            self.leave()
        else:
            self.fail(error)

    def __del__(self) -> None:
        session = getattr(self, "_session", None)
        if session is not None and session.open:
            warnings.warn("a run was neither left nor closed: use `with prime.join() as run`", ResourceWarning, stacklevel=2, source=self)


def _primectl() -> str:
    """The program that comes with this package, or nothing: then the runtime looks for it."""
    if os.environ.get("PRIME_PRIMECTL"):
        return ""
    beside = pathlib.Path(sysconfig.get_path("scripts")) / "primectl"
    return str(beside) if beside.exists() else shutil.which("primectl") or ""


def join(
    invite: str | None = None,
    *,
    name: str = "",
    primectl: str = "",
    state_dir: str = "",
    timeout: float = 60.0,
    replica: str = "",
    shard: int = 0,
    shards: int | None = None,
    ranks: int | None = None,
) -> Run:
    """Makes this process the trainer of a peer.

    Where an agent started it (``local.trainer_command`` of the manifest), of that agent's, whatever is given here. Else it starts an agent that joins the run
    of ``invite``, or of ``$PRIMECTL_INVITE``: the line ``prime://…`` that ``primectl up`` prints.

    ``name``       of the peer, for people; drawn where none is given
    ``primectl``   the program to start as agent; else ``$PRIME_PRIMECTL``, the one of this package, or ``PATH``
    ``state_dir``  where the agent keeps its files
    ``timeout``    in seconds, until the run welcomes the peer
    ``replica``, ``shard``  of a run with shards: which model, and which part of it
    ``ranks``      so many processes of this machine, which torchrun started, are the trainer of one peer (FSDP2) and share one agent: each calls this, and
                   from then on each call of the run, after ``torch.distributed.init_process_group``. `docs/PYTHON.md` says how
    ``shards``     instead of both, under torchrun or srun: so many processes hold one model together. Neighbouring ranks are a replica, and the rank in it is
                   the shard (``run.shard``). Error ``Usage`` where the run has another number of shards

    Error ``InviteMalformed``, ``RunUnreachable``, ``KeyRefused``, ``RunFull``, ``ProcessFailed`` (no agent could be started) …; ``AgentLost``: the one that
    started this process is gone.
    """
    if ranks is not None and ranks != 1:
        if shards is not None or replica or shard:
            raise usage("`ranks` are processes of one peer, `shards` are peers: a model that both hold is not supported")
        launched.check_ranks(ranks)
        return Run(ranks_of.Ranks(lambda: _session(invite, name, primectl, state_dir, timeout, "", 0)))
    if os.environ.get("PRIME_AGENT_SOCKET") or shards is None or shards == 1:
        return Run(_session(invite, name, primectl, state_dir, timeout, replica, shard))
    replica, shard = launched.place(shards)
    run = Run(_session(invite, name, primectl, state_dir, timeout, replica, shard))
    if run.shards != shards:
        has = run.shards
        run.leave()
        raise usage(f"the run has {has} shard{'s' * (has > 1)}, and not {shards}")
    return run


_attached = 0  # the process that has joined the agent that started it


def _session(invite: str | None, name: str, primectl: str, state_dir: str, timeout: float, replica: str, shard: int) -> _prime.Session:
    if os.environ.get("PRIME_AGENT_SOCKET"):
        global _attached
        if _attached == os.getpid():
            raise usage("this process has joined already: its agent has one trainer")
        session = _prime.attach()
        _attached = os.getpid()
        return session
    given = invite or os.environ.get("PRIMECTL_INVITE")
    if not given:
        raise usage("no invite: give the line `prime://…` that `primectl up` prints, or set PRIMECTL_INVITE; no agent started this process either")
    return _prime.join(given, primectl or _primectl(), name, state_dir, timeout, replica, shard)
