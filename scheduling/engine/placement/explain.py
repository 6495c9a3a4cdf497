"""Why no node takes a task: refusals by code, how much is free, and what would help."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foundation.core.quantities import Resource
from scheduling.engine.model import Help, HelpCode
from scheduling.engine.placement.board import Board
from scheduling.engine.placement.index.protocols import Veto
from scheduling.engine.placement.index.question import Question
from scheduling.engine.state.fleet import ALL_ROWS, Bools

REFUSED = "refused."
FLAVOR_TAINT = "flavor-taint"
# Vetoes that the job itself sets; loosening one of them is something the user can do.
CHOSEN_BY_USER = (
    "node-name", "node-selector", "node-affinity", "taint", "port", "pod-affinity", "pod-anti-affinity",
)  # fmt: skip


def refusals(board: Board) -> dict[str, int]:
    """Nodes of the flavor by the first veto that refuses them, as `refused.<veto>`; no zeros."""
    return {REFUSED + name: number for name, number in board.refusals().items()}


def loosening(question: Question, vetoes: Sequence[Veto]) -> tuple[Help, ...]:
    """For each rule of the user how many nodes it alone keeps away. `vetoes` are those that concern it."""
    answers = [(veto.name, veto.allows(question, ALL_ROWS)) for veto in vetoes]
    found = []
    for name, mask in answers:
        if name not in CHOSEN_BY_USER:
            continue
        alone: Bools = question.members & ~mask
        for other, allowed in answers:
            if other != name:
                alone &= allowed
        number = int(np.count_nonzero(alone))
        if number:
            found.append(Help(HelpCode.LOOSEN_PLACEMENT, {"veto": name, "nodes": number}))
    return tuple(found)


def free_cards(board: Board) -> dict[str, int | str]:
    """Cards of the flavor that the task could use, how many of them have room, and the most on one node."""
    if not board.question.task.cards:
        return {}
    found = board.free_cards()
    return {
        "cards_per_task": board.question.task.cards,
        "cards": found.usable,
        "free_cards": found.free,
        "most_free_on_one_node": found.most_on_one_node,
    }


def fewer_cards(board: Board) -> tuple[Help, ...]:
    """The most cards that one node has for such a task, when that is less than it asks."""
    asked = board.question.task.cards
    most = board.free_cards().most_on_one_node if asked else 0
    return (Help(HelpCode.ASK_FEWER_CARDS, {"cards": most}),) if 0 < most < asked else ()


def smaller_request(question: Question) -> tuple[Help, ...]:
    """What no node of the flavor has enough of, and the most that one has."""
    fleet, task, inside = question.fleet, question.task, question.members
    cards = question.usable & inside[:, None]
    asked_and_most = (
        (Resource.CPU, task.cpu, fleet.cpu[inside].max(initial=0)),
        (Resource.MEMORY, task.memory, fleet.memory[inside].max(initial=0)),
        (Resource.GPU_MEMORY, 0 if task.whole else task.card_memory, fleet.card_memory[cards].max(initial=0)),
        *((item.resource, item.amount, _most_of(question, item.resource)) for item in task.extended),
    )
    return tuple(
        Help(HelpCode.ASK_LESS, {"flavor": task.flavor, "resource": resource, "limit": int(most)})
        for resource, asked, most in asked_and_most
        if asked > most
    )


def other_profiles(question: Question) -> tuple[Help, ...]:
    """The MIG profiles that the flavor has, when none is the one that the task asks for."""
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


def other_models(question: Question) -> tuple[Help, ...]:
    """The card models that the flavor has, when none of them is one that the task accepts."""
    present = question.of_profile & question.members[:, None]
    if not question.task.cards or (question.of_model & present).any():
        return ()
    codes = sorted(set(question.fleet.model[present].tolist()))
    models = ",".join(question.fleet.models[code] for code in codes)
    return (Help(HelpCode.ASK_OTHER_MODEL, {"models": models}),) if models else ()
