"""One pool: its nodes and GPUs, its placement policy, and the CPU and memory quota per GPU."""

from __future__ import annotations

from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from clusters.models import Flavor, PlacementPolicy
from clusters.selectors.flavor import flavor_get
from clusters.services.flavor import flavor_set
from foundation.core.errors import AllotmentError
from foundation.core.quantities import QuantityError, Resource, parse_cpu
from frontend.components import view_models
from frontend.shell.form_actions import show_refusal, version_of
from frontend.shell.page_shell import get_viewer, operator_required, set_frame
from frontend.texts import formats
from frontend.texts.labels import GPU_MODES
from frontend.texts.typed import parse_gibibytes
from quotas.selectors.pools.pool_size import PoolSize, pool_sizes
from tenants.access import permissions
from tenants.access.permissions import Permission


def _list_policies() -> list[tuple[str, str]]:
    return [(policy.value, policy.help) for policy in PlacementPolicy]


class PoolSettingsForm(forms.Form):
    """The placement policy, and the quota per GPU; an empty field means the ratio of nodes."""

    placement = forms.ChoiceField(
        label=gettext_lazy("Placement policy"),
        help_text=gettext_lazy("Applies to tasks that start from now on. Running tasks stay on their nodes."),
        choices=_list_policies,
        widget=forms.RadioSelect,
    )
    cpu_per_gpu = forms.CharField(label=gettext_lazy("CPU cores per GPU"), max_length=20, required=False)
    memory_per_gpu = forms.CharField(label=gettext_lazy("Memory per GPU, GiB"), max_length=20, required=False)
    use_required_attribute = False

    def __init__(self, *args: Any, size: PoolSize, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, resource, unit in (
            ("cpu_per_gpu", Resource.CPU, 1000),
            ("memory_per_gpu", Resource.MEMORY, 1024),
        ):
            share = size.nodes[resource] // size.count if size.count else None
            number = "" if share is None else f"{round(share / unit, 2):g}"
            self.fields[name].widget.attrs |= {"inputmode": "decimal", "autocomplete": "off"}
            if number:
                self.fields[name].widget.attrs["placeholder"] = number
                self.fields[name].help_text = _("Empty: %(share)s, the ratio of the nodes") % {
                    "share": number
                }

    def clean_placement(self) -> PlacementPolicy:
        return PlacementPolicy(self.cleaned_data["placement"])

    def clean_cpu_per_gpu(self) -> int | None:
        text = self.cleaned_data["cpu_per_gpu"].strip()
        try:
            return parse_cpu(text) if text else None
        except QuantityError as error:
            raise forms.ValidationError(_(error.sentence) % error.values) from error

    def clean_memory_per_gpu(self) -> int | None:
        text = self.cleaned_data["memory_per_gpu"].strip()
        try:
            return parse_gibibytes(text) if text else None
        except QuantityError as error:
            raise forms.ValidationError(_(error.sentence) % error.values) from error


@operator_required
def show_pool(request: HttpRequest, cluster: str, flavor_name: str) -> HttpResponse:
    """Show a pool; POST changes its settings."""
    who = get_viewer(request)
    flavor = flavor_get(viewer=who, cluster=cluster, name=flavor_name)
    size = pool_sizes([flavor])[flavor.pk]
    form = PoolSettingsForm(
        request.POST if request.method == "POST" else None, size=size, initial=_typed(flavor)
    )
    if request.method == "POST":
        permissions.require_permission(who, Permission.CLUSTER_EDIT)
        if form.is_valid():
            change = partial(flavor_set, acting_user=who, flavor=flavor, **form.cleaned_data)
            try:
                change(expected=version_of(request))
            except AllotmentError as error:
                show_refusal(form, error)
            else:
                messages.success(request, _("Pool %(name)s updated") % {"name": flavor.name})
                return redirect("frontend:ops-flavor", cluster=cluster, flavor_name=flavor_name)
    set_frame(request, label=_("Pool"), trail=flavor.name)
    page = {
        "flavor": flavor,
        "mode": str(GPU_MODES[flavor.gpu_mode]),
        "nodes": flavor.nodes.filter(present=True).count(),
        "gpus": size.count,
        "memory": formats.format_memory(flavor.card_memory_mib) if flavor.card_memory_mib else "",
        "policy": flavor.placement_policy.help,
        "labels": sorted(flavor.node_selector.items()),
        "form": form,
        "may_edit": permissions.has_permission(who, Permission.CLUSTER_EDIT),
        "crumbs": [
            view_models.Crumb(label=_("Clusters"), url=reverse("frontend:ops-clusters")),
            view_models.Crumb(label=cluster, url=reverse("frontend:ops-cluster", args=[cluster])),
        ],
    }
    return render(request, "frontend/setup/pool.html", page, status=400 if form.errors else 200)


def _typed(flavor: Flavor) -> dict[str, str]:
    cpu, memory = flavor.cpu_per_gpu, flavor.memory_per_gpu
    return {
        "placement": flavor.placement_policy.value,
        "cpu_per_gpu": "" if cpu is None else f"{cpu / 1000:g}",
        "memory_per_gpu": "" if memory is None else f"{memory / 1024:.10g}",
    }
