"""The choice of a process: to compute by itself what takes seconds, or to leave it to processes beside it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Protocol

from foundation.compute.calls import Call


class CallRunner(Protocol):
    """Computes calls, as `ProcessPool` does."""

    def start_process(self) -> None:
        """Start a process if there is none."""
        ...

    def run(self, call: Call, *, wait_s: float, user: str = "") -> Any:
        """Return what the function returns, or raise what it raises."""
        ...


class _Serving:
    """None where a command or a worker computes by itself."""

    pool: CallRunner | None = None


_user: ContextVar[str] = ContextVar("compute_user", default="")


def set_pool(pool: CallRunner | None) -> None:
    """Leave it to `pool` from here on; called where a web process begins to serve."""
    _Serving.pool = pool


def get_pool() -> CallRunner | None:
    """Return what computes for this process; None where it computes by itself."""
    return _Serving.pool


def start_process() -> None:
    """Start a process if this is a web process that has none, so that the first call needn't wait for it."""
    if _Serving.pool is not None:
        _Serving.pool.start_process()


def set_user(user: str) -> None:
    """Set the user for whom this request computes: the calls have the turns of that user."""
    _user.set(user)


def current_user() -> str:
    """Return who asks; "" where that is unknown."""
    return _user.get()
