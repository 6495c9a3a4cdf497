"""The workers' app with a task that takes long and one that leaves a file behind."""

from __future__ import annotations

import time
from pathlib import Path

from allotment.celery import app


@app.task(name="tests.nap", queue="default")  # type: ignore[untyped-decorator]
def nap(seconds: float) -> None:
    """Be at work for some time."""
    time.sleep(seconds)


@app.task(name="tests.leave", queue="default")  # type: ignore[untyped-decorator]
def leave(path: str) -> None:
    """Prove that a worker works."""
    Path(path).touch()
