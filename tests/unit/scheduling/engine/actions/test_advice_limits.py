"""Which recommendation comes first, where caps, budgets and rules of placement apply together."""

from __future__ import annotations

from scheduling.engine.model import Allowance, BarredFlavor, HelpCode, PlacementRules, Reason, StopPolicy
from tests.unit.scheduling.engine.actions.stage import ADMIT, Stage
from tests.unit.scheduling.engine.builders import (
    cycle,
    flavor,
    job,
    node,
    outcome,
    queue,
    quotas,
    role,
    ways_of,
    world,
)


def test_a_cap_comes_before_a_queue_that_is_on_hold() -> None:
    """The order is that of the job's reasons."""
    asked = job("j", "a", role(1, 8), allowances=(Allowance("ann", "gpu.cards", 1, 0),))
    queues = [queue("a", stop_policy=StopPolicy.HOLD)]
    found = outcome(cycle(world([node("n1", 4)], [asked], queues=queues)), "j")
    assert found.reason is Reason.NEVER_FITS
    assert ways_of(found)[HelpCode.ASK_FEWER_CARDS]["also"] == Reason.POLICY_DENIED


def test_a_budget_is_what_comes_next_where_the_other_flavor_is_too_small() -> None:
    kinds = ("near", "far")
    snapshot = world(
        [node("n1", 4, labels={"kind": "near"}), node("n2", 4, labels={"kind": "far"})],
        [job("j", "a", role(1, 8), barred=(BarredFlavor("near", "acme", 2, 1),))],
        teams={"a": (*quotas(4, flavors=("near",)), *quotas(0, flavors=("far",)))},
        queues=[queue("a", flavors=kinds)],
        flavors=[flavor(kind, node_labels={"kind": kind}) for kind in kinds],
    )
    found = outcome(cycle(snapshot), "j")
    assert ways_of(found)[HelpCode.ASK_FEWER_CARDS]["also"] == Reason.POLICY_DENIED


def test_what_is_left_of_a_combination_does_what_it_says() -> None:
    """Without all of its rules the job would start on the free node. Removing only one of them lets it fit
    the node that is occupied: it could run there some day, but does not start."""
    rules = PlacementRules(node_selector={"kind": "none"}, node_name="busy")
    stage = Stage(world([node("busy", 4), node("free", 3)], [job("first", "a", role(1, 4))]), ADMIT)
    stage.cycle()
    asked = job("j", "a", role(1, 9), rules=rules, at=5)
    stage.submit(asked)
    stage.cycle()
    together = [way for way in stage.outcome("j").help if way.numbers.get("with")]
    assert len(together) > 1
    starts = all("starts" in way.numbers for way in together)
    assert stage.starts_with(asked, *together) is starts
