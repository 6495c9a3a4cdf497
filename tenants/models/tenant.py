"""The tenant tree."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Lower

from foundation.models import BaseModel, Versioned


class TenantKind(models.TextChoices):
    FOLDER = "folder", "Folder"
    WORKSPACE = "workspace", "Workspace"


class Tenant(BaseModel, Versioned):
    """A node of the tree: a folder (department, may nest) or a workspace (team, the only one with jobs).

    `path` holds the ids from the root down to this node, so that "everything below" is one indexed prefix
    query. Archiving a folder archives all tenants below it: each of them gets the time, and in
    `archived_with` the topmost one, so that restoring reopens exactly these.
    """

    parent = models.ForeignKey(
        "self", on_delete=models.PROTECT, null=True, blank=True, related_name="children"
    )
    kind = models.CharField(max_length=10, choices=TenantKind.choices)
    slug = models.SlugField(max_length=63, unique=True)
    name = models.CharField(max_length=120)
    path = models.TextField(db_index=True, editable=False)
    archived_at = models.DateTimeField(null=True, blank=True)
    archived_with = models.UUIDField(null=True, blank=True, db_index=True)

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["kind"], condition=Q(parent__isnull=True), name="tenant_tree_has_one_root"
            ),
            models.CheckConstraint(
                condition=Q(parent__isnull=False) | Q(kind=TenantKind.FOLDER), name="tenant_root_is_folder"
            ),
            # The services compare names in Python, by Unicode case; this constraint catches concurrent
            # writes.
            models.UniqueConstraint(
                F("parent"),
                Lower("name"),
                condition=Q(archived_at__isnull=True),
                name="tenant_name_once_among_siblings",
            ),
            models.CheckConstraint(
                condition=Q(archived_at__isnull=True, archived_with__isnull=True)
                | Q(archived_at__isnull=False, archived_with__isnull=False),
                name="tenant_archived_with_time",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_workspace(self) -> bool:
        return self.kind == TenantKind.WORKSPACE

    @property
    def is_archived(self) -> bool:
        return self.archived_at is not None

    def ancestor_ids(self) -> list[str]:
        """Return the ids from the root down to and including this tenant."""
        return self.path.strip("/").split("/")

    def contains_tenant(self, other: Tenant) -> bool:
        """Return whether `other` is this tenant or is below it."""
        return other.path.startswith(self.path)
