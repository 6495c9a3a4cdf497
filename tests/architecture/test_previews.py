"""No page runs a cycle of the engine in the web process: it would keep all other pages waiting.

A preview does so in a process beside it (`scheduling.services.previewing`): `preview_config` works nowhere
else, and tests hand every preview over pickled.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.architecture.sources import PRODUCT, ROOT, find_files, parse_file, walk_tree

CYCLES: Final = {"run_cycle", "examine_job", "forecast_starts"}
PURE: Final = ("engine", "prediction", "simulation", "conformance")
"""The folders of `scheduling` that know neither requests nor rows."""
WORKERS: Final = {
    "platform/allotment/demo/history/predict.py",
    "scheduling/services/cycle.py",
    "scheduling/services/start_estimate/change.py",
    "scheduling/services/start_estimate/draft.py",
    "scheduling/services/start_prediction/predict.py",
    "scheduling/delegation/placing.py",
    "scheduling/engine_input/saved_cycle.py",
}
"""Run by workers and commands."""
PREVIEWS: Final = {
    "scheduling/services/jobs/job_preview.py",
    "scheduling/services/jobs/pending_check.py",
    "scheduling/services/jobs/preview_trial.py",
    "scheduling/services/quota_effect.py",
    "scheduling/services/start_prediction/changed_job.py",
}
"""Run with a configuration that `preview_config` gave."""


def calls_of(file: Path) -> Iterator[str]:
    """The names of what a module calls."""
    for node in walk_tree(parse_file(file)):
        if isinstance(node, ast.Call):
            called = node.func
            yield called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def imports_of(file: Path) -> Iterator[str]:
    """The modules that a module imports, as paths of files, and those of the names that it imports."""
    for node in walk_tree(parse_file(file)):
        if isinstance(node, ast.ImportFrom) and node.module:
            for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                yield f"{name.replace('.', '/')}.py"


def test_only_workers_and_previews_run_cycles() -> None:
    pure = tuple(f"scheduling/{folder}/" for folder in PURE)
    running = {
        name
        for file in find_files(*PRODUCT)
        if not (name := str(file.relative_to(ROOT))).startswith(pure) and CYCLES & set(calls_of(file))
    }
    assert running == WORKERS | PREVIEWS


def test_no_page_calls_what_workers_run() -> None:
    views = [file for file in find_files(*PRODUCT) if {"frontend", "api"} & set(file.relative_to(ROOT).parts)]
    assert len(views) > 100
    assert {str(file) for file in views if WORKERS & set(imports_of(file))} == set()
