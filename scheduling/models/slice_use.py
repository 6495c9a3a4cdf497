"""The measured GPU memory of running slices, and the memory that they are to have because of it."""

from __future__ import annotations

from django.db import models

from foundation.models import BaseModel
from scheduling.models.allocation import Allocation


class SliceUse(BaseModel):
    """The measured memory of one task in slices, in MiB of each GPU.

    It is measured without a gap from `since` to `seen_at`; `peak_mib` is the most of the last ten minutes,
    `recent_mib` that of the last 90 seconds. `asked_mib` is what the task asked for, and the most that it is
    given back. `wanted_mib` is what it should have now, None for no change. `lent_at` is when memory was last
    taken off it, `returned_at` when it last got some back.
    """

    allocation = models.OneToOneField(Allocation, on_delete=models.CASCADE, related_name="slice_use")
    asked_mib = models.PositiveIntegerField()
    since = models.DateTimeField()
    seen_at = models.DateTimeField()
    peak_mib = models.PositiveIntegerField()
    recent_mib = models.PositiveIntegerField()
    wanted_mib = models.PositiveIntegerField(null=True, blank=True)
    lent_at = models.DateTimeField(null=True, blank=True)
    returned_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.peak_mib} MiB of {self.allocation}"
