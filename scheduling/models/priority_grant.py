"""The raised priorities that a tenant may use."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from foundation.models import BaseModel
from scheduling.models.job import PriorityClass
from tenants.models import Tenant


class PriorityGrant(BaseModel):
    """A tenant, and everything below it, may submit with this class.

    Classes of value 0 and below need no grant: nobody gains by them.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="priority_grants")
    priority_class = models.ForeignKey(PriorityClass, on_delete=models.CASCADE, related_name="grants")

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "priority_class"], name="priority_grant_once")
        ]

    def __str__(self) -> str:
        return f"{self.tenant} may use {self.priority_class}"
