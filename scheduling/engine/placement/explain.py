"""This module explains why no node takes a task: refusals by veto, free cards, and what would help."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foundation.core.quantities import Resource
from scheduling.engine.model import Help, HelpCode, Numbers
from scheduling.engine.placement.board import ScoreBoard
from scheduling.engine.placement.capacity import count_slots
from scheduling.engine.placement.index.protocols import Veto
from scheduling.engine.placement.index.question import Question
from scheduling.engine.placement.index.volumes import (
    VOLUME_CLAIM,
    VOLUME_NODE_AFFINITY,
    describe_excluding_claim,
)
from scheduling.engine.state.fleet import ALL_ROWS, Bools

REFUSED = "refused."
FLAVOR_TAINT = "flavor-taint"
# The vetoes that the job itself requests, so that its user can loosen them.
CHOSEN_BY_USER = (
    "node-name", "node-selector", "node-affinity", "taint", "pod-affinity", "pod-anti-affinity",
)  # fmt: skip


def count_refused_nodes(board: ScoreBoard) -> dict[str, int]:
    """Return the number of the flavor's nodes that a veto is the first to refuse, as `refused.<veto>`; no
    zeros.
    """
    return {REFUSED + name: number for name, number in board.count_refusals().items()}


def suggest_loosening(question: Question, vetoes: Sequence[Veto]) -> tuple[Help, ...]:
    """Return, for each placement rule of the user, how many nodes it alone excludes. `vetoes` are those
    relevant to the task."""
    masks = [(veto.name, veto.allows(question, ALL_ROWS)) for veto in vetoes]
    found = []
    for name, mask in masks:
        if name not in CHOSEN_BY_USER:
            continue
        alone: Bools = question.members & ~mask
        for other, allowed in masks:
            if other != name:
                alone &= allowed
        number = int(np.count_nonzero(alone))
        if number:
            found.append(Help(HelpCode.LOOSEN_PLACEMENT, {"veto": name, "nodes": number}))
    return tuple(found)


def describe_volume_conflict(question: Question, vetoes: Sequence[Veto], missing: int = 1) -> Numbers:
    """Return the volume claim of the task that excludes nodes which would take `missing` such tasks; empty if
    none does.

    `vetoes` are those relevant to the task.
    """
    if not question.task.volume_claims:
        return {}
    excluded, out_of_reach = question.members.copy(), np.zeros_like(question.members)
    for veto in vetoes:
        allowed = veto.allows(question, ALL_ROWS)
        if veto.name in (VOLUME_CLAIM, VOLUME_NODE_AFFINITY):
            out_of_reach |= ~allowed
        else:
            excluded &= allowed
    excluded &= out_of_reach
    rows = np.flatnonzero(excluded)
    is_cause = len(rows) and (missing <= 1 or int(count_slots(question, rows).sum()) >= missing)
    return describe_excluding_claim(question, rows.tolist()) if is_cause else {}


def describe_free_cards(board: ScoreBoard) -> dict[str, int | str]:
    """Return the flavor's cards that the task could use, those with room, and the most on one node."""
    if not board.question.task.cards:
        return {}
    found = board.free_cards()
    return {
        "cards_per_task": board.question.task.cards,
        "cards": found.usable,
        "free_cards": found.free,
        "most_free_on_one_node": found.most_on_one_node,
    }


def suggest_fewer_cards(board: ScoreBoard) -> tuple[Help, ...]:
    """Return the most cards that one node has for such a task, if that is less than it asks for."""
    asked = board.question.task.cards
    most = board.free_cards().most_on_one_node if asked else 0
    return (Help(HelpCode.ASK_FEWER_CARDS, {"cards": most}),) if 0 < most < asked else ()


def suggest_smaller_request(question: Question) -> tuple[Help, ...]:
    """Return each resource of which no node of the flavor has enough, with the most that one has."""
    fleet, task, inside = question.fleet, question.task, question.members
    cards = question.usable & inside[:, None]
    requested_and_largest = (
        (Resource.CPU, task.cpu, fleet.cpu[inside].max(initial=0)),
        (Resource.MEMORY, task.memory, fleet.memory[inside].max(initial=0)),
        (Resource.GPU_MEMORY, 0 if task.whole else task.card_memory, fleet.card_memory[cards].max(initial=0)),
        *((item.resource, item.amount, _most_of(question, item.resource)) for item in task.extended),
    )
    return tuple(
        Help(HelpCode.ASK_LESS, {"flavor": task.flavor, "resource": resource, "limit": int(most)})
        for resource, asked, most in requested_and_largest
        if asked > most
    )


def suggest_other_profiles(question: Question) -> tuple[Help, ...]:
    """Return the MIG profiles of the flavor, if none is the one that the task asks for."""
    fleet, task = question.fleet, question.task
    instances = question.of_mode & question.members[:, None]
    if not task.profile or fleet.profile is None or (question.of_profile & instances).any():
        return ()
    codes = sorted(set(fleet.profile[instances].tolist()) - {-1})
    profiles = ",".join(fleet.profiles[code] for code in codes)
    return (Help(HelpCode.ASK_OTHER_PROFILE, {"profiles": profiles}),) if profiles else ()


def _most_of(question: Question, resource: str) -> int:
    amounts = question.fleet.extended.get(resource)
    return 0 if amounts is None else int(amounts[question.members].max(initial=0))


def suggest_other_models(question: Question) -> tuple[Help, ...]:
    """Return the card models of the flavor, if the task accepts none of them."""
    present = question.of_profile & question.members[:, None]
    if not question.task.cards or (question.of_model & present).any():
        return ()
    codes = sorted(set(question.fleet.model[present].tolist()))
    models = ",".join(question.fleet.models[code] for code in codes)
    return (Help(HelpCode.ASK_OTHER_MODEL, {"models": models}),) if models else ()
