"""Reads replays, for platform roles only: a replay names workspaces of all tenants."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from clusters.models import Cell
from foundation.core.actor import Actor
from foundation.core.errors import NotFound
from foundation.sql import row_scope
from foundation.web.listing import Column, ColumnKind
from quotas.models import QuotaNode
from scheduling.models import PolicyReplay
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant

COLUMNS: Final = ("measured", "recorded", "changed")
"""The keys of a result: the measured period, the simulation of the recorded configuration, and of the
change."""


REPLAY_COLUMNS: Final = {
    "name": Column("name"),
    "cell": Column("cell.name"),
    "state": Column("state"),
    "created_at": Column("created_at", ColumnKind.TIME),
}
"""The columns by which a list of replays can be filtered."""


def replay_list(*, viewer: Actor) -> QuerySet[PolicyReplay]:
    """Return all replays, newest first, without their results. Raises: PermissionDenied."""
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    return PolicyReplay.unscoped.select_related("cell").defer("result").order_by("-created_at", "-pk")


def replay_get(*, viewer: Actor, pk: uuid.UUID) -> PolicyReplay:
    """Return one replay with its result. Raises: PermissionDenied, NotFound."""
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    found = PolicyReplay.unscoped.select_related("cell").filter(pk=pk).first()
    if found is None:
        raise NotFound(_("Replay not found."))
    return found


@dataclass(frozen=True, slots=True)
class TeamComparison:
    """The figures of one workspace by column; None if it had no jobs there, or nothing was computed."""

    name: str
    figures: Mapping[str, Mapping[str, Any] | None]


@row_scope.whole()
def compare_teams(replay: PolicyReplay) -> list[TeamComparison]:
    """Return the figures of each workspace of a replay by name, as far as computed; the caller has checked
    permissions."""
    teams = {column: replay.result[column]["teams"] for column in COLUMNS if column in replay.result}
    ids = {team for figures in teams.values() for team in figures}
    names = {str(pk): name for pk, name in Tenant.unscoped.filter(pk__in=ids).values_list("pk", "name")}
    found = [
        TeamComparison(
            names.get(team, team),
            {column: teams[column].get(team) if column in teams else None for column in COLUMNS},
        )
        for team in ids
    ]
    return sorted(found, key=lambda one: one.name)


def quota_places(*, viewer: Actor, cell: Cell) -> list[tuple[uuid.UUID, str]]:
    """Return the quota nodes of a cell below its root whose quota a replay may change, by their tenants."""
    rows = QuotaNode.unscoped.filter(
        cell=cell,
        is_queue=False,
        parent__isnull=False,
        tenant__in=permissions.tenants_with(viewer, Permission.QUOTA_VIEW),
        tenant__archived_at__isnull=True,
    )
    found = rows.order_by("tenant__path").values_list("pk", "tenant__parent__name", "tenant__name")
    return [(pk, f"{parent} / {name}") for pk, parent, name in found]
