"""`allotment user add|list|password`: accounts of users, their roles and passwords from a shell."""

from __future__ import annotations

import secrets
from typing import Any, Final

from django.core.management.base import CommandError, CommandParser
from django.db import transaction

from foundation.core.actor import SYSTEM
from tenants.management.results import USAGE, read_password
from tenants.management.verbs import VerbCommand, table_text
from tenants.models import PLATFORM_ROLES, Role, Tenant, User
from tenants.selectors.account import user_list
from tenants.selectors.tenant import tenant_list
from tenants.services.account import password_set, user_create
from tenants.services.member import member_set

_TENANT_ROLES: Final = [role.value for role in Role if role not in PLATFORM_ROLES]
_PASSWORD_BYTES: Final = 12


class Command(VerbCommand):
    help = "Manage user accounts and passwords"
    secret_verbs = frozenset({"add", "password"})

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="add|list|password")
        add = verbs.add_parser("add", help="add an account (the one-time password is shown once)")
        add.add_argument("name", metavar="NAME")
        add.add_argument("--email", default="")
        add.add_argument("--password-file", default="", metavar="FILE", help="password; - for standard input")
        add.add_argument("--tenant", default="", metavar="SLUG", help="tenant of the role")
        add.add_argument(
            "--role",
            choices=[role.value for role in Role],
            help=("platform role or tenant role; a platform role takes no --tenant"),
        )
        verbs.add_parser("list", help="list user accounts")
        password = verbs.add_parser(
            "password", help="set a one-time password; ends sessions and revokes access keys"
        )
        password.add_argument("name", metavar="NAME")
        password.add_argument(
            "--password-file", default="", metavar="FILE", help="password; - for standard input"
        )
        password.add_argument("--keep-keys", action="store_true", help="keep the account's access keys")
        self.common_arguments(verbs)

    def _add(self, user: User, options: dict[str, Any]) -> tuple[Any, str]:
        role = Role(options["role"]) if options["role"] else None
        tenant = _place(user, role, options["tenant"])
        chosen = read_password(options["password_file"]) if options["password_file"] else ""
        password = chosen or secrets.token_urlsafe(_PASSWORD_BYTES)
        with transaction.atomic():
            made = user_create(
                acting_user=user,
                username=options["name"],
                password=password,
                must_change_password=not chosen,
                email=options["email"],
            )
            if role is not None:
                member_set(acting_user=user, user=made, tenant=tenant, role=role)
        fields = {"username": made.username, "role": role, "tenant": tenant.slug if tenant else None}
        text = f"user {made.username} added"
        text += f" as {role} of {tenant.slug if tenant else 'the platform'}" if role else " without a role"
        if chosen:
            return fields, text
        ends = _ends(made)
        fields |= {"password": password, "password_expires_at": ends}
        return fields, f"{text}\none-time password: {password} (until {ends})"

    def _password(self, user: User, options: dict[str, Any]) -> tuple[Any, str]:
        account = User.objects.filter(username=options["name"]).first()
        if account is None:
            raise CommandError(f"user {options['name']!r} not found", returncode=USAGE)
        chosen = read_password(options["password_file"]) if options["password_file"] else ""
        password = chosen or secrets.token_urlsafe(_PASSWORD_BYTES)
        # The system acts where an admin resets their own password, which the service refuses to the user
        # themselves.
        reset = password_set(
            acting_user=SYSTEM if account.pk == user.pk else user,
            user=account,
            password=password,
            keep_keys=options["keep_keys"],
        )
        ends = _ends(reset.user)
        fields = {
            "username": account.username,
            "password_expires_at": ends,
            "keys_revoked": reset.keys_revoked,
            "keys_kept": reset.keys_kept,
        }
        text = f"{account.username}: sessions ended, access keys revoked: {reset.keys_revoked}"
        text += f", kept: {reset.keys_kept}"
        if chosen:
            return fields, f"{text}\nthe password must be changed by {ends}"
        return fields | {"password": password}, f"{text}\none-time password: {password} (until {ends})"

    def _list(self, user: User, options: dict[str, Any]) -> tuple[Any, str]:
        columns = ("username", "email", "is_active", "last_login")
        items = [{column: getattr(row, column) for column in columns} for row in user_list(viewer=user)]
        rows = [["" if item[column] is None else str(item[column]) for column in columns] for item in items]
        return {"items": items}, table_text(columns, rows)


def _ends(user: User) -> str:
    return user.password_expires_at.isoformat(timespec="minutes") if user.password_expires_at else "never"


def _place(user: User, role: Role | None, slug: str) -> Tenant | None:
    """Return the tenant of the role; None is the platform. Raises: CommandError."""
    if (role is not None and role not in PLATFORM_ROLES) != bool(slug):
        raise CommandError(f"--tenant requires one of the roles {', '.join(_TENANT_ROLES)}", returncode=USAGE)
    if not slug:
        return None
    for tenant in tenant_list(viewer=user):
        if tenant.slug == slug:
            return tenant
    raise CommandError(f"--tenant: tenant {slug!r} not found, or you can't view it", returncode=USAGE)
