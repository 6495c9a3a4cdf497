"""The form of a new replay: a period, and the changed settings."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from clusters.models import Cell, Flavor, Sharing
from clusters.selectors.cell import cell_get, cell_list
from foundation.core import clock
from foundation.core.errors import AllotmentError, NotFound
from frontend.components import view_models
from frontend.pages.policies.queue_settings_form import QueueForm
from frontend.pages.replays.replay_words import format_bound
from frontend.shell.form_actions import show_refusal
from frontend.shell.page_shell import get_viewer, operator_required, set_frame
from frontend.texts.queue_rules import SHARING
from quotas.models import Queue
from quotas.selectors.queues.queues_in_sight import visible_queues
from quotas.selectors.tables.quota_table import quota_nodes_get
from quotas.selectors.tables.quota_tree import tree_flavors
from scheduling.selectors.policies.policy_replay import quota_places
from scheduling.services.policy_replay.change import MOST_NODES, REPLAYED_SETTINGS, ReplayChange
from scheduling.services.policy_replay.replay import replay_create
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import User

_UNCHANGED: Final = ("", gettext_lazy("Unchanged"))
_MOMENT: Final = {"type": "datetime-local"}
_SWITCH: Final = [_UNCHANGED, ("true", gettext_lazy("Yes")), ("false", gettext_lazy("No"))]


class ReplayForm(forms.Form):
    """A period and a change; the settings of queues are those of a queue's page."""

    name = forms.CharField(label=gettext_lazy("Name"), max_length=100, required=False)
    begin_at = forms.DateTimeField(
        label=gettext_lazy("From"),
        widget=forms.DateTimeInput(attrs=_MOMENT, format="%Y-%m-%dT%H:%M"),
        help_text=gettext_lazy("Time zone: UTC"),
    )
    end_at = forms.DateTimeField(
        label=gettext_lazy("To"), widget=forms.DateTimeInput(attrs=_MOMENT, format="%Y-%m-%dT%H:%M")
    )
    sharing = forms.ChoiceField(label=gettext_lazy("Sharing of unused quota"), required=False)
    queue = forms.ChoiceField(label=gettext_lazy("Queue"), required=False)
    node = forms.ChoiceField(label=gettext_lazy("Tenant"), required=False)
    quota_pool = forms.ChoiceField(label=gettext_lazy("Pool"), required=False)
    gpus = forms.IntegerField(
        label=gettext_lazy("Nominal quota, GPUs"),
        min_value=0,
        max_value=10**6,
        required=False,
        help_text=gettext_lazy("CPU and memory follow. Taken from the parent, or returned to it."),
    )
    on_top = forms.BooleanField(
        label=gettext_lazy("Create the quota instead of taking it from the parent"), required=False
    )
    pool = forms.ChoiceField(label=gettext_lazy("Pool"), required=False)
    pool_nodes = forms.IntegerField(
        label=gettext_lazy("Number of nodes"),
        min_value=0,
        max_value=MOST_NODES,
        required=False,
        help_text=gettext_lazy("Added nodes are copies of the largest; all tenants can borrow their GPUs."),
    )

    def __init__(
        self,
        *args: Any,
        cell: Cell,
        queues: Sequence[Queue],
        nodes: Sequence[tuple[str, str]],
        pools: Sequence[Flavor],
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        choices: Mapping[str, list[Any]] = {
            "sharing": [
                _UNCHANGED,
                *((value, words[0]) for value, words in SHARING.items() if value != cell.sharing),
            ],
            "queue": [
                ("", gettext_lazy("All queues")),
                *((str(one.pk), f"{one.workspace.name} / {one.name}") for one in queues),
            ],
            "node": [_UNCHANGED, *nodes],
            "quota_pool": [(str(pool.pk), f"{pool.name} ({pool.cluster.name})") for pool in pools],
            "pool": [_UNCHANGED, *((str(pool.pk), f"{pool.name} ({pool.cluster.name})") for pool in pools)],
        }
        for name, values in choices.items():
            field = self.fields[name]
            if isinstance(field, forms.ChoiceField):
                field.choices = values
        for name in REPLAYED_SETTINGS:
            known = QueueForm.base_fields[name]
            offered = [_UNCHANGED, *known.choices] if isinstance(known, forms.ChoiceField) else _SWITCH  # type: ignore[misc]
            self.fields[name] = forms.ChoiceField(label=known.label or "", choices=offered, required=False)

    @property
    def setting_fields(self) -> list[forms.BoundField]:
        """The settings of queues."""
        return [self[name] for name in REPLAYED_SETTINGS]

    def read_settings(self) -> dict[str, Any]:
        """Return the settings that were selected."""
        words = {"true": True, "false": False}
        chosen = {name: self.cleaned_data[name] for name in REPLAYED_SETTINGS if self.cleaned_data[name]}
        return {name: words.get(value, value) for name, value in chosen.items()}

    def clean(self) -> dict[str, Any]:
        """Check fields that are required together."""
        data: dict[str, Any] = super().clean() or {}
        for first, second, word in (
            ("node", "gpus", _("Enter the number of GPUs.")),
            ("pool", "pool_nodes", _("Enter the number of nodes.")),
        ):
            if data.get(first) and data.get(second) is None and second not in self.errors:
                self.add_error(second, word)
            if data.get(second) is not None and not data.get(first):
                self.add_error(first, _("Select one."))
        return data


@operator_required
def new_replay(request: HttpRequest) -> HttpResponse:
    """Render the form; POST starts the replay. `?cell=` and `?queue=` preselect."""
    who = get_viewer(request)
    permissions.require_permission(who, Permission.CLUSTER_EDIT)
    cells = list(cell_list(viewer=who))
    set_frame(request, label=_("Policy replays"), trail=_("New replay"))
    crumbs = [view_models.Crumb(label=_("Policy replays"), url=reverse("frontend:ops-replays"))]
    if not cells:
        return render(request, "frontend/replays/replay_new.html", {"crumbs": crumbs})
    wanted = request.GET.get("cell", "")
    cell = cell_get(viewer=who, name=wanted) if wanted else cells[0]
    form = _form_of(request, who, cell)
    if request.method == "POST" and form.is_valid():
        try:
            made = replay_create(
                acting_user=who,
                cell=cell,
                begin=form.cleaned_data["begin_at"],
                end=form.cleaned_data["end_at"],
                name=form.cleaned_data["name"],
                change=_read_change(who, cell, form),
            )
        except AllotmentError as error:
            show_refusal(form, error)
        else:
            return redirect("frontend:ops-replay", made.pk)
    page = {
        "form": form,
        "cell": cell,
        "cells": [view_models.Chip(label=one.name, value=one.name) for one in cells],
        "bound": format_bound(),
        "crumbs": crumbs,
    }
    return render(request, "frontend/replays/replay_new.html", page, status=400 if form.errors else 200)


def _form_of(request: HttpRequest, who: User, cell: Cell) -> ReplayForm:
    now = clock.now().replace(minute=0, second=0, microsecond=0)
    return ReplayForm(
        request.POST if request.method == "POST" else None,
        initial={
            "begin_at": now - timedelta(days=7),
            "end_at": now,
            "queue": request.GET.get("queue", ""),
        },
        cell=cell,
        queues=[queue for queue in visible_queues(who) if queue.cell_id == cell.pk],
        nodes=[(str(pk), name) for pk, name in quota_places(viewer=who, cell=cell)],
        pools=[pool for pool in tree_flavors(who) if pool.cluster.cell_id == cell.pk],
    )


def _read_change(who: User, cell: Cell, form: ReplayForm) -> ReplayChange:
    data = form.cleaned_data
    queues = {str(queue.pk): queue for queue in visible_queues(who) if queue.cell_id == cell.pk}
    pools = {str(pool.pk): pool for pool in tree_flavors(who) if pool.cluster.cell_id == cell.pk}
    node = None
    if data["node"]:
        pk = uuid.UUID(data["node"])
        node = quota_nodes_get(who, {pk}).get(pk)
        if node is None:
            raise NotFound
    return ReplayChange(
        sharing=Sharing(data["sharing"]) if data["sharing"] else None,
        queue=queues.get(data["queue"]),
        settings=form.read_settings(),
        node=node,
        quota_pool=pools.get(data["quota_pool"]) if node else None,
        gpus=data["gpus"],
        on_top=data["on_top"],
        pool=pools.get(data["pool"]),
        pool_nodes=data["pool_nodes"],
    )
