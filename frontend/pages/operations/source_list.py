"""Data sources of clusters: up-to-date and failing ones, with the cause; and the agents of nodes."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from clusters.models import Cluster
from clusters.selectors.flavor import cluster_get
from foundation.core.errors import AllotmentError, PermissionDenied
from foundation.web.listing import Column, ColumnKind
from frontend.lists.batch import BatchAct, BatchItem, answer_batch, is_batch
from frontend.lists.common_acts import build_delete_act, build_switch_acts
from frontend.lists.declaration import FilterField, ListColumn, ListDeclaration
from frontend.lists.page_list import EmptyList, answer_list, read_list
from frontend.lists.row_form import NEW, RowForm
from frontend.pages.operations.cluster_scope import ClusterScope, build_address, ops_frame, scope_of
from frontend.pages.operations.sources import SourceForm, view_source
from frontend.shell.form_actions import show_refusal
from frontend.shell.page_shell import get_viewer, operator_required
from frontend.texts.labels import state_word
from telemetry.models import SourceKind, TelemetrySource
from telemetry.sources.manage import source_add, source_change, source_delete
from telemetry.sources.overview import (
    SOURCE_COLUMNS,
    AgentLine,
    NodeState,
    describe_agents,
    describe_sources,
    source_list,
)
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import User


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One source in the list; see `view_source`."""

    shown: Mapping[str, Any]

    @property
    def source(self) -> TelemetrySource:
        found: TelemetrySource = self.shown["source"]
        return found

    @property
    def id(self) -> uuid.UUID:
        return self.source.pk

    @property
    def title(self) -> str:
        return self.source.name

    @property
    def url(self) -> str:
        return reverse("frontend:ops-source", args=[self.source.pk])

    @property
    def answered_at(self) -> Any:
        status = self.shown["line"].status
        return status.answered_at if status else None


@dataclass(frozen=True, slots=True)
class AgentRow:
    """A node with GPUs and its agent."""

    agent: AgentLine
    url: str

    @property
    def id(self) -> str:
        return f"{self.agent.cluster}.{self.agent.node}"

    @property
    def title(self) -> str:
        return self.agent.node


SOURCES: Final = ListDeclaration(
    key="sources",
    title=gettext_lazy("Data sources"),
    columns=(
        ListColumn(key="name", label=gettext_lazy("Name"), sort="name", text=lambda row: row.source.name),
        ListColumn(
            key="cluster",
            label=gettext_lazy("Cluster"),
            sort="cluster",
            text=lambda row: row.source.cluster.name,
        ),
        ListColumn(key="kind", label=gettext_lazy("Type"), sort="kind", text=lambda row: row.shown["kind"]),
        ListColumn(
            key="state",
            label=gettext_lazy("State"),
            text=lambda row: state_word("source", row.shown["state"]).text,
        ),
        ListColumn(
            key="answered",
            label=gettext_lazy("Last response"),
            number=True,
            sort="answered_at",
            text=lambda row: row.answered_at,
        ),
        ListColumn(
            key="nodes",
            label=gettext_lazy("Nodes"),
            number=True,
            text=lambda row: f"{row.shown['fresh']} / {row.shown['expected']}",
        ),
        ListColumn(
            key="rate",
            label=gettext_lazy("Samples per minute"),
            number=True,
            text=lambda row: row.shown["per_minute"],
        ),
        ListColumn(key="problem", label=gettext_lazy("Last error"), text=lambda row: row.shown["problem"]),
    ),
    filters={
        "name": FilterField(label=gettext_lazy("Name")),
        "cluster": FilterField(label=gettext_lazy("Cluster")),
        "kind": FilterField(label=gettext_lazy("Type"), choices=SourceKind.choices),
        "enabled": FilterField(label=gettext_lazy("Enabled")),
        "answered_at": FilterField(label=gettext_lazy("Last response")),
    },
    fields={**SOURCE_COLUMNS, "answered_at": Column("status.answered_at", ColumnKind.TIME)},
)
AGENTS: Final = ListDeclaration(
    key="agents",
    title=gettext_lazy("Node agents"),
    columns=(
        ListColumn(key="node", label=gettext_lazy("Node"), sort="node", text=lambda row: row.agent.node),
        ListColumn(
            key="cluster",
            label=gettext_lazy("Cluster"),
            sort="cluster",
            text=lambda row: row.agent.cluster,
        ),
        ListColumn(
            key="state",
            label=gettext_lazy("State"),
            sort="state",
            text=lambda row: state_word("agent", row.agent.state.value).text,
        ),
        ListColumn(
            key="at",
            label=gettext_lazy("Last report"),
            number=True,
            sort="reported_at",
            text=lambda row: row.agent.at,
        ),
        ListColumn(
            key="driver", label=gettext_lazy("Driver"), sort="driver", text=lambda row: row.agent.driver
        ),
        ListColumn(key="cuda", label="CUDA", sort="cuda", text=lambda row: row.agent.cuda),
    ),
    filters={
        "node": FilterField(label=gettext_lazy("Node")),
        "cluster": FilterField(label=gettext_lazy("Cluster")),
        "state": FilterField(
            label=gettext_lazy("State"),
            choices=[(state.value, state_word("agent", state.value).text) for state in NodeState],
        ),
        "driver": FilterField(label=gettext_lazy("Driver")),
        "cuda": FilterField(label="CUDA"),
        "reported_at": FilterField(label=gettext_lazy("Last report")),
    },
    fields={
        "node": Column("node"),
        "cluster": Column("cluster"),
        "state": Column("state"),
        "driver": Column("driver"),
        "cuda": Column("cuda"),
        "reported_at": Column("at", ColumnKind.TIME),
    },
)


class NewSourceForm(SourceForm):
    """The form of a new source, with its cluster."""

    cluster = forms.ChoiceField(label=gettext_lazy("Cluster"))
    field_order = ("cluster", "name", "kind")

    def __init__(self, data: object = None, *, clusters: Sequence[Cluster]) -> None:
        super().__init__(data)
        field = self.fields["cluster"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101
        field.choices = [(cluster.name, cluster.name) for cluster in clusters]


@operator_required
def show_sources(request: HttpRequest) -> HttpResponse:
    """Show all sources with their state; POST adds one, or enables, disables or deletes some."""
    who, scope = get_viewer(request), scope_of(request)
    may_edit = permissions.has_permission(who, Permission.CLUSTER_EDIT)
    acts = _acts(who) if may_edit else []
    if is_batch(request):
        ops_frame(request, scope)
        return answer_batch(request, acts=acts, find=partial(_find, who), back=request.path)
    listing = read_list(request, SOURCES)
    refused: RowForm | None = None
    if request.method == "POST":
        made = _add(request, who, scope)
        if isinstance(made, TelemetrySource):
            return redirect("frontend:ops-source", source=made.pk)
        refused = made
    if listing.form_of and not may_edit:
        raise PermissionDenied
    ops_frame(request, scope)
    opened = _form(NewSourceForm(clusters=_clusters(scope))) if listing.form_of == NEW else None
    hint = _("The node agent needs none. Add one to read exporters that a cluster already has.")
    return answer_list(
        request,
        listing,
        listing.arrange_rows(source_list(viewer=who, cluster=scope.cluster_name or None)),
        lambda found: [SourceRow(view_source(line)) for line in describe_sources(found)],
        template="frontend/operations/sources.html",
        context=lambda: {
            "sections": _sections(scope),
            "row": "frontend/operations/source_row.html",
            "acts": acts,
            "batch_url": request.path,
            "may_edit": may_edit,
            "open_form": refused or opened,
            "empty_list": EmptyList(_("No data sources"), hint, icon="radio-tower"),
        },
        status=400 if refused else 200,
    )


@operator_required
def show_agents(request: HttpRequest) -> HttpResponse:
    """Show the agent of every node with GPUs, those that do not report first."""
    who, scope = get_viewer(request), scope_of(request)
    ops_frame(request, scope)
    listing = read_list(request, AGENTS)
    agents = describe_agents(who, cluster=scope.cluster_name or None)
    fresh = sum(line.state == NodeState.FRESH for line in agents)
    return answer_list(
        request,
        listing,
        listing.arrange_rows(agents),
        lambda found: [AgentRow(line, scope.node_url(line.node, line.cluster)) for line in found],
        template="frontend/operations/sources.html",
        context=lambda: {
            "sections": _sections(scope),
            "fact": _("%(fresh)s of %(all)s nodes up to date") % {"fresh": fresh, "all": len(agents)},
            "row": "frontend/operations/agent_row.html",
            "empty_list": EmptyList(_("No GPU nodes."), icon="server"),
        },
    )


def _sections(scope: ClusterScope) -> list[tuple[str, str]]:
    """Return the addresses of both lists with their labels, of the same cluster."""
    query = {"cluster": scope.cluster_name}
    return [
        (build_address(reverse("frontend:ops-sources"), query), _("Exporters and Prometheus servers")),
        (build_address(reverse("frontend:ops-source-agents"), query), _("Node agents")),
    ]


def _clusters(scope: ClusterScope) -> Sequence[Cluster]:
    return [scope.cluster] if scope.cluster else scope.clusters


def _form(form: NewSourceForm) -> RowForm:
    fields = "frontend/operations/source_new_fields.html"
    return RowForm(title=_("Add data source"), do="make", button=_("Add"), form=form, fields=fields)


def _add(request: HttpRequest, who: User, scope: ClusterScope) -> TelemetrySource | RowForm:
    """Add a source; return the form if it is refused."""
    permissions.require_permission(who, Permission.CLUSTER_EDIT)
    form = NewSourceForm(request.POST, clusters=_clusters(scope))
    if not form.is_valid():
        return _form(form)
    fields = form.fields_of()
    fields["secret"] = fields["secret"] or ""
    try:
        cluster = cluster_get(viewer=who, name=fields.pop("cluster"))
        made = source_add(acting_user=who, cluster=cluster, **fields)
    except AllotmentError as error:
        show_refusal(form, error)
        return _form(form)
    messages.success(request, _("Data source %(name)s added") % {"name": made.name})
    return made


def _acts(who: User) -> list[BatchAct]:
    def set_enabled(source: TelemetrySource, enabled: bool) -> None:
        source_change(acting_user=who, source=source, expected=source.version, enabled=enabled)

    return [
        *build_switch_acts(
            _("Enable data sources"),
            _("Disable data sources"),
            set_enabled,
            lambda row: row.source.enabled,
        ),
        build_delete_act(
            _("Delete data sources"),
            lambda source: source_delete(acting_user=who, source=source, expected=source.version),
            _("Stored measurements are kept. Jobs aren't affected."),
        ),
    ]


def _find(who: User, ids: Collection[uuid.UUID]) -> list[BatchItem]:
    losses = [_("New samples from this source")]
    return [
        BatchItem(
            id=source.pk,
            name=source.name,
            row=source,
            state=source.cluster.name,
            losses=losses,
            version=source.version,
        )
        for source in source_list(viewer=who).filter(pk__in=ids)
    ]
