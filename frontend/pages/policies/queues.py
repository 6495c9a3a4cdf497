"""The lists of queues: those in sight, and those of one workspace."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.core.errors import AllotmentError, Invalid, PermissionDenied
from foundation.web.listing import filter_rows
from frontend.components.long_select import LongSelect
from frontend.components.ordered_selects import OrderedChoiceField
from frontend.lists.page_list import EmptyList, answer_list, read_list
from frontend.lists.row_form import NEW, RowForm
from frontend.pages.policies.queue_address import queue_page_address
from frontend.pages.policies.queue_columns import QUEUE_ORDERS, QUEUES, WORKSPACE_QUEUES
from frontend.pages.policies.queue_lines import describe_queues
from frontend.pages.policies.queue_settings_form import PRESETS, offer_pools, unknown_pools
from frontend.shell.form_actions import show_refusal
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from quotas.models import Queue
from quotas.selectors.queues.queue_flavors import find_flavors_named, get_cell_named, list_flavor_names
from quotas.selectors.queues.queues_in_sight import visible_queues
from quotas.services.queues.queue import queue_create
from quotas.services.queues.queue_preset import Preset, queue_preset
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, User
from tenants.selectors.tenant import workspace_get, workspace_list


class NewQueueForm(forms.Form):
    """The form of a new queue; the field of a `fixed` workspace, the only one of `places`, is hidden."""

    workspace = forms.ChoiceField(label=gettext_lazy("Workspace"), widget=LongSelect())
    name = forms.CharField(label=gettext_lazy("Name"), max_length=63)
    flavors = OrderedChoiceField(label=gettext_lazy("Pools, in order of preference"))
    preset = forms.ChoiceField(
        label=gettext_lazy("Preset"), choices=[(value, name) for value, (name, _text) in PRESETS.items()]
    )

    def __init__(
        self, data: object = None, *, places: Sequence[Tenant], pools: Sequence[str], fixed: bool = False
    ) -> None:
        super().__init__(data)  # type: ignore[arg-type]
        offer_pools(self, pools)
        field = self.fields["workspace"]
        if isinstance(field, forms.ChoiceField):
            field.choices = [(place.slug, place.name) for place in places]
            if fixed:
                field.widget, field.initial = forms.HiddenInput(), places[0].slug


@login_required
def show_queues(request: HttpRequest) -> HttpResponse:
    """Show the queues in sight; POST opens one."""
    who = get_viewer(request)
    return _answer(request, who, visible_queues(who), may_create=_may_create_anywhere(who))


@login_required
def workspace_queues(request: HttpRequest, workspace: str) -> HttpResponse:
    """Show the queues of a workspace; POST opens one."""
    who = get_viewer(request)
    place = workspace_get(viewer=who, slug=workspace)
    permissions.require_permission(who, Permission.QUOTA_VIEW, place)
    may_create = permissions.has_permission(who, Permission.QUEUE_EDIT, place)
    queues = visible_queues(who).filter(workspace=place)
    return _answer(request, who, queues, may_create=may_create, workspace=place)


def _answer(
    request: HttpRequest,
    who: User,
    queues: QuerySet[Queue],
    *,
    may_create: bool,
    workspace: Tenant | None = None,
) -> HttpResponse:
    """Respond with the list: of one workspace, or of all in sight."""
    listing = read_list(request, QUEUES if workspace is None else WORKSPACE_QUEUES)
    form: NewQueueForm | None = None
    if request.method == "POST":
        form = _new_form(who, workspace, request.POST)
        made = _open(who, form)
        if made is not None:
            messages.success(request, _("Queue %(name)s created. Next: assign quota.") % {"name": made.name})
            return redirect(queue_page_address(request, made))
    elif listing.form_of and not may_create:
        raise PermissionDenied
    elif listing.form_of == NEW:
        form = _new_form(who, workspace)
    if workspace is None:
        set_frame(request, label=_("Queues"), trail=_("Operations"))
    else:
        set_frame(request, workspace)
    rows = filter_rows(queues, listing.conditions).order_by(*QUEUE_ORDERS[listing.sort])
    none = EmptyList(_("No queues"), _("A workspace admin can create queues."), icon="list")
    return answer_list(
        request,
        listing,
        rows,
        partial(describe_queues, request, who),
        template="frontend/policies/queues.html",
        context=lambda: {
            "add_label": _("Create queue") if may_create else "",
            "open_form": _row_form(form) if form is not None and may_create else None,
            "row": "frontend/policies/queue_row.html",
            "empty_list": none,
        },
        status=400 if request.method == "POST" else 200,
    )


def _may_create_anywhere(who: User) -> bool:
    edited = permissions.tenants_with(who, Permission.QUEUE_EDIT)
    return permissions.visible_workspaces(who).filter(pk__in=edited.values("pk")).exists()


def _new_form(who: User, workspace: Tenant | None, data: object = None) -> NewQueueForm:
    places = workspace_list(viewer=who) if workspace is None else [workspace]
    may_edit = partial(permissions.has_permission, who, Permission.QUEUE_EDIT)
    mine = [place for place in places if may_edit(place)]
    fixed = workspace is not None and bool(mine)
    return NewQueueForm(data, places=mine, pools=_pools() if mine else (), fixed=fixed)


def _pools() -> list[str]:
    """Return the pools of a new queue; none if its scheduling domain isn't known."""
    try:
        return list_flavor_names(get_cell_named(None))
    except Invalid:
        return []


def _row_form(form: NewQueueForm) -> RowForm:
    return RowForm(title=_("Create queue"), do="create", button=_("Create"), form=form)


def _open(who: User, form: NewQueueForm) -> Queue | None:
    """Open the queue that the form describes; a refusal is added to the form."""
    if not form.is_valid():
        return None
    try:
        return _create(who, form.cleaned_data)
    except AllotmentError as error:
        show_refusal(form, error)
        return None


@transaction.atomic
def _create(who: User, values: dict[str, Any]) -> Queue:
    cell = get_cell_named(None)
    workspace = workspace_get(viewer=who, slug=values["workspace"])
    flavors, wrong = find_flavors_named(cell, values["flavors"])
    if wrong:
        raise unknown_pools()
    made = queue_create(acting_user=who, cell=cell, workspace=workspace, name=values["name"], flavors=flavors)
    return queue_preset(acting_user=who, queue=made, preset=Preset(values["preset"]))
