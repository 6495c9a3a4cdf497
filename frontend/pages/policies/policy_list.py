"""The list of tenants with the requirements of each policy."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.web.listing import Column, ColumnKind
from frontend.lists.batch import BatchAct, BatchItem, answer_batch, is_batch
from frontend.lists.declaration import FilterField, ListColumn, ListDeclaration
from frontend.lists.page_list import EmptyList, answer_list, read_list
from frontend.pages.tenancy.tenant_list import DEEPEST, KIND_CHOICES, list_places
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from scheduling.models import IdleAction, WorkspacePolicy
from scheduling.selectors.policies.workspace_policy import policies_by_tenant, policy_own
from scheduling.services.policies.workspace_policy import policy_delete
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, User
from tenants.selectors.tenant import tenant_get
from tenants.selectors.tenant_tree import TreePlace, tenant_query, tenants_at


@dataclass(frozen=True, slots=True)
class PolicyLine:
    """A tenant in the list, with its own requirements; `fixed` without a policy of its own."""

    tenant: Tenant
    indent: int
    policy: WorkspacePolicy | None
    fixed: bool

    @property
    def id(self) -> uuid.UUID:
        return self.tenant.pk

    @property
    def title(self) -> str:
        return self.tenant.name

    @property
    def url(self) -> str:
        return policy_address(self.tenant)

    @property
    def limits(self) -> int | None:
        """The number of fields that the policy limits; None if it has no limits."""
        policy = self.policy
        return sum(map(len, (policy.minimum, policy.maximum, policy.allowed))) or None if policy else None

    @property
    def images(self) -> str:
        if self.policy is None or self.policy.images is None:
            return _("All images")
        return _("Patterns: %(number)s") % {"number": len(self.policy.images)}

    @property
    def idle_action(self) -> str:
        policy = self.policy
        return str(IdleAction(policy.idle_action).label) if policy and policy.idle_timeout_s else ""


POLICIES: Final = ListDeclaration(
    key="policies",
    title=gettext_lazy("Policies"),
    columns=(
        ListColumn(key="name", label=gettext_lazy("Name"), sort="name", text=lambda line: line.tenant.name),
        ListColumn(
            key="limits", label=gettext_lazy("Own limits"), number=True, text=lambda line: line.limits
        ),
        ListColumn(key="images", label=gettext_lazy("Images"), text=lambda line: line.images),
        ListColumn(
            key="idle",
            label=gettext_lazy("Idle timeout"),
            number=True,
            sort="idle_timeout_s",
            text=lambda line: line.policy and line.policy.idle_timeout_s,
        ),
        ListColumn(
            key="action",
            label=gettext_lazy("When a job is idle too long"),
            shown=False,
            text=lambda line: line.idle_action,
        ),
    ),
    filters={
        "name": FilterField(label=gettext_lazy("Name")),
        "kind": FilterField(label=gettext_lazy("Type"), choices=KIND_CHOICES),
        "folder": FilterField(label=gettext_lazy("Parent folder")),
        "idle_timeout_s": FilterField(label=gettext_lazy("Idle timeout (seconds)")),
    },
    fields={
        "name": Column("name"),
        "kind": Column("kind"),
        "folder": Column("parent.name"),
        "idle_timeout_s": Column("workspace_policy.idle_timeout_s", ColumnKind.NUMBER),
    },
    parameters=("q", "own"),
    size=50,
    every_s=0,
)


@login_required
def show_policies(request: HttpRequest) -> HttpResponse:
    """Show every tenant in sight with its requirements; POST deletes the own policies of some."""
    who = get_viewer(request)
    set_frame(request, label=_("Policies"), trail=_("Operations"))
    edits = Permission.POLICY_EDIT in permissions.permissions_anywhere(who)
    acts = [_delete_act(who)] if edits else []
    if is_batch(request):
        find = partial(_find, who)
        return answer_batch(request, acts=acts, find=find, back=reverse("frontend:ops-policies"))
    listing = read_list(request, POLICIES, {"own": ["1"]})
    rows = tenant_query(viewer=who)
    own = listing.query.get("own") == "1"
    if own:
        rows = rows.filter(workspace_policy__isnull=False)
    return answer_list(
        request,
        listing,
        list_places(listing, rows),
        partial(_lines, who),
        template="frontend/policies/policies.html",
        context=lambda: {
            "row": "frontend/policies/policy_row.html",
            "acts": acts,
            "batch_url": request.path,
            "own": own,
            "q": listing.query.get("q", ""),
            "empty_list": EmptyList(_("No tenants"), icon="scale"),
        },
    )


def _lines(who: User, places: Sequence[TreePlace]) -> list[PolicyLine]:
    tenants, own = tenants_at(places), policies_by_tenant([place.pk for place in places])
    return [
        PolicyLine(
            tenant := tenants[place.pk],
            min(place.depth, DEEPEST),
            own.get(place.pk),
            place.pk not in own or not permissions.has_permission(who, Permission.POLICY_EDIT, tenant),
        )
        for place in places
        if place.pk in tenants
    ]


def _delete_act(who: User) -> BatchAct:
    return BatchAct(
        key="delete",
        label=_("Delete policy"),
        title=_("Delete policies"),
        act=lambda policy, _choice: policy_delete(
            acting_user=who, tenant=policy.tenant, expected=policy.version
        ),
        danger=True,
        note=_("Inherited policies still apply."),
        icon="trash-2",
    )


def _find(who: User, ids: Collection[uuid.UUID]) -> list[BatchItem]:
    losses = [_("Defaults, limits, allowed images and idle timeout")]
    found = [policy_own(viewer=who, tenant=tenant_get(viewer=who, tenant_id=pk)) for pk in ids]
    return [
        BatchItem(
            id=policy.tenant_id, name=policy.tenant.name, row=policy, losses=losses, version=policy.version
        )
        for policy in found
    ]


def policy_address(tenant: Tenant) -> str:
    """Return the address of the policy of a tenant."""
    return reverse("frontend:ops-policy", args=[tenant.pk])
