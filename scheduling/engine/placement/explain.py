"""Why no node takes a task: refusals by code, how much is free, and what would help."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foundation.quantities import Resource
from scheduling.engine.model import Help, HelpCode
from scheduling.engine.placement.board import Board
from scheduling.engine.placement.capacity import card_parts
from scheduling.engine.placement.question import Question
from scheduling.engine.plugins.protocols import Veto
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


def free_cards(question: Question) -> dict[str, int | str]:
    """Cards of the flavor that the task could use, how many of them have room, and the most on one node."""
    if not question.task.cards:
        return {}
    usable = question.usable & question.members[:, None]
    room = np.minimum(card_parts(question), 1) * usable
    on_node = room.sum(axis=1)
    return {
        "cards_per_task": question.task.cards,
        "cards": int(np.count_nonzero(usable)),
        "free_cards": int(on_node.sum()),
        "most_free_on_one_node": int(on_node.max(initial=0)),
    }


def fewer_cards(question: Question) -> tuple[Help, ...]:
    """The most cards that one node has for such a task, when that is less than it asks."""
    most = free_cards(question).get("most_free_on_one_node", 0)
    if isinstance(most, int) and 0 < most < question.task.cards:
        return (Help(HelpCode.ASK_FEWER_CARDS, {"cards": most}),)
    return ()


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
