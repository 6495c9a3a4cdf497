"""The owner of the alerts on a page: a workspace, or the platform on the operators' side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import Model, QuerySet
from django.forms import Form
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext

from alerts.services.access import may_edit, require_alert_view, require_view
from frontend.lists.batch import BatchAct
from frontend.lists.page_list import Describe, PageList, answer_list
from frontend.lists.row_form import RowForm
from frontend.shell.page_shell import get_viewer, set_frame
from tenants.models import Tenant, User
from tenants.selectors.tenant import workspace_get

SECTIONS: Final = {
    "alerts": gettext_lazy("Alerts"),
    "alert-rules": gettext_lazy("Rules"),
    "alert-channels": gettext_lazy("Channels"),
    "silences": gettext_lazy("Silences"),
}


@dataclass(frozen=True, slots=True)
class AlertSection:
    """A section of the alert pages for one user."""

    who: User
    tenant: Tenant | None
    section: str
    may_edit: bool

    def get_url(self, section: str) -> str:
        """Return the address of a section of the same owner."""
        if self.tenant is None:
            return reverse(f"frontend:ops-{section}")
        return reverse(f"frontend:workspace-{section}", args=[self.tenant.slug])

    @property
    def url(self) -> str:
        return self.get_url(self.section)

    @property
    def sections(self) -> Sequence[tuple[str, str, bool]]:
        """The address and label of each section, and whether it is shown."""
        return [(self.get_url(key), str(label), key == self.section) for key, label in SECTIONS.items()]

    def make_context(self, **values: Any) -> dict[str, Any]:
        """Return the context of the section's template."""
        return {"place": self, "workspace": self.tenant, "title": SECTIONS[self.section], **values}


def answer_section(
    request: HttpRequest,
    place: AlertSection,
    listing: PageList,
    rows: QuerySet[Any],
    describe: Describe,
    *,
    acts: Sequence[BatchAct],
    refused: RowForm | None,
    open_form: Callable[[], RowForm | None],
    **values: Any,
) -> HttpResponse:
    """Respond with the list of a section; its form is open if the address opens it or it was refused."""
    return answer_list(
        request,
        listing,
        listing.arrange_rows(rows),
        describe,
        template="frontend/alerts/section.html",
        context=lambda: place.make_context(
            acts=acts,
            batch_url=place.url,
            open_form=refused or (open_form() if listing.form_of and place.may_edit else None),
            **values,
        ),
        status=400 if refused and not refused.found else 200,
    )


def make_row_form(
    form: Form, row: Model | None, version: int | None, names: tuple[str, str], fields: str, found: Any
) -> RowForm:
    """Return the form of a row with a preview; `names` are its titles for a new row and a stored one."""
    create, edit = names
    return RowForm(
        title=edit if row else create,
        do="change" if row else "create",
        button=_("Save") if row else create,
        form=form,
        fields=fields,
        row=str(row.pk) if row else "",
        version=version,
        more=[("preview", pgettext("alerts", "Preview"))],
        found=found,
    )


def enter_place(request: HttpRequest, workspace: str | None, section: str) -> AlertSection:
    """Set up the frame of a section. Raises: NotFound, PermissionDenied."""
    who = get_viewer(request)
    tenant = workspace_get(viewer=who, slug=workspace) if workspace is not None else None
    (require_alert_view if section == "alerts" else require_view)(who, tenant)
    if tenant is None:
        set_frame(request, label=_("Alerts"), trail=_("Operations"))
    else:
        set_frame(request, tenant)
    return AlertSection(who, tenant, section, may_edit(who, tenant))
