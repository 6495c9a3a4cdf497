"""The borrowing limit of a workspace is decided above it, however many queues it has."""

from __future__ import annotations

import pytest

from foundation.core.actor import SYSTEM
from foundation.core.quantities import Resource
from quotas.models import Queue, Quota
from quotas.selectors.limits.tree import load_tree
from quotas.services.queues.queue import queue_create, queue_rename
from quotas.services.queues.queue_delete import queue_delete
from quotas.services.queues.queue_settings import queue_update
from quotas.services.quota import QuotaAmount, quota_set
from tenants.models import User
from tests.builders import clusters
from tests.integration.quotas.department import CARDS, Department

pytestmark = pytest.mark.django_db


@pytest.fixture
def here(db: None) -> Department:
    return Department()


def most(here: Department, queue: Queue) -> int | None:
    """The most cards that the queue could ever use."""
    return load_tree(here.cell.pk).potential(str(queue.node_id), (str(here.flavor.pk), CARDS.value))


def opened(here: Department, by: User | object, name: str = "night") -> Queue:
    return queue_create(
        acting_user=by,  # type: ignore[arg-type]
        cell=here.cell, workspace=here.a, name=name, flavors=[here.flavor],
    )  # fmt: skip


def test_queues_opened_by_the_workspace_reach_no_further_together_than_it_was_allowed(
    here: Department,
) -> None:
    allowed = most(here, here.queue_a)
    assert allowed == 10

    queues = [opened(here, here.adam, f"night-{number}") for number in range(3)]
    assert [most(here, queue) for queue in queues] == [0, 0, 0]

    # What the workspace divides among them is its own, and no more.
    amount = QuotaAmount(here.flavor, CARDS, 5)
    quota_set(acting_user=here.adam, node=here.queue_a.node, amounts=[QuotaAmount(here.flavor, CARDS, 3)])
    quota_set(acting_user=here.adam, node=queues[0].node, amounts=[amount])
    assert [most(here, queue) for queue in (here.queue_a, *queues)] == [5, 5, 0, 0]


def test_closing_and_opening_and_renaming_a_queue_gains_nothing(here: Department) -> None:
    quota_set(acting_user=here.adam, node=here.queue_a.node, amounts=[QuotaAmount(here.flavor, CARDS, 0)])
    queue_delete(acting_user=here.adam, queue=here.queue_a)
    again = opened(here, here.adam, "default")
    queue_rename(acting_user=here.adam, queue=again, name="other")

    assert most(here, again) == 0


def test_a_flavor_that_the_workspace_adds_lets_it_borrow_nothing(here: Department) -> None:
    other = clusters.flavor(here.flavor.cluster, name="h100")
    queue_update(acting_user=here.adam, queue=here.queue_a, values={}, flavors=[here.flavor, other])

    rows = Quota.unscoped.filter(node=here.queue_a.node, flavor=other)
    assert {(row.resource, row.borrowing_limit) for row in rows} == {(r.value, 0) for r in Resource}
    assert most(here, here.queue_a) == 10


@pytest.mark.parametrize("who", ["anna", "system"])
def test_who_decides_above_opens_a_queue_as_it_comes(here: Department, who: str) -> None:
    made = opened(here, here.anna if who == "anna" else SYSTEM)

    assert most(here, made) == 22
    assert not Quota.unscoped.filter(node=made.node).exists()
