"""Each page of the console for each reader: no error, sideways scrolling, foreign text or barrier.

In the check every page is opened once, in combinations of language, theme and width that go round. All pages
for five roles in all combinations: `ALLOTMENT_INVENTORY=folder`, which keeps a picture of each there, and its
problems in `problems.txt`. A run that was ended continues after the visits in `visited.txt`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connections

from tests.access.actors import ACTORS
from tests.access.world import AccessWorld, build
from tests.e2e.page_inspector import Inspector
from tests.e2e.page_inventory import ROLES, Visit, find_pages, list_sample, list_visits
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
    pages = find_pages(w, address)
    connections["default"].close()
    with chromium() as browser:
        inspector = Inspector(browser, address, w)
        if FOLDER is None:
            problems = [problem for visit in list_sample(pages) for problem in inspector.inspect(visit)]
        else:
            problems = _inspect_all(inspector, list_visits(pages), Path(FOLDER))
    assert not problems, "\n".join(problems)


def _inspect_all(inspector: Inspector, visits: list[Visit], folder: Path) -> list[str]:
    """Return the problems of all visits, and those that an earlier run noted in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    inspector.pictures = folder
    visited, problems = folder / "visited.txt", folder / "problems.txt"
    visited.touch()
    known = set(visited.read_text(encoding="utf-8").splitlines())
    with visited.open("a", encoding="utf-8") as names, problems.open("a", encoding="utf-8") as lines:
        for visit in visits:
            if str(visit) in known:
                continue
            lines.writelines(" ".join(problem.split()) + "\n" for problem in inspector.inspect(visit))
            lines.flush()
            names.write(f"{visit}\n")
            names.flush()
    return problems.read_text(encoding="utf-8").splitlines()
