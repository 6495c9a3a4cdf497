"""Reports that a worker has added up: their stored figures, and how long they count as fresh.

A stored report is exact as of the moment at which it was read, like every report. It replaces a new one only
while it is fresh, so without workers reports are not outdated: they only take longer.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from django.conf import settings

from scheduling.metering.node_time import NodeTime
from telemetry.models import StoredReport
from telemetry.usage.figures import Figures
from telemetry.usage.grouping import GroupBy
from telemetry.usage.periods import Period

FRESH_FOR: Final = timedelta(minutes=2)
STORED: Final = (GroupBy.TENANT, GroupBy.USER, GroupBy.QUEUE, GroupBy.POOL)
"""The groupings that are stored: by job there would be as many rows as intervals."""
MIN_INTERVALS: Final = 1000
"""A workspace with fewer intervals in a month has no stored report: its report is quickly added up."""
_COLUMNS: Final = ("reserved", "measured", "used", "borrowed", "lost", "billed", "unpriced")
Numbers = list[int | None]
"""The columns of figures, and the amount in the smallest unit of the currency."""


def read_stored_report(
    period: Period, group_by: GroupBy, *, workspace_id: uuid.UUID | None, now: datetime
) -> StoredReport | None:
    """Return the fresh stored report of a workspace, or of the whole platform, if there is one. The caller
    has checked the viewer's permission.
    """
    return (
        StoredReport.unscoped.filter(
            workspace_id=workspace_id,
            month=period.month,
            time_zone=period.zone.key,
            group_by=group_by,
            digits=settings.ALLOTMENT_CURRENCY_DIGITS,
            read_at__gt=now - FRESH_FOR,
            read_at__lte=now,
        )
        .order_by("-read_at")
        .first()
    )


def delete_stored_reports() -> None:
    """Delete all stored reports, after a change of the prices with which they were added up."""
    StoredReport.unscoped.all().delete()


def to_numbers(figures: Figures, digits: int) -> Numbers:
    """Return figures in stored form."""
    amount = None if figures.amount is None else int(figures.amount.scaleb(digits))
    return [*(getattr(figures, name) for name in _COLUMNS), amount]


def to_figures(numbers: Numbers, digits: int) -> Figures:
    """Return stored figures."""
    *columns, amount = numbers
    whole = {name: column or 0 for name, column in zip(_COLUMNS, columns, strict=True)}
    return Figures(**whole, amount=None if amount is None else Decimal(amount).scaleb(-digits))


def read_rows(stored: StoredReport) -> Mapping[uuid.UUID, Figures]:
    """Return the figures of each row."""
    return {uuid.UUID(key): to_figures(numbers, stored.digits) for key, numbers in stored.rows.items()}


def read_days(stored: StoredReport) -> Sequence[Figures]:
    """Return the figures of each day of the month."""
    return [to_figures(numbers, stored.digits) for numbers in stored.days]


def read_node_times(stored: StoredReport) -> Mapping[uuid.UUID, NodeTime] | None:
    """Return the node time of each row; None if it was not added up."""
    if stored.node_times is None:
        return None
    return {uuid.UUID(key): NodeTime(*time) for key, time in stored.node_times.items()}
