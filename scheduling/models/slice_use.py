"""The measured GPU memory of running slices, and the memory that they should have."""

from __future__ import annotations

from django.db import models

from foundation.models import BaseModel
from scheduling.models.allocation import Allocation


class SliceUse(BaseModel):
    """The measured memory of one task in slices, in MiB of each GPU.

    It is measured without a gap from `since` to `seen_at`; `peak_mib` is the peak of the last ten minutes,
    `recent_mib` that of the last 90 seconds. `asked_mib` is the task's request, and the most that is returned
    to it. `wanted_mib` is the memory that it should have now, None for no change. `lent_at` is when its
    memory was last reduced, `returned_at` when memory was last returned to it.
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
