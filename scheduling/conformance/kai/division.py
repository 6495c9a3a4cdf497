"""KAI-Scheduler's division of one resource among sibling queues.

First each queue gets what it deserves, up to its request. The rest is divided by weight among queues that
request more, the highest queue priority first, in whole units; what a queue doesn't need of its part is
divided in another round. Units that remain after rounding go one by one to the queues with the largest
remainders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor

UNLIMITED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """One queue. Amounts are in units of the resource; -1 means unlimited for `deserved` and `limit`.

    `usage` is its recent usage as a part of the total; `created` orders queues by age.
    """

    id: str
    deserved: float = 0.0
    limit: float = 0.0
    weight: float = 0.0
    request: float = 0.0
    priority: int = 0
    created: int = 0
    usage: float = 0.0

    @property
    def wanted(self) -> float:
        """The largest amount that the queue can get."""
        return self.request if self.limit == UNLIMITED else min(self.limit, self.request)


def divide_shares(total: float, queues: Sequence[Claimant], k: float) -> tuple[dict[str, float], float]:
    """Return the share of each queue by id, and the undivided rest. `k` is the weight of recent usage."""
    shares = {}
    for queue in queues:
        deserved = total if queue.deserved == UNLIMITED else queue.deserved
        shares[queue.id] = min(deserved, queue.wanted)
    left = total - sum(shares.values())
    return divide_rest(max(0.0, left), queues, shares, k)


def divide_rest(
    amount: float, queues: Sequence[Claimant], before: Mapping[str, float], k: float
) -> tuple[dict[str, float], float]:
    """Divide an amount in addition to the shares `before`; return as `divide_shares`."""
    shares, remainders = dict(before), dict[str, float]()
    levels = sorted({queue.priority for queue in queues}, reverse=True)
    for level in levels:
        same = [queue for queue in queues if queue.priority == level]
        amount = _by_weight(amount, same, shares, remainders, max(0.0, k))
    for level in levels:
        same = [queue for queue in queues if queue.priority == level and queue.id in remainders]
        for queue in sorted(same, key=lambda queue: (-remainders[queue.id], queue.created, queue.id)):
            given = min(1.0, amount)
            shares[queue.id] += given
            amount -= given
    return shares, amount


def _by_weight(
    amount: float,
    queues: Sequence[Claimant],
    shares: dict[str, float],
    remainders: dict[str, float],
    k: float,
) -> float:
    """Divide an amount among queues of one priority, in rounds until no queue returns a rest; return the
    rest."""
    while amount > 0:
        asking = [queue for queue in queues if queue.wanted > shares[queue.id]]
        parts = _parts(asking, k)
        if not sum(parts.values()):
            break
        start, again = amount, False
        for queue in asking:
            part = start * parts[queue.id] / sum(parts.values())
            need = queue.wanted - shares[queue.id]
            if queue.weight <= 0:
                continue
            given = need if need <= part else float(floor(part))
            again |= need < part
            remainders.pop(queue.id, None)
            if need > part and part > given:
                remainders[queue.id] = part - given
            shares[queue.id] += given
            amount -= given
        if not again:
            break
    return amount


def _parts(asking: Sequence[Claimant], k: float) -> dict[str, float]:
    """Return the weights, normalised and corrected by recent usage."""
    whole = sum(queue.weight for queue in asking)
    if whole <= 0:
        return {queue.id: 0.0 for queue in asking}
    normal = {queue.id: queue.weight / whole for queue in asking}
    return {queue.id: max(0.0, normal[queue.id] + k * (normal[queue.id] - queue.usage)) for queue in asking}
