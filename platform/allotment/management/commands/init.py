"""`allotment init`: the first platform admin, the first cell and the root tenant."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from allotment.setup.first_use import (
    ADMIN,
    CELL,
    ROOT,
    FirstUse,
    SetupInstallation,
    SetupStep,
    installation_init,
)
from tenants.management.results import USAGE, read_password, report_refusals, write_json

_NEXT = "next: allotment cluster add NAME --path KUBECONFIG"


class Command(BaseCommand):
    help = "Set up a new installation: first platform admin, scheduling domain and root tenant (idempotent)"

    def add_arguments(self, parser: CommandParser) -> None:
        who = parser.add_mutually_exclusive_group()
        who.add_argument("--user", default="", metavar="NAME", help=f"first platform admin; default: {ADMIN}")
        who.add_argument(
            "--oidc-group", default="", metavar="CLAIM",
            help="identity provider group whose members are platform admins, instead of a user",
        )  # fmt: skip
        parser.add_argument(
            "--password-file", default="", metavar="FILE",
            help=("password of the user; - for standard input. If omitted, a one-time password is "
                 "shown once"),
        )  # fmt: skip
        parser.add_argument("--cell", default="", metavar="NAME", help=f"default: {CELL}")
        parser.add_argument("--tenant", default="", metavar="SLUG", help=f"the root tenant; default: {ROOT}")
        parser.add_argument("--tenant-name", default="", metavar="NAME", help="display name")
        parser.add_argument("--json", metavar="FILE", help="write the result as JSON; - for standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        wanted = _wanted(options)
        # If the output cannot be written, the rows are rolled back: the password would be lost.
        with report_refusals(), transaction.atomic():
            found = installation_init(wanted=wanted)
            if options["json"]:
                write_json(options["json"], _as_json(found), secret=True)
            if options["json"] != "-":
                unchanged = wanted.password and not found.admin.created
                self.stdout.write(_text(found) + ("\nthe password was not changed" if unchanged else ""))


def _wanted(options: dict[str, Any]) -> FirstUse:
    claim = options["oidc_group"]
    if claim and options["password_file"]:
        raise CommandError("--password-file: people of --oidc-group have no password here", returncode=USAGE)
    if claim and not getattr(settings, "SOCIALACCOUNT_PROVIDERS", None):
        # Without a provider no user could sign in, and later runs of this command would find an admin.
        message = "--oidc-group: no identity provider is set up; set ALLOTMENT_OIDC_ISSUER first"
        raise CommandError(message, returncode=USAGE)
    password = read_password(options["password_file"]) if options["password_file"] else ""
    if options["password_file"] and not password:
        raise CommandError(f"--password-file {options['password_file']}: is empty", returncode=USAGE)
    return FirstUse(
        user=options["user"],
        password=password,
        claim=claim,
        cell=options["cell"],
        tenant=options["tenant"],
        tenant_name=options["tenant_name"],
    )


def _as_json(found: SetupInstallation) -> dict[str, Any]:
    values: dict[str, Any] = {
        name: {"names": list(part.names), "created": part.created}
        for name, part in (("admin", found.admin), ("cell", found.cell), ("tenant", found.tenant))
    }
    if found.admin.password:
        values["admin"]["password"] = found.admin.password
    return values


def _text(found: SetupInstallation) -> str:
    parts = (("platform admin", found.admin), ("cell", found.cell), ("root tenant", found.tenant))
    lines = [_line(title, part) for title, part in parts]
    if found.admin.password:
        hours = settings.ALLOTMENT_ONE_TIME_PASSWORD_HOURS
        ends = f"shown once, to be changed at sign-in within {hours} hours"
        lines.insert(1, f"one-time password: {found.admin.password} ({ends})")
    if not any(part.created for _title, part in parts):
        lines.append("the installation is already set up; no changes were made")
        lines.append("a lost password is replaced with: allotment user password NAME")
    return "\n".join([*lines, _NEXT])


def _line(title: str, part: SetupStep) -> str:
    return f"{title}: {', '.join(part.names)} ({'created' if part.created else 'there already'})"
