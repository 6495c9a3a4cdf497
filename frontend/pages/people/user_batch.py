"""Actions on several users of the list: enable, disable, end all access."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from functools import partial

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from frontend.lists.batch import BatchAct, BatchItem, answer_batch
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import User
from tenants.selectors.account import user_list
from tenants.services.account import user_end_access, user_set_active, user_unlock


def batch_acts(who: User) -> list[BatchAct]:
    """Return the actions of a viewer who manages users; each user is checked again."""
    if not permissions.has_permission(who, Permission.MEMBER_EDIT):
        return []

    def end_access(user: User, _choice: str) -> None:
        user_end_access(acting_user=who, user=user, sessions=True, keys=True)

    return [
        BatchAct(
            key="enable",
            label=_("Enable"),
            title=_("Enable users"),
            act=lambda user, _choice: user_set_active(acting_user=who, user=user, active=True),
            icon="user-check",
            fits=lambda line: not line.overview.user.is_active,
        ),
        BatchAct(
            key="unlock",
            label=_("Unlock sign-in"),
            title=_("Unlock the sign-in of users"),
            act=lambda user, _choice: user_unlock(acting_user=who, user=user),
            icon="lock-open",
        ),
        BatchAct(
            key="end-access",
            label=_("End access"),
            title=_("End the access of users"),
            act=end_access,
            danger=True,
            icon="log-out",
            note=_("Their sessions end and their access keys are revoked. Their accounts stay active."),
        ),
        BatchAct(
            key="disable",
            label=_("Disable"),
            title=_("Disable users"),
            act=lambda user, _choice: user_set_active(acting_user=who, user=user, active=False),
            danger=True,
            icon="user-x",
            fits=lambda line: line.overview.user.is_active,
            note=_("Disabled users can't sign in. Their jobs keep running."),
        ),
    ]


@require_POST
@login_required
def post_batch(request: HttpRequest) -> HttpResponse:
    """Ask before several users are changed, and change those that allow it."""
    who = get_viewer(request)
    permissions.require_permission(who, Permission.MEMBER_EDIT)
    set_frame(request, label=_("Users"), trail=_("Operations"))
    back = reverse("frontend:ops-users")
    return answer_batch(request, acts=batch_acts(who), find=partial(_find, who), back=back)


def _find(who: User, ids: Collection[uuid.UUID]) -> list[BatchItem]:
    words = {True: _("Active"), False: _("Disabled")}
    return [
        BatchItem(id=user.pk, name=user.username, row=user, state=words[user.is_active])
        for user in user_list(viewer=who).filter(pk__in=ids).order_by("username")
    ]
