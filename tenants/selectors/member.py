"""Reading memberships."""

from __future__ import annotations

from tenants.models import Member, User


def membership_list(*, viewer: User) -> list[Member]:
    """The viewer's own memberships, platform first, then by tenant."""
    own = Member.unscoped.filter(user=viewer).select_related("tenant")
    return sorted(own, key=lambda member: (member.tenant is not None, str(member.tenant), str(member.pk)))
