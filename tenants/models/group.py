"""Groups of users, so that a role can be given to many at once."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models

from foundation.models import BaseModel, Versioned


class Group(BaseModel, Versioned):
    """A named set of users.

    With a `claim`, the group is the one of that name at the identity provider: each sign-in there updates its
    members, and they cannot be changed here.
    """

    name = models.CharField(max_length=120, unique=True)
    claim = models.CharField(max_length=200, null=True, blank=True, unique=True)

    def __str__(self) -> str:
        return self.name


class GroupMember(BaseModel):
    """A user in a group."""

    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="people")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="in_groups")

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [models.UniqueConstraint(fields=["group", "user"], name="group_member_once")]

    def __str__(self) -> str:
        return f"{self.user} in {self.group}"
