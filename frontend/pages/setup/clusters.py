"""Clusters: their list, adding one, and the nodes and GPUs that were found in one."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from clusters.models import BackendKind, Cluster
from clusters.selectors.flavor import cluster_get
from clusters.selectors.node import CLUSTER_COLUMNS, cluster_list
from clusters.services.cluster import cluster_add, cluster_sync
from clusters.services.kubeconfig_files import kubeconfig_connection, list_kubeconfig_files
from clusters.services.simulated import (
    SimulatedSize,
    simulated_cluster_add,
    simulated_speed,
    simulated_speed_set,
)
from foundation.core.errors import AllotmentError, Invalid
from frontend.components import view_models
from frontend.lists.batch import BatchAct, BatchItem, answer_batch, is_batch
from frontend.lists.declaration import FilterField, ListColumn, ListDeclaration
from frontend.lists.page_list import EmptyList, answer_list, read_list
from frontend.pages.setup.cluster_found import ClusterFound, read_clusters
from frontend.pages.setup.uninitialized import show_uninitialized
from frontend.shell.form_actions import run_change, show_refusal
from frontend.shell.page_shell import get_viewer, operator_required, set_frame
from quotas.selectors.queues.queue_flavors import get_cell_named
from quotas.selectors.tenants.team import team_parents
from quotas.services.pool_quota import pools_create
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import User

_SIMULATED: Final = "simulated"
_KINDS: Final[list[tuple[str, str | Promise]]] = [
    (_SIMULATED, gettext_lazy("Simulated (to try Allotment)")),
    ("kubeconfig", gettext_lazy("Kubernetes, by kubeconfig file")),
    ("in-cluster", gettext_lazy("Kubernetes, the cluster that Allotment runs in")),
]
BACKENDS: Final[dict[str, str | Promise]] = {
    BackendKind.SIMULATED.value: gettext_lazy("Simulated"),
    BackendKind.KUBERNETES.value: gettext_lazy("Kubernetes"),
    BackendKind.KUEUE.value: gettext_lazy("Kueue"),
}
SPEEDS: Final[list[tuple[str, str | Promise]]] = [
    ("1", gettext_lazy("Real time")),
    ("10", "10×"),
    ("60", "60×"),
    ("600", "600×"),
]
HEALTH: Final[dict[str, tuple[str | Promise, str]]] = {
    "healthy": (gettext_lazy("Healthy"), "running"),
    "unknown": (gettext_lazy("Not synced yet"), "info"),
    "unreachable": (gettext_lazy("Unreachable"), "failed"),
}


@dataclass(frozen=True, slots=True)
class ClusterLine:
    """One row of the list."""

    cluster: Cluster
    found: ClusterFound
    kind: str
    state: str
    tone: str

    @property
    def id(self) -> uuid.UUID:
        return self.cluster.pk

    @property
    def title(self) -> str:
        return self.cluster.name

    @property
    def url(self) -> str:
        return reverse("frontend:ops-cluster", args=[self.cluster.name])


CLUSTERS: Final = ListDeclaration(
    key="clusters",
    title=gettext_lazy("Clusters"),
    columns=(
        ListColumn(key="name", label=gettext_lazy("Name"), sort="name", text=lambda line: line.cluster.name),
        ListColumn(key="kind", label=gettext_lazy("Type"), sort="backend", text=lambda line: line.kind),
        ListColumn(
            key="cell",
            label=gettext_lazy("Scheduling domain"),
            sort="cell",
            text=lambda line: line.cluster.cell.name,
        ),
        ListColumn(key="state", label=gettext_lazy("State"), sort="health", text=lambda line: line.state),
        ListColumn(key="nodes", label=gettext_lazy("Nodes"), number=True, text=lambda line: line.found.nodes),
        ListColumn(key="gpus", label=gettext_lazy("GPUs"), number=True, text=lambda line: line.found.gpus),
        ListColumn(
            key="pools",
            label=gettext_lazy("Pools"),
            text=lambda line: ", ".join(pool.name for pool in line.found.pools),
        ),
        ListColumn(
            key="synced",
            label=gettext_lazy("Last synced"),
            number=True,
            sort="observed_at",
            text=lambda line: line.cluster.observed_at,
        ),
    ),
    filters={
        "name": FilterField(label=gettext_lazy("Name")),
        "cell": FilterField(label=gettext_lazy("Scheduling domain")),
        "backend": FilterField(label=gettext_lazy("Type"), choices=list(BACKENDS.items())),
        "health": FilterField(
            label=gettext_lazy("State"),
            choices=[(key, word) for key, (word, _tone) in HEALTH.items()],
        ),
        "observed_at": FilterField(label=gettext_lazy("Last synced")),
    },
    fields=CLUSTER_COLUMNS,
    default_sort="name",
    every_s=30,
)


class ClusterForm(forms.Form):
    """The connection of a new cluster, or the size and speed of a simulated one."""

    kind = forms.ChoiceField(label=gettext_lazy("Type"), choices=_KINDS, initial=_SIMULATED)
    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=63,
        initial="demo",
        help_text=gettext_lazy("Lowercase letters, digits and hyphens"),
    )
    size = forms.ChoiceField(
        label=gettext_lazy("Nodes"),
        choices=[
            (SimulatedSize.SMALL.value, gettext_lazy("2 nodes with 8 A100")),
            (SimulatedSize.LARGE.value, gettext_lazy("12 nodes with 8 A100, 4 with 4 sliced L40S")),
        ],
        required=False,
    )
    speed = forms.ChoiceField(label=gettext_lazy("Speed"), choices=SPEEDS, initial="60", required=False)
    file = forms.ChoiceField(label=gettext_lazy("Kubeconfig file"), required=False)
    context = forms.CharField(
        label=gettext_lazy("Context"),
        max_length=200,
        required=False,
        help_text=gettext_lazy("Default: current context of the file"),
    )
    backend = forms.ChoiceField(
        label=gettext_lazy("Admission"),
        choices=[
            (BackendKind.KUBERNETES.value, gettext_lazy("Allotment admits jobs")),
            (BackendKind.KUEUE.value, gettext_lazy("Kueue in the cluster admits jobs")),
        ],
        required=False,
    )
    use_required_attribute = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["file"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101
        field.choices = [("", _("Select a file")), *((name, name) for name in list_kubeconfig_files())]
        folder = settings.ALLOTMENT_KUBECONFIG_DIR
        field.help_text = _("Files in %(folder)s on the server") % {"folder": folder}

    def clean(self) -> dict[str, Any]:
        found: dict[str, Any] = super().clean() or {}
        if found.get("kind") == "kubeconfig" and not found.get("file"):
            self.add_error("file", _("Select a file."))
        return found


@operator_required
def show_clusters(request: HttpRequest) -> HttpResponse:
    """Show all clusters with their nodes and GPUs; POST reads some of them again."""
    who = get_viewer(request)
    set_frame(request, label=_("Clusters"), trail=_("Operations"))
    may_edit = permissions.has_permission(who, Permission.CLUSTER_EDIT)
    acts = [_sync_act(who)] if may_edit else []
    if is_batch(request):
        return answer_batch(request, acts=acts, find=partial(_find, who), back=request.path)
    listing = read_list(request, CLUSTERS)
    return answer_list(
        request,
        listing,
        listing.arrange_rows(cluster_list(viewer=who)),
        partial(_lines, who),
        template="frontend/setup/clusters.html",
        context=lambda: {
            "row": "frontend/setup/cluster_row.html",
            "acts": acts,
            "batch_url": request.path,
            "may_add": may_edit,
            "empty_list": EmptyList(_("No clusters"), _("A platform admin adds clusters."), icon="server"),
        },
    )


def _sync_act(who: User) -> BatchAct:
    return BatchAct(
        key="sync",
        label=_("Sync"),
        title=_("Sync clusters"),
        act=lambda cluster, _choice: cluster_sync(acting_user=who, cluster=cluster),
        icon="refresh-cw",
    )


def _find(who: User, ids: Collection[uuid.UUID]) -> list[BatchItem]:
    found = list(cluster_list(viewer=who).filter(pk__in=ids))
    return [
        BatchItem(id=line.id, name=line.title, row=line.cluster, state=line.state)
        for line in _lines(who, found)
    ]


@operator_required
def add_cluster(request: HttpRequest) -> HttpResponse:
    """Show the form of a new cluster; POST adds it once it has responded."""
    who = get_viewer(request)
    permissions.require_permission(who, Permission.CLUSTER_EDIT)
    if page := show_uninitialized(request, _("Clusters"), _("Operations")):
        return page
    form = ClusterForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            made = _add(who, form.cleaned_data)
        except AllotmentError as error:
            show_refusal(form, error)
        else:
            messages.success(request, _("Cluster %(name)s added") % {"name": made.name})
            return redirect("frontend:ops-cluster", cluster=made.name)
    set_frame(request, label=_("Clusters"), trail=_("Operations"))
    context = {"form": form, "crumbs": _crumbs()}
    return render(request, "frontend/setup/cluster_new.html", context, status=400 if form.errors else 200)


@operator_required
def show_cluster(request: HttpRequest, cluster: str) -> HttpResponse:
    """Show the nodes and GPUs of one cluster; POST reads it again, creates its pools, or sets its speed."""
    who = get_viewer(request)
    found = cluster_get(viewer=who, name=cluster)
    if request.method == "POST":
        permissions.require_permission(who, Permission.CLUSTER_EDIT)
        _act(request, who, found)
        if request.POST.get("back") == "overview":
            return redirect("frontend:ops-overview")
        return redirect("frontend:ops-cluster", cluster=found.name)
    set_frame(request, label=_("Clusters"), trail=found.name)
    speed = simulated_speed(found)
    page = {
        "line": _lines(who, [found])[0],
        "cluster": found,
        "may_edit": permissions.has_permission(who, Permission.CLUSTER_EDIT),
        "may_add_team": bool(team_parents(who)),
        "speed": None if speed is None else f"{speed:g}",
        "speeds": speed_choices(speed),
        "crumbs": _crumbs(),
    }
    return render(request, "frontend/setup/cluster.html", page)


def speed_choices(speed: float | None) -> Sequence[tuple[str, str | Promise]]:
    """Return the speeds to choose from, including the present one."""
    if speed is None or f"{speed:g}" in dict(SPEEDS):
        return SPEEDS
    return [*SPEEDS, (f"{speed:g}", f"{speed:g}×")]


def _add(who: User, values: dict[str, Any]) -> Cluster:
    cell = get_cell_named(None)
    if values["kind"] == _SIMULATED:
        size = SimulatedSize(values["size"] or SimulatedSize.SMALL)
        return simulated_cluster_add(
            acting_user=who, cell=cell, name=values["name"], size=size, speed=float(values["speed"] or 60)
        )
    connection = {"kind": values["kind"]}
    if values["kind"] == "kubeconfig":
        connection = kubeconfig_connection(values["file"], values["context"])
    backend = BackendKind(values["backend"] or BackendKind.KUBERNETES)
    return cluster_add(
        acting_user=who, cell=cell, name=values["name"], backend=backend, connection=connection
    )


def _act(request: HttpRequest, who: User, found: Cluster) -> None:
    what, words = request.POST.get("do"), {"name": found.name}
    if what == "sync":
        sync = partial(cluster_sync, acting_user=who, cluster=found)
        run_change(request, sync, _("Cluster %(name)s synced") % words)
    elif what == "pools":
        create = partial(pools_create, acting_user=who, cluster=found)
        run_change(request, create, _("Pools created, quota added to root"))
    elif what == "speed":
        change = partial(_set_speed, who, found, request.POST.get("speed", ""))
        run_change(request, change, _("Speed changed"))


def _set_speed(who: User, found: Cluster, text: str) -> None:
    try:
        speed = float(text)
    except ValueError as error:
        raise Invalid(_("Enter a speed, for example 60.")) from error
    simulated_speed_set(acting_user=who, cluster=found, speed=speed)


def _lines(who: User, clusters: Sequence[Cluster]) -> list[ClusterLine]:
    return [
        _line(cluster, found) for cluster, found in zip(clusters, read_clusters(who, clusters), strict=True)
    ]


def _line(cluster: Cluster, found: ClusterFound) -> ClusterLine:
    word, tone = HEALTH.get(cluster.health, (_("Unreachable"), "failed"))
    return ClusterLine(cluster, found, str(BACKENDS[cluster.backend]), str(word), tone)


def _crumbs() -> list[view_models.Crumb]:
    return [view_models.Crumb(label=_("Clusters"), url=reverse("frontend:ops-clusters"))]
