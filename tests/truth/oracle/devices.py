"""Devices of a node: which of them a task may use, and how many tasks one of them holds."""

from __future__ import annotations

from scheduling.engine.model import Device, GpuMode, Node
from tests.truth.oracle.tasks import Task

WHOLE_FROM = (GpuMode.WHOLE, GpuMode.SLICE)


def of_mode(task: Task, card: Device) -> bool:
    """Return whether a card is allocated in the mode that the task requests."""
    modes = WHOLE_FROM if task.mode is GpuMode.WHOLE else (task.mode,)
    return task.flavor.mode in modes and card.mode in modes


def of_profile(task: Task, card: Device) -> bool:
    """Return whether a card is an instance of the requested profile, if the task requests one."""
    return of_mode(task, card) and (not task.profile or card.profile == task.profile)


def of_model(task: Task, card: Device) -> bool:
    """Return whether a card is of a model that the task accepts and the flavor has."""
    wanted = card.model in task.models or not task.models
    return of_profile(task, card) and wanted and task.flavor.card_model in ("", card.model)


def parts(task: Task, card: Device) -> int:
    """Return how many tasks could have their share of this card."""
    if not (task.cards and of_model(task, card) and card.healthy):
        return 0
    if task.whole:
        return int(not (card.holders or card.used_cores or card.used_memory))
    if card.exclusive:
        return 0
    cores = max(1, card.cores * task.memory // max(card.memory, 1)) if task.derived else task.cores
    found = (card.cores - card.used_cores) // cores
    return max(0, min(found, (card.memory - card.used_memory) // task.memory) if task.memory else found)


def roomy_cards(task: Task, node: Node) -> int:
    """Return the number of cards of a node with room for a task's share."""
    return sum(parts(task, card) > 0 for card in node.devices)
