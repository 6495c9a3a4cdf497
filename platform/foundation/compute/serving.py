"""The choice of a process: to compute by itself what takes seconds, or to leave it to processes beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from foundation.compute.calls import Call


class CallRunner(Protocol):
    """Computes calls, as `ProcessPool` does."""

    def start(self) -> None:
        """Start a process if there is none."""
        ...

    def run(self, call: Call, *, wait_s: float, key: str = "") -> Any:
        """Return what the function returns, or raise what it raises."""
        ...


class _Serving:
    """None where a command or a worker computes by itself."""

    pool: CallRunner | None = None


_key: ContextVar[str] = ContextVar("compute_key", default="")


def set_pool(pool: CallRunner | None) -> None:
    """Leave it to `pool` from here on; called where a web process begins to serve."""
    _Serving.pool = pool


def get_pool() -> CallRunner | None:
    """Return what computes for this process; None where it computes by itself."""
    return _Serving.pool


def start_process() -> None:
    """Start a process if this is a web process that has none, so that the first call needn't wait for it."""
    if _Serving.pool is not None:
        _Serving.pool.start()


@contextmanager
def supersede_earlier(key: str) -> Iterator[None]:
    """Let calls within the block supersede those with the same key that are still computed."""
    token = _key.set(key)
    try:
        yield
    finally:
        _key.reset(token)


def current_key() -> str:
    """Return the key of calls at this moment; "" supersedes nothing."""
    return _key.get()
