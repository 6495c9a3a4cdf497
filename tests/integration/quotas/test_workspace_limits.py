"""A workspace borrows no more than its queues were allowed together, however many of them it opened before
queues were opened with limits."""

from __future__ import annotations

import pytest

from foundation.core.actor import SYSTEM
from foundation.core.quantities import Resource
from quotas.models import Queue, QuotaNode
from quotas.selectors.limits.tree import load_tree
from quotas.services.queues.queue import queue_create
from quotas.services.quota import QuotaAmount, quota_set
from scheduling.snapshots.tree import engine_quota_nodes
from tests.builders import clusters, quotas
from tests.integration.quotas.department import CARDS, Department

pytestmark = pytest.mark.django_db


@pytest.fixture
def here(db: None) -> Department:
    return Department()


def opened_before(here: Department, name: str = "evade") -> Queue:
    """A second queue of team A as a release made it that gave it no limits."""
    made = quotas.queue(here.cell, here.a, [here.flavor], name=name)
    QuotaNode.unscoped.filter(is_queue=True).update(limits_decided=False)
    return made


def most(here: Department, queue: Queue) -> int | None:
    return load_tree(here.cell.pk).potential(str(queue.node_id), (str(here.flavor.pk), CARDS.value))


def limit_of_workspace(here: Department) -> int | None:
    """The limit with which the engine sees the node of team A."""
    for node in engine_quota_nodes(here.cell.pk):
        if node.id == str(here.node_a.pk):
            return {(q.flavor, q.resource): q.borrowing_limit for q in node.quotas}.get(
                (str(here.flavor.pk), CARDS)
            )
    raise AssertionError


def test_a_queue_without_a_limit_beside_one_that_has_one_lets_the_workspace_borrow_no_more(
    here: Department,
) -> None:
    evade = opened_before(here)

    assert limit_of_workspace(here) == 2
    assert (most(here, here.queue_a), most(here, evade)) == (10, 10)

    tree = load_tree(here.cell.pk)
    tree.add_usage(str(here.queue_a.node_id), (str(here.flavor.pk), CARDS.value), 8)
    assert tree.available(str(evade.node_id), (str(here.flavor.pk), CARDS.value)) == 2


def test_giving_it_a_nominal_is_not_to_say_how_far_it_reaches(here: Department) -> None:
    evade = opened_before(here)
    quota_set(acting_user=here.adam, node=here.queue_a.node, amounts=[QuotaAmount(here.flavor, CARDS, 3)])
    quota_set(acting_user=here.adam, node=evade.node, amounts=[QuotaAmount(here.flavor, CARDS, 5)])

    assert (limit_of_workspace(here), most(here, evade)) == (2, 10)


@pytest.mark.parametrize("limit", [None, 7])
def test_who_decides_above_says_how_far_it_reaches(here: Department, limit: int | None) -> None:
    evade = opened_before(here)
    amount = QuotaAmount(here.flavor, CARDS, 0, borrowing_limit=limit)
    quota_set(acting_user=here.anna, node=evade.node, amounts=[amount])

    assert most(here, evade) == (22 if limit is None else 7)
    assert limit_of_workspace(here) is None


def test_a_flavor_that_none_of_its_queues_was_given_is_not_borrowed(here: Department) -> None:
    other = clusters.flavor(here.flavor.cluster, name="h100")
    quotas.quota(here.node, other, CARDS, 6)
    evade = quotas.queue(here.cell, here.a, [other], name="evade")
    QuotaNode.unscoped.filter(is_queue=True).update(limits_decided=False)

    assert load_tree(here.cell.pk).potential(str(evade.node_id), (str(other.pk), CARDS.value)) == 0


def test_a_queue_that_came_first_and_one_opened_from_above_borrow_as_before(here: Department) -> None:
    second = quotas.queue(here.cell, here.b, [here.flavor], name="night")
    quotas.quota(second.node, here.flavor, CARDS, 0, borrowing_limit=0)
    QuotaNode.unscoped.filter(is_queue=True).update(limits_decided=False)
    assert most(here, here.queue_b) == 22

    made = queue_create(
        acting_user=SYSTEM, cell=here.cell, workspace=here.a, name="free", flavors=[here.flavor]
    )
    assert (most(here, made), limit_of_workspace(here)) == (22, None)


def test_what_is_stored_and_shown_stays_as_it_was_decided(here: Department) -> None:
    opened_before(here)
    quota_set(acting_user=here.anna, node=here.node_a, amounts=[QuotaAmount(here.flavor, CARDS, 9)])

    assert here.node_a.quotas.get(resource=Resource.GPU_CARDS.value).borrowing_limit is None
