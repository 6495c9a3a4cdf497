"""Requests for more quota, and their outcome."""

from __future__ import annotations

from typing import ClassVar, Final

from django.conf import settings
from django.db import models
from django.db.models import Q

from foundation.models import BaseModel, Versioned
from quotas.models.override import Override
from quotas.models.quota import QuotaNode
from quotas.models.quota_change import QuotaRevision


class RequestState(models.TextChoices):
    PENDING = "pending", "Waiting for a decision"
    COUNTERED = "countered", "Counter-offer made"
    APPROVED = "approved", "Approved"
    REJECTED = "rejected", "Rejected"
    DECLINED = "declined", "Counter-offer declined"
    WITHDRAWN = "withdrawn", "Withdrawn"
    EXPIRED = "expired", "Expired"


OPEN_STATES: Final = (RequestState.PENDING, RequestState.COUNTERED)


class QuotaRequest(Versioned, BaseModel):
    """A request for other limits of one node, in the form in which limits are set: `cluster`, `flavor`,
    `resource` and those of `nominal`, `borrowing_limit` and `lending_limit` that are to change.

    `current` has the limits at the time of the request, `counter` the counter-offer. With `until` the nominal
    is lent by the node above until then. `evidence` was gathered at the time of the request. The request
    cannot be decided after `expires_at`.
    """

    node = models.ForeignKey(QuotaNode, on_delete=models.PROTECT, related_name="requests")
    asker = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="quota_requests"
    )
    reason = models.CharField(max_length=2000)
    asked = models.JSONField()
    current = models.JSONField()
    counter = models.JSONField(default=list, blank=True)
    until = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField()
    state = models.CharField(max_length=10, choices=RequestState.choices, default=RequestState.PENDING)
    evidence = models.JSONField(default=dict, blank=True)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="decided_requests",
    )
    decided_at = models.DateTimeField(null=True, blank=True)
    answer = models.CharField(max_length=2000, blank=True, default="")
    closed_at = models.DateTimeField(null=True, blank=True)
    revision = models.ForeignKey(
        QuotaRevision, on_delete=models.PROTECT, null=True, blank=True, related_name="requests"
    )
    override = models.ForeignKey(
        Override, on_delete=models.PROTECT, null=True, blank=True, related_name="requests"
    )

    class Meta(BaseModel.Meta):
        ordering: ClassVar = ["-created_at", "-id"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["node", "asker"],
                condition=Q(state__in=["pending", "countered"]),
                name="quota_request_one_open",
            )
        ]
        indexes: ClassVar = [models.Index(fields=["state", "expires_at"], name="quota_request_due")]

    def __str__(self) -> str:
        return f"{self.asker} for {self.node}: {self.state}"

    @property
    def is_open(self) -> bool:
        """Return whether the request still waits for a decision or an answer."""
        return self.state in OPEN_STATES
