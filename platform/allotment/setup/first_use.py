"""The rows that an installation needs before the first sign-in: a platform admin, a cell and the root
tenant.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.db import transaction
from django.db.models import Q

from clusters.models import Cell
from clusters.services.cell import cell_add
from foundation.core.actor import SYSTEM
from foundation.core.errors import Conflict, FieldError
from foundation.sql.postgres import transactions_in_turn
from tenants.models import AccountKind, Member, Role, Tenant, TenantKind, User
from tenants.services.account import user_create
from tenants.services.group import group_create
from tenants.services.member import member_set
from tenants.services.tenant import tenant_create

ADMIN: Final = "admin"
CELL: Final = "default"
ROOT: Final = "organization"
_LOCK: Final = 0x696E6974
"""The key of the advisory lock: two concurrent runs would both find nothing."""
_PASSWORD_BYTES: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstUse:
    """The values of the first set-up; for an empty text, a missing part gets its default name, and an
    existing part is accepted.

    `claim` is a group of the identity provider whose members become platform admins, in place of a user.
    """

    user: str = ""
    password: str = ""
    claim: str = ""
    cell: str = ""
    tenant: str = ""
    tenant_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupStep:
    """One part of the installation: its names, and whether this run created it."""

    names: Sequence[str]
    created: bool = False
    password: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupInstallation:
    """The objects that exist after the set-up; a generated `admin.password` is stored nowhere else."""

    admin: SetupStep
    cell: SetupStep
    tenant: SetupStep


@transaction.atomic
def installation_init(*, wanted: FirstUse) -> SetupInstallation:
    """Create whichever of platform admin, cell and root tenant is missing; a second run changes nothing.

    It acts as the platform itself: access to the installation's database is the permission to run it. Raises:
    Conflict if a part exists under another name than the one asked for, or if the admin's default name
    belongs to another account; Invalid for a name or a password.
    """
    transactions_in_turn(_LOCK)
    return SetupInstallation(admin=_admin(wanted), cell=_cell(wanted.cell), tenant=_root(wanted))


@transaction.atomic
def domain_ensure() -> None:
    """Create the cell and the root tenant with their default names if they are missing."""
    transactions_in_turn(_LOCK)
    _cell("")
    _root(FirstUse())


def find_admins() -> list[Member]:
    """Return the platform admins by name: users, and groups that have members or get them at sign-in."""
    members = Member.unscoped.filter(role=Role.PLATFORM_ADMIN).select_related("user", "group")
    people = Q(user__is_active=True, user__kind=AccountKind.PERSON)
    groups = Q(group__claim__isnull=False) | Q(group__people__user__is_active=True)
    return sorted(members.filter(people | groups).distinct(), key=lambda member: member.subject_name)


def _admin(wanted: FirstUse) -> SetupStep:
    members = find_admins()
    there = [member.subject_name for member in members]
    if members:
        asked = wanted.claim or wanted.user
        known = {
            member.group.claim if member.group and wanted.claim else member.subject_name for member in members
        }
        if asked and asked not in known:
            raise _other("user", "platform admin", there, "add further ones with: allotment user add")
        return SetupStep(names=there)
    if wanted.claim:
        group = group_create(acting_user=SYSTEM, name=wanted.claim, claim=wanted.claim)
        member_set(acting_user=SYSTEM, group=group, tenant=None, role=Role.PLATFORM_ADMIN)
        return SetupStep(names=[group.name], created=True)
    name = wanted.user or ADMIN
    existing = User.objects.filter(username__iexact=name).first()
    if existing is not None:
        return _promoted(existing, wanted)
    made_up = "" if wanted.password else secrets.token_urlsafe(_PASSWORD_BYTES)
    user = user_create(
        acting_user=SYSTEM,
        username=name,
        password=wanted.password or made_up,
        must_change_password=bool(made_up),
    )
    member_set(acting_user=SYSTEM, user=user, tenant=None, role=Role.PLATFORM_ADMIN)
    return SetupStep(names=[name], created=True, password=made_up)


def _promoted(user: User, wanted: FirstUse) -> SetupStep:
    """Make an existing account the admin, only if it was named explicitly; it keeps its password."""
    sound = user.is_active and not user.is_service
    if wanted.user != user.username or wanted.password or not sound:
        message = f"An account {user.username!r} exists and is no platform admin. "
        message += (
            "Name it with --user, without a password file, to make it one, or choose another name."
            if sound
            else "It is closed or a service account; choose another name with --user."
        )
        raise Conflict(message, code="NAME_TAKEN", errors=[FieldError("user", "taken", message)])
    member_set(acting_user=SYSTEM, user=user, tenant=None, role=Role.PLATFORM_ADMIN)
    return SetupStep(names=[user.username], created=True)


def _cell(name: str) -> SetupStep:
    there = list(Cell.unscoped.order_by("name").values_list("name", flat=True))
    if not there:
        return SetupStep(names=[cell_add(acting_user=SYSTEM, name=name or CELL).name], created=True)
    if name and name not in there:
        raise _other("cell", "cell", there, "add further ones with: allotment cell add")
    return SetupStep(names=there)


def _root(wanted: FirstUse) -> SetupStep:
    there = Tenant.unscoped.filter(parent=None).first()
    if there is None:
        slug = wanted.tenant or ROOT
        name = wanted.tenant_name or slug.capitalize()
        tenant = tenant_create(acting_user=SYSTEM, parent=None, kind=TenantKind.FOLDER, slug=slug, name=name)
        return SetupStep(names=[tenant.slug], created=True)
    if wanted.tenant not in ("", there.slug):
        raise _other("tenant", "root tenant", [there.slug], "add further ones with: allotment tenant add")
    return SetupStep(names=[there.slug])


def _other(field: str, what: str, there: Sequence[str], advice: str) -> Conflict:
    found = f"The installation has been set up already; {what}: {', '.join(there)}."
    message = f"{found} Nothing was changed; {advice}."
    return Conflict(message, code="ALREADY_SET_UP", errors=[FieldError(field, "ALREADY_SET_UP", message)])
