"""Queues: their list, and the settings of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

import yaml
from django import forms
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET, require_POST

from clusters.models import Flavor
from foundation.core import clock
from foundation.core.errors import AllotmentError, FieldError, Invalid, PermissionDenied
from foundation.core.sentences import join_sentences
from foundation.sql import row_scope
from foundation.web.listing import filter_rows
from frontend.components import view_models
from frontend.components.long_select import LongSelect
from frontend.components.ordered_selects import OrderedChoiceField
from frontend.lists.page_list import EmptyList, answer_list, read_list
from frontend.lists.row_form import NEW, RowForm
from frontend.pages.policies.queue_accuracy import describe_accuracy
from frontend.pages.policies.queue_body import body_context
from frontend.pages.policies.queue_charts import charts_context
from frontend.pages.policies.queue_columns import QUEUE_ORDERS, QUEUES, QueuePolicyLine
from frontend.shell.form_actions import run_change, show_refusal, version_of
from frontend.shell.form_mistakes import list_mistakes
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from quotas.models import Queue
from quotas.selectors.queues.queue import queue_get, queue_list
from quotas.selectors.queues.queue_flavors import (
    find_flavors_named,
    get_cell_named,
    list_flavor_names,
    queue_flavor_names,
)
from quotas.selectors.queues.queues_in_sight import visible_queues
from quotas.services.queues.queue import queue_create, queue_rename
from quotas.services.queues.queue_delete import queue_delete
from quotas.services.queues.queue_preset import Preset, queue_preset
from quotas.services.queues.queue_settings import SETTINGS, preset_of, queue_update
from scheduling.selectors.jobs.row import QueueWork, queues_work
from scheduling.services.policy_effect import preview_queue_settings
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, User
from tenants.selectors.tenant import workspace_get, workspace_list

Choices = list[tuple[str, str | Promise]]
PRESETS: Final[dict[str, tuple[str | Promise, str | Promise]]] = {
    Preset.BALANCED.value: (
        gettext_lazy("Balanced"),
        gettext_lazy("Borrows free quota, reclaims its own, doesn't preempt equal priority."),
    ),
    Preset.THROUGHPUT.value: (
        gettext_lazy("Throughput"),
        gettext_lazy("Also preempts lower priority to borrow."),
    ),
    Preset.DETERMINISTIC.value: (
        gettext_lazy("Deterministic"),
        gettext_lazy("Nominal quota only; never preempts."),
    ),
}
STOPS: Final[dict[str, tuple[str | Promise, str]]] = {
    "none": (gettext_lazy("Active"), "running"),
    "hold": (gettext_lazy("Hold"), "waiting"),
    "hold-and-drain": (gettext_lazy("Hold and drain"), "failed"),
}
_STRATEGIES: Final[Choices] = [
    ("best-effort-fifo", gettext_lazy("Best-effort FIFO")),
    ("strict-fifo", gettext_lazy("Strict FIFO")),
]
_OTHERS: Final[Choices] = [
    ("never", gettext_lazy("Never")),
    ("lower-priority", gettext_lazy("Lower priority")),
    ("any", gettext_lazy("Any priority")),
]


class QueueForm(forms.Form):
    """The settings of a queue, with the version that was read."""

    version = forms.IntegerField(widget=forms.HiddenInput)
    strategy = forms.ChoiceField(
        label=gettext_lazy("Queueing strategy"),
        choices=_STRATEGIES,
        help_text=gettext_lazy("Best-effort: jobs that fit can start before jobs ahead of them."),
    )
    stop_policy = forms.ChoiceField(
        label=gettext_lazy("State"),
        choices=[
            ("none", gettext_lazy("Active")),
            ("hold", gettext_lazy("Hold: no new admissions")),
            ("hold-and-drain", gettext_lazy("Hold and drain: evict running jobs")),
        ],
    )
    allocation_mode = forms.ChoiceField(
        label=gettext_lazy("Allocation"),
        choices=[
            ("dynamic", gettext_lazy("Borrowing enabled")),
            ("static", gettext_lazy("Nominal quota only")),
        ],
    )
    preemption = forms.BooleanField(label=gettext_lazy("Enable preemption"), required=False)
    within_queue = forms.ChoiceField(
        label=gettext_lazy("Within queue"),
        choices=[
            *_OTHERS[:2],
            ("lower-or-newer-equal-priority", gettext_lazy("Lower or newer equal priority")),
        ],
    )
    reclaim = forms.ChoiceField(label=gettext_lazy("Reclaim within cohort"), choices=_OTHERS)
    while_borrowing = forms.ChoiceField(label=gettext_lazy("Borrow within cohort"), choices=_OTHERS)
    max_priority = forms.IntegerField(
        label=gettext_lazy("Maximum priority to preempt when borrowing"), required=False
    )
    when_can_borrow = forms.ChoiceField(
        label=gettext_lazy("When borrowing is possible"),
        choices=[
            ("may-stop-search", gettext_lazy("Borrow")),
            ("try-next-flavor", gettext_lazy("Try next pool")),
        ],
    )
    when_can_preempt = forms.ChoiceField(
        label=gettext_lazy("When preemption is possible"),
        choices=[
            ("may-stop-search", gettext_lazy("Preempt")),
            ("try-next-flavor", gettext_lazy("Try next pool")),
        ],
    )
    preference = forms.ChoiceField(
        label=gettext_lazy("Preference"),
        choices=[
            ("borrowing-over-preemption", gettext_lazy("Borrow before preempting")),
            ("preemption-over-borrowing", gettext_lazy("Preempt before borrowing")),
        ],
    )
    backfill = forms.BooleanField(label=gettext_lazy("Backfill"), required=False)
    user_shares = forms.BooleanField(label=gettext_lazy("Fair sharing between users"), required=False)
    flavors = OrderedChoiceField(label=gettext_lazy("Pools, in order of preference"))

    def __init__(self, *args: Any, pools: Sequence[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _offer(self, pools)


class NewQueueForm(forms.Form):
    """The form of a new queue."""

    workspace = forms.ChoiceField(label=gettext_lazy("Workspace"), widget=LongSelect())
    name = forms.CharField(label=gettext_lazy("Name"), max_length=63)
    flavors = OrderedChoiceField(label=gettext_lazy("Pools, in order of preference"))
    preset = forms.ChoiceField(
        label=gettext_lazy("Preset"), choices=[(value, name) for value, (name, _text) in PRESETS.items()]
    )

    def __init__(self, data: object = None, *, places: Sequence[Tenant], pools: Sequence[str]) -> None:
        super().__init__(data)  # type: ignore[arg-type]
        _offer(self, pools)
        field = self.fields["workspace"]
        if isinstance(field, forms.ChoiceField):
            field.choices = [(place.slug, place.name) for place in places]


def _offer(form: forms.Form, pools: Sequence[str]) -> None:
    field = form.fields["flavors"]
    if isinstance(field, OrderedChoiceField):
        field.set_choices(pools)


@login_required
def show_queues(request: HttpRequest) -> HttpResponse:
    """Show the queues in sight; POST opens one."""
    who = get_viewer(request)
    listing = read_list(request, QUEUES)
    may_open = _may_open(who)
    form: NewQueueForm | None = None
    if request.method == "POST":
        form = _new_form(who, request.POST)
        made = _open(who, form)
        if made is not None:
            messages.success(request, _("Queue %(name)s created. Next: assign quota.") % {"name": made.name})
            return redirect(_address(made))
    elif listing.form_of and not may_open:
        raise PermissionDenied
    elif listing.form_of == NEW:
        form = _new_form(who)
    set_frame(request, label=_("Queues"), trail=_("Operations"))
    rows = filter_rows(visible_queues(who), listing.conditions).order_by(*QUEUE_ORDERS[listing.sort])
    none = EmptyList(_("No queues"), _("A workspace admin can create queues."), icon="list")
    return answer_list(
        request,
        listing,
        rows,
        partial(_lines, who),
        template="frontend/policies/queues.html",
        context=lambda: {
            "add_label": _("Create queue") if may_open else "",
            "open_form": _row_form(form) if form is not None and may_open else None,
            "row": "frontend/policies/queue_row.html",
            "empty_list": none,
        },
        status=400 if request.method == "POST" else 200,
    )


def _may_open(who: User) -> bool:
    edited = permissions.tenants_with(who, Permission.QUEUE_EDIT)
    return permissions.visible_workspaces(who).filter(pk__in=edited.values("pk")).exists()


def _new_form(who: User, data: object = None) -> NewQueueForm:
    places = workspace_list(viewer=who)
    may_edit = partial(permissions.has_permission, who, Permission.QUEUE_EDIT)
    mine = [place for place in places if may_edit(place)]
    return NewQueueForm(data, places=mine, pools=_pools() if mine else ())


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
        raise _unknown()
    made = queue_create(acting_user=who, cell=cell, workspace=workspace, name=values["name"], flavors=flavors)
    return queue_preset(acting_user=who, queue=made, preset=Preset(values["preset"]))


def _unknown() -> Invalid:
    message = _("Pool not found or ambiguous. Use cluster/pool.")
    return Invalid(message, errors=[FieldError("flavors", "UNKNOWN", message)])


def _lines(who: User, queues: Sequence[Queue]) -> list[QueuePolicyLine]:
    now = clock.now()
    work = queues_work(viewer=who, queues=queues, failed_since=now - timedelta(hours=24))
    return [_line(queue, work.get(queue.pk), now) for queue in queues]


def _line(queue: Queue, work: QueueWork | None, now: datetime) -> QueuePolicyLine:
    found = preset_of(queue)
    word, tone = STOPS[queue.stop_policy]
    oldest = work.oldest_waiting_at if work else None
    return QueuePolicyLine(
        queue=queue,
        url=_address(queue),
        preset=str(PRESETS[found][0]) if found else _("Custom"),
        stop=str(word),
        tone=tone,
        strategy=str(dict(_STRATEGIES)[queue.strategy]),
        pools=queue_flavor_names(queue),
        work=work,
        oldest_wait=now - oldest if oldest else None,
    )


def _address(queue: Queue) -> str:
    return reverse("frontend:ops-queue", args=[queue.workspace.slug, queue.name])


@login_required
def show_queue(request: HttpRequest, workspace: str, queue: str) -> HttpResponse:
    """Show one queue; POST applies a preset or changes its settings."""
    who = get_viewer(request)
    place = workspace_get(viewer=who, slug=workspace)
    found = queue_get(who, place, queue)
    if request.method != "POST":
        return _show(request, who, found, _form_of(found))
    if request.POST.get("do") in _ACTS:
        return redirect(_ACTS[request.POST["do"]](request, who, found))
    preset = request.POST.get("preset", "")
    form = _form_of(found, request.POST if not preset else None)
    try:
        if preset in set(Preset):
            queue_preset(acting_user=who, queue=found, preset=Preset(preset), expected=version_of(request))
        elif form.is_valid():
            _save(who, found, form.cleaned_data)
        else:
            return _show(request, who, found, form, status=400)
    except AllotmentError as error:
        if preset:
            messages.error(request, error.detail)
            return redirect(_address(found))
        show_refusal(form, error)
        return _show(request, who, found, form, status=400)
    messages.success(request, _("Settings saved"))
    return redirect(_address(found))


@require_GET
@login_required
def queue_live(request: HttpRequest, workspace: str, queue: str) -> HttpResponse:
    """Show the timeline, the jobs and the quota of one queue alone."""
    who = get_viewer(request)
    found = queue_get(who, workspace_get(viewer=who, slug=workspace), queue)
    return render(request, "frontend/policies/queue_body.html", body_context(request, who, found))


@require_POST
@login_required
def check_queue(request: HttpRequest, workspace: str, queue: str) -> HttpResponse:
    """Preview the settings of the form, or a preset; writes nothing."""
    who = get_viewer(request)
    found = queue_get(who, workspace_get(viewer=who, slug=workspace), queue)
    preset = request.POST.get("preset", "")
    form = _form_of(found, request.POST)
    effect: dict[str, Any]
    try:
        if preset in set(Preset):
            preview = preview_queue_settings(acting_user=who, queue=found, values={}, preset=Preset(preset))
            effect = {"preview": preview}
        elif form.is_valid():
            values = {name: form.cleaned_data[name] for name in SETTINGS}
            flavors = _changed_flavors(found, form.cleaned_data["flavors"])
            preview = preview_queue_settings(acting_user=who, queue=found, values=values, flavors=flavors)
            effect = {"preview": preview}
        else:
            effect = {"refusal": join_sentences(list_mistakes(form))}
    except Invalid as error:
        effect = {"refusal": error.detail}
    return render(request, "frontend/policies/effect.html", effect)


def _rename(request: HttpRequest, who: User, found: Queue) -> str:
    """Rename the queue; return the new address of its page."""
    name = request.POST.get("name", "").strip()
    rename = partial(queue_rename, acting_user=who, queue=found, name=name, expected=version_of(request))
    run_change(request, rename, _("Queue renamed to %(name)s") % {"name": name}, now=partial(_now, found))
    return _address(found)


def _delete(request: HttpRequest, who: User, found: Queue) -> str:
    """Close the queue; return the address to go to."""
    target = request.POST.get("move_to", "")
    move_to = queue_get(who, found.workspace, target) if target else None
    delete = partial(
        queue_delete, acting_user=who, queue=found, move_to=move_to, expected=version_of(request)
    )
    word = _("Queue %(name)s deleted. Quota returned to the workspace.") % {"name": found.name}
    deleted = run_change(request, delete, word, now=partial(_now, found))
    return reverse("frontend:ops-queues") if deleted else _address(found)


def _now(queue: Queue) -> str:
    """Return the present state of a queue, for the message about a concurrent change."""
    stop, _tone = STOPS[queue.stop_policy]
    return _("Current name: %(name)s. State: %(state)s.") % {"name": queue.name, "state": stop}


_ACTS: Final[Mapping[str, Callable[[HttpRequest, User, Queue], str]]] = {"rename": _rename, "delete": _delete}


def _save(who: User, queue: Queue, values: dict[str, Any]) -> None:
    queue_update(
        acting_user=who,
        queue=queue,
        values={name: values[name] for name in SETTINGS},
        flavors=_changed_flavors(queue, values["flavors"]),
        expected=values["version"],
    )


def _changed_flavors(queue: Queue, names: list[str]) -> list[Flavor] | None:
    """Return the selected pools; None if they are those of the queue. Raises: Invalid."""
    flavors, wrong = find_flavors_named(queue.cell, names)
    if wrong:
        raise _unknown()
    return None if names == queue_flavor_names(queue) else flavors


def _initial(queue: Queue) -> dict[str, Any]:
    settings = {name: getattr(queue, name) for name in SETTINGS}
    return {**settings, "version": queue.version, "flavors": queue_flavor_names(queue)}


def _form_of(queue: Queue, data: object = None) -> QueueForm:
    return QueueForm(data, initial=_initial(queue), pools=list_flavor_names(queue.cell))


@row_scope.read_transaction()
def _show(request: HttpRequest, who: User, found: Queue, form: QueueForm, status: int = 200) -> HttpResponse:
    line = _lines(who, [found])[0]
    current = preset_of(found)
    set_frame(request, label=_("Queues"), trail=found.workspace.name)
    page = {
        "queue": found,
        "line": line,
        "form": form,
        "presets": [(value, *words, value == current) for value, words in PRESETS.items()],
        "accuracy": describe_accuracy(who, found),
        "settings_yaml": _write_yaml(found),
        **body_context(request, who, found),
        **charts_context(request, found),
        "may_edit": permissions.has_permission(who, Permission.QUEUE_EDIT, found.workspace),
        "may_replay": permissions.has_permission(who, Permission.CLUSTER_EDIT),
        "others": [one for one in queue_list(who, found.workspace) if one.pk != found.pk],
        "crumbs": [view_models.Crumb(label=_("Queues"), url=reverse("frontend:ops-queues"))],
    }
    return render(request, "frontend/policies/queue.html", page, status=status)


def _write_yaml(queue: Queue) -> str:
    """Return the settings of a queue as YAML, under the names of the REST API."""
    settings = {name: getattr(queue, name) for name in SETTINGS}
    plain = {name: str(value) if isinstance(value, str) else value for name, value in settings.items()}
    content = {"name": queue.name, **plain, "flavors": queue_flavor_names(queue)}
    return yaml.safe_dump(content, allow_unicode=True, sort_keys=False)
