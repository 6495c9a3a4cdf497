"""The lists of given roles, and of the permissions of each user; actions on several members."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.web.listing import Column
from frontend.lists.batch import BatchAct, BatchItem
from frontend.lists.declaration import FilterField, ListColumn, ListDeclaration
from frontend.texts.labels import role_word
from tenants.access.rights import EffectiveRights, Right
from tenants.models import Member, Tenant, User
from tenants.selectors.member import MEMBER_COLUMNS, MemberChange, last_changes, member_get, member_list
from tenants.selectors.role import role_named
from tenants.services.member import member_remove, member_set

_KINDS: Final = {
    "user": gettext_lazy("User"),
    "group": gettext_lazy("Group"),
    "service-account": gettext_lazy("Service account"),
}


@dataclass(frozen=True, slots=True)
class MemberLine:
    """One role that applies here; `fixed` unless it was given here and the viewer may change it. `change` is
    its last recorded change, None where the viewer may not know it.
    """

    member: Member
    kind: str
    role: str
    origin: str
    fixed: bool
    change: MemberChange | None

    @property
    def id(self) -> uuid.UUID:
        return self.member.pk

    @property
    def title(self) -> str:
        return self.member.subject_name


@dataclass(frozen=True, slots=True)
class Person:
    """One user's access here: the roles as text, and the permissions."""

    user: User
    sources: Sequence[str]
    points: Sequence[str]

    @property
    def id(self) -> uuid.UUID:
        return self.user.pk

    @property
    def title(self) -> str:
        return self.user.username


MEMBERS: Final = ListDeclaration(
    key="members",
    title=gettext_lazy("Members"),
    columns=(
        ListColumn(
            key="name", label=gettext_lazy("Name"), sort="name", text=lambda line: line.member.subject_name
        ),
        ListColumn(key="kind", label=gettext_lazy("Type"), sort="kind", text=lambda line: line.kind),
        ListColumn(key="role", label=gettext_lazy("Role"), sort="role", text=lambda line: line.role),
        ListColumn(key="origin", label=gettext_lazy("Source"), text=lambda line: line.origin),
        ListColumn(
            key="changed_by",
            label=gettext_lazy("Authorized by"),
            text=lambda line: line.change.actor if line.change else "",
        ),
        ListColumn(
            key="changed_at",
            label=gettext_lazy("Updated"),
            text=lambda line: line.change.at if line.change else "",
        ),
    ),
    filters={
        "name": FilterField(label=gettext_lazy("Name")),
        "kind": FilterField(label=gettext_lazy("Type"), choices=list(_KINDS.items())),
        "role": FilterField(label=gettext_lazy("Role")),
        "tenant": FilterField(label=gettext_lazy("Source")),
    },
    fields={**MEMBER_COLUMNS, "kind": Column("subject_kind"), "tenant": Column("tenant.name")},
    every_s=0,
)
EFFECTIVE: Final = ListDeclaration(
    key="permissions",
    title=gettext_lazy("Effective permissions"),
    columns=(
        ListColumn(
            key="name", label=gettext_lazy("Name"), sort="username", text=lambda line: line.user.username
        ),
        ListColumn(
            key="sources", label=gettext_lazy("Granted by"), text=lambda line: _("; ").join(line.sources)
        ),
        ListColumn(
            key="points", label=gettext_lazy("Permissions"), text=lambda line: _(", ").join(line.points)
        ),
    ),
    filters={"username": FilterField(label=gettext_lazy("Name"))},
    fields={"username": Column("user.username")},
    every_s=0,
)


def member_lines(who: User, place: Tenant, may_edit: bool, members: Sequence[Member]) -> list[MemberLine]:
    """Return the lines of some members of a tenant."""
    changes = last_changes(viewer=who, members=members)
    return [_line(member, place, may_edit, changes.get(member.pk)) for member in members]


def _line(member: Member, place: Tenant, may_edit: bool, change: MemberChange | None) -> MemberLine:
    own = member.tenant_id == place.pk
    origin = _("Direct") if own else _("Inherited from %(tenant)s") % {"tenant": member.tenant}
    kind = str(_KINDS[member.subject_kind])
    return MemberLine(member, kind, role_word(member.role_name), origin, not (own and may_edit), change)


def person(found: EffectiveRights) -> Person:
    """Return the access of one user as text."""
    return Person(found.user, [_source(right) for right in found.rights], sorted(found.points))


def _source(right: Right) -> str:
    if right.tenant is None and not right.group:
        return role_word(right.role)
    place = str(right.tenant) if right.tenant else _("Platform")
    names = {"role": role_word(right.role), "place": place, "group": right.group}
    return (_("%(role)s on %(place)s by %(group)s") if right.group else _("%(role)s on %(place)s")) % names


def batch_acts(who: User, place: Tenant, roles: Sequence[tuple[str, str]]) -> list[BatchAct]:
    """Return the actions of a viewer who manages members of a tenant; each member is checked again."""

    def set_role(member: Member, choice: str) -> None:
        member_set(
            acting_user=who,
            tenant=place,
            role=role_named(viewer=who, tenant=place, name=choice),
            user=member.user,
            group=member.group,
            expected=member.version,
        )

    return [
        BatchAct(
            key="role",
            label=_("Change role"),
            title=_("Change the role of members"),
            act=set_role,
            choice_label=_("Role"),
            choices=roles,
            fits=lambda _line: False,
        ),
        BatchAct(
            key="remove",
            label=_("Remove"),
            title=_("Remove members"),
            act=lambda member, _choice: member_remove(
                acting_user=who, member=member, expected=member.version
            ),
            danger=True,
            note=_("Inherited and group roles are kept. Running jobs aren't affected."),
            icon="user-minus",
        ),
    ]


def find_members(who: User, place: Tenant, ids: Collection[uuid.UUID]) -> list[BatchItem]:
    """Return members with a role that was given here. Raises: NotFound for any other."""
    found = {member.pk: member for member in member_list(viewer=who, tenant=place)}
    return [
        BatchItem(
            id=pk,
            name=member.subject_name,
            row=member,
            state=role_word(member.role_name),
            version=member.version,
        )
        for pk in ids
        for member in [found.get(pk) or member_get(viewer=who, tenant=place, member_id=pk)]
    ]
