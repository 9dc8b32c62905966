"""Owns what a model and its optimizer are to a session: named tensors in the host's memory, which stay where they are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._errors import Error, usage

if TYPE_CHECKING:
    import torch

# A record holds the numbers of an optimizer that are no tensors, as JSON.
NUMBERS_BYTES_PER_PARAMETER = 512
RANDOM_STATE_BYTES = 8192
# What optimizers of torch.optim make with their first step, where that is not zeros; a string names a value of the parameter's group.
MADE_LATER: dict[str, dict[str, Any]] = {
    "SGD": {},
    "Adam": {},
    "AdamW": {},
    "NAdam": {"mu_product": 1.0},
    "RAdam": {},
    "Adamax": {},
    "Adadelta": {},
    "RMSprop": {},
    "Rprop": {"step_size": "lr"},
    "ASGD": {"eta": "lr", "mu": 1.0},
}


def moved(name: str) -> Error:
    return usage(
        f"`{name}` has moved since it was bound (resized, freed, or converted by `.to()`): "
        "bind a model when it is where it will be trained, and change its values in place"
    )


@dataclass
class Bound:
    """A tensor of the caller's, and the memory that the session knows it by: its own, or a mirror of it in the host's memory."""

    name: str
    tensor: torch.Tensor
    address: int
    bytes: int
    mirror: torch.Tensor | None

    @staticmethod
    def of(name: str, tensor: torch.Tensor) -> Bound:
        import torch

        if tensor.device.type == "cpu" and tensor.is_contiguous() and tensor.layout == torch.strided:
            return Bound(name, tensor, tensor.data_ptr(), tensor.untyped_storage().nbytes(), None)
        if tensor.layout != torch.strided or tensor.device.type == "meta":
            raise usage(f"`{name}` has no memory of its own ({tensor.layout}, on {tensor.device}), and cannot be bound")
        mirror = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.device.type == "cuda")
        mirror.copy_(tensor.detach())
        return Bound(name, tensor, tensor.data_ptr(), tensor.untyped_storage().nbytes(), mirror)

    @property
    def memory(self) -> torch.Tensor:
        return (self.tensor if self.mirror is None else self.mirror).detach()

    def check(self) -> None:
        """Raises where the tensor was given other memory since it was bound: the session would write to what is no longer its own."""
        if self.tensor.data_ptr() != self.address or self.tensor.untyped_storage().nbytes() != self.bytes:
            raise moved(self.name)

    def bring(self) -> None:
        if self.mirror is not None:
            self.mirror.copy_(self.tensor.detach())

    def take(self) -> None:
        if self.mirror is not None:
            self.tensor.detach().copy_(self.mirror)


@dataclass
class Blob:
    name: str
    capacity: int
    save: Callable[[], bytes]
    load: Callable[[bytes], object]


def parameters_of(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """By the names of ``state_dict``; what several names share is bound once."""
    import torch

    for name, parameter in model.named_parameters():
        if parameter.dtype not in (torch.float32, torch.bfloat16):
            raise usage(f"`{name}` is of {parameter.dtype}; averaged tensors are of float32 or bfloat16")
        yield name, parameter


def buffers_of(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Those that ``state_dict`` has."""
    import torch

    saved = model.state_dict(keep_vars=True)
    known = (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8)
    for name, buffer in model.named_buffers():
        if name in saved and buffer.numel() > 0:
            if buffer.dtype == torch.bool:
                buffer = buffer.view(torch.uint8)
            if buffer.dtype not in known:
                raise usage(f"the buffer `{name}` is of {buffer.dtype}; copied tensors are of {', '.join(str(each) for each in known)}")
            yield name, buffer


def materialize(optimizer: torch.optim.Optimizer) -> None:
    """Makes the state that an optimizer makes with its first step, as it is before that step; parameters and gradients stay as they are."""
    import torch

    lacking = [parameter for group in optimizer.param_groups for parameter in group["params"] if parameter.requires_grad and not optimizer.state.get(parameter)]
    if not lacking:
        return
    kind = type(optimizer).__name__
    if kind not in MADE_LATER or not type(optimizer).__module__.startswith("torch.optim"):
        raise usage(f"the optimizer {kind} has no state yet, and is not known here: make its state before it is bound (one step with gradients of zero)")
    everything = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    kept = [(parameter, parameter.detach().clone(), parameter.grad) for parameter in everything]
    old = {parameter: {key: value.clone() if isinstance(value, torch.Tensor) else value for key, value in state.items()} for parameter, state in optimizer.state.items()}
    lacks = set(lacking)
    for parameter in everything:
        parameter.grad = torch.zeros_like(parameter) if parameter in lacks else None
    optimizer.step()
    with torch.no_grad():
        for parameter, values, gradient in kept:
            parameter.copy_(values)
            parameter.grad = gradient
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter in lacks:
                    for key, value in optimizer.state[parameter].items():
                        begin = MADE_LATER[kind].get(key, 0.0)
                        begin = group[begin] if isinstance(begin, str) else begin
                        if isinstance(value, torch.Tensor):
                            value.fill_(begin)
                        elif isinstance(value, (int, float)):
                            optimizer.state[parameter][key] = type(value)(begin)
                elif parameter in old:
                    for key, value in old[parameter].items():
                        now = optimizer.state[parameter][key]
                        if isinstance(now, torch.Tensor):
                            now.copy_(value)
                        else:
                            optimizer.state[parameter][key] = value


def state_of(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> tuple[list[tuple[str, torch.Tensor]], Blob | None]:
    """The tensors of the optimizer's state, named ``PARAMETER.KEY``, and a blob of what are plain numbers."""
    import torch

    names = {id(parameter): name for name, parameter in model.named_parameters()}
    materialize(optimizer)
    tensors: list[tuple[str, torch.Tensor]] = []
    numbers: list[tuple[str, torch.Tensor, str]] = []
    for parameter in (each for group in optimizer.param_groups for each in group["params"]):
        if id(parameter) not in names:
            raise usage("the optimizer has a parameter that the model has not")
        for key, value in optimizer.state.get(parameter, {}).items():
            name = f"{names[id(parameter)]}.{key}"
            if isinstance(value, torch.Tensor):
                tensors.append((name, value))
            elif isinstance(value, (bool, int, float)):
                numbers.append((name, parameter, key))
            elif value is not None:
                raise usage(f"the optimizer's `{name}` is a {type(value).__name__}; what can be bound are tensors and numbers")
    if not numbers:
        return tensors, None

    def save() -> bytes:
        return json.dumps({name: optimizer.state[parameter][key] for name, parameter, key in numbers}).encode()

    def load(saved: bytes) -> None:
        values = json.loads(saved)
        for name, parameter, key in numbers:
            optimizer.state[parameter][key] = values[name]

    return tensors, Blob("optimizer", NUMBERS_BYTES_PER_PARAMETER * len(numbers), save, load)


def random_state() -> Blob:
    """Of torch's generator on the CPU."""
    import torch

    def save() -> bytes:
        return bytes(torch.get_rng_state().numpy())

    def load(saved: bytes) -> None:
        torch.set_rng_state(torch.frombuffer(bytearray(saved), dtype=torch.uint8))

    return Blob("torch.random", RANDOM_STATE_BYTES, save, load)
