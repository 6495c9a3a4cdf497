"""Facts of a job for several pages: size, wait, run time, cost of ending it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.translation import gettext as _

from frontend.texts import formats
from scheduling.models import RUNNING_STATES, GpuRequestMode, Job, JobRole, JobState
from scheduling.selectors.jobs.job import job_cards
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, User


@dataclass(frozen=True, slots=True)
class Rights:
    """The viewer's permissions in one workspace."""

    user: User
    points: Collection[Permission]

    @property
    def submit(self) -> bool:
        return Permission.JOB_SUBMIT in self.points

    @property
    def view_quota(self) -> bool:
        return Permission.QUOTA_VIEW in self.points

    @property
    def operations(self) -> bool:
        return Permission.CLUSTER_VIEW in self.points

    def may_stop(self, job: Job) -> bool:
        """Return whether the viewer may cancel, suspend, resume or restart this job."""
        own = job.submitted_by_id == self.user.pk and Permission.JOB_STOP_OWN in self.points
        return own or Permission.JOB_STOP_ANY in self.points


def rights_of(user: User, workspace: Tenant) -> Rights:
    """Return the viewer's permissions in a workspace, in one query."""
    return Rights(user, permissions.permissions_on(user, workspace))


@dataclass(frozen=True, slots=True)
class Actions:
    """The actions that this viewer can take on a job in its present state."""

    clone: bool
    suspend: bool
    resume: bool
    restart: bool
    cancel: bool
    delete: bool
    tags: bool
    priority: bool


def actions_of(job: Job, rights: Rights) -> Actions:
    """Return the actions that are useful now; the service checks each again."""
    stop = rights.may_stop(job)
    suspendable = job.state in (JobState.QUEUED, *RUNNING_STATES)
    return Actions(
        clone=rights.submit,
        suspend=stop and suspendable,
        resume=stop and job.state == JobState.SUSPENDED,
        restart=stop and job.state in RUNNING_STATES,
        cancel=stop and not job.is_terminal and job.state != JobState.STOPPING,
        delete=stop and job.is_terminal,
        tags=stop,
        priority=stop and rights.submit and job.is_waiting,
    )


def cards_of(job: Job) -> float:
    """Return the job's compute as a number of GPUs: a slice of 30 % counts as 0.3."""
    return sum(role.replicas * role.gpu_cards * role.gpu_cores for role in job.roles.all()) / 100


def waiting_time(job: Job, now: datetime) -> timedelta | None:
    """Return the time from the last entry into the queue to admission, or until now, or to an end without
    admission.
    """
    if job.state == JobState.SUSPENDED:
        return None  # a suspended job waits for its user; the column still has the entry before the last run
    return (job.admitted_at or job.finished_at or now) - job.queued_since


def run_time(job: Job, now: datetime) -> timedelta | None:
    """Return the run time of the present or last attempt; from admission if it ended before a start was
    observed.
    """
    began = job.started_at or (job.admitted_at if job.finished_at else None)
    return None if began is None else (job.finished_at or now) - began


def time_until_preemptible(job: Job, now: datetime) -> timedelta | None:
    """Return how long the guaranteed run time still protects a running job; None if it doesn't."""
    if not job.min_run_s or job.started_at is None:
        return None
    left = job.started_at + timedelta(seconds=job.min_run_s) - now
    return left if left > timedelta(0) else None


def format_size(job: Job) -> str:
    """Return `9 × A100-40G`, `2 × 30 %`, or a dash for a job without GPUs; equal roles are added up."""
    counts: Counter[str] = Counter()
    for role in job.roles.all():
        if role.gpu_cards:
            counts[_card(role)] += role.replicas * role.gpu_cards
    return " + ".join(f"{cards} × {what}" for what, cards in counts.items()) or formats.MISSING


def _card(role: JobRole) -> str:
    what = " / ".join(role.gpu_models) or "GPU"
    return (
        f"{formats.format_percent(role.gpu_cores)} {what}" if role.gpu_mode == GpuRequestMode.SLICE else what
    )


def cards_asked(job: Job) -> int:
    """Return the number of GPUs, physical or virtual, that the job requests."""
    return job_cards(job)


def list_losses(job: Job, now: datetime) -> list[str]:
    """List what ends with the present attempt: work in GPU-hours, and the place in the queue."""
    time = run_time(job, now)
    if not job.holds:
        return [
            _("Queue position held for %(span)s") % {"span": formats.format_duration(now - job.submitted_at)}
        ]
    if time is None:
        return [_("Assigned nodes")]
    hours = cards_of(job) * time.total_seconds() / 3600
    numbers = {
        "hours": formats.format_number(hours, 1),
        "span": formats.format_duration(time),
        "user": job.submitted_by,
    }
    if not hours:
        return [_("%(span)s of run time (%(user)s)") % numbers]
    return [_("%(hours)s GPU-hours over %(span)s (%(user)s)") % numbers]


def describe_saved_work(job: Job) -> str:
    """Describe what remains after the present attempt ends."""
    if job.checkpoint_interval_s and job.holds:
        numbers = {"span": formats.format_duration(job.checkpoint_interval_s)}
        return _("Checkpoints (every %(span)s, as declared) are kept.") % numbers
    return _("The YAML and the timeline are kept. You can clone the job.")
