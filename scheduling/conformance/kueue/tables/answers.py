"""Converts assignments to Kueue's terms and its messages to facts, so that both can be compared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from scheduling.conformance.kueue.manifests import quantities
from scheduling.engine import (
    Assignment,
    AssignmentMode,
    FlavorTry,
    Mismatch,
    Refusal,
    RoleAssignment,
    compute_demand,
)
from scheduling.engine.model import Flavor, Job, Queue, Reason

# Kueue has no cards: a request is the same in every flavor.
ANY_FLAVOR = Flavor(id="")
MODES = {AssignmentMode.NO_FIT: "NoFit", AssignmentMode.FIT: "Fit"}
POSSIBLE = {
    AssignmentMode.NO_CANDIDATES: "NoCandidates",
    AssignmentMode.PREEMPT: "Preempt",
    AssignmentMode.RECLAIM: "Reclaim",
}
NO_MATCH, TOO_MUCH, WAITING = "NoMatchingFlavor", "ExceedsMaxQuota", "WaitingForQuota"
GRAVITY = (None, WAITING, TOO_MUCH, NO_MATCH)
WORDS = {
    Reason.NEVER_FITS: NO_MATCH,
    Reason.EXCEEDS_MAX_QUOTA: TOO_MUCH,
    Reason.WAITING_FOR_QUOTA: WAITING,
    Reason.WAITING_FOR_BORROWED: WAITING,
}

Fact = tuple[str | int, ...]
"""The content of a message: its kind, then flavor, resource and amounts in canonical units."""
Reasons = tuple[Fact, ...]

_LACKS = re.compile(r"insufficient unused quota for (\S+) in flavor (\S+), (\S+) more needed")
_EXCEEDS = re.compile(
    r"insufficient quota for (\S+) in flavor (\S+), previously considered podsets requests \((\S+)\)"
    r" \+ current podset request \((\S+)\) > maximum capacity \((\S+)\)"
)
_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (Mismatch.LABELS.value, re.compile(r"flavor (\S+) doesn't match node affinity")),
    (Mismatch.TAINT.value, re.compile(r"untolerated taint \{.*\} in flavor (\S+)")),
    (Mismatch.MISSING.value, re.compile(r"flavor (\S+) not found")),
    (Mismatch.REPLACED.value, re.compile(r"could not assign (\S+) flavor since the original .*")),
    (Mismatch.NO_NODES.value, re.compile(r'Flavor "(\S+)" does not support TopologyAwareScheduling')),
    (Mismatch.NODES_ONLY.value, re.compile(r'Flavor "(\S+)" supports only TopologyAwareScheduling')),
    (Mismatch.LEVEL.value, re.compile(r'Flavor "(\S+)" does not contain the requested level')),
    ("provides", re.compile(r"flavor (\S+) does not provide resource (\S+)")),
    ("uncovered", re.compile(r"resource (\S+) unavailable in ClusterQueue")),
)


@dataclass(frozen=True, slots=True)
class AttemptAnswer:
    """The result of one flavor that was tried."""

    flavor: str
    mode: str
    borrow: int = 0
    possibility: str | None = None
    reasons: Reasons = ()
    no_fit: str | None = None


@dataclass(frozen=True, slots=True)
class RoleAnswer:
    """The part of an assignment for one role. `error` is set if its flavors are invalid together."""

    name: str
    count: int
    mode: str
    flavors: Mapping[str, tuple[str, str, int]]
    requests: Mapping[str, int]
    reasons: Reasons
    attempts: tuple[AttemptAnswer, ...]
    error: str | None
    uncovered: bool


def mode_name(mode: AssignmentMode) -> str:
    """Return Kueue's name of a mode; outside of the search it has three modes."""
    return MODES.get(mode, "Preempt")


def served_roles(job: Job, assignment: Assignment) -> list[RoleAnswer]:
    """Return the results of all evaluated roles, in order."""
    return [_role(job, assignment, role) for role in assignment.roles]


def describe_attempt(entry: Mapping[str, Any]) -> AttemptAnswer:
    """Return an attempt from its form in a table."""
    return AttemptAnswer(
        entry["Flavor"],
        entry["Mode"],
        entry.get("Borrow", 0),
        entry.get("PreemptionPossibility"),
        tuple(sorted(set(parse_reasons(entry.get("Reasons", []))), key=str)),
        entry.get("NoFitReason"),
    )


def parse_reasons(sentences: Iterable[str]) -> Reasons:
    """Return the facts of messages, sorted; an unknown message is its own fact."""
    return tuple(sorted((_fact(sentence) for sentence in sentences), key=str))


def overall_reason(queue: Queue, got: Iterable[RoleAnswer]) -> str | None:
    """Return the gravest reason over pod sets and resource groups, of which each has its least grave one over
    flavors."""
    found: list[str | None] = [None]
    for role in got:
        if role.mode != "NoFit":
            continue
        if not role.attempts or role.uncovered:
            found.append(NO_MATCH)
        least: dict[int, str | None] = {}
        for entry in role.attempts:
            if entry.mode != "NoFit":
                continue
            for number, group in enumerate(queue.effective_groups):
                if entry.flavor in group.flavors:
                    before = least.get(number, entry.no_fit)
                    least[number] = min(before, entry.no_fit, key=GRAVITY.index)
        found.extend(least.values())
    return max(found, key=GRAVITY.index)


def _role(job: Job, assignment: Assignment, got: RoleAssignment) -> RoleAnswer:
    request = next(role.request for role in job.roles if role.name == got.role)
    equal = [role for role in assignment.roles if role.tries == got.tries]
    chosen = {choice.flavor for role in equal for choice in role.choices.values()}
    places = {choice.flavor for choice in got.choices.values()}
    numbers = {} if got.refusal is None else got.refusal.numbers
    uncovered = not got.choices and "resource" in numbers and "flavor" not in numbers
    return RoleAnswer(
        name=got.role,
        count=got.count,
        mode=mode_name(got.mode),
        flavors={
            name: (choice.flavor, mode_name(choice.mode), choice.tried_index)
            for name, choice in got.choices.items()
        },
        requests={
            name: quantities.cap_amount(each * got.count)
            for name, each in compute_demand(request, ANY_FLAVOR).items()
        },
        reasons=(("uncovered", numbers["resource"]),) if uncovered else _reasons(got.tries, chosen),
        attempts=_merged(got.tries),
        error=f"more than one TAS flavor assigned: {', '.join(sorted(places))}"
        if got.spans_node_flavors
        else None,
        uncovered=uncovered,
    )


def _reasons(tries: tuple[FlavorTry, ...], chosen: set[str]) -> Reasons:
    """Return the reasons of the resource groups without a fitting flavor; if no flavor was chosen, only those
    of the last group.
    """
    by_group: dict[int, list[FlavorTry]] = {}
    for entry in tries:
        by_group.setdefault(entry.group, []).append(entry)
    if not chosen:
        by_group = {entry.group: by_group[entry.group] for entry in tries[-1:]}
    reported = [
        _said(refusal)
        for entries in by_group.values()
        if not any(entry.flavor in chosen and entry.mode is AssignmentMode.FIT for entry in entries)
        for entry in entries
        for refusal in entry.refusals
    ]
    return tuple(sorted(reported, key=str))


def _merged(tries: tuple[FlavorTry, ...]) -> tuple[AttemptAnswer, ...]:
    """Return one attempt for each flavor: the worst result of its resource groups."""
    by_flavor: dict[str, list[FlavorTry]] = {}
    for entry in tries:
        by_flavor.setdefault(entry.flavor, []).append(entry)
    return tuple(_attempt(flavor, by_flavor[flavor]) for flavor in sorted(by_flavor))


def _attempt(flavor: str, entries: list[FlavorTry]) -> AttemptAnswer:
    possible = [entry.mode for entry in entries if entry.mode in POSSIBLE]
    reported = {_said(refusal) for entry in entries for refusal in entry.refusals}
    no_fit = [
        WORDS[e.refusal.reason] for e in entries if e.mode is AssignmentMode.NO_FIT and e.refusal is not None
    ]
    return AttemptAnswer(
        flavor,
        mode_name(min(entry.mode for entry in entries)),
        max(entry.borrow_level for entry in entries),
        POSSIBLE[min(possible)] if possible else None,
        tuple(sorted(reported, key=str)),
        max(no_fit, key=GRAVITY.index, default=None),
    )


def _said(refusal: Refusal) -> Fact:
    numbers = refusal.numbers
    if "why" in numbers:
        return (numbers["why"], numbers["flavor"])
    where = (numbers["flavor"], numbers["resource"])
    if refusal.reason is Reason.EXCEEDS_MAX_QUOTA:
        return ("exceeds", *where, numbers["asked"], numbers["limit"])
    return ("lacks", *where, numbers["short"])


def _fact(sentence: str) -> Fact:
    if found := _EXCEEDS.fullmatch(sentence):
        resource, flavor = found[1], found[2]
        before, asked, limit = (quantities.parse_amount(found[n], resource) for n in (3, 4, 5))
        return ("exceeds", flavor, resource, quantities.cap_amount(before + asked), limit)
    if found := _LACKS.fullmatch(sentence):
        return ("lacks", found[2], found[1], quantities.parse_amount(found[3], found[1]))
    for kind, pattern in _KINDS:
        if found := pattern.fullmatch(sentence):
            return (kind, *found.groups())
    return ("says", sentence)
