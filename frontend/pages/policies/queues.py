"""Queues: which there are, what each is for, and its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.core.errors import AllotmentError, FieldError, Invalid
from frontend.components import view_models
from frontend.shell.form_actions import done, told, version_of
from frontend.shell.page_shell import frame, login_required, viewer
from quotas.models import Queue
from quotas.selectors.queue import queue_get, queue_list
from quotas.selectors.queue_flavors import find_flavors_named, get_cell_named, queue_flavor_names
from quotas.selectors.queues_in_sight import visible_queues
from quotas.services.queues.queue import queue_create, queue_rename
from quotas.services.queues.queue_delete import queue_delete
from quotas.services.queues.queue_preset import Preset, queue_preset
from quotas.services.queues.queue_settings import SETTINGS, preset_of, queue_update
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, User
from tenants.selectors.tenant import workspace_get, workspace_list

Choices = list[tuple[str, str | Promise]]
PRESETS: Final[dict[str, tuple[str | Promise, str | Promise]]] = {
    Preset.BALANCED.value: (
        gettext_lazy("Balanced"),
        gettext_lazy("Borrows what is free, takes its own quota back, leaves equal priorities alone."),
    ),
    Preset.THROUGHPUT.value: (
        gettext_lazy("Throughput"),
        gettext_lazy("Uses whatever is free, and pushes out lower priorities even in order to borrow."),
    ),
    Preset.DETERMINISTIC.value: (
        gettext_lazy("Deterministic"),
        gettext_lazy("Stays within its own quota for the whole run, and pushes nobody out."),
    ),
}
STOPS: Final[dict[str, tuple[str | Promise, str]]] = {
    "none": (gettext_lazy("open"), "running"),
    "hold": (gettext_lazy("on hold"), "waiting"),
    "hold-and-drain": (gettext_lazy("on hold, draining"), "failed"),
}
_STRATEGIES: Final[Choices] = [
    ("best-effort-fifo", gettext_lazy("Best effort: who fits may pass the first")),
    ("strict-fifo", gettext_lazy("Strict: nobody passes the first")),
]
_OTHERS: Final[Choices] = [
    ("never", gettext_lazy("Nobody")),
    ("lower-priority", gettext_lazy("Lower priorities")),
    ("any", gettext_lazy("Any priority")),
]


@dataclass(frozen=True, slots=True)
class Line:
    """A queue in the list, in words."""

    queue: Queue
    url: str
    preset: str
    stop: str
    tone: str


class QueueForm(forms.Form):
    """The settings of a queue, under the version that was read."""

    version = forms.IntegerField(widget=forms.HiddenInput)
    strategy = forms.ChoiceField(label=gettext_lazy("Order"), choices=_STRATEGIES)
    stop_policy = forms.ChoiceField(
        label=gettext_lazy("Open or held"),
        choices=[
            ("none", gettext_lazy("Open")),
            ("hold", gettext_lazy("On hold: admits nothing")),
            ("hold-and-drain", gettext_lazy("On hold and draining: running jobs have to leave")),
        ],
    )
    allocation_mode = forms.ChoiceField(
        label=gettext_lazy("Allocation"),
        choices=[
            ("dynamic", gettext_lazy("Dynamic: may borrow")),
            ("static", gettext_lazy("Static: only its own quota")),
        ],
    )
    preemption = forms.BooleanField(
        label=gettext_lazy("Others may have to leave for its jobs"), required=False
    )
    within_queue = forms.ChoiceField(
        label=gettext_lazy("Who leaves inside the queue"),
        choices=[
            *_OTHERS[:2],
            ("lower-or-newer-equal-priority", gettext_lazy("Lower priorities, and newer equal ones")),
        ],
    )
    reclaim = forms.ChoiceField(
        label=gettext_lazy("Who leaves elsewhere to give its quota back"), choices=_OTHERS
    )
    while_borrowing = forms.ChoiceField(
        label=gettext_lazy("Who leaves elsewhere so that it can borrow"), choices=_OTHERS
    )
    max_priority = forms.IntegerField(
        label=gettext_lazy("Only those up to this priority, when it borrows"), required=False
    )
    when_can_borrow = forms.ChoiceField(
        label=gettext_lazy("When a flavor could be borrowed"),
        choices=[
            ("may-stop-search", gettext_lazy("Take it")),
            ("try-next-flavor", gettext_lazy("Try the next flavor first")),
        ],
    )
    when_can_preempt = forms.ChoiceField(
        label=gettext_lazy("When others could be pushed out"),
        choices=[
            ("may-stop-search", gettext_lazy("Do it")),
            ("try-next-flavor", gettext_lazy("Try the next flavor first")),
        ],
    )
    preference = forms.ChoiceField(
        label=gettext_lazy("What is tried first"),
        choices=[
            ("borrowing-over-preemption", gettext_lazy("To borrow, before pushing out")),
            ("preemption-over-borrowing", gettext_lazy("To push out, before borrowing")),
        ],
    )
    backfill = forms.BooleanField(
        label=gettext_lazy("Smaller jobs fill gaps if they do not delay the first"), required=False
    )
    user_shares = forms.BooleanField(
        label=gettext_lazy("Users who used less lately come first"), required=False
    )
    flavors = forms.CharField(
        label=gettext_lazy("Flavors in the order of trying"),
        max_length=2000,
        help_text=gettext_lazy("Names with commas between them."),
    )


class NewQueueForm(forms.Form):
    """A queue to be."""

    workspace = forms.ChoiceField(label=gettext_lazy("Workspace"))
    name = forms.CharField(label=gettext_lazy("Name"), max_length=63)
    flavors = forms.CharField(
        label=gettext_lazy("Flavors in the order of trying"),
        max_length=2000,
        help_text=gettext_lazy("Names with commas between them."),
    )
    preset = forms.ChoiceField(
        label=gettext_lazy("Preset"), choices=[(value, name) for value, (name, _text) in PRESETS.items()]
    )

    def __init__(self, *args: Any, places: Sequence[Tenant], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["workspace"]
        if isinstance(field, forms.ChoiceField):
            field.choices = [(place.slug, place.name) for place in places]


@login_required
def queues(request: HttpRequest) -> HttpResponse:
    """The queues in sight; POST opens one."""
    who = viewer(request)
    places = [one for one in workspace_list(viewer=who) if permissions.may(who, Permission.QUEUE_EDIT, one)]
    form = NewQueueForm(request.POST if request.method == "POST" else None, places=places)
    if request.method == "POST" and form.is_valid():
        try:
            made = _open(who, form.cleaned_data)
        except AllotmentError as error:
            told(form, error)
        else:
            messages.success(
                request, _("The queue %(name)s is open. Give it quota next.") % {"name": made.name}
            )
            return redirect(_address(made))
    frame(request, label=_("Queues"), trail=_("Operations"))
    page = {"lines": [_line(queue) for queue in visible_queues(who)], "form": form, "may_open": bool(places)}
    return render(request, "frontend/policies/queues.html", page, status=400 if form.errors else 200)


@transaction.atomic
def _open(who: User, values: dict[str, Any]) -> Queue:
    cell = get_cell_named(None)
    workspace = workspace_get(viewer=who, slug=values["workspace"])
    flavors, wrong = find_flavors_named(cell, _names(values["flavors"]))
    if wrong:
        raise _unknown()
    made = queue_create(acting_user=who, cell=cell, workspace=workspace, name=values["name"], flavors=flavors)
    return queue_preset(acting_user=who, queue=made, preset=Preset(values["preset"]))


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _unknown() -> Invalid:
    message = _("There is no such flavor here, or two of that name: write cluster/flavor then.")
    return Invalid(message, errors=[FieldError("flavors", "UNKNOWN", message)])


def _line(queue: Queue) -> Line:
    found = preset_of(queue)
    word, tone = STOPS[queue.stop_policy]
    preset = str(PRESETS[found][0]) if found else _("own settings")
    return Line(queue, _address(queue), preset, str(word), tone)


def _address(queue: Queue) -> str:
    return reverse("frontend:ops-queue", args=[queue.workspace.slug, queue.name])


@login_required
def queue(request: HttpRequest, workspace: str, queue: str) -> HttpResponse:
    """One queue; POST gives it a preset or changes its settings."""
    who = viewer(request)
    place = workspace_get(viewer=who, slug=workspace)
    found = queue_get(who, place, queue)
    if request.method != "POST":
        return _show(request, who, found, QueueForm(initial=_initial(found)))
    if request.POST.get("do") in _ACTS:
        return redirect(_ACTS[request.POST["do"]](request, who, found))
    preset = request.POST.get("preset", "")
    form = QueueForm(request.POST if not preset else None, initial=_initial(found))
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
        told(form, error)
        return _show(request, who, found, form, status=400)
    messages.success(request, _("The settings are saved. The engine follows them from its next cycle on."))
    return redirect(_address(found))


def _rename(request: HttpRequest, who: User, found: Queue) -> str:
    """Give the queue another name; the address of its page then."""
    name = request.POST.get("name", "").strip()
    rename = partial(queue_rename, acting_user=who, queue=found, name=name, expected=version_of(request))
    done(request, rename, _("The queue is called %(name)s now.") % {"name": name}, now=partial(_now, found))
    return _address(found)


def _delete(request: HttpRequest, who: User, found: Queue) -> str:
    """Close the queue; the address to go to then."""
    target = request.POST.get("move_to", "")
    move_to = queue_get(who, found.workspace, target) if target else None
    delete = partial(
        queue_delete, acting_user=who, queue=found, move_to=move_to, expected=version_of(request)
    )
    word = _("The queue %(name)s is deleted; its quota is the workspace's.") % {"name": found.name}
    gone = done(request, delete, word, now=partial(_now, found))
    return reverse("frontend:ops-queues") if gone else _address(found)


def _now(queue: Queue) -> str:
    """A queue as somebody else has left it."""
    stop, _tone = STOPS[queue.stop_policy]
    return _("It is called %(name)s and is %(state)s.") % {"name": queue.name, "state": stop}


_ACTS: Final[Mapping[str, Callable[[HttpRequest, User, Queue], str]]] = {"rename": _rename, "delete": _delete}


def _save(who: User, queue: Queue, values: dict[str, Any]) -> None:
    names = _names(values["flavors"])
    flavors, wrong = find_flavors_named(queue.cell, names)
    if wrong:
        raise _unknown()
    same = names == queue_flavor_names(queue)
    queue_update(
        acting_user=who,
        queue=queue,
        values={name: values[name] for name in SETTINGS},
        flavors=None if same else flavors,
        expected=values["version"],
    )


def _initial(queue: Queue) -> dict[str, Any]:
    names = ", ".join(queue_flavor_names(queue))
    return {**{name: getattr(queue, name) for name in SETTINGS}, "version": queue.version, "flavors": names}


def _show(request: HttpRequest, who: User, found: Queue, form: QueueForm, status: int = 200) -> HttpResponse:
    line = _line(found)
    current = preset_of(found)
    frame(request, label=_("Queues"), trail=found.workspace.name)
    page = {
        "queue": found,
        "line": line,
        "form": form,
        "presets": [(value, *words, value == current) for value, words in PRESETS.items()],
        "may_edit": permissions.may(who, Permission.QUEUE_EDIT, found.workspace),
        "others": [one for one in queue_list(who, found.workspace) if one.pk != found.pk],
        "crumbs": [view_models.Crumb(label=_("Queues"), url=reverse("frontend:ops-queues"))],
    }
    return render(request, "frontend/policies/queue.html", page, status=status)
