"""Each page of the console as readers see it: no error, sideways scrolling, foreign text or barrier.

In the check every page is opened once, in combinations of language, theme and width that go round. All pages
for five roles in all combinations: `ALLOTMENT_INVENTORY=folder`, which keeps a picture of each there, and its
problems in `problems.txt`. A run that was ended goes on with the views that have no picture yet.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connections

from tests.access.actors import ACTORS
from tests.access.world import AccessWorld, build
from tests.e2e.page_inventory import ROLES, Inspector, View, find_pages, list_views
from tests.fixtures.api_server import api_server
from tests.fixtures.browser import chromium, chromium_path
from tests.fixtures.postgres import PostgresServer

pytestmark = [pytest.mark.browser, pytest.mark.server]
FOLDER = os.environ.get("ALLOTMENT_INVENTORY")


@pytest.fixture
def served(on_postgres: PostgresServer) -> Iterator[tuple[AccessWorld, str]]:
    """The world of the access matrix, and the address of a server over it."""
    chromium_path()  # nothing is started where there is none
    w = build([ACTORS[role] for role in ROLES])
    with api_server(on_postgres) as address:
        yield w, address


@pytest.mark.timeout(0 if FOLDER else 600)
def test_no_page_has_an_error_an_overflow_a_foreign_text_or_a_barrier(
    served: tuple[AccessWorld, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    w, address = served
    views = list_views(find_pages(w, address), whole=FOLDER is not None)
    connections["default"].close()
    with chromium() as browser:
        problems = _inspect_all(Inspector(browser, address, w), views, Path(FOLDER) if FOLDER else None)
    assert not problems, "\n".join(problems)


def _inspect_all(inspector: Inspector, views: list[View], folder: Path | None) -> list[str]:
    """Return the problems of all views; with a folder, those that an earlier run noted there as well."""
    if folder is None:
        return [problem for view in views for problem in inspector.inspect(view)]
    folder.mkdir(parents=True, exist_ok=True)
    notes = folder / "problems.txt"
    with notes.open("a", encoding="utf-8") as lines:
        for view in views:
            if (folder / view.file_name).exists():
                continue
            lines.writelines(" ".join(problem.split()) + "\n" for problem in inspector.inspect(view))
            lines.flush()
            inspector.save_picture(folder / view.file_name)
    return notes.read_text(encoding="utf-8").splitlines()
