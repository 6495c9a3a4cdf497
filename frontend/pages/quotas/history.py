"""The history of quotas as text, and reverting a change."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST

from foundation.core.errors import Conflict, Refused
from foundation.core.quantities import Resource
from frontend.pages.quotas.rows import TITLES
from frontend.shell.page_shell import get_viewer, login_required
from quotas.models import QuotaChange, QuotaRevision
from quotas.selectors.changes.quota_history import quota_revision_get
from quotas.services.quota import Shrink
from quotas.services.quota_revert import quota_revert
from quotas.texts.amounts import format_change
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import User

SOURCES: Final[dict[str, str | Promise]] = {
    "edit": gettext_lazy("edited"),
    "revert": gettext_lazy("reverted"),
    "import": gettext_lazy("imported"),
    "request": gettext_lazy("request approved"),
    "loan": gettext_lazy("lent"),
    "loan-returned": gettext_lazy("temporary quota returned"),
}
_SHOWN: Final = 6


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One revision as text: its limits before and after, and whether it can be reverted here."""

    revision: QuotaRevision
    source: str
    lines: Sequence[str]
    more: int
    reverted: bool
    may_revert: bool


def history_entry(who: User, revision: QuotaRevision) -> HistoryEntry:
    """Return the entry of a revision whose `changes` and `reverted_by` are loaded."""
    changes = list(revision.changes.all())
    lines = [line for change in changes for line in change_lines(change)]
    reverted = bool(revision.reverted_by.all())
    return HistoryEntry(
        revision,
        str(SOURCES.get(revision.source, revision.source)),
        lines[:_SHOWN],
        max(0, len(lines) - _SHOWN),
        reverted,
        not reverted and all(_may_edit(who, change) for change in changes),
    )


def change_lines(change: QuotaChange) -> list[str]:
    """Describe each limit of a change: `Team A · a100 · Compute: 8 GPUs → 12 GPUs`."""
    resource = Resource(change.resource)
    tenant = change.node.tenant.name
    name = f"{tenant} / {change.node.queue.name}" if change.node.is_queue else tenant
    place = f"{name} · {change.flavor.name} · {TITLES[resource]}"
    limits = (
        ("", change.nominal_before, change.nominal_after),
        (f" · {_('borrowing limit')}", change.borrowing_before, change.borrowing_after),
        (f" · {_('lending limit')}", change.lending_before, change.lending_after),
    )
    return [
        f"{place}{word}{_(': ')}{format_change(resource, before, after)}"
        for word, before, after in limits
        if before != after
    ]


def _may_edit(who: User, change: QuotaChange) -> bool:
    node = change.node
    return permissions.has_permission(
        who, Permission.QUOTA_EDIT, node.tenant if node.is_queue else node.tenant.parent
    )


@require_POST
@login_required
def post_revert(request: HttpRequest, revision: uuid.UUID) -> HttpResponse:
    """Revert a change, and return to the page of the form."""
    who = get_viewer(request)
    back = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(back, allowed_hosts=None):
        back = reverse("frontend:ops-quotas")
    try:
        quota_revert(acting_user=who, revision=quota_revision_get(who, revision), shrink=Shrink.LET_RUN)
    except (Conflict, Refused) as error:
        messages.error(request, error.detail)
    else:
        messages.success(request, _("Change reverted. Running jobs aren't affected."))
    return redirect(back)
