"""This module states why a gang was not placed, with numbers and with what would help."""

from __future__ import annotations

from scheduling.engine.gang.tasks import RoleTasks
from scheduling.engine.model import Help, HelpCode, Numbers, Reason, TopologyRule
from scheduling.engine.placement.board import ScoreBoard
from scheduling.engine.placement.explain import (
    count_refused_nodes,
    describe_free_cards,
    describe_volume_conflict,
    suggest_fewer_cards,
)
from scheduling.engine.quota.assignment import Refusal


def refuse_no_room(board: ScoreBoard, entry: RoleTasks, placed: int) -> Refusal:
    """Refuse because no node takes the next task after `placed` were placed; the figures are computed when
    they are read."""
    asked = _numbers(entry, placed)

    def compute_refusal() -> Refusal:
        numbers: Numbers = {
            **asked,
            **describe_free_cards(board),
            **count_refused_nodes(board),
            **describe_volume_conflict(board.question, board.vetoes, entry.max_tasks - placed),
        }
        return Refusal(Reason.NO_ROOM, numbers, (*_suggest_fewer(entry, placed), *suggest_fewer_cards(board)))

    return Refusal.defer_numbers(Reason.NO_ROOM, asked, compute_refusal)


def add_free_cards(board: ScoreBoard, refusal: Refusal) -> Refusal:
    """Return the refusal with the cards that are free at the moment it is read."""
    numbers, ways = refusal.numbers, refusal.help
    return Refusal.defer_numbers(
        refusal.reason,
        numbers,
        lambda: Refusal(refusal.reason, {**numbers, **describe_free_cards(board)}, ways),
    )


def refuse_no_domain(
    board: ScoreBoard, entry: RoleTasks, rule: TopologyRule, most: int, *, name_claim: bool
) -> Refusal:
    """Refuse because no domain of the required level holds all tasks; the best one has slots for `most`.

    `name_claim`: a domain would hold them but for their volume claims, of which one is named.
    """
    numbers: Numbers = {**_numbers(entry, most), "level": rule.level, **describe_free_cards(board)}
    if name_claim:
        missing = entry.max_tasks - most
        numbers = {**numbers, **describe_volume_conflict(board.question, board.vetoes, missing)}
    return Refusal(Reason.NO_ROOM, numbers, _suggest_fewer(entry, most))


def refuse_too_few(role: str, asked: int, allowed: int) -> Refusal:
    """Refuse because the assigned sizes, or tasks that still terminate, keep the gang below its minimum."""
    return Refusal(Reason.NO_ROOM, {"role": role, "asked": asked, "available": allowed, "limit": allowed})


def _numbers(entry: RoleTasks, available: int) -> dict[str, int | str]:
    return {
        "flavor": entry.flavor.id,
        "role": entry.role.name,
        "asked": entry.max_tasks,
        "available": available,
        "limit": entry.max_tasks,
    }


def _suggest_fewer(entry: RoleTasks, tasks: int) -> tuple[Help, ...]:
    if not 0 < tasks < entry.max_tasks:
        return ()
    return (Help(HelpCode.ASK_FEWER_TASKS, {"role": entry.role.name, "tasks": tasks}),)
