"""The grants of priority classes to tenants."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from foundation.models import BaseModel
from scheduling.models.job import PriorityClass
from tenants.models import Tenant


class PriorityGrant(BaseModel):
    """The permission for a tenant and its descendants to submit with a class.

    Classes with a value of 0 or below need no grant, because they give no advantage.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="priority_grants")
    priority_class = models.ForeignKey(PriorityClass, on_delete=models.CASCADE, related_name="grants")

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "priority_class"], name="priority_grant_once")
        ]

    def __str__(self) -> str:
        return f"{self.tenant} may use {self.priority_class}"
