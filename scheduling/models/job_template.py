"""Job files that members of a workspace share."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models

from foundation.models import BaseModel, Versioned
from tenants.models import Tenant


class JobTemplate(Versioned, BaseModel):
    """A named job file. `text` is its original YAML with comments."""

    workspace = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="job_templates")
    name = models.CharField(max_length=63)
    description = models.CharField(max_length=200, blank=True, default="")
    text = models.TextField()
    saved_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    saved_at = models.DateTimeField()

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workspace", "name"], name="job_template_name_once"),
        ]

    def __str__(self) -> str:
        return f"{self.name} in {self.workspace}"
