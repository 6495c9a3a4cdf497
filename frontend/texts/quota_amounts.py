"""The quota of a queue in one sentence: nominal = used within it + lent + available within it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from quotas.models import Queue
from quotas.models.queue import PreemptOthers
from quotas.selectors.tables.quota_row import QuotaRow
from quotas.tree.limits import Amount


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaAmounts:
    """The shown amounts of a quota; None is unlimited.

    `own_free` is available within the nominal, and `borrowable` beyond it. `taken` is the rest of the
    nominal, which others use; `is_lent` says that all of it is lent in the sense of the quota tables. The
    numbers of a scheduling cycle do not contain the lent amount.
    """

    nominal: Amount
    used: int
    taken: int
    is_lent: bool
    own_free: Amount
    borrowable: Amount
    available: Amount

    @classmethod
    def of_row(cls, row: QuotaRow) -> QuotaAmounts:
        """Return the present amounts."""
        taken = _rest(row.nominal, row.reserved, row.own_free)
        return cls(
            nominal=row.nominal,
            used=row.reserved,
            taken=taken,
            is_lent=taken == row.lent,
            own_free=row.own_free,
            borrowable=row.borrowable,
            available=row.available,
        )

    @classmethod
    def of_cycle(cls, known: Mapping[str, Any]) -> QuotaAmounts:
        """Return the amounts that the reason of a pending job states."""
        own = known["own_free"]
        return cls(
            nominal=known.get("nominal"),
            used=known["used"],
            taken=_rest(known.get("nominal"), max(known["used"], known.get("counted", 0)), own),
            is_lent=False,
            own_free=own,
            borrowable=known["borrowable"],
            available=known.get("available"),
        )


def _rest(nominal: Amount, used: int, own_free: Amount) -> int:
    return 0 if nominal is None or own_free is None else max(0, nominal - used - own_free)


def describe_quota_amounts(
    amounts: QuotaAmounts, queue: Queue, format_amount: Callable[[Amount], str]
) -> str:
    """Return the quota of a queue as text, with what others use of it, and whether it can be reclaimed."""
    names = ("used", "nominal", "taken", "own_free", "borrowable", "available")
    numbers = {name: format_amount(getattr(amounts, name)) for name in names}
    reclaimable = queue.preemption and queue.reclaim != PreemptOthers.NEVER
    return _sentence(amounts, reclaimable=reclaimable) % numbers


def _sentence(amounts: QuotaAmounts, *, reclaimable: bool) -> str:
    if amounts.nominal is None:
        # The free amount within it is unlimited, so there is no sum: nodes above can limit what is available.
        if amounts.available is None:
            return _("%(used)s used; nominal quota unlimited")
        return _("%(used)s used; nominal quota unlimited; available: %(available)s")
    if not amounts.taken:
        return _(
            "%(used)s of %(nominal)s nominal used; available: %(own_free)s nominal + "
            "%(borrowable)s to borrow = %(available)s"
        )
    if not amounts.is_lent:
        if reclaimable:
            return _(
                "%(used)s of %(nominal)s nominal used, %(taken)s used by other queues and reclaimable; "
                "available: %(own_free)s nominal + %(borrowable)s to borrow = %(available)s"
            )
        return _(
            "%(used)s of %(nominal)s nominal used, %(taken)s used by other queues; available: "
            "%(own_free)s nominal + %(borrowable)s to borrow = %(available)s"
        )
    if reclaimable:
        return _(
            "%(used)s of %(nominal)s nominal used, %(taken)s lent to other queues and reclaimable; "
            "available: %(own_free)s nominal + %(borrowable)s to borrow = %(available)s"
        )
    return _(
        "%(used)s of %(nominal)s nominal used, %(taken)s lent to other queues; available: "
        "%(own_free)s nominal + %(borrowable)s to borrow = %(available)s"
    )
