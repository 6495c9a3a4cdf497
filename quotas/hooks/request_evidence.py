"""The evidence for or against a quota request: declared here, provided by packages above.

Each provider returns a plain mapping that is stored with the request, so that a decision can be understood
later. A mapping names unknown values in `missing` instead of leaving them out.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from foundation.sql import row_scope
from quotas.hooks.job_effects import get_provider
from quotas.models import QuotaNode

WINDOW: Final = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class EvidenceQuery:
    """The arguments of a provider: queues by their quota nodes, and the period from `start` until `end`."""

    queues: Sequence[uuid.UUID]
    start: datetime
    end: datetime


Provider = Callable[[EvidenceQuery], Mapping[str, Any]]
_providers: Final[dict[str, Provider]] = {}


def register_provider(name: str, provider: Provider) -> None:
    """Register a provider; called once per provider, by the owner's `AppConfig.ready()`."""
    _providers[name] = provider


@row_scope.whole()
def gather_evidence(node: QuotaNode, *, now: datetime) -> dict[str, Any]:
    """Return the evidence about a node and all nodes below it, as of now.

    `use` and `idle` come from the layers above; without a registered provider they are marked as missing. The
    caller has checked that the reader may see the node.
    """
    below = QuotaNode.unscoped.filter(is_queue=True, cell=node.cell_id)
    below = (
        below.filter(pk=node.pk) if node.is_queue else below.filter(tenant__path__startswith=node.tenant.path)
    )
    queues = list(below.order_by("pk").values_list("pk", flat=True))
    asked = EvidenceQuery(queues, now - WINDOW, now)
    demand = get_provider().count_pending(queues).values()
    found: dict[str, Any] = {
        "at": now.isoformat(),
        "days": WINDOW.days,
        "pending": {"jobs": sum(d.jobs for d in demand), "cards": sum(d.cards for d in demand)},
    }
    for name in ("use", "idle"):
        provider = _providers.get(name)
        found[name] = dict(provider(asked)) if provider else {"missing": "no-provider"}
    return found
