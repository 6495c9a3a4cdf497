"""A usage report as a file: CSV with the names of the REST API, XLSX with labels for users."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from django.conf import settings
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.web.spreadsheet_cells import text_cell
from scheduling.metering.node_time import NodeTime
from telemetry.usage.figures import Figures, to_core_hours, to_gib_hours, to_hours
from telemetry.usage.grouping import GroupBy
from telemetry.usage.report import ReportRow, UsageReport

Cell = str | Decimal | None


@dataclass(frozen=True, slots=True)
class FigureColumn:
    """A figure: its name in the REST API and CSV, its label for users, and its value; None if unknown."""

    name: str
    label: str | Promise
    value: Callable[[Figures], Decimal | None]


@dataclass(frozen=True, slots=True)
class NodeColumn:
    """An amount of CPU or memory over time, named as a figure is."""

    name: str
    label: str | Promise
    value: Callable[[NodeTime], Decimal]


def _measured(part: str) -> Callable[[Figures], Decimal | None]:
    return lambda figures: (
        to_hours(getattr(figures, part)) if figures.measured or not figures.reserved else None
    )


def _plain(part: str) -> Callable[[Figures], Decimal | None]:
    return lambda figures: to_hours(getattr(figures, part))


def _cost_per_gpu_hour(figures: Figures) -> Decimal | None:
    cost = figures.cost_per_gpu_hour
    return None if cost is None else round(cost, settings.ALLOTMENT_CURRENCY_DIGITS)


COLUMNS: Final = (
    FigureColumn("reserved_gpu_hours", gettext_lazy("Reserved"), _plain("reserved")),
    FigureColumn("used_gpu_hours", gettext_lazy("Used"), _measured("used")),
    FigureColumn("idle_gpu_hours", gettext_lazy("Unused"), _measured("idle")),
    FigureColumn("unmeasured_gpu_hours", gettext_lazy("Unmeasured"), _plain("unmeasured")),
    FigureColumn("borrowed_gpu_hours", gettext_lazy("Borrowed"), _plain("borrowed")),
    FigureColumn("lost_gpu_hours", gettext_lazy("Lost to preemption"), _plain("lost")),
    FigureColumn("billed_gpu_hours", gettext_lazy("Billed"), _plain("billed")),
    FigureColumn("unpriced_gpu_hours", gettext_lazy("Without price"), _plain("unpriced")),
    FigureColumn("cost_per_gpu_hour", gettext_lazy("Cost per GPU-hour"), _cost_per_gpu_hour),
    FigureColumn("amount", gettext_lazy("Amount"), lambda figures: figures.amount),
)
MONEY: Final = frozenset({"cost_per_gpu_hour", "amount"})
"""The figures in the currency, as decimals, which are texts in JSON."""
NODE_COLUMNS: Final = (
    NodeColumn("cpu_core_hours", gettext_lazy("CPU (core-hours)"), lambda time: to_core_hours(time.cpu)),
    NodeColumn(
        "memory_gib_hours", gettext_lazy("Memory (GiB-hours)"), lambda time: to_gib_hours(time.memory)
    ),
)
"""Columns of rows and totals: CPU and memory of all tasks, with GPUs or without."""
_ROW_COLUMNS: Final = (*COLUMNS, *NODE_COLUMNS)
HEADS: Final = {
    GroupBy.TENANT: gettext_lazy("Tenant"),
    GroupBy.USER: gettext_lazy("User"),
    GroupBy.QUEUE: gettext_lazy("Queue"),
    GroupBy.POOL: gettext_lazy("Pool"),
    GroupBy.JOB: gettext_lazy("Job"),
}


def csv_file(report: UsageReport) -> bytes:
    """Return one line per row in UTF-8. Texts that a spreadsheet would take for formulas are quoted."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(
        [
            *_context_names(),
            "id",
            "name",
            "belongs_to",
            *(column.name for column in (*COLUMNS, *NODE_COLUMNS)),
        ]
    )
    context = [f"{report.period.month:%Y-%m}", report.period.zone.key, report.currency, report.group_by.value]
    for row in report.rows:
        texts = [*context, str(row.key), row.name, row.note]
        writer.writerow([*map(text_cell, texts), *map(_written, _cells(row.figures, row.node_time))])
    return out.getvalue().encode()


def _context_names() -> tuple[str, ...]:
    return ("month", "time_zone", "currency", "group_by")


def _figures(figures: Figures) -> list[Decimal | None]:
    return [column.value(figures) for column in COLUMNS]


def _cells(figures: Figures, time: NodeTime) -> list[Decimal | None]:
    return [*_figures(figures), *(column.value(time) for column in NODE_COLUMNS)]


def _written(cell: Decimal | None) -> str:
    return "" if cell is None else f"{cell:f}"


def xlsx_file(report: UsageReport) -> bytes:
    """Return a workbook: the rows with their total, and the days. Every text is written as a text."""
    import xlsxwriter  # noqa: PLC0415 (takes half a second to import, only for exports)

    out = io.BytesIO()
    options = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
    with xlsxwriter.Workbook(out, options) as workbook:
        sheet = _Sheet(workbook, _("Usage"), report)
        labels = [str(column.label) for column in _ROW_COLUMNS]
        sheet.add_heads([str(HEADS[report.group_by]), _("Belongs to"), *labels])
        for row in report.rows:
            sheet.add_row(_row_cells(row))
        sheet.add_row([_("Total"), "", *_cells(report.total, report.total_node_time)], bold=True)
        days = _Sheet(workbook, _("Days"), report)
        names = ("reserved", "used", "idle", "unmeasured", "borrowed", "lost")
        shown = [column for column in COLUMNS if column.name.removesuffix("_gpu_hours") in names]
        days.add_heads([_("Day"), *(str(column.label) for column in shown)])
        for day, figures in report.days:
            days.add_row([day.isoformat(), *(column.value(figures) for column in shown)])
    return out.getvalue()


def _row_cells(row: ReportRow) -> list[Cell]:
    return [row.name, row.note, *_cells(row.figures, row.node_time)]


class _Sheet:
    """A sheet that begins with a description of the report."""

    def __init__(self, workbook: Any, name: str, report: UsageReport) -> None:
        self.sheet, self.at = workbook.add_worksheet(name), 0
        self.bold = workbook.add_format({"bold": True})
        self._workbook = workbook
        self._formats: dict[tuple[int, bool], Any] = {}
        self.sheet.set_column(0, 1, 24)
        self.sheet.set_column(2, len(_ROW_COLUMNS) + 2, 16)
        facts = (
            (_("Month"), f"{report.period.month:%Y-%m}"),
            (_("Time zone"), report.period.zone.key),
            (_("Currency"), report.currency),
            (_("Unit"), _("GPU-hours")),
        )
        for label, value in facts:
            self.add_row([label, value])
        self.at += 1

    def add_heads(self, heads: Sequence[str]) -> None:
        """Write the heads of the columns, which stay visible."""
        self.add_row(list(heads), bold=True)
        self.sheet.freeze_panes(self.at, 1)

    def add_row(self, cells: Sequence[Cell], *, bold: bool = False) -> None:
        """Write the next row: numbers as numbers, everything else as a text, nothing for None."""
        for column, cell in enumerate(cells):
            if isinstance(cell, Decimal):
                self.sheet.write_number(self.at, column, cell, self._number_format(cell, bold))
            elif cell is not None:
                self.sheet.write_string(self.at, column, cell, self.bold if bold else None)
        self.at += 1

    def _number_format(self, cell: Decimal, bold: bool) -> Any:
        """Return a format with as many decimals as the number has: an amount has those of the currency."""
        exponent = cell.as_tuple().exponent
        places = max(0, -exponent) if isinstance(exponent, int) else 0
        if (places, bold) not in self._formats:
            shown = "#,##0" + ("." + "0" * places if places else "")
            self._formats[places, bold] = self._workbook.add_format({"num_format": shown, "bold": bold})
        return self._formats[places, bold]
