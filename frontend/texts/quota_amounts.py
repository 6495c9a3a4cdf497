"""The quota of a queue in one sentence: nominal = used within it + lent + available within it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.utils.translation import gettext as _

from clusters.models import GpuMode
from foundation.core.quantities import Resource
from quotas.models import Queue
from quotas.models.queue import PreemptOthers
from quotas.selectors.tables.quota_row import QuotaRow
from quotas.tree.limits import Amount

_STATED: Final = frozenset({"used", "own_free", "borrowable"})


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

    @property
    def borrowed(self) -> int:
        """The part of the used quota beyond the nominal one, as far as the other amounts imply it."""
        if self.nominal is None or self.own_free is None:
            return 0
        return max(0, self.used - (self.nominal - self.taken - self.own_free))

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
    def of_reason(cls, known: Mapping[str, Any], row: QuotaRow) -> QuotaAmounts | None:
        """Return the amounts that the reason of a pending job states for the quota of a row, or None.

        They are those of the scheduling cycle that found the reason, which the present ones may differ from.
        Sentences on one page must not contradict each other. The cycle doesn't know which part is lent.
        """
        unit = _find_unit(known, row)
        if not unit or known.get("flavor") != row.flavor.name or not known.keys() >= _STATED:
            return None
        amounts = {name: known.get(name) for name in ("nominal", "available", *_STATED)}
        found = {name: None if amount is None else unit * amount for name, amount in amounts.items()}
        counted = max(found["used"] or 0, unit * known.get("counted", 0))
        return cls(
            nominal=found["nominal"],
            used=found["used"] or 0,
            taken=_rest(found["nominal"], counted, found["own_free"]),
            is_lent=False,
            own_free=found["own_free"],
            borrowable=found["borrowable"],
            available=found["available"],
        )


def _find_unit(known: Mapping[str, Any], row: QuotaRow) -> int:
    """Return the factor between the units of a stated and a shown resource; 0 if they are not comparable.

    The number of GPUs of slices is only a cap, and the quota of GPUs and of compute may differ.
    """
    stated, shown, nominal = known.get("resource"), row.resource, known.get("nominal")
    if stated == shown:
        return 1
    whole = row.flavor.gpu_mode != GpuMode.SLICE and nominal is not None and row.nominal == 100 * nominal
    return 100 if whole and (stated, shown) == (Resource.GPU_CARDS, Resource.GPU_CORES) else 0


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
