"""Names for cards and MIG instances of which a cluster reports only the number on each node.

The node chooses among them when a pod starts, so a name identifies an index and not a chip. No uuid of a card
contains a slash, and every name here does.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID, uuid5

_CARDS: Final = UUID("6c1c6b0e-9a53-4b0c-8f3e-0d6b2f4f7a10")
_WHOLE, _INSTANCE = "card", "mig"


def named_by_node(cluster: str, node: str, index: int, profile: str = "") -> str:
    """Return a stable name, unique among clusters; with the profile under which a node counts it."""
    if not profile:
        return f"{_WHOLE}/{uuid5(_CARDS, f'{cluster}/{node}/{index}')}"
    return f"{_INSTANCE}/{profile}/{uuid5(_CARDS, f'{cluster}/{node}/{profile}/{index}')}"


def is_named_by_node(uuid: str) -> bool:
    """Return whether the node chooses the card itself."""
    return "/" in uuid


def counted_profile(uuid: str) -> str:
    """Return the MIG profile under which the node counts it; "" if it is counted with the whole cards."""
    kind, _, rest = uuid.partition("/")
    return rest.partition("/")[0] if kind == _INSTANCE else ""
