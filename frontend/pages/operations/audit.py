"""The audit: actions of users, refused ones included, and the verification of the records."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.audit import chain, chain_heads
from foundation.audit.audit_log import DENIAL, DENIED, DONE
from foundation.core.errors import Invalid
from foundation.models import AuditRecord
from foundation.web.listing import ColumnCondition, parse_condition
from frontend.components import view_models
from frontend.lists.conditions import PARAMETER
from frontend.lists.declaration import FilterField, ListColumn, ListDeclaration
from frontend.lists.page_list import EmptyList, PageList, answer_list, read_list
from frontend.pages.operations.audit_changes import describe_changes, name_request
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from frontend.texts.audit_words import describe_action, describe_entity
from scheduling.selectors.events.audit_subjects import find_subjects
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, User
from tenants.selectors.audit import COLUMNS, AuditFilter, audit_page, audit_query, tenant_names
from tenants.selectors.tenant import workspace_get

VERIFIED_MOST: Final = 50_000
"""The maximum number of records verified in a request; for a longer chain there is a command."""
_CHANGES: Final = 3


@dataclass(frozen=True, slots=True)
class AuditLine:
    """A record with the names of its tenant and its subject, and its changes, as `field: before → after`."""

    record: AuditRecord
    tenant: str
    subject: str
    changes: Sequence[str]
    denied: bool
    url = ""

    @property
    def id(self) -> uuid.UUID:
        return self.record.pk

    @property
    def first_changes(self) -> Sequence[str]:
        """The changes in the row; the details have all of them."""
        return self.changes[:_CHANGES]

    @property
    def hidden_changes(self) -> int:
        """The number of changes that only the details show."""
        return len(self.changes) - len(self.first_changes)

    @property
    def title(self) -> str:
        return describe_action(self.record.action)

    @property
    def entity(self) -> str:
        """The type of the resource, as text."""
        return describe_entity(self.record.entity)

    @property
    def names_denial(self) -> bool:
        """Return whether the title itself says that the action was denied."""
        return self.record.action == DENIAL


AUDIT: Final = ListDeclaration(
    key="audit",
    title=gettext_lazy("Records"),
    columns=(
        ListColumn(key="at", label=gettext_lazy("Time"), text=lambda line: line.record.created_at),
        ListColumn(key="actor", label=gettext_lazy("Actor"), text=lambda line: line.record.actor_name),
        ListColumn(key="action", label=gettext_lazy("Action"), text=lambda line: line.title),
        ListColumn(
            key="entity",
            label=gettext_lazy("Resource type"),
            shown=False,
            text=lambda line: line.entity,
        ),
        ListColumn(
            key="subject",
            label=gettext_lazy("Resource"),
            text=lambda line: line.subject or line.record.entity_id,
        ),
        ListColumn(
            key="code",
            label=gettext_lazy("Action code"),
            shown=False,
            text=lambda line: f"{line.record.action} {line.record.entity_id}",
        ),
        ListColumn(
            key="result", label=gettext_lazy("Result"), shown=False, text=lambda line: line.record.result
        ),
        ListColumn(key="tenant", label=gettext_lazy("Tenant"), text=lambda line: line.tenant),
        ListColumn(key="changes", label=gettext_lazy("Change"), text=lambda line: _("; ").join(line.changes)),
        ListColumn(
            key="address",
            label=gettext_lazy("IP address"),
            shown=False,
            text=lambda line: line.record.address,
        ),
        ListColumn(
            key="request",
            label=gettext_lazy("Request ID"),
            shown=False,
            text=lambda line: line.record.request_id,
        ),
    ),
    filters={
        "actor": FilterField(label=gettext_lazy("Actor")),
        "action": FilterField(label=gettext_lazy("Action")),
        "entity": FilterField(label=gettext_lazy("Resource type")),
        "entity_id": FilterField(label=gettext_lazy("Resource ID")),
        "result": FilterField(
            label=gettext_lazy("Result"),
            choices=[(DONE, gettext_lazy("Succeeded")), (DENIED, gettext_lazy("Denied"))],
        ),
        "at": FilterField(label=gettext_lazy("Time")),
        "address": FilterField(label=gettext_lazy("IP address")),
        "request_id": FilterField(label=gettext_lazy("Request ID")),
    },
    fields=COLUMNS,
    parameters=("search", "actor", "action", "since", "until", "result"),
    size=50,
    has_file=False,
)


class FindForm(forms.Form):
    """The filters of the audit, which are part of the address."""

    search = forms.CharField(label=gettext_lazy("Actor, action or resource"), max_length=100, required=False)
    actor = forms.CharField(label=gettext_lazy("Actor"), max_length=150, required=False)
    action = forms.CharField(label=gettext_lazy("Action"), max_length=80, required=False)
    since = forms.DateField(
        label=gettext_lazy("From"), required=False, widget=forms.DateInput(attrs={"type": "date"})
    )
    until = forms.DateField(
        label=gettext_lazy("To"), required=False, widget=forms.DateInput(attrs={"type": "date"})
    )
    result = forms.ChoiceField(
        required=False, choices=[("", ""), (DONE, ""), (DENIED, "")], widget=forms.HiddenInput
    )


@login_required
def show_audit(request: HttpRequest) -> HttpResponse:
    """Show the audit of the whole platform; POST verifies its chain."""
    who = get_viewer(request)
    permissions.require_permission(who, Permission.AUDIT_VIEW)
    if request.method == "POST":
        _verify(request)
        return redirect("frontend:ops-audit")
    set_frame(request, label=_("Audit log"), trail=_("Operations"))
    last = chain.find_last_seal()
    return _answer(
        request,
        who,
        None,
        reverse("admin-audit-export"),
        sealed=last.number if last else 0,
        head=f"{last.number}:{last.hash}" if last else "",
        short=last is None or last.number <= VERIFIED_MOST,
        platform=True,
    )


@login_required
def workspace_audit(request: HttpRequest, workspace: str) -> HttpResponse:
    """Show the audit records of one workspace."""
    who = get_viewer(request)
    place = workspace_get(viewer=who, slug=workspace)
    set_frame(request, place)
    return _answer(request, who, place, reverse("audit-export", args=[place.slug]))


def _verify(request: HttpRequest) -> None:
    """Verify the chain and report the result; records of the last seconds are not sealed yet."""
    last = chain.find_last_seal()
    if last is not None and last.number > VERIFIED_MOST:
        messages.warning(request, _("Too many records to verify here. Run allotment audit-verify."))
        return
    verdict = chain.verify_chain()
    noted = chain_heads.noted_head()
    if verdict.broken is None and noted is not None and not chain_heads.is_in_chain(noted):
        text = _("The hash chain was truncated: stored head %(number)s is missing.")
        messages.error(request, text % {"number": noted.number})
        return
    if verdict.broken is None:
        message = _("Verified: %(number)s records intact") % {"number": verdict.sealed}
        messages.success(request, message)
        return
    words = {"number": verdict.broken.number, "record": verdict.broken.record_id or "–"}
    message = _("Integrity check failed at entry %(number)s (record %(record)s): modified or deleted")
    messages.error(request, message % words)


def _answer(
    request: HttpRequest, who: User, place: Tenant | None, export: str, **more: object
) -> HttpResponse:
    listing = read_list(request, AUDIT, {"result": [DONE, DENIED]})
    form = FindForm(listing.query)
    values = form.cleaned_data if form.is_valid() else {}
    texts = listing.query.getlist(PARAMETER)
    none = EmptyList(_("No records"), _("Changes and denied requests appear here."), icon="scroll-text")
    return answer_list(
        request,
        listing,
        audit_query(viewer=who, tenant=place, filters=_filters(values, listing.conditions)),
        _lines,
        template="frontend/operations/audit.html",
        context=lambda: {
            "form": form,
            "csv": f"{export}?{_export(values, 'csv', texts)}",
            "jsonl": f"{export}?{_export(values, 'jsonl', texts)}",
            "results": [
                view_models.Chip(label=_("All")),
                view_models.Chip(label=_("Succeeded"), value=DONE),
                view_models.Chip(label=_("Denied"), value=DENIED),
            ],
            "place": place,
            "row": "frontend/operations/audit_row.html",
            "empty_list": none,
            **more,
        },
        cut=_cut,
    )


def _cut(request: HttpRequest, listing: PageList, rows: Any) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Return the records of a page from a cursor on; they are not counted, because there may be millions."""
    asked = request.GET.get("cursor") or None
    try:
        found, following = audit_page(rows, cursor=asked, limit=listing.size)
    except Invalid:
        found, following = audit_page(rows, cursor=None, limit=listing.size)
    return found, {
        "first_url": listing.url(cursor=None) if asked else "",
        "next_url": listing.url(cursor=following) if following else "",
    }


def _window(values: Mapping[str, Any]) -> tuple[datetime | None, datetime | None]:
    zone = timezone.get_current_timezone()
    since, until = values.get("since"), values.get("until")
    return (
        datetime(since.year, since.month, since.day, tzinfo=zone) if since else None,
        datetime(until.year, until.month, until.day, tzinfo=zone) + timedelta(days=1) if until else None,
    )


def _wanted(values: Mapping[str, Any]) -> list[str]:
    """Return the conditions of the form, as the API's `filterBy` writes them."""
    found = [("actor", "==", values.get("actor")), ("action", "=^", values.get("action"))]
    found.append(("result", "==", values.get("result")))
    return [f"{name}{operator}{value}" for name, operator, value in found if value]


def _filters(values: Mapping[str, Any], conditions: Sequence[ColumnCondition]) -> AuditFilter:
    since, until = _window(values)
    return AuditFilter(
        since=since,
        until=until,
        text=values.get("search", ""),
        conditions=[*(parse_condition(text, COLUMNS) for text in _wanted(values)), *conditions],
    )


def _export(values: Mapping[str, Any], kind: str, texts: Sequence[str]) -> str:
    since, until = _window(values)
    pairs = {"type": kind, "search": values.get("search", "")}
    pairs |= {"since": since.isoformat() if since else "", "until": until.isoformat() if until else ""}
    listed = [(name, value) for name, value in pairs.items() if value]
    return urlencode([*listed, *((PARAMETER, text) for text in (*_wanted(values), *texts))])


def _lines(records: Sequence[AuditRecord]) -> list[AuditLine]:
    tenants, subjects = tenant_names(records), find_subjects(records)
    return [
        AuditLine(
            record,
            tenants.get(record.tenant_id, ""),
            subjects.get(record.pk, "") or name_request(record),
            describe_changes(record, subjects.get(record.pk, "")),
            record.result == DENIED,
        )
        for record in records
    ]
