"""The events of a node, and the treatment of a node that is lost repeatedly.

A node that was lost three times in a row, each within ten minutes of the last, gets no new tasks until it has
been ready for five minutes on end, because the work of such tasks would only be lost again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Q

from clusters.models import Node, NodeEvent

FLAP_WINDOW: Final = timedelta(minutes=10)
FLAPS: Final = 3
STEADY: Final = timedelta(minutes=5)


def is_held(node: Node, now: datetime) -> bool:
    """Return whether the node gets no new tasks because it was lost repeatedly."""
    return node.held_until is not None and node.held_until > now


def is_node_closed(node: Node, now: datetime) -> bool:
    """Return whether a node gets no new tasks for another reason than a cordon."""
    return node.closed or is_held(node, now)


def is_node_schedulable(node: Node, now: datetime) -> bool:
    """Return whether a ready node may get new tasks, by the engine's own rule."""
    return not (node.cordoned or is_node_closed(node, now))


def schedulable_nodes(now: datetime, before: str = "") -> Q:
    """Return the condition for nodes that `is_node_schedulable` accepts; `before` is the prefix of lookups
    from other tables, such as `node__`.
    """
    free = Q(**{f"{before}held_until__isnull": True}) | Q(**{f"{before}held_until__lte": now})
    return free & Q(**{f"{before}cordoned": False, f"{before}closed": False})


def readiness_fields(node: Node | None, ready: bool, at: datetime) -> dict[str, Any]:
    """Return the fields that change when a node is ready or not at this moment."""
    if node is None:
        return {"not_ready_since": None if ready else at, "lost_at": None if ready else at}
    if ready:
        came_back = node.not_ready_since is not None
        held = {"held_until": at + STEADY} if came_back and node.flaps >= FLAPS else {}
        return {"not_ready_since": None, **held}
    if node.not_ready_since is not None:
        return {"not_ready_since": node.not_ready_since}
    again = node.lost_at is not None and at - node.lost_at < FLAP_WINDOW
    return {"not_ready_since": at, "lost_at": at, "flaps": node.flaps + 1 if again else 1}


def node_note(node: Node, before: Mapping[str, Any], *, at: datetime) -> None:
    """Write the changes of a node into its timeline; `before` are its previous fields."""
    events = [
        NodeEvent(node=node, at=at, code=code, numbers=numbers) for code, numbers in _changes(node, before)
    ]
    NodeEvent.unscoped.bulk_create(events)


def _changes(node: Node, before: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    if not before or not before["present"]:
        yield "added", {}
    if before.get("ready", True) and not node.ready:
        yield "not-ready", {"flaps": node.flaps} if node.flaps > 1 else {}
    if before and not before["ready"] and node.ready:
        held = node.held_until is not None and node.held_until != before["held_until"]
        yield "ready", {"held_until": node.held_until.isoformat()} if held and node.held_until else {}
    if before.get("cordoned", False) != node.cordoned:
        yield "cordoned" if node.cordoned else "uncordoned", {}
    if sorted(before.get("pressure", ())) != sorted(node.pressure):
        yield "pressure" if node.pressure else "pressure-over", {"of": ", ".join(node.pressure)}
    yield from _drains(before.get("taints", ()), node.taints)


def _drains(before: Any, now: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    old = {taint["key"] for taint in before if taint.get("effect") == "NoExecute"}
    new = {taint["key"] for taint in now if taint.get("effect") == "NoExecute"}
    for key in sorted(new - old):
        yield "drained", {"taint": key}
    for key in sorted(old - new):
        yield "drain-over", {"taint": key}


def cards_note(node: Node, before: Mapping[str, bool], after: Mapping[str, bool], *, at: datetime) -> None:
    """Record how many cards stopped or started to take tasks; the maps say by uuid whether a card does."""
    lost = sum(known and not after.get(card, False) for card, known in before.items())
    back = sum(not known and after.get(card, False) for card, known in before.items())
    counts = (("cards-lost", lost), ("cards-back", back))
    NodeEvent.unscoped.bulk_create(
        NodeEvent(node=node, at=at, code=code, numbers={"cards": count}) for code, count in counts if count
    )
