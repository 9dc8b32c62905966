"""Owns the one thread that tells Python of reduces that have ended, and the end of the interpreter, which waits for it."""

from __future__ import annotations

import atexit
import os
import threading

from . import _prime

_thread: threading.Thread | None = None
_lock = threading.Lock()
_process = os.getpid()


def serve() -> None:
    """Starts the thread, once. A child of fork has none, and may not use what would need it."""
    global _thread
    with _lock:
        if _thread is None:
            _thread = threading.Thread(target=_prime._serve_endings, name="prime-endings", daemon=True)
            _thread.start()


def _end() -> None:
    if os.getpid() != _process:
        return  # who waits for the next ending was not forked, and does not hear that there will be none
    _prime._close()
    _prime._stop_endings()
    if _thread is not None and _thread.is_alive():
        _thread.join(5)


atexit.register(_end)
