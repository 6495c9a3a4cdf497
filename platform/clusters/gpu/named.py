"""Names for cards and MIG instances of which a cluster tells only how many a node has.

The node chooses among them when a pod starts, so a name stands for a place and not for a chip. No uuid
of a card holds a slash, and every name here does.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID, uuid5

_CARDS: Final = UUID("6c1c6b0e-9a53-4b0c-8f3e-0d6b2f4f7a10")
_WHOLE, _INSTANCE = "card", "mig"


def named_by_node(cluster: str, node: str, index: int, profile: str = "") -> str:
    """A name that is always the same, and no other cluster's; with the profile by which a node counts it."""
    if not profile:
        return f"{_WHOLE}/{uuid5(_CARDS, f'{cluster}/{node}/{index}')}"
    return f"{_INSTANCE}/{profile}/{uuid5(_CARDS, f'{cluster}/{node}/{profile}/{index}')}"


def is_named_by_node(uuid: str) -> bool:
    """Return whether the node chooses the card itself."""
    return "/" in uuid


def counted_profile(uuid: str) -> str:
    """The MIG profile under which the node counts it, "" where it counts with the whole cards."""
    kind, _, rest = uuid.partition("/")
    return rest.partition("/")[0] if kind == _INSTANCE else ""
