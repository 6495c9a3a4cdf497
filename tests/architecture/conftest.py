"""The rules share the parsed files: a million and a half nodes, none of them in a reference cycle.

Searching through them for cycles would take twice as long as parsing, and go on in all later tests.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tests.architecture import sources


@pytest.fixture(scope="package", autouse=True)
def _kept_trees() -> Iterator[None]:
    gc.disable()
    yield
    for kept in (sources.find_files, sources.read_file, sources.parse_text, sources.walk_tree):
        kept.cache_clear()
    gc.enable()
