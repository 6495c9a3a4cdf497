"""Checks worlds one by one, and counts the reports and the false ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from scheduling.engine.model import Help, HelpCode, JobOutcome, Reason
from tests.truth.offers import Taken, take_all
from tests.truth.oracle.cell import Cell, Undecided
from tests.truth.oracle.verdict import find_faults
from tests.truth.settle import Run, Unsettled, run_of
from tests.truth.shrink import shrunk, text_of
from tests.truth.worlds import KINDS, World, world_of

UNTRIED = (HelpCode.OPEN_QUEUE, HelpCode.RESUME, HelpCode.WAIT_FOR_RELEASE, HelpCode.WAIT_UNTIL)
"""Recommendations that don't claim to suffice for a start: only what they name must be resolved."""

Kind = tuple[str, str]
"""A kind of fault: `reason`, a number or a recommendation, and the reason under which it is reported."""


@dataclass(frozen=True)
class Found:
    """A fault in one world."""

    kind: Kind
    job: str
    text: str


@dataclass
class Tally:
    """Counts of checks and of faults, by reason, by number and by recommendation."""

    worlds: int = 0
    unsettled: int = 0
    undecided: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    offers: Counter[Kind] = field(default_factory=Counter)
    starts: Counter[Kind] = field(default_factory=Counter)
    holds: Counter[Kind] = field(default_factory=Counter)
    false: Counter[Kind] = field(default_factory=Counter)
    examples: dict[Kind, tuple[str, int, str]] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        """Add the counts of another tally."""
        self.worlds += other.worlds
        self.unsettled += other.unsettled
        self.undecided += other.undecided
        for name in ("reasons", "offers", "starts", "holds", "false"):
            getattr(self, name).update(getattr(other, name))
        for kind, example in other.examples.items():
            self.examples.setdefault(kind, example)

    def table(self) -> str:
        """Return the counts as lines of text."""
        lines = [f"{self.worlds} worlds, {self.unsettled} unsettled, {self.undecided} outcomes undecided"]
        lines.append(f"{'reason':24}{'checked':>8}{'false':>8}  false numbers")
        for reason, checked in sorted(self.reasons.items()):
            numbers = {k[0]: n for k, n in self.false.items() if k[1] == reason and _is_number(k[0])}
            said = ", ".join(f"{name} {n}" for name, n in sorted(numbers.items()))
            lines.append(f"{reason:24}{checked:8}{self.false['reason', reason]:8}  {said}")
        lines.append(f"{'offer':18}{'under':24}{'taken':>8}{'starts':>8}{'holds':>8}{'false':>8}")
        for kind, checked in sorted(self.offers.items()):
            counts = (checked, self.starts[kind], self.holds[kind], self.false[kind])
            lines.append(f"{kind[0][6:]:18}{kind[1]:24}" + "".join(f"{n:8}" for n in counts))
        return "\n".join(lines)


def _is_number(part: str) -> bool:
    return part != "reason" and not part.startswith("offer ")


def false_outcomes(run: Run, tally: Tally, *, offers: int | None = None) -> list[Found]:
    """Return all faults in the outcomes of the pending jobs of a settled cell; adds to the tally.

    `offers` is how many recommendations of a kind are applied (None: all).
    """
    cell, found = run.cell(), []
    taken: Counter[Kind] = Counter()
    for outcome in run.waiting():
        assert outcome.reason is not None
        reason = outcome.reason.value
        try:
            faults = find_faults(cell, outcome)
        except Undecided:
            tally.undecided += 1
            continue
        tally.reasons[reason] += 1
        found += [Found((fault.part, reason), fault.job, str(fault)) for fault in faults]
        for bundle in bundles(outcome):
            kind = (f"offer {bundle[0].code.value}", reason)
            taken[kind] += 1
            if offers is None or taken[kind] <= offers:
                found += _false_offer(run, cell, outcome, bundle, tally)
    tally.false.update(each.kind for each in found)
    return found


def bundles(outcome: JobOutcome) -> list[tuple[Help, ...]]:
    """Return the recommendations: each by itself, but together those that name each other: the same for
    another resource, or another change."""
    found: dict[tuple[int, ...], tuple[Help, ...]] = {}
    for offer in outcome.help:
        names = set(str(offer.numbers.get("with", "")).split(","))
        joined = [
            at
            for at, other in enumerate(outcome.help)
            if other is offer
            or (other.code is offer.code and other.numbers.get("resource") in names)
            or (other.code.value in names and other.numbers.get("with"))
        ]
        found[tuple(joined)] = tuple(outcome.help[at] for at in joined)
    return list(found.values())


def _false_offer(
    run: Run, cell: Cell, outcome: JobOutcome, bundle: tuple[Help, ...], tally: Tally
) -> Iterable[Found]:
    assert outcome.reason is not None
    kind = (f"offer {bundle[0].code.value}", outcome.reason.value)
    taken = take_all(run, cell, outcome, bundle)
    if taken.holds is None:
        return
    tally.offers[kind] += 1
    tally.starts[kind] += bool(taken.starts)
    tally.holds[kind] += taken.holds and not taken.starts
    if not does_what_it_says(bundle, taken):
        yield Found(kind, outcome.job, _said(outcome, bundle, taken.after))


def does_what_it_says(bundle: tuple[Help, ...], taken: Taken) -> bool:
    """Return whether the job starts, or the obstacle is resolved and no more was claimed; with `also` the job
    must then wait for that."""
    if taken.starts:
        return True
    also = bundle[0].numbers.get("also")
    if also is not None:
        # If only the guaranteed run time of others is the obstacle, it is reported instead of what lacks.
        return taken.after is not None and taken.after.reason in (also, Reason.PROTECTED)
    return bool(taken.holds) and bundle[0].code in UNTRIED


def _said(outcome: JobOutcome, bundle: tuple[Help, ...], after: JobOutcome | None) -> str:
    offered = ", ".join(f"{offer.code.value} {dict(offer.numbers)}" for offer in bundle)
    then = "it moves" if after is None else f"{after.reason} {dict(after.numbers)}"
    return f"{outcome.job}: {offered} under {outcome.reason}: afterwards {then}"


def found_in(world: World, tally: Tally, *, offers: int | None = None) -> list[Found]:
    """Return all faults in one world. A cycle that fails is a fault of its own."""
    tally.worlds += 1
    try:
        run = run_of(world)
    except Unsettled:
        tally.unsettled += 1
        return []
    except Exception as error:
        tally.false["crash", ""] += 1
        return [Found(("crash", ""), "", repr(error))]
    return false_outcomes(run, tally, offers=offers)


def check_seeds(kind: str, seeds: Iterable[int], *, offers: int | None = None) -> Tally:
    """Check the worlds of these seeds."""
    tally = Tally()
    for seed in seeds:
        for found in found_in(world_of(seed, kind), tally, offers=offers):
            tally.examples.setdefault(found.kind, (kind, seed, found.text))
    return tally


def smallest(kind: str, seed: int, what: Kind) -> str:
    """Return the smallest world with the same fault as the world of a seed, as Python, and the fault."""
    world = shrunk(world_of(seed, kind), _shows(what))
    texts = [each.text for each in found_in(world, Tally()) if each.kind == what]
    return "\n".join((text_of(world), *texts))


def _shows(what: Kind) -> Callable[[World], bool]:
    offers = None if what[0].startswith("offer ") else 0

    def shows(world: World) -> bool:
        return any(each.kind == what for each in found_in(world, Tally(), offers=offers))

    return shows


__all__ = ["KINDS", "Tally", "check_seeds", "false_outcomes", "smallest"]
