"""The quota of a queue in one sentence: nominal = used within it + lent + available of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.utils.translation import gettext as _

from quotas.models import Queue
from quotas.models.queue import PreemptOthers
from quotas.selectors.tables.quota_row import QuotaRow
from quotas.tree.limits import Amount


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaAmounts:
    """The shown amounts of a quota; None is unlimited.

    `counted` is the part of `used` that counts against a job, `own_free` is available within the
    nominal, and `borrowable` beyond it.
    """

    nominal: Amount
    used: int
    counted: int
    own_free: Amount
    borrowable: Amount
    available: Amount

    @classmethod
    def of_row(cls, row: QuotaRow) -> QuotaAmounts:
        """The amounts of now."""
        return cls(
            nominal=row.nominal,
            used=row.reserved,
            counted=row.reserved,
            own_free=row.own_free,
            borrowable=row.borrowable,
            available=row.available,
        )

    @property
    def lent(self) -> int:
        """The part of the nominal that is neither used nor available: other queues use it."""
        if self.nominal is None or self.own_free is None:
            return 0
        return max(0, self.nominal - max(self.used, self.counted) - self.own_free)


def describe_quota_amounts(
    amounts: QuotaAmounts, queue: Queue, format_amount: Callable[[Amount], str]
) -> str:
    """Write the quota of a queue, with what is lent to others, and whether its jobs can reclaim that."""
    names = ("used", "nominal", "lent", "own_free", "borrowable", "available")
    numbers = {name: format_amount(getattr(amounts, name)) for name in names}
    if not amounts.lent:
        sentence = _(
            "%(used)s of %(nominal)s nominal used; available: %(own_free)s nominal + "
            "%(borrowable)s to borrow = %(available)s"
        )
    elif queue.preemption and queue.reclaim != PreemptOthers.NEVER:
        sentence = _(
            "%(used)s of %(nominal)s nominal used, %(lent)s lent to other queues and reclaimable; available: "
            "%(own_free)s nominal + %(borrowable)s to borrow = %(available)s"
        )
    else:
        sentence = _(
            "%(used)s of %(nominal)s nominal used, %(lent)s lent to other queues; available: "
            "%(own_free)s nominal + %(borrowable)s to borrow = %(available)s"
        )
    return sentence % numbers
