"""Why a gang found no seats, with numbers and what would help."""

from __future__ import annotations

from scheduling.engine.gang.tasks import RoleTasks
from scheduling.engine.model import Help, HelpCode, Numbers, Reason, TopologyRule
from scheduling.engine.placement.board import Board
from scheduling.engine.placement.explain import fewer_cards, free_cards, refusals
from scheduling.engine.quota.assignment import Refusal


def refuse_no_room(board: Board, entry: RoleTasks, seated: int) -> Refusal:
    """No node takes the next task of a role after so many found a seat; figures are told when asked for."""
    asked = _asked(entry, seated)

    def tell() -> Refusal:
        numbers: Numbers = {**asked, **free_cards(board), **refusals(board)}
        return Refusal(Reason.NO_ROOM, numbers, (*_fewer(entry, seated), *fewer_cards(board)))

    return Refusal.later(Reason.NO_ROOM, asked, tell)


def add_free_cards(board: Board, refusal: Refusal) -> Refusal:
    """The refusal, told with the cards that are free at the moment of asking."""
    numbers, ways = refusal.numbers, refusal.help
    return Refusal.later(
        refusal.reason, numbers, lambda: Refusal(refusal.reason, {**numbers, **free_cards(board)}, ways)
    )


def refuse_no_domain(board: Board, entry: RoleTasks, rule: TopologyRule, most: int) -> Refusal:
    """No domain of the required level holds what must stand together; one has room for `most` at best."""
    numbers: Numbers = {**_asked(entry, most), "level": rule.level, **free_cards(board)}
    return Refusal(Reason.NO_ROOM, numbers, _fewer(entry, most))


def refuse_too_few(role: str, asked: int, allowed: int) -> Refusal:
    """The sizes of the assignment, or tasks that are still leaving, keep the gang below its minimum."""
    return Refusal(Reason.NO_ROOM, {"role": role, "asked": asked, "available": allowed, "limit": allowed})


def _asked(entry: RoleTasks, available: int) -> dict[str, int | str]:
    return {
        "flavor": entry.flavor.id,
        "role": entry.role.name,
        "asked": entry.max_tasks,
        "available": available,
        "limit": entry.max_tasks,
    }


def _fewer(entry: RoleTasks, tasks: int) -> tuple[Help, ...]:
    if not 0 < tasks < entry.max_tasks:
        return ()
    return (Help(HelpCode.ASK_FEWER_TASKS, {"role": entry.role.name, "tasks": tasks}),)
