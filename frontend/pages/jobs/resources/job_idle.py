"""The announcements and actions of the idle policy for a job."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from frontend.pages.jobs.job_facts import Rights
from frontend.texts import formats
from scheduling.models import IdleAction, IdleStretch, Job
from scheduling.selectors.allocations.idle import find_idle_stretch

_ANNOUNCED: Final[dict[str, str | Promise]] = {
    IdleAction.SUSPEND: gettext_lazy("Idle GPUs: the job will be suspended in %(span)s"),
    IdleAction.SHRINK: gettext_lazy("Idle GPUs: the job will be scaled down or suspended in %(span)s"),
    IdleAction.PREEMPTIBLE: gettext_lazy("Idle GPUs: the job will be made preemptible in %(span)s"),
}
_IMMINENT: Final[dict[str, str | Promise]] = {
    IdleAction.SUSPEND: gettext_lazy("Idle GPUs: the job is about to be suspended"),
    IdleAction.SHRINK: gettext_lazy("Idle GPUs: the job is about to be scaled down or suspended"),
    IdleAction.PREEMPTIBLE: gettext_lazy("Idle GPUs: the job is about to be made preemptible"),
}
_DONE: Final[dict[str, str | Promise]] = {
    IdleAction.SHRINK: gettext_lazy("Scaled down to its minimum while its GPUs are idle"),
    IdleAction.PREEMPTIBLE: gettext_lazy("Preemptible while its GPUs are idle"),
}


@dataclass(frozen=True, slots=True)
class IdleNotice:
    """The banner of an idle job; `extend_by` is empty where the viewer cannot extend."""

    title: str
    text: str
    tone: str
    extend_by: str = ""


def describe_idle_job(job: Job, rights: Rights, now: datetime) -> IdleNotice | None:
    """Return the banner of a job on which its policy is about to act, or has acted."""
    stretch = find_idle_stretch(job)
    if stretch is None or stretch.limit_s is None:
        return None
    if stretch.acted_at is not None:
        title = _DONE.get(stretch.action)
        text = _("Ends as soon as a GPU of the job is used.")
        return IdleNotice(str(title), text, "info") if title else None
    if stretch.warned_at is None or stretch.act_at is None:
        return _extended(stretch, now)
    left_s = (stretch.act_at - now).total_seconds()
    words = _ANNOUNCED if left_s > 0 else _IMMINENT
    span = formats.format_duration(stretch.limit_s)
    return IdleNotice(
        str(words[stretch.action]) % {"span": formats.format_duration(max(left_s, 0))},
        _("All its GPUs have been below 3%% for %(idle)s. Idle timeout: %(limit)s.")
        % {"idle": formats.format_duration((now - stretch.since).total_seconds()), "limit": span},
        "waiting",
        extend_by=span if rights.may_stop(job) else "",
    )


def _extended(stretch: IdleStretch, now: datetime) -> IdleNotice | None:
    if stretch.extended_until is None:
        return None
    left = formats.format_duration((stretch.extended_until - now).total_seconds())
    title = _("Idle GPUs: extended, %(span)s left") % {"span": left}
    return IdleNotice(title, _("The owner is warned again before the idle policy acts."), "info")
