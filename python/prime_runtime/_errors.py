"""Owns Error, the exception that every error of the runtime becomes, and the function that shows what is pending for a thread."""

from __future__ import annotations


class Error(Exception):
    """An error of the runtime, one row of the table in docs/ERRORS.md.

    ``name``       its name there, as ``"PeerLost"``
    ``code``       its code there, as ``"PR0502"``; ``primectl explain CODE`` says more
    ``detail``     what and where, in this case
    ``kind``       what now: ``"retry"`` the same call may succeed · ``"rejoin"`` take part anew · ``"user"`` somebody must change something ·
                   ``"fatal"`` give up
    ``context``    what was being done, innermost first
    ``hint``       what to do, in words
    ``exit_code``  for a program that ends because of it
    """

    def __init__(self, name: str, code: str, kind: str, text: str, detail: str, context: list[str], hint: str, exit_code: int) -> None:
        super().__init__("; while ".join([text, *context]))
        self.name = name
        self.code = code
        self.kind = kind
        self.detail = detail
        self.context = context
        self.hint = hint
        self.exit_code = exit_code

    def __reduce__(self) -> tuple[type[Error], tuple[object, ...]]:
        text = str(self.args[0]).split("; while ")[0]
        return Error, (self.name, self.code, self.kind, text, self.detail, self.context, self.hint, self.exit_code)


def usage(detail: str) -> Error:
    """What a caller did wrong that only this side of the runtime can see."""
    return Error("Usage", "PR0101", "user", f"wrong usage: {detail} [PR0101]", detail, [], "see docs/PYTHON.md", 2)


def pending() -> None:
    """Does nothing: when a function begins, Python raises what another thread has sent to this one."""
