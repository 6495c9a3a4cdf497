"""Each page of the console as readers see it: no error, sideways scrolling, foreign text or barrier.

In the check every page is opened once, in combinations of language, theme and width that go round. All pages
for five roles in all combinations: `ALLOTMENT_INVENTORY=folder`, which also keeps a picture of each there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connections

from tests.access.actors import ACTORS
from tests.access.world import AccessWorld, build
from tests.e2e.page_inventory import ROLES, Inspector, find_pages, list_views
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
    pictures = Path(FOLDER) if FOLDER else None
    if pictures is not None:
        pictures.mkdir(parents=True, exist_ok=True)
    with chromium() as browser:
        inspector = Inspector(browser, address, w, pictures)
        problems = [problem for view in views for problem in inspector.inspect(view)]
    assert not problems, "\n".join(problems)
