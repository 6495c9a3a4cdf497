"""The page of a queue: its timeline, jobs, quota and charts, and its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import yaml
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from clusters.models import Flavor
from foundation.core.errors import AllotmentError, Invalid
from foundation.core.sentences import join_sentences
from foundation.sql import row_scope
from frontend.components import view_models
from frontend.pages.estimates.change_estimate import offer_estimate, show_requested, wants_estimate
from frontend.pages.policies.queue_accuracy import describe_accuracy
from frontend.pages.policies.queue_address import is_operations, queue_page_address, queues_address
from frontend.pages.policies.queue_body import body_context
from frontend.pages.policies.queue_charts import charts_context
from frontend.pages.policies.queue_lines import describe_queues
from frontend.pages.policies.queue_settings_form import PRESETS, STOPS, QueueForm, unknown_pools
from frontend.shell.form_actions import run_change, show_refusal, version_of
from frontend.shell.form_mistakes import list_mistakes
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from quotas.models import Queue
from quotas.selectors.queues.queue import queue_get, queue_list
from quotas.selectors.queues.queue_flavors import find_flavors_named, list_flavor_names, queue_flavor_names
from quotas.services.queues.queue import queue_rename
from quotas.services.queues.queue_delete import queue_delete
from quotas.services.queues.queue_preset import Preset, queue_preset
from quotas.services.queues.queue_settings import SETTINGS, preset_of, queue_update
from scheduling.services.policy_effect import preview_queue_settings
from scheduling.services.start_estimate.change_request import request_queue_estimate
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import User
from tenants.selectors.tenant import workspace_get


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
            return redirect(queue_page_address(request, found))
        show_refusal(form, error)
        return _show(request, who, found, form, status=400)
    messages.success(request, _("Settings saved"))
    return redirect(queue_page_address(request, found))


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
        change: dict[str, Any] = {"acting_user": who, "queue": found, "values": {}}
        if preset in set(Preset):
            change["preset"] = Preset(preset)
        elif form.is_valid():
            change["values"] = {name: form.cleaned_data[name] for name in SETTINGS}
            change["flavors"] = _changed_flavors(found, form.cleaned_data["flavors"])
        else:
            refusal = {"refusal": join_sentences(list_mistakes(form))}
            return render(request, "frontend/policies/effect.html", refusal)
        if wants_estimate(request):
            return show_requested(request, partial(request_queue_estimate, **change))
        effect = {"preview": preview_queue_settings(**change), **offer_estimate(request)}
    except Invalid as error:
        effect = {"refusal": error.detail}
    return render(request, "frontend/policies/effect.html", effect)


def _rename(request: HttpRequest, who: User, found: Queue) -> str:
    """Rename the queue; return the new address of its page."""
    name = request.POST.get("name", "").strip()
    rename = partial(queue_rename, acting_user=who, queue=found, name=name, expected=version_of(request))
    run_change(request, rename, _("Queue renamed to %(name)s") % {"name": name}, now=partial(_now, found))
    return queue_page_address(request, found)


def _delete(request: HttpRequest, who: User, found: Queue) -> str:
    """Close the queue; return the address to go to."""
    target = request.POST.get("move_to", "")
    move_to = queue_get(who, found.workspace, target) if target else None
    delete = partial(
        queue_delete, acting_user=who, queue=found, move_to=move_to, expected=version_of(request)
    )
    word = _("Queue %(name)s deleted. Quota returned to the workspace.") % {"name": found.name}
    deleted = run_change(request, delete, word, now=partial(_now, found))
    return queues_address(request, found.workspace) if deleted else queue_page_address(request, found)


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
        raise unknown_pools()
    return None if names == queue_flavor_names(queue) else flavors


def _initial(queue: Queue) -> dict[str, Any]:
    settings = {name: getattr(queue, name) for name in SETTINGS}
    return {**settings, "version": queue.version, "flavors": queue_flavor_names(queue)}


def _form_of(queue: Queue, data: object = None) -> QueueForm:
    return QueueForm(data, initial=_initial(queue), pools=list_flavor_names(queue.cell))


@row_scope.read_transaction()
def _show(request: HttpRequest, who: User, found: Queue, form: QueueForm, status: int = 200) -> HttpResponse:
    line = describe_queues(request, who, [found])[0]
    current = preset_of(found)
    if is_operations(request):
        set_frame(request, label=_("Queues"), trail=found.workspace.name)
    else:
        set_frame(request, found.workspace)
    page = {
        "queue": found,
        "line": line,
        "check_url": queue_page_address(request, found, "check"),
        "form": form,
        "presets": [(value, *words, value == current) for value, words in PRESETS.items()],
        "accuracy": describe_accuracy(who, found),
        "settings_yaml": _write_yaml(found),
        **body_context(request, who, found),
        **charts_context(request, found),
        "may_edit": permissions.has_permission(who, Permission.QUEUE_EDIT, found.workspace),
        "may_replay": permissions.has_permission(who, Permission.CLUSTER_EDIT),
        "others": [one for one in queue_list(who, found.workspace) if one.pk != found.pk],
        "crumbs": [view_models.Crumb(label=_("Queues"), url=queues_address(request, found.workspace))],
    }
    return render(request, "frontend/policies/queue.html", page, status=status)


def _write_yaml(queue: Queue) -> str:
    """Return the settings of a queue as YAML, under the names of the REST API."""
    settings = {name: getattr(queue, name) for name in SETTINGS}
    plain = {name: str(value) if isinstance(value, str) else value for name, value in settings.items()}
    content = {"name": queue.name, **plain, "flavors": queue_flavor_names(queue)}
    return yaml.safe_dump(content, allow_unicode=True, sort_keys=False)
