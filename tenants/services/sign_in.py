"""What a sign-in by an identity provider changes here."""

from __future__ import annotations

from django.conf import settings
from django.db import transaction

from foundation import audit
from foundation.actor import SYSTEM
from tenants.models import Group, GroupMember, Member, Role, User


@transaction.atomic
def groups_follow(*, user: User, claimed: frozenset[str]) -> None:
    """Make the user's groups those that the provider names: others of the provider's are lost.

    A group here is the provider's when it carries its name as `claim`; groups without one stay as they
    are, and names that no group here carries count for nothing. The names in the setting
    ALLOTMENT_OIDC_ADMIN_GROUPS are made groups of platform admins, so that the first admin can come in.
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
        GroupMember(group=group, user=user).save(force_insert=True)
    if gained or lost:
        audit.record(
            SYSTEM,
            "user.groups",
            entity="user",
            entity_id=user.pk,
            before={"lost": [group.name for group in lost]},
            after={"gained": [group.name for group in gained]},
        )


def _admin_group(claim: str) -> None:
    group, made = Group.unscoped.get_or_create(claim=claim, defaults={"name": claim})
    if made:
        Member(group=group, role=Role.PLATFORM_ADMIN).save(force_insert=True)
        after = {"name": group.name, "claim": claim, "role": Role.PLATFORM_ADMIN.value}
        audit.record(SYSTEM, "group.create", entity="group", entity_id=group.pk, after=after)


def person_noted(*, user: User) -> None:
    """The audit row of an account that its first sign-in made."""
    audit.record(
        SYSTEM,
        "user.create",
        entity="user",
        entity_id=user.pk,
        after={"username": user.username, "by": "oidc"},
    )
