"""Threads for concurrent calls."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Final, ParamSpec, TypeVar

AT_ONCE: Final = 16

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Workers(ThreadPoolExecutor):
    """Runs each call in the context of its submitter, and so under the same lease."""

    def __init__(self) -> None:
        super().__init__(max_workers=AT_ONCE)

    def submit(
        self, call: Callable[Parameters, Result], /, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Future[Result]:
        context = copy_context()
        return super().submit(lambda: context.run(call, *args, **kwargs))
