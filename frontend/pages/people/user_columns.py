"""The columns and filters of the list of users."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from frontend.lists.declaration import FilterField, ListColumn, ListDeclaration
from tenants.selectors.user import COLUMNS, UserOverview


@dataclass(frozen=True, slots=True)
class UserLine:
    """One row of the list; `roles` are texts, with the pages where they are managed."""

    overview: UserOverview
    state: str
    tone: str
    sign_in: str
    roles: Sequence[tuple[str, str]]

    @property
    def id(self) -> uuid.UUID:
        return self.overview.user.pk

    @property
    def title(self) -> str:
        return self.overview.user.username

    @property
    def url(self) -> str:
        return reverse("frontend:ops-user", args=[self.overview.user.pk])


USERS: Final = ListDeclaration(
    key="users",
    title=gettext_lazy("Users"),
    columns=(
        ListColumn(
            key="username",
            label=gettext_lazy("Username"),
            sort="username",
            text=lambda line: line.overview.user.username,
        ),
        ListColumn(
            key="email", label=gettext_lazy("Email"), sort="email", text=lambda line: line.overview.user.email
        ),
        ListColumn(key="state", label=gettext_lazy("State"), text=lambda line: line.state),
        ListColumn(key="sign_in", label=gettext_lazy("Sign-in"), text=lambda line: line.sign_in),
        ListColumn(
            key="roles",
            label=gettext_lazy("Roles"),
            text=lambda line: _("; ").join(text for text, _url in line.roles),
        ),
        ListColumn(
            key="groups",
            label=gettext_lazy("Groups"),
            text=lambda line: ", ".join(group.name for group in line.overview.groups),
        ),
        ListColumn(
            key="keys",
            label=gettext_lazy("Access keys"),
            number=True,
            shown=False,
            text=lambda line: line.overview.keys,
        ),
        ListColumn(
            key="created",
            label=gettext_lazy("Created"),
            number=True,
            sort="date_joined",
            shown=False,
            text=lambda line: line.overview.user.date_joined,
        ),
        ListColumn(
            key="last_login",
            label=gettext_lazy("Last sign-in"),
            number=True,
            sort="last_login",
            text=lambda line: line.overview.user.last_login,
        ),
    ),
    filters={
        "username": FilterField(label=gettext_lazy("Username")),
        "email": FilterField(label=gettext_lazy("Email")),
        "is_active": FilterField(label=gettext_lazy("Active")),
        "last_login": FilterField(label=gettext_lazy("Last sign-in")),
    },
    fields=COLUMNS,
    parameters=("q", "state"),
    default_sort="username",
    every_s=30,
)
