"""Runs previews in a process beside the web process; outside of the web process they run in the caller's.

A cycle of a large cell takes seconds of one processor. In a thread of the web process it would hold Python's
global lock, and other pages would wait for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

from foundation.compute import serving
from foundation.compute.calls import Call
from foundation.compute.pool import NoneFree
from foundation.sql.postgres import release_pooled_connection
from scheduling.engine_input import preview_time
from tenants.access.grants import KeyBound, current_bound, remember_grants

P = ParamSpec("P")
R = TypeVar("R")
MODULES: Final = (
    "scheduling.services.jobs.startable",
    "scheduling.services.jobs.pending_check",
    "scheduling.services.policy_effect",
)
"""The modules that import all that previews need."""


def preview(when_late: Callable[..., R]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function a preview: it may run engine cycles with `preview_config`.

    Its arguments and its result are pickled. `when_late` computes the result if no process was free within
    the time of a preview, if too many previews wait, or if the process was killed.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def compute(*args: P.args, **kwargs: P.kwargs) -> R:
            if preview_time.is_previewing():
                return function(*args, **kwargs)
            pool = serving.get_pool()
            if pool is None:
                return _compute_here(preview_time.PREVIEW_S, function, args, kwargs)
            bounded = current_bound(), preview_time.PREVIEW_S, compute, args, kwargs
            call = Call(_compute_bounded, bounded, {})
            release_pooled_connection()  # others need it while this request waits
            try:
                found: R = pool.run(call, wait_s=preview_time.PREVIEW_S, user=serving.current_user())
            except NoneFree:
                return when_late(*args, **kwargs)
            return found

        return compute

    return decorate


def _compute_here(within_s: float, function: Callable[..., R], args: Any, kwargs: Any) -> R:
    with preview_time.limit_preview(within_s):
        return function(*args, **kwargs)


def _compute_bounded(bound: KeyBound | None, *call: Any) -> Any:
    with remember_grants(bound):
        return _compute_here(*call)
