"""The tenant tree."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from foundation.models import BaseModel


class TenantKind(models.TextChoices):
    FOLDER = "folder", "Folder"
    WORKSPACE = "workspace", "Workspace"


class Tenant(BaseModel):
    """A node of the tree: a folder (department, may nest) or a workspace (team, the only one with jobs).

    `path` holds the ids from the root down to this node, so that "everything below" is one indexed
    prefix query instead of a walk.
    """

    parent = models.ForeignKey(
        "self", on_delete=models.PROTECT, null=True, blank=True, related_name="children"
    )
    kind = models.CharField(max_length=10, choices=TenantKind.choices)
    slug = models.SlugField(max_length=63, unique=True)
    name = models.CharField(max_length=120)
    path = models.TextField(db_index=True, editable=False)

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["kind"], condition=Q(parent__isnull=True), name="tenant_tree_has_one_root"
            ),
            models.CheckConstraint(
                condition=Q(parent__isnull=False) | Q(kind=TenantKind.FOLDER), name="tenant_root_is_folder"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_workspace(self) -> bool:
        return self.kind == TenantKind.WORKSPACE

    def ancestor_ids(self) -> list[str]:
        """Ids from the root down to and including this tenant."""
        return self.path.strip("/").split("/")
