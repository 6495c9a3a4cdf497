"""KAI-Scheduler's division of one resource among sibling queues.

First everybody gets what it deserves, as far as it asks for it. What is left goes by weight to those who
ask for more, the highest queue priority first, in whole units; whoever needs less than its part leaves
the rest for another round. Units that rounding left over go one by one to the largest remainders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor

UNLIMITED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """One queue. Amounts in units of the resource, -1 is unlimited for `deserved` and `limit`.

    `usage` is what it used lately, as a part of the whole; `created` orders queues by age.
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
        """The most that it could be given."""
        return self.request if self.limit == UNLIMITED else min(self.limit, self.request)


def divide_shares(total: float, queues: Sequence[Claimant], k: float) -> tuple[dict[str, float], float]:
    """The share of every queue by id, and what nobody took. `k` is how much late usage counts against."""
    shares = {}
    for queue in queues:
        deserved = total if queue.deserved == UNLIMITED else queue.deserved
        shares[queue.id] = min(deserved, queue.wanted)
    left = total - sum(shares.values())
    return divide_rest(max(0.0, left), queues, shares, k)


def divide_rest(
    amount: float, queues: Sequence[Claimant], before: Mapping[str, float], k: float
) -> tuple[dict[str, float], float]:
    """The same with an amount on top of what the queues have already."""
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
    """Rounds among queues of one priority until nobody leaves anything for the others; what is left."""
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
    """The weights, normalised and corrected by late usage."""
    whole = sum(queue.weight for queue in asking)
    if whole <= 0:
        return {queue.id: 0.0 for queue in asking}
    normal = {queue.id: queue.weight / whole for queue in asking}
    return {queue.id: max(0.0, normal[queue.id] + k * (normal[queue.id] - queue.usage)) for queue in asking}
