"""Estimates of starts that a user requests, for a draft of a job or a change of quota or policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.conf import settings
from django.db import models

from clusters.models import Cell
from scheduling.models.background_simulation import OPEN_SIMULATIONS, BackgroundSimulation
from tenants.models import Tenant


class EstimateSubject(models.TextChoices):
    DRAFT = "draft", "Draft of a job"
    CHANGE = "change", "Change of quota or policy"


class StartEstimate(BackgroundSimulation):
    """A simulation of the cell with what `asked` describes; only its user may see it.

    A user has one at most for each subject: a new request replaces it. `asked_key` is a digest of `asked`, by
    which a page finds the estimate of what it shows; `asked` is emptied when the simulation has ended,
    because a draft may contain secrets. `workspace` is that of a draft.
    """

    at_end: ClassVar[Mapping[str, Any]] = {"asked": {}}

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    cell = models.ForeignKey(Cell, on_delete=models.CASCADE, related_name="+")
    workspace = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="+", null=True)
    subject = models.CharField(max_length=10)
    asked = models.JSONField(default=dict)
    asked_key = models.CharField(max_length=64)

    class Meta(BackgroundSimulation.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["user", "subject"], name="start_estimate_per_user"),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["created_at"],
                condition=models.Q(state__in=OPEN_SIMULATIONS),
                name="start_estimate_open",
            ),
        ]

    def __str__(self) -> str:
        return f"estimate of a {self.subject} for {self.user}"
