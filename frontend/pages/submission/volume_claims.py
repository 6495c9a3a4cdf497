"""The volume claims that a job can mount: a part of the form of a new job, read on request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET

from clusters.backends.volumes import Provisioning, VolumeClaim
from frontend.shell.page_shell import get_viewer, login_required
from frontend.texts import formats
from quotas.selectors.queues.queue import queue_get
from scheduling.selectors.pods.volume_claims import ClusterClaims, volume_claims
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.selectors.tenant import workspace_get

_READ_ONLY: Final = "ReadOnlyMany"
_BOUND, _PENDING = "Bound", "Pending"
_PHASES: Final[dict[str, tuple[str | Promise, str]]] = {
    _BOUND: (gettext_lazy("Bound"), "running"),
    _PENDING: (gettext_lazy("Not bound yet"), "waiting"),
    "Lost": (gettext_lazy("Volume lost"), "failed"),
}
_NOTES: Final[dict[Provisioning, str | Promise]] = {
    Provisioning.ON_DEMAND: gettext_lazy(
        "Volumes that are created at job start are created for the node of the job's first pod."
    ),
    Provisioning.IMMEDIATE: gettext_lazy("Pods can mount a claim once it is bound."),
    Provisioning.STATIC: gettext_lazy(
        "Claims of a storage class without provisioner, with volume binding mode WaitForFirstConsumer, aren't"
        " bound by pods of jobs."
    ),
    Provisioning.CLASS_UNREAD: gettext_lazy(
        "The platform's account in this cluster may not read storage classes, so that claims that aren't"
        " bound yet can't be used."
    ),
    Provisioning.NOT_PERMITTED: gettext_lazy(
        "The platform's account in this cluster may not select nodes for claims, so that their volumes aren't"
        " created at job start."
    ),
}
"""The note below the table about claims that aren't bound, by how they get their volumes."""


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """One claim; `line` is the text for the input of volumes, empty if no pod can start with it now."""

    name: str
    size: str
    access_modes: str
    storage_class: str
    phase: str | Promise
    tone: str
    line: str


@dataclass(frozen=True, slots=True)
class ClusterRows:
    """The claims in one cluster, as in `ClusterClaims`; `notes` are about those that aren't bound yet."""

    cluster: str
    rows: Sequence[ClaimRow] | None
    listed: bool
    notes: Sequence[str | Promise]

    @property
    def has_mountable(self) -> bool:
        return any(row.line for row in self.rows or ())


@require_GET
@login_required
def job_claims(request: HttpRequest, workspace: str) -> HttpResponse:
    """List the volume claims in the clusters of the queue `?queue=`."""
    who = get_viewer(request)
    place = workspace_get(viewer=who, slug=workspace)
    permissions.require_permission(who, Permission.JOB_SUBMIT, place)
    queue = queue_get(who, place, request.GET.get("queue", ""))
    clusters = [_cluster_rows(found) for found in volume_claims(viewer=who, queue=queue)]
    page = {"clusters": clusters, "workspace": place, "queue": queue.name}
    return render(request, "frontend/jobs/job_claims.html", page)


def _cluster_rows(found: ClusterClaims) -> ClusterRows:
    pending = [claim for claim in found.claims or () if claim.phase == _PENDING and not claim.deleting]
    kinds = {claim.provisioning for claim in pending}
    return ClusterRows(
        cluster=found.cluster,
        rows=None if found.claims is None else [_row(claim) for claim in found.claims],
        listed=found.listed,
        notes=[note for kind, note in _NOTES.items() if kind in kinds],
    )


def _row(claim: VolumeClaim) -> ClaimRow:
    phase, tone = _PHASES.get(claim.phase, (claim.phase or formats.MISSING, ""))
    on_demand = claim.phase == _PENDING and claim.provisioning is Provisioning.ON_DEMAND
    if on_demand:
        phase, tone = gettext_lazy("Created at job start"), ""
    if claim.deleting:
        phase, tone = gettext_lazy("Terminating"), "waiting"
    mountable = (on_demand or claim.phase == _BOUND) and not claim.deleting
    access = ":ro" if claim.access_modes == (_READ_ONLY,) else ""
    return ClaimRow(
        name=claim.name,
        size=claim.size or formats.MISSING,
        access_modes=", ".join(claim.access_modes) or formats.MISSING,
        storage_class=claim.storage_class or formats.MISSING,
        phase=phase,
        tone=tone,
        line=f"{claim.name}:/mnt/{claim.name}{access}" if mountable else "",
    )
