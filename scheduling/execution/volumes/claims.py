"""Reading the volume claims that unfinished jobs mount, so that pods are placed where their volumes are.

Allotment binds pods itself, so no kube-scheduler looks at the node affinity of their volumes, or selects the
nodes for which volumes are created on demand.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import structlog
from django.db.models import QuerySet

from clusters.backends.base import AccessDenied, BackendUnavailable, ClusterBackend, NamespaceNotOwned
from clusters.backends.volumes import Provisioning, VolumeClaim
from clusters.models import Cluster
from foundation.core import clock
from foundation.messaging import outbox
from foundation.sql.prepared import PreparedQuery
from scheduling.engine_input.volume_claims import READ_BEFORE, claim_names
from scheduling.execution.volumes.node_selection import (
    NodeSelection,
    list_pod_nodes,
    list_usable_nodes,
    restrict_nodes,
)
from scheduling.models import TERMINAL_STATES, ClaimPhase, Job, MountedClaim

log = structlog.get_logger(__name__)
_READ_EVERY: Final = timedelta(seconds=20)
_TERMS_EVERY: Final = timedelta(minutes=10)
"""The node affinity of a volume does not change while it has one, but for the alpha of a feature gate."""
_NAMESPACES_AT_ONCE: Final = 50
_VOLUMES_AT_ONCE: Final = 200
_FAILURES_AT_MOST: Final = 3
"""After so many namespaces that can't be read a pass ends: each may take as long as a request may."""
_PROVISIONED_EVERY: Final = timedelta(seconds=3)
"""How often a claim is read while a pod waits for its volume to be created."""
_PHASES: Final = {"Bound": ClaimPhase.BOUND, "Lost": ClaimPhase.LOST}
_UNBOUND: Final = {
    Provisioning.IMMEDIATE: ClaimPhase.PENDING,
    Provisioning.ON_DEMAND: ClaimPhase.UNPROVISIONED,
    Provisioning.NOT_PERMITTED: ClaimPhase.NOT_PERMITTED,
    Provisioning.STATIC: ClaimPhase.STATIC,
    Provisioning.CLASS_UNREAD: ClaimPhase.CLASS_UNREAD,
}
_FIELDS: Final = ("phase", "volume", "terms", "terms_at", "read_at")
_COMPARED: Final = ("phase", "volume", "terms")
_failed_at: Final[dict[tuple[uuid.UUID, uuid.UUID], datetime]] = {}
"""When a namespace could not be read last, by cluster and workspace, as this process knows."""
Key = tuple[uuid.UUID, str]
"""(workspace, name of the claim)."""


def _mounting(cell: uuid.UUID) -> QuerySet[Job, tuple[Any, ...]]:
    return (
        Job.unscoped.filter(queue__cell_id=cell)
        .exclude(state__in=TERMINAL_STATES)
        .exclude(volumes=[])
        .order_by()
        .values_list("workspace_id", "workspace__slug", "volumes")
    )


_MOUNTING: Final[PreparedQuery[tuple[Any, ...]]] = PreparedQuery(_mounting)


@dataclass(slots=True)
class _Pass:
    """One pass over the claims of a cluster: the claims to note, and those noted before."""

    cluster: Cluster
    backend: ClusterBackend
    known: Mapping[Key, MountedClaim]
    pod_nodes: Mapping[Key, Sequence[str]]
    now: datetime
    usable: Collection[str] | None = None
    selections: list[NodeSelection] = field(default_factory=list)

    def list_all_rows(
        self, workspaces: Iterable[uuid.UUID], slugs: Mapping[uuid.UUID, str], wanted: Iterable[Key]
    ) -> list[MountedClaim]:
        """Return the claims in the namespaces of these workspaces, without those that can't be listed now."""
        rows, failed = list[MountedClaim](), 0
        for workspace in workspaces:
            names = [name for owner, name in wanted if owner == workspace]
            try:
                rows += self.list_rows(workspace, slugs[workspace], names)
            except BackendUnavailable as error:
                log.warning("volume claims can't be listed", cluster=self.cluster.name, error=str(error))
                _failed_at[self.cluster.pk, workspace] = self.now
                failed += 1
                if failed == _FAILURES_AT_MOST:
                    break
            else:
                _failed_at.pop((self.cluster.pk, workspace), None)
        return rows

    def list_rows(self, workspace: uuid.UUID, slug: str, names: Iterable[str]) -> list[MountedClaim]:
        """Return the claims of these names in the namespace of a workspace. Raises: BackendUnavailable."""
        try:
            found = self.backend.list_volume_claims(slug, str(workspace))
        except (AccessDenied, NamespaceNotOwned) as error:
            # A pod in a namespace of another owner is refused, with a reason that says so.
            log.warning("volume claims may not be listed", cluster=self.cluster.name, error=str(error))
            return [self._as_known(workspace, name) for name in names]
        claims = {claim.name: claim for claim in found or ()}
        return [self._row(workspace, slug, name, claims.get(name)) for name in names]

    def add_terms(self, rows: Sequence[MountedClaim]) -> list[MountedClaim]:
        """Return the rows with the node affinity of their volumes, without those where it can't be read."""
        unread: dict[str, list[MountedClaim]] = defaultdict(list)
        for row in rows:
            before = self.known.get((row.workspace_id, row.name))
            if before is not None and row.volume and before.volume == row.volume:
                row.terms, row.terms_at = before.terms, before.terms_at
            if row.volume and (row.terms_at is None or self.now - row.terms_at >= _TERMS_EVERY):
                unread[row.volume].append(row)
        asked = sorted(unread)[:_VOLUMES_AT_ONCE]
        try:
            found = self.backend.read_volume_terms(asked)
        except AccessDenied as error:
            # Jobs are then placed on any node, where the volume of a single zone may not be mountable.
            log.warning("volumes may not be read", cluster=self.cluster.name, error=str(error))
            return list(rows)
        except BackendUnavailable as error:
            log.warning("volumes can't be read", cluster=self.cluster.name, error=str(error))
            found = {}
        for volume, terms in found.items():
            for row in unread[volume]:
                if terms is None:
                    row.phase = ClaimPhase.LOST
                else:
                    row.terms, row.terms_at = terms, self.now
        left_out = unread.keys() - found.keys()
        return [row for row in rows if row.terms_at is not None or row.volume not in left_out]

    def _row(self, workspace: uuid.UUID, slug: str, name: str, claim: VolumeClaim | None) -> MountedClaim:
        row = self._named(workspace, name)
        if claim is None:
            return row
        row.phase = _phase_of(claim)
        if row.phase == ClaimPhase.BOUND:
            row.volume = claim.volume
        if row.phase == ClaimPhase.UNPROVISIONED:
            if self.usable is None:
                self.usable = list_usable_nodes(self.cluster)
            selection = NodeSelection(slug, claim, self.pod_nodes.get((workspace, name), ()), self.usable)
            row.terms = restrict_nodes(selection)
            self.selections.append(selection)
        return row

    def _as_known(self, workspace: uuid.UUID, name: str) -> MountedClaim:
        """Return a claim that can't be read, as before where pods can mount it, else unknown."""
        before = self.known.get((workspace, name))
        row = self._named(workspace, name)
        row.phase = ClaimPhase.UNKNOWN
        if before is not None and before.phase in (ClaimPhase.BOUND, ClaimPhase.UNPROVISIONED):
            row.phase, row.volume, row.terms = before.phase, before.volume, before.terms
        return row

    def _named(self, workspace: uuid.UUID, name: str) -> MountedClaim:
        return MountedClaim(
            cluster=self.cluster,
            workspace_id=workspace,
            name=name,
            phase=ClaimPhase.MISSING,
            read_at=self.now,
        )


def read_mounted_claims(cluster: Cluster, backend: ClusterBackend) -> bool:
    """Read the claims of a cluster that are due, and note them; returns whether any changed.

    A claim that was never read is due at once, one for whose volume a pod waits every 3 seconds, any other
    every 20 seconds. What can't be read keeps its last state: nodes of a cluster that doesn't answer take
    nothing new in any case. Nodes are selected for claims whose volumes are created on demand.
    """
    if not backend.capabilities.claims:
        return False
    slugs, wanted = _list_mounted(cluster.cell_id)
    if not wanted:
        return False
    now = clock.now()
    known = {(row.workspace_id, row.name): row for row in MountedClaim.unscoped.filter(cluster=cluster)}
    pod_nodes = list_pod_nodes(
        cluster, (row for row in known.values() if now - row.read_at >= _PROVISIONED_EVERY)
    )
    due = [key for key in wanted if key not in known or _is_due(known[key], key in pod_nodes, now)]
    if not due:
        return False
    pod_nodes = list_pod_nodes(cluster, known.values())
    reading = _Pass(cluster, backend, known, pod_nodes, now)
    rows = reading.add_terms(reading.list_all_rows(_oldest_first(cluster, due, known), slugs, wanted))
    _write_rows(rows)
    for selection in reading.selections:
        selection.annotate_claim(cluster, backend)
    MountedClaim.unscoped.filter(pk__in=[row.pk for key, row in known.items() if key not in wanted]).delete()
    if not any(_is_changed(row, known.get((row.workspace_id, row.name))) for row in rows):
        return False
    outbox.add_hint(outbox.Topic.CYCLE, cluster.cell_id)
    if backend.capabilities.admits:
        outbox.add_hint(outbox.Topic.DELEGATE, cluster.pk)
    return True


def _list_mounted(cell_id: uuid.UUID) -> tuple[Mapping[uuid.UUID, str], Collection[Key]]:
    slugs: dict[uuid.UUID, str] = {}
    wanted: dict[Key, None] = {}
    for workspace, slug, volumes in _MOUNTING(cell_id):
        slugs[workspace] = slug
        wanted |= dict.fromkeys((workspace, name) for name in claim_names(volumes))
    return slugs, wanted


def _is_due(row: MountedClaim, is_used: bool, now: datetime) -> bool:
    provisioned = is_used and row.phase == ClaimPhase.UNPROVISIONED
    return now - row.read_at >= (_PROVISIONED_EVERY if provisioned else _READ_EVERY)


def _oldest_first(cluster: Cluster, due: Iterable[Key], known: Mapping[Key, MountedClaim]) -> list[uuid.UUID]:
    """Return the workspaces to read now: those with a new claim first, then those read longest ago.

    One that could not be read comes after those that were not tried since.
    """
    long_ago = datetime.min.replace(tzinfo=UTC)

    def last_read(key: Key) -> datetime:
        read_at = known[key].read_at if key in known else long_ago
        return max(read_at, _failed_at.get((cluster.pk, key[0]), long_ago))

    workspaces = dict.fromkeys(workspace for workspace, _ in sorted(due, key=last_read))
    return list(workspaces)[:_NAMESPACES_AT_ONCE]


def _write_rows(rows: Iterable[MountedClaim]) -> None:
    MountedClaim.unscoped.bulk_create(
        sorted(rows, key=lambda row: (row.workspace_id, row.name)),
        update_conflicts=True,
        unique_fields=["cluster", "workspace", "name"],
        update_fields=_FIELDS,
    )


def _is_changed(row: MountedClaim, before: MountedClaim | None) -> bool:
    if before is None or row.read_at - before.read_at > READ_BEFORE:
        return True  # until now it was unread for jobs submitted meanwhile
    return any(getattr(row, name) != getattr(before, name) for name in _COMPARED)


def _phase_of(claim: VolumeClaim) -> ClaimPhase:
    return ClaimPhase.DELETING if claim.deleting else _PHASES.get(claim.phase, _UNBOUND[claim.provisioning])
