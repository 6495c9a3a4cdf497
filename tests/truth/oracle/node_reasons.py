"""The numbers of jobs that nodes can't hold, now or ever: nodes, devices and rules that refuse tasks."""

from __future__ import annotations

from collections.abc import Iterator

from tests.truth.oracle.cell import least
from tests.truth.oracle.devices import of_model, roomy_cards
from tests.truth.oracle.facts import Lack
from tests.truth.oracle.gangs import most_in_one_area
from tests.truth.oracle.nodes import member, most_on, refuses
from tests.truth.oracle.reported import Fault, ReportedReason
from tests.truth.oracle.tasks import Task, task_of, without_claims

PASSING = frozenset({"pods", "cpu", "memory", "extended", "card-cores", "card-memory"})


def check_never_fits(report: ReportedReason) -> Iterator[Fault]:
    """Yield faults in the numbers of a job that not even the empty cell could hold."""
    facts, numbers = report.facts, report.numbers
    role = next((role for role in report.job.roles if role.name == numbers.get("role")), None)
    if role is None:
        yield report.fault("role", numbers.get("role"), "a role of the job")
        return
    yield from report.number("asked", least(role))
    flavor = report.cell.flavors.get(str(numbers.get("flavor")))
    if flavor is None:
        if facts.queue.flavors:
            yield report.fault("flavor", numbers.get("flavor"), "a flavor of the queue")
        return
    # A job that no node holds in any case is reported by nodes, whatever it mounts.
    task = task_of(without_claims(report.job), role, flavor)
    tolerated = not any(name == "refused.flavor-taint" for name in numbers)
    room = most_in_one_area(report.job, task, facts.empty, 10_000) if tolerated else 0
    for name in ("available", "limit", "together"):
        yield from report.number(name, room)
    yield from _check_cards(report, task, empty=True)
    if tolerated:
        yield from _check_refusals(report, task, empty=True)


def check_no_room(report: ReportedReason) -> Iterator[Fault]:
    """Yield faults in the numbers of a job for which nodes have no room now."""
    facts, numbers = report.facts, report.numbers
    role = next((role for role in report.job.roles if role.name == numbers.get("role")), None)
    flavor = report.cell.flavors.get(str(numbers.get("flavor")))
    ways = [way for way in facts.ways if way.lack is Lack.ROOM and flavor in way.flavors]
    if role is None or flavor is None or not ways:
        actual = sorted({f.id for w in facts.ways if w.lack is Lack.ROOM for f in w.flavors})
        yield report.fault("flavor", numbers.get("flavor"), actual)
        return
    for name in ("asked", "limit"):
        yield from report.number(name, least(role))
    task = task_of(report.job, role, flavor)
    room = most_in_one_area(report.job, task, report.cell.nodes, least(role))
    reported = numbers.get("available")
    alone = len(report.job.roles) == 1
    if reported is not None and not (int(reported) == room if alone else int(reported) <= room):
        yield report.fault("available", reported, room)
    yield from _check_cards(report, task, empty=False)
    if alone and not room and report.job.topology is None:
        yield from _check_refusals(report, task, empty=False)


def _check_cards(report: ReportedReason, task: Task, *, empty: bool) -> Iterator[Fault]:
    nodes = [n for n in (report.facts.empty if empty else report.cell.nodes) if member(n, task.flavor)]
    usable = sum(of_model(task, card) and card.healthy for node in nodes for card in node.devices)
    free = [roomy_cards(task, node) for node in nodes]
    yield from report.number("cards_per_task", task.cards)
    yield from report.number("cards", usable)
    yield from report.number("free_cards", sum(free))
    yield from report.number("most_free_on_one_node", max(free, default=0))


def _check_refusals(report: ReportedReason, task: Task, *, empty: bool) -> Iterator[Fault]:
    """Yield a fault unless each node of the flavor is counted under the first rule that excludes it."""
    nodes = [n for n in (report.facts.empty if empty else report.cell.nodes) if member(n, task.flavor)]
    reported = {n.removeprefix("refused."): v for n, v in report.numbers.items() if n.startswith("refused.")}
    actual: dict[str, int] = {}
    for node in nodes:
        why = refuses(task, node)
        if not why and not most_on(task, node, 1):
            why = "full"
        if why:
            actual[why] = actual.get(why, 0) + 1
    lasting = {name: n for name, n in reported.items() if name not in PASSING}
    passing = sum(int(n) for name, n in reported.items() if name in PASSING)
    if passing:
        lasting["full"] = passing
    if lasting != actual:
        yield report.fault("refused", lasting, actual)
