"""Replays as text: their changes, their ends, and their figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django import forms
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from frontend.pages.policies.queue_settings_form import QueueForm
from frontend.texts import formats
from frontend.texts.queue_rules import SHARING
from scheduling.models import PolicyReplay, SimulationState
from scheduling.selectors.policies.policy_replay import COLUMNS
from scheduling.services.policy_replay.recorded_period import MOST_JOBS

STATES: Final[dict[str, tuple[str | Promise, str]]] = {
    SimulationState.PENDING.value: (gettext_lazy("Pending"), "waiting"),
    SimulationState.RUNNING.value: (gettext_lazy("Running"), "running"),
    SimulationState.DONE.value: (gettext_lazy("Done"), "done"),
    SimulationState.FAILED.value: (gettext_lazy("Failed"), "failed"),
    SimulationState.CANCELED.value: (gettext_lazy("Canceled"), "done"),
}
_ERRORS: Final[dict[str, str | Promise]] = {
    "TOO_LONG": gettext_lazy(
        "A simulation reached its limit of 4 minutes of CPU time or 20 minutes in total. "
        "Select a shorter period."
    ),
    "TOO_MANY_JOBS": gettext_lazy("Too many jobs in this period. Select a shorter period."),
    "NO_JOBS": gettext_lazy("No jobs in this period. Select another period."),
    "POOL_GONE": gettext_lazy("The pool was deleted."),
    "NO_NODES": gettext_lazy("The pool has no nodes to copy."),
    "INTERRUPTED": gettext_lazy("The worker was stopped twice. Start the replay again."),
}


def format_error(code: str) -> str:
    """Return why a replay failed."""
    return str(_ERRORS.get(code, _("The replay failed because of an internal error. See the worker's log.")))


def describe_change(change: Mapping[str, Any]) -> list[str]:
    """Return the lines that describe a change."""
    lines = []
    if "sharing" in change:
        lines.append(_("Sharing of unused quota: %(sharing)s") % {"sharing": SHARING[change["sharing"]][0]})
    if "queues" in change:
        where = change["queues"]["name"] or _("All queues")
        lines += [
            f"{where}{_(': ')}{name}{_(': ')}{value}"
            for name, value in map(_setting, change["queues"]["settings"].items())
        ]
    if "quota" in change:
        quota = change["quota"]
        amount = ngettext("%(n)s GPU", "%(n)s GPUs", quota["gpus"]) % {"n": f"{quota['gpus']:,}"}
        lines.append(
            _("Nominal quota of %(tenant)s in %(pool)s: %(amount)s")
            % {"tenant": quota["name"], "pool": quota["pool"], "amount": amount}
        )
    if "nodes" in change:
        nodes = change["nodes"]
        amount = ngettext("%(n)s node", "%(n)s nodes", nodes["nodes"]) % {"n": f"{nodes['nodes']:,}"}
        lines.append(_("Pool %(pool)s: %(amount)s") % {"pool": nodes["name"], "amount": amount})
    return lines


def title_of(replay: PolicyReplay) -> str:
    """Return the name of a replay, or its change where it has none."""
    return replay.name or _("; ").join(describe_change(replay.change))


def _setting(item: tuple[str, Any]) -> tuple[str, str]:
    field = QueueForm.base_fields[item[0]]
    if isinstance(field, forms.ChoiceField):
        words = {str(value): str(word) for value, word in field.choices}  # type: ignore[union-attr,misc]
        return str(field.label), words.get(str(item[1]), str(item[1]))
    return str(field.label), _("Yes") if item[1] else _("No")


@dataclass(frozen=True, slots=True)
class ComparedFigure:
    """A figure of each column as text; `difference` is between the two simulations, `better` its sign."""

    name: str
    measured: str
    recorded: str
    changed: str
    difference: str
    tone: str


def format_wait(wait: Mapping[str, Any] | None) -> str:
    """Return a waiting time, marked if it is a lower bound."""
    if wait is None:
        return "–"
    text = formats.format_duration(float(wait["seconds"]))
    return f"≥ {text}" if wait["at_least"] else text


def _wait_seconds(wait: Mapping[str, Any] | None) -> float | None:
    return None if wait is None or wait["at_least"] else float(wait["seconds"])


def _seconds(value: float) -> str:
    return formats.format_duration(value)


def _hours(value: float) -> str:
    return formats.format_number(value, 1)


def _points(value: float) -> str:
    """Return a difference of two percentages, which is in percentage points."""
    return _("%(n)s points") % {"n": formats.format_number(value, 1)}


def _count(value: float) -> str:
    return formats.format_number(value)


_Format = Callable[[float], str]
_FIGURES: Final[Sequence[tuple[str, str | Promise, _Format, bool]]] = (
    ("not_started", gettext_lazy("Jobs not started"), _count, True),
    ("preemptions", gettext_lazy("Preemptions"), _count, True),
    ("lost_gpu_hours", gettext_lazy("GPU-hours lost to preemption"), _hours, True),
    ("inside_quota_s", gettext_lazy("Time pending within nominal quota"), _seconds, True),
    ("gpu_hours", gettext_lazy("GPU-hours allocated"), _hours, False),
)


def compare_totals(result: Mapping[str, Any]) -> list[ComparedFigure]:
    """Return the figures of all workspaces together, the waits first; – in columns that were not computed."""
    columns = [result.get(column) for column in COLUMNS]
    totals = [column and column["total"] for column in columns]
    rows = [
        _wait_row(_("Wait, median"), [total and total["wait_median"] for total in totals]),
        _wait_row(_("Wait, 90th percentile"), [total and total["wait_p90"] for total in totals]),
    ]
    rows += [
        _row(str(name), [total and total[key] for total in totals], style, lower_is_better=lower)
        for key, name, style, lower in _FIGURES
    ]
    if all(column is None or column["allocation_rate"] is not None for column in columns):
        rows.append(
            _row(
                _("Allocation rate"),
                [column and 100 * column["allocation_rate"] for column in columns],
                lambda value: formats.format_percent(value, 1),
                lower_is_better=False,
                difference_style=_points,
            )
        )
    return rows


def _wait_row(name: str, waits: Sequence[Mapping[str, Any] | None]) -> ComparedFigure:
    recorded, changed = map(_wait_seconds, waits[1:])
    known = recorded is not None and changed is not None
    difference = (changed or 0.0) - (recorded or 0.0)
    said = _signed(difference, _seconds) if known else "–"
    measured, as_recorded, as_changed = map(format_wait, waits)
    tone = _tone(difference if known else 0.0, lower_is_better=True)
    return ComparedFigure(name, measured, as_recorded, as_changed, said, tone)


def _row(
    name: str,
    values: Sequence[float | None],
    style: _Format,
    *,
    lower_is_better: bool,
    difference_style: _Format | None = None,
) -> ComparedFigure:
    measured, recorded, changed = ("–" if value is None else style(value) for value in values)
    if values[1] is None or values[2] is None:
        return ComparedFigure(name, measured, recorded, changed, "–", "")
    difference = values[2] - values[1]
    tone = _tone(difference, lower_is_better=lower_is_better)
    said = _signed(difference, difference_style or style)
    return ComparedFigure(name, measured, recorded, changed, said, tone)


def _signed(value: float, style: _Format) -> str:
    text = style(abs(value))
    if text == style(0.0):
        return "0"
    return f"+{text}" if value > 0 else f"−{text}"


def _tone(difference: float, *, lower_is_better: bool) -> str:
    if not difference:
        return ""
    return "better" if (difference < 0) == lower_is_better else "worse"


@dataclass(frozen=True, slots=True)
class TeamRow:
    """A workspace; each figure as (measured, recorded, changed), as text."""

    name: str
    jobs: str
    cells: Sequence[tuple[str, Sequence[str]]]


def team_row(name: str, figures: Mapping[str, Mapping[str, Any] | None]) -> TeamRow:
    """Return the line of one workspace."""
    columns = [figures[column] for column in COLUMNS]

    def format_cells(key: str, style: Callable[[Any], str]) -> list[str]:
        return ["–" if one is None else style(one[key]) for one in columns]

    jobs = next((one["jobs"] for one in columns if one is not None), 0)
    cells = [
        (_("Wait, median"), format_cells("wait_median", format_wait)),
        (_("Wait, 90th percentile"), format_cells("wait_p90", format_wait)),
        (_("Preemptions"), format_cells("preemptions", _count)),
        (_("GPU-hours lost"), format_cells("lost_gpu_hours", _hours)),
        (_("Pending within quota"), format_cells("inside_quota_s", _seconds)),
    ]
    return TeamRow(name, formats.format_number(jobs), cells)


def list_limits(replay: PolicyReplay) -> list[str]:
    """Return the limits of the figures, in plain words."""
    running_on = replay.result.get("running_on", 0)
    of_running = ngettext(
        "%(n)s job whose end isn't known (pending or running now) runs on until the end.",
        "%(n)s jobs whose end isn't known (pending or running now) run on until the end.",
        running_on,
    ) % {"n": f"{running_on:,}"}
    return [
        _("Users don't react: jobs are submitted and canceled when they were, whatever the waits."),
        _("Jobs run for as long as they ran. After a preemption they continue from the last checkpoint."),
        *([of_running] if running_on else []),
        _("Waits marked ≥ are lower bounds: jobs that hadn't started are counted with the wait so far."),
        _("Nodes, pools, queues and pods outside Allotment are those of now. Quotas are those of then."),
        _("Failures of nodes, budgets, user limits, elastic scaling and idle GPUs aren't simulated."),
        _("Starting and ending pods takes no time in the simulation."),
        _("Compare the two simulations. The difference to Measured shows how exact they are."),
    ]


def format_bound() -> str:
    """Return the maximum size of a replay as text."""
    return _("Up to 31 days and %(jobs)s jobs.") % {"jobs": f"{MOST_JOBS:,}"}
