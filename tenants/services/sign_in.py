"""The changes that a sign-in by an identity provider causes here."""

from __future__ import annotations

from itertools import count
from typing import Final

from django.conf import settings
from django.db import IntegrityError, transaction

from foundation.audit import audit_log
from foundation.core.actor import SYSTEM
from tenants.models import Group, GroupMember, Member, Role, User
from tenants.models.names import same_name

_NAME_MAX: Final = 120


@transaction.atomic
def groups_follow(*, user: User, claimed: frozenset[str]) -> None:
    """Set the user's groups to those that the provider names; other groups of the provider are removed.

    A group belongs to the provider if its `claim` is a name there; groups without a claim stay unchanged, and
    names without a group here are ignored. The names in the setting ALLOTMENT_OIDC_ADMIN_GROUPS become groups
    of platform admins, so that the first admin can sign in.
    """
    for name in sorted(claimed & frozenset(settings.ALLOTMENT_OIDC_ADMIN_GROUPS)):
        _admin_group(name)
    wanted = set(Group.unscoped.filter(claim__in=claimed))
    rows = GroupMember.unscoped.filter(user=user, group__claim__isnull=False).select_related("group")
    have = {row.group: row for row in rows}
    gained = sorted(wanted - set(have), key=lambda group: group.name)
    lost = sorted(set(have) - wanted, key=lambda group: group.name)
    for group in lost:
        have[group].delete()
    for group in gained:
        GroupMember.unscoped.get_or_create(group=group, user=user)
    if gained or lost:
        audit_log.record_action(
            SYSTEM,
            "user.groups",
            entity="user",
            entity_id=user.pk,
            before={"lost": [group.name for group in lost]},
            after={"gained": [group.name for group in gained]},
        )


def _admin_group(claim: str) -> None:
    if Group.unscoped.filter(claim=claim).exists():
        return
    try:
        with transaction.atomic():
            group = Group.unscoped.create(claim=claim, name=_free_name(claim))
            Member(group=group, role=Role.PLATFORM_ADMIN).save(force_insert=True)
    except IntegrityError:
        if not Group.unscoped.filter(claim=claim).exists():
            raise
        return  # a concurrent sign-in created the group
    after = {"name": group.name, "claim": claim, "role": Role.PLATFORM_ADMIN.value}
    audit_log.record_action(SYSTEM, "group.create", entity="group", entity_id=group.pk, after=after)


def _free_name(claim: str) -> str:
    """Return the claim as a name, with a number appended if the name is taken.

    A group of that name that was created here is a different one: its users must not become platform admins.
    """
    taken = list(Group.unscoped.values_list("name", flat=True))
    for number in count(1):
        suffix = f" (SSO {number})" if number > 1 else ""
        name = claim[: _NAME_MAX - len(suffix)] + suffix
        if not any(same_name(name, other) for other in taken):
            return name
    raise AssertionError("count() does not end")


def person_noted(*, user: User) -> None:
    """Record the account that a first sign-in created, in the audit."""
    audit_log.record_action(
        SYSTEM,
        "user.create",
        entity="user",
        entity_id=user.pk,
        after={"username": user.username, "by": "oidc"},
    )
