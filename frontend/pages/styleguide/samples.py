"""Samples for the components of the style guide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.web.listing import Column
from frontend.charts import Chart, ChartLine, Gap, time_series
from frontend.components.capacity import GpuTile, Meter, NodeTiles
from frontend.components.ordered_selects import OrderedChoiceField, OrderedSelects
from frontend.components.view_models import Check, Chip, EventRow, HelpItem, ProblemBox
from frontend.lists.declaration import FilterField, ListColumn, ListDeclaration
from frontend.lists.row_form import RowForm

_START: Final = datetime(2026, 1, 5, 9, tzinfo=UTC)
TAGS: Final = ("baseline", "team:nlp", "experiment-12")
TONES: Final = ("waiting", "running", "failed", "info", "done")
SCALE: Final = ("--gap-1", "--gap-2", "--gap-3", "--gap-4", "--gap-6", "--radius", "--radius-small")
FULL_METER: Final = Meter(nominal=16, allocated=20, used=9, borrowed=4, held=2, foreign=1, unit="GPU")
LENT_METER: Final = Meter(nominal=16, allocated=6, used=2, lent=5)
COMMAND: Final = "allotment-client job submit -f job.yaml"


@dataclass(frozen=True, slots=True)
class SampleRow:
    """A row of the sample list."""

    id: str
    title: str
    state: str
    gpus: int
    url: str = ""


ROWS: Final = tuple(
    SampleRow(f"{number:02}", f"train-{number}", ("running", "queued", "failed")[number % 3], number % 9)
    for number in range(1, 28)
)
SAMPLES: Final = ListDeclaration(
    key="styleguide",
    title=gettext_lazy("Jobs"),
    columns=(
        ListColumn(key="name", label=gettext_lazy("Name"), text=lambda row: row.title, sort="name"),
        ListColumn(key="state", label=gettext_lazy("Status"), text=lambda row: row.state),
        ListColumn(
            key="gpus", label=gettext_lazy("GPUs"), text=lambda row: row.gpus, sort="gpus", number=True
        ),
    ),
    filters={"name": FilterField(label=gettext_lazy("Name"))},
    fields={"name": Column("title")},
    parameters=("state",),
    default_sort="name",
    size=10,
    every_s=0,
)


class SampleForm(forms.Form):
    """One field of each kind; `filled` has an error."""

    name = forms.CharField(
        label=gettext_lazy("Name"), help_text=gettext_lazy("Lowercase letters, digits and hyphens.")
    )
    replicas = forms.IntegerField(label=gettext_lazy("Replicas"), required=False)
    memory = forms.CharField(label=gettext_lazy("Memory per task"), required=False)
    queue = forms.ChoiceField(
        label=gettext_lazy("Queue"), choices=[("default", "default"), ("night", "night")]
    )
    environment = forms.CharField(
        label=gettext_lazy("Environment variables"),
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=gettext_lazy("One NAME=value per line"),
        required=False,
    )
    pools = OrderedChoiceField(
        label=gettext_lazy("Pools"), widget=OrderedSelects(("a100", "h100", "l40s")), required=False
    )
    preemptible = forms.BooleanField(label=gettext_lazy("Preemptible"), required=False)
    theme = forms.ChoiceField(
        label=gettext_lazy("Theme"),
        widget=forms.RadioSelect,
        choices=[("light", gettext_lazy("Light")), ("dark", gettext_lazy("Dark"))],
    )


def sample_form(place: str) -> SampleForm:
    """Return the filled form; its name and its environment are invalid."""
    values = {
        "name": "Train 1",
        "replicas": 4,
        "memory": "64",
        "queue": "default",
        "environment": "LR",
        "theme": "dark",
    }
    form = SampleForm({f"{place}-{key}": value for key, value in values.items()}, prefix=place)
    form.full_clean()
    form.add_error("name", _("Lowercase letters, digits and hyphens."))
    form.add_error("environment", _("One NAME=value per line"))
    return form


def sample_row_form(row: str) -> RowForm:
    """Return the form of a row, as a list opens it."""
    return RowForm(
        title=_("Edit"),
        do="sample",
        button=_("Save"),
        form=sample_form("row"),
        row=row,
        note=_("No changes were made."),
    )


def sample_chart(key: str) -> Chart:
    """Return a chart of two lines, one with an area, with a period without data."""
    times = [_START + timedelta(minutes=5 * step) for step in range(48)]
    gap = Gap(times[20], times[26], _("No data"))
    allocated = [(at, 60.0 + 10 * (step // 12)) for step, at in enumerate(times)]
    used = [(at, 40.0 + (step * 7) % 23) for step, at in enumerate(times)]
    lines = [
        ChartLine(name=_("allocated"), points=allocated, color="allocated", area=True),
        ChartLine(name=_("used"), points=used, color="used"),
    ]
    return time_series(key, lines, unit="%", title=_("GPU utilization"), gaps=[gap], top=100)


def sample_nodes() -> Sequence[NodeTiles]:
    """Return nodes with GPUs in every state."""
    gpus = (
        GpuTile(name="gpu-0", allocated=100, used=80),
        GpuTile(name="gpu-1", allocated=60, used=20, slices=(30, 30)),
        GpuTile(name="gpu-2", allocated=100, used=None),
        GpuTile(name="gpu-3", foreign=50, used=0),
        GpuTile(name="gpu-4", healthy=False),
        GpuTile(name="gpu-5", held=True),
        GpuTile(name="gpu-6", url="#nodes"),
        GpuTile(name="gpu-7"),
    )
    return [
        NodeTiles(name="node-1", note="8 GPU", url="#nodes", gpus=gpus),
        NodeTiles(name="node-2", state="not-ready", gpus=gpus[4:]),
        NodeTiles(name="node-3", state="cordoned", gpus=gpus[5:]),
    ]


def sample_checks() -> Sequence[Check]:
    """Return a gate of each result."""
    return [
        Check(title=_("Policy"), text=_("Allowed"), passed=True),
        Check(title=_("Nominal quota"), text=_("Insufficient quota"), passed=False, url="#", link=_("View")),
        Check(title=_("Node resources"), text=_("Not evaluated"), passed=None),
    ]


def sample_helps() -> Sequence[HelpItem]:
    """Return recommendations with and without a page."""
    return [
        HelpItem(
            title=_("Request quota"), effect=_("Starts immediately"), url="#", action=_("Apply"), primary=True
        ),
        HelpItem(title=_("Borrowing enabled"), effect="", url="#", action=_("View")),
    ]


def sample_events() -> Sequence[EventRow]:
    """Return events with and without a tone."""
    return [
        EventRow(at=_START, text=_("Running"), tag=_("Running"), tone="running"),
        EventRow(at=_START - timedelta(minutes=9), text=_("Pending"), detail=_("Insufficient quota")),
    ]


def sample_problem() -> ProblemBox:
    """Return a problem with all its parts."""
    return ProblemBox(
        title=_("Action failed"),
        detail=_("Insufficient quota"),
        unchanged=_("No changes were made."),
        help=_("Contact a workspace admin or a platform admin."),
        code="QUOTA_INSUFFICIENT",
    )


def sample_chips() -> Sequence[Chip]:
    """Return filter chips with and without a count."""
    return [
        Chip(label=_("All")),
        Chip(label=_("Running"), value="running", count=9),
        Chip(label=_("Failed"), value="failed", count=1234),
    ]
