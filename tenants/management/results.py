"""The base of commands: the acting user, the output of results, and the text of refusals."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from django.core.management.base import CommandError
from django.db.models import Q

from foundation.core.errors import AllotmentError
from tenants.models import AccountKind, Role, User

USAGE: Final = 2
FAILED: Final = 1


def acting_user(name: str | None) -> User:
    """The named user, or the first platform admin, directly or by a group.

    Raises: CommandError.
    """
    if name:
        user = User.objects.filter(username=name, is_active=True).first()
        if user is None:
            raise CommandError(f"--user: user {name!r} not found", returncode=USAGE)
        return user
    direct = Q(memberships__role=Role.PLATFORM_ADMIN)
    by_group = Q(in_groups__group__memberships__role=Role.PLATFORM_ADMIN)
    # Primary keys are in the order of creation.
    admins = User.objects.filter(direct | by_group, is_active=True, kind=AccountKind.PERSON)
    admin = admins.order_by("memberships__created_at", "memberships__pk", "pk").first()
    if admin is None:
        raise CommandError(
            "no platform admin yet. Run allotment init, or specify a user with --user",
            returncode=USAGE,
        )
    return admin


def read_password(file: str) -> str:
    """Return the password in a file, `-` for standard input, without the end of its line.

    Raises: CommandError when the file cannot be read.
    """
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"--password-file {file}: {error}", returncode=USAGE) from error
    return text.rstrip("\r\n")


def write_json(target: str, result: Any, *, secret: bool = False) -> None:
    """Write the result to a file, or to standard output for `-`; a file with a secret is readable only by its
    owner.

    Raises: CommandError when the file cannot be written.
    """
    text = json.dumps(result, indent=2, ensure_ascii=False, default=str) + "\n"
    if target == "-":
        sys.stdout.write(text)
        return
    try:
        if secret:
            _write_private(target, text)
        else:
            Path(target).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"--json {target}: {error.strerror}", returncode=USAGE) from error


def _write_private(target: str, text: str) -> None:
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):  # an existing file may be readable by others
            os.fchmod(descriptor, 0o600)
        file.write(text)


@contextmanager
def report_refusals(place: str = "") -> Iterator[None]:
    """Turn errors of a service into lines for a terminal, one per field."""
    try:
        yield
    except AllotmentError as error:
        head = f"{place}: " if place else ""
        fields = [f"{head}{item.field or 'body'}: {item.message}" for item in error.errors]
        lines = fields or [f"{head}{error.detail} ({error.code})"]
        raise CommandError("\n".join(lines), returncode=USAGE if error.status == 400 else FAILED) from error
