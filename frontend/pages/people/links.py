"""Links of invitations, which are shown once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.http import HttpRequest

from tenants.services.invitation import Invitation


@dataclass(frozen=True, slots=True)
class InvitationLink:
    """The link of one invited user; `emailed` says that it is sent too."""

    username: str
    url: str
    expires_at: datetime
    emailed: bool


def console_address(request: HttpRequest) -> str:
    """Return the address of the console for links in emails."""
    return settings.ALLOTMENT_URL.rstrip("/") or request.build_absolute_uri("/").rstrip("/")


def links_of(invitations: Iterable[Invitation], address: str) -> list[InvitationLink]:
    """Return the links of users who were just invited."""
    return [
        InvitationLink(one.user.username, f"{address}{one.path}", one.expires_at, one.emailed)
        for one in invitations
    ]
