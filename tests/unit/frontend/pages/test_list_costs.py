"""The cost of one more row of a list, in Python functions that are entered; no timings."""

from __future__ import annotations

from typing import Final

import pytest
from django.test import Client

from tests.builders import clusters, jobs
from tests.builders.jobs import RoleOf
from tests.builders.world import World, world
from tests.integration.quotas.test_quota_table_cost import counted_calls

pytestmark = pytest.mark.django_db
FEW, MANY = 5, 20
CALLS: Final = {"/ops/jobs": 2_200, "/ops/nodes": 1_550}
"""Models of all GPUs and a template for each tag took 2,250 for a job and 1,700 for a node."""


def add_rows(w: World, start: int, stop: int) -> None:
    """Add queued and running jobs, and the nodes that these run on."""
    for number in range(start, stop):
        node = clusters.node(w.flavor, f"extra-{number}", cards=8)
        running = jobs.job(w.queue, w.editor, f"running-{number}", roles=[RoleOf(cards=1)])
        jobs.allocate(running, node)


def count_calls(client: Client, address: str) -> int:
    """Count what a page enters once everything that is remembered is."""
    for _ in range(2):
        assert client.get(address).status_code == 200
    with counted_calls() as count:
        client.get(address)
    return count()


@pytest.mark.parametrize("address", CALLS)
def test_a_row_of_a_list_costs_few_calls(address: str) -> None:
    w, client = world(), Client()
    client.force_login(w.platform_admin)
    add_rows(w, 0, FEW)
    few = count_calls(client, address)
    add_rows(w, FEW, MANY)
    assert (count_calls(client, address) - few) / (MANY - FEW) < CALLS[address]
