"""Functions that are imported at their first call: every path that wiring names must exist."""

from __future__ import annotations

import pytest

from foundation.core.lazy_import import defer_import, deferred_paths, resolve_path

PATHS = sorted(deferred_paths)


def test_the_platform_defers_something() -> None:
    assert PATHS


@pytest.mark.parametrize("path", PATHS)
def test_every_deferred_function_exists(path: str) -> None:
    assert callable(resolve_path(path))


def test_a_deferred_function_passes_its_arguments_on() -> None:
    assert defer_import("json:dumps")({"a": 1}, indent=0) == '{\n"a": 1\n}'
    assert defer_import("pathlib:Path.cwd")().is_absolute()


def test_a_wrong_path_fails_at_its_first_call() -> None:
    missing = defer_import("json:nothing")
    deferred_paths.discard("json:nothing")
    with pytest.raises(AttributeError):
        missing()
