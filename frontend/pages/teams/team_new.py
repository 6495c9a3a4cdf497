"""A new team on one page: entered, previewed, and created as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from foundation.audit import audit_log
from foundation.core.errors import AllotmentError, NotFound, PermissionDenied
from foundation.core.identifiers import new_id
from foundation.core.quantities import Resource
from foundation.core.sentences import join_sentences
from foundation.web.idempotency import (
    KeyReused,
    Repeatable,
    StoredAnswer,
    answer_once,
    content_fingerprint,
    route_of,
)
from frontend.components import view_models
from frontend.pages.people.links import InvitationLink, console_address, links_of
from frontend.pages.policies.queue_settings_form import PRESETS
from frontend.pages.quotas.way_out import describe_lacks
from frontend.pages.setup.uninitialized import show_uninitialized
from frontend.pages.teams.team_form import PEOPLE_MAX, TeamForms
from frontend.pages.tenancy.members import id_of, role_choices
from frontend.shell.form_mistakes import list_mistakes
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from quotas.selectors.tables.quota_sources import QuotaLack
from quotas.selectors.tenants.team import divisible_pools, find_team_lack, team_parent, team_parents
from quotas.services.quota_raise import quota_raise
from quotas.services.quota_warnings import NO_JOB_STARTS
from quotas.services.team import Team, TeamPoolResult, TeamPreview, team_create, team_preview
from quotas.texts.amounts import format_amount, resource_label
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, User

_MORE: Final = 3
_SHOWN: Final = (Resource.GPU_MEMORY, Resource.CPU, Resource.MEMORY)


@login_required
def team_new(request: HttpRequest) -> HttpResponse:
    """Show the form below the folder of `?parent=`; POST adds rows of people, or creates the team."""
    who = get_viewer(request)
    if page := show_uninitialized(request, _("New team"), _("Operations")):
        return page
    if request.method != "POST":
        parent = _parent(who, request.GET.get("parent", ""))
        return _show(request, _forms(who, parent, None))
    parent = _parent(who, request.POST.get("parent", ""))
    data = request.POST.copy()
    typed = _forms(who, parent, data)
    if request.POST.get("do") in ("add-people", "parent"):
        more = _MORE if request.POST["do"] == "add-people" else 0
        data["people"] = str(min(PEOPLE_MAX, len(typed.people) + more))
        return _show(request, _forms(who, parent, data, check=False))
    if not typed.is_valid():
        return _show(request, typed, status=400)
    if request.POST.get("do") == "raise":
        return _raise(request, who, typed, data)
    try:
        return _create(request, who, typed)
    except (NotFound, PermissionDenied):
        raise
    except KeyReused:
        typed.team.add_error(
            None, _("This form was already submitted. Submit it again to create another team.")
        )
        return _show(request, typed, key=str(new_id()), status=409)
    except AllotmentError as error:
        typed.add_errors(error)
        return _show(request, typed, allow_idle=error.code == NO_JOB_STARTS, status=error.status)


@require_POST
@login_required
def team_check(request: HttpRequest) -> HttpResponse:
    """Preview the team as entered so far; writes nothing."""
    who = get_viewer(request)
    typed = _forms(who, _parent(who, request.POST.get("parent", "")), request.POST)
    found: dict[str, Any] = {"empty": typed.is_empty}
    if not typed.is_empty and typed.is_valid():
        try:
            found |= _reviewed(team_preview(acting_user=who, plan=typed.build_plan()))
        except (NotFound, PermissionDenied):
            raise
        except AllotmentError as error:
            found |= _ways_out(who, typed)
            refusals = [one.message for one in error.errors] or [error.detail]
            # The text about lacking quota names all resources.
            found["refusals"] = refusals[:1] if found["ways"] else refusals
    elif not typed.is_empty:
        found["refusals"] = list_mistakes(typed.team, *typed.people, *typed.pools)
    return render(request, "frontend/teams/team_review.html", found)


def _parent(who: User, text: str) -> Tenant:
    """Return the folder with this id, or the first in which the user may create teams.

    Raises: NotFound; PermissionDenied.
    """
    if text:
        return team_parent(who, id_of(text))
    for parent in team_parents(who):
        return parent
    raise PermissionDenied


def _forms(who: User, parent: Tenant, data: Any, *, check: bool = True) -> TeamForms:
    return TeamForms(
        data,
        parent=parent,
        folders=team_parents(who),
        roles=role_choices(who, parent),
        pools=divisible_pools(who, parent),
        check=check,
    )


def _find_lacks(who: User, typed: TeamForms) -> list[QuotaLack]:
    plan = typed.build_plan()
    found = (
        find_team_lack(who, plan.parent, pool.flavor, pool.gpus, cpu=pool.cpu, memory=pool.memory)
        for pool in plan.pools
    )
    return [lack for lack in found if lack is not None]


def _ways_out(who: User, typed: TeamForms) -> dict[str, Any]:
    lacks = _find_lacks(who, typed)
    return {
        "ways": describe_lacks(lacks),
        "may_raise": bool(lacks) and all(lack.raises for lack in lacks),
    }


def _raise(request: HttpRequest, who: User, typed: TeamForms, data: Any) -> HttpResponse:
    """Raise the quota of the folder by what it lacks, and show the form as it was entered."""
    lacks = _find_lacks(who, typed)
    reason = _("New team %(name)s") % {"name": typed.build_plan().name}
    try:
        revision = quota_raise(acting_user=who, lacks=[lack for lack in lacks if lack.raises], reason=reason)
    except (NotFound, PermissionDenied):
        raise
    except AllotmentError as error:
        typed.add_errors(error)
        return _show(request, typed, status=error.status)
    if revision is not None:
        messages.success(request, _("Quota of %(name)s updated") % {"name": typed.parent.name})
    return _show(request, _forms(who, typed.parent, data, check=False))


def _create(request: HttpRequest, who: User, typed: TeamForms) -> HttpResponse:
    """Create the team once, even if the form is sent repeatedly. Raises: as `team_create`; KeyReused."""
    made: list[Team] = []
    address = console_address(request)

    def create_team() -> StoredAnswer:
        made.append(team_create(acting_user=who, plan=typed.build_plan(), address=address))
        return StoredAnswer(201, {"workspace": made[0].workspace.slug})

    sent = {name: values for name, values in request.POST.lists() if name != "csrfmiddlewaretoken"}
    key = request.POST.get("key", "")[:64] or str(new_id())
    with audit_log.outlive_rollback(), transaction.atomic():
        request_of = Repeatable(who.pk, route_of("POST", request.path), key, content_fingerprint(sent))
        answer, repeated = answer_once(request_of, create_team)
    workspace = answer.body["workspace"]
    if repeated:
        messages.info(request, _("This team was already created. Invitation links are shown only once."))
    else:
        messages.success(request, _("Team %(name)s created") % {"name": made[0].workspace.name})
    if repeated or not made[0].invitations:
        return redirect("frontend:workspace-overview", workspace=workspace)
    return _invited(request, made[0], links_of(made[0].invitations, address))


def _invited(request: HttpRequest, team: Team, links: Sequence[InvitationLink]) -> HttpResponse:
    set_frame(request, label=_("New team"), trail=_("Operations"))
    page = {"team": team, "links": links, "crumbs": _crumbs()}
    answer = render(request, "frontend/teams/team_created.html", page)
    answer["Cache-Control"] = "no-store"  # the links are shown once
    return answer


def _show(
    request: HttpRequest, typed: TeamForms, *, key: str = "", allow_idle: bool = False, status: int = 200
) -> HttpResponse:
    set_frame(request, label=_("New team"), trail=_("Operations"))
    page = {
        "typed": typed,
        "key": key or request.POST.get("key") or str(new_id()),
        "may_invite": permissions.has_permission(get_viewer(request), Permission.MEMBER_EDIT),
        "may_add": len(typed.people) < PEOPLE_MAX,
        "presets": [(name, text) for name, text in PRESETS.values()],
        "allow_idle": allow_idle or bool(request.POST.get("allow_idle")),
        "refused": status != 200,
        "crumbs": _crumbs(),
    }
    return render(request, "frontend/teams/team.html", page, status=status)


def _crumbs() -> list[view_models.Crumb]:
    return [view_models.Crumb(label=_("Tenants"), url=reverse("frontend:ops-tenants"))]


def _reviewed(preview: TeamPreview) -> dict[str, Any]:
    return {
        "preview": preview,
        "checks": [_check(pool) for pool in preview.pools],
        "over": (),
    }


def _check(pool: TeamPoolResult) -> view_models.Check:
    words = [
        _("%(label)s: %(amount)s")
        % {"label": resource_label(resource), "amount": _amount_word(resource, pool.amounts[resource])}
        for resource in _SHOWN
    ]
    gpus = _amount_word(Resource.GPU_CORES, pool.amounts[Resource.GPU_CORES])
    title = _("%(pool)s: %(gpus)s GPUs") % {"pool": pool.flavor.name, "gpus": gpus}
    if not pool.missing and not pool.amounts[Resource.GPU_CORES]:
        text = _("A job with 1 GPU can start by borrowing.")
    elif not pool.missing:
        text = _("A job with 1 GPU can start.")
    else:
        missing = _(", ").join(resource_label(resource) for resource in pool.missing)
        text = _("No job with 1 GPU can start: quota missing for %(missing)s.") % {"missing": missing}
    return view_models.Check(
        title=title, text=join_sentences([text, " · ".join(words)]), passed=not pool.missing
    )


def _amount_word(resource: Resource, amount: int | None) -> str:
    """Return an amount with its unit, except for GPUs, whose unit is in the sentence."""
    if resource is Resource.GPU_CORES and amount is not None:
        return f"{amount / 100:g}"
    return format_amount(resource, amount)
