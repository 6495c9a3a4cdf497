"""Decides where slow calls are computed: in the calling process, or in separate processes."""

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
    """The pool of this process; None in a command or a worker, which compute by themselves."""

    pool: CallRunner | None = None


_user: ContextVar[str] = ContextVar("compute_user", default="")


def set_pool(pool: CallRunner | None) -> None:
    """Compute calls in `pool` from here on; called when a web process begins to serve."""
    _Serving.pool = pool


def get_pool() -> CallRunner | None:
    """Return the pool that computes for this process; None if it computes by itself."""
    return _Serving.pool


def start_process() -> None:
    """Start a process if this is a web process that has none, so that the first call needn't wait for it."""
    if _Serving.pool is not None:
        _Serving.pool.start_process()


def set_user(user: str) -> None:
    """Set the user on whose behalf this request computes; a pool computes one call per user at a time."""
    _user.set(user)


def current_user() -> str:
    """Return the user on whose behalf this request computes; "" if unknown."""
    return _user.get()
