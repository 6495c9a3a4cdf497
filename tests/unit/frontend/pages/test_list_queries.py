"""A list of the console costs the same number of queries for 3 rows of everything and for 12."""

from __future__ import annotations

from typing import Final

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from benchmarks.lists.places import CONSOLE
from tests.api.test_query_budget import Filled
from tests.builders.world import world

LISTS: Final = [place.path for place in CONSOLE if not place.is_page]
FEW, MANY = 3, 12
MOST: Final = 45
"""No list has more queries than this."""
SHOWN: Final = (200, 302, 403, 404)


@pytest.mark.django_db
def test_no_list_of_the_console_asks_the_database_more_often_for_more_rows() -> None:
    filled = Filled(world())
    filled.names["folder"] = filled.team.pk
    clients = {"operator": Client(), "admin": Client()}
    clients["operator"].force_login(filled.w.platform_admin)
    clients["admin"].force_login(filled.w.admin)
    asks = [(name, place) for place in LISTS for name in clients]
    filled.fill(FEW)
    few = {(name, place): _asked(clients[name], filled, place, warm=True) for name, place in asks}
    filled.fill(MANY)
    many = {(name, place): _asked(clients[name], filled, place) for name, place in asks}

    assert {each: (few[each], found) for each, found in many.items() if found > few[each]} == {}
    assert {each: found for each, found in many.items() if found > MOST} == {}


def _asked(client: Client, filled: Filled, place: str, *, warm: bool = False) -> int:
    address = place.format_map(filled.names)
    if warm:
        client.get(address)  # what is remembered between requests is read by then
    with CaptureQueriesContext(connection) as asked:
        answer = client.get(address)
    assert answer.status_code in SHOWN, (address, answer.content[-1000:])
    return len(asked)
