"""A parameter of a list that accepts some values only says which these are, when it gets another one."""

from __future__ import annotations

import html
import re
from typing import Final

import pytest
from django.test import Client

from tests.builders.world import World, world

LISTS: Final = (
    ("/w/team-a/jobs", ("state", "who", "range", "sort")),
    ("/w/team-a/notebooks", ("state", "sort")),
    ("/w/team-a/alerts", ("state", "severity")),
    ("/messages", ("state",)),
    ("/ops/jobs", ("state", "who", "range")),
    ("/ops/nodes", ("state", "sort")),
    ("/ops/gpus", ("state",)),
    ("/ops/users", ("state",)),
    ("/ops/requests", ("state",)),
    ("/ops/audit", ("result",)),
)


@pytest.fixture
def w(db: None) -> World:
    return world()


def problems(client: Client, address: str) -> list[str]:
    answer = client.get(address)
    assert answer.status_code == 200, answer.content[-500:]
    return re.findall(r"Unknown value [^<]*", html.unescape(answer.content.decode()))


@pytest.mark.parametrize(("address", "parameters"), LISTS)
def test_an_unknown_value_is_named_with_the_values_that_are_accepted(
    client: Client, w: World, address: str, parameters: tuple[str, ...]
) -> None:
    client.force_login(w.platform_admin)
    query = "&".join(f"{name}=bogus" for name in parameters)
    found = problems(client, f"{address}?{query}")
    assert len(found) == len(parameters)
    for name, sentence in zip(parameters, found, strict=True):
        assert sentence.startswith(f"Unknown value {name}=bogus. Valid: ")
        for value in sentence.partition("Valid: ")[2].rstrip(".").split(", "):
            assert problems(client, f"{address}?{name}={value}") == []
