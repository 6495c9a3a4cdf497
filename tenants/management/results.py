"""What commands share: who acts, how results leave, how refusals read."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from django.core.management.base import CommandError

from foundation.errors import AllotmentError
from tenants.models import Role, User

USAGE: Final = 2
FAILED: Final = 1


def acting_user(name: str | None) -> User:
    """The named user, or the first platform admin.

    Raises: CommandError.
    """
    if name:
        user = User.objects.filter(username=name, is_active=True).first()
        if user is None:
            raise CommandError(f"--user: there is no user {name!r}", returncode=USAGE)
        return user
    admins = User.objects.filter(memberships__role=Role.PLATFORM_ADMIN, is_active=True)
    admin = admins.order_by("memberships__created_at", "memberships__pk").first()
    if admin is None:
        raise CommandError("there is no platform admin; name a user with --user", returncode=USAGE)
    return admin


def write_json(target: str, result: Any) -> None:
    """Write the result to a file, or to standard output for `-`.

    Raises: CommandError when the file cannot be written.
    """
    text = json.dumps(result, indent=2, ensure_ascii=False, default=str) + "\n"
    if target == "-":
        sys.stdout.write(text)
        return
    try:
        Path(target).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"--json {target}: {error.strerror}", returncode=USAGE) from error


@contextmanager
def refusals(place: str = "") -> Iterator[None]:
    """Turn what a service refuses into lines for a terminal, each field on its own."""
    try:
        yield
    except AllotmentError as error:
        head = f"{place}: " if place else ""
        fields = [f"{head}{item.field or 'body'}: {item.message}" for item in error.errors]
        lines = fields or [f"{head}{error.detail} ({error.code})"]
        raise CommandError("\n".join(lines), returncode=USAGE if error.status == 400 else FAILED) from error
