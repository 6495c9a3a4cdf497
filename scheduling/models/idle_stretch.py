"""The idle GPUs of jobs, and the actions of their workspace's policy."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from django.db import models
from django.utils.translation import gettext_lazy as _

from foundation.models import BaseModel
from scheduling.models.job import Job

STALE_AFTER: Final = timedelta(seconds=90)
"""The age from which a measurement is too old to act on it."""


class IdleAction(models.TextChoices):
    """The action for a job that was idle for too long, the strictest first."""

    SUSPEND = "suspend", _("Suspend the job")
    SHRINK = "shrink", _("Scale the job down to its minimum")
    PREEMPTIBLE = "preemptible", _("Make the job preemptible")


class IdleStretch(BaseModel):
    """The time for which every GPU of a running job was measured idle, without a gap; it ends with use.

    `seen_at` is the latest measurement of idle GPUs. `limit_s`, `action` and `warn_s` are those of the
    policy; without a limit no action is taken. `warned_at` is when the owner was warned, `notified_at` when
    the email about it was accepted. `extended_until` is the earliest time of the action after extensions;
    `acted_at` is when the action was taken.
    """

    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="idle_stretch")
    attempt_number = models.PositiveIntegerField()
    since = models.DateTimeField()
    seen_at = models.DateTimeField()
    limit_s = models.PositiveIntegerField(null=True, blank=True)
    action = models.CharField(max_length=12, choices=IdleAction.choices, default=IdleAction.SUSPEND)
    warn_s = models.PositiveIntegerField(default=0)
    warned_at = models.DateTimeField(null=True, blank=True)
    notified_at = models.DateTimeField(null=True, blank=True)
    extended_until = models.DateTimeField(null=True, blank=True)
    extensions = models.PositiveSmallIntegerField(default=0)
    acted_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.job} idle since {self.since:%H:%M:%S}"

    @property
    def warning_lead(self) -> timedelta:
        """Return the time between the warning and the action: at most half of the limit."""
        return timedelta(seconds=min(self.warn_s, (self.limit_s or 0) // 2))

    @property
    def act_at(self) -> datetime | None:
        """The earliest time of the action; None without a limit. It is never less than the lead after the
        warning."""
        if self.limit_s is None:
            return None
        times = [self.since + timedelta(seconds=self.limit_s)]
        if self.extended_until is not None:
            times.append(self.extended_until)
        if self.warned_at is not None:
            times.append(self.warned_at + self.warning_lead)
        return max(times)

    def is_fresh(self, now: datetime) -> bool:
        """Return whether the latest measurement is recent enough to show that the job is idle."""
        return now - self.seen_at <= STALE_AFTER

    def needs_warning(self, now: datetime) -> bool:
        """Return whether the owner should be warned now."""
        if self.warned_at is not None or self.acted_at is not None or self.act_at is None:
            return False
        return self.is_fresh(now) and self.act_at - self.warning_lead <= self.seen_at

    def is_due(self, now: datetime) -> bool:
        """Return whether the action is due: the owner was warned and the job was measured idle up to its
        time."""
        if self.warned_at is None or self.acted_at is not None or self.act_at is None:
            return False
        return self.is_fresh(now) and self.act_at <= self.seen_at
