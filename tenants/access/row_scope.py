"""The rows that a request may reach, from the roles of its user."""

from __future__ import annotations

from foundation.compute import serving
from foundation.sql import row_scope
from foundation.sql.row_scope import EVERYTHING, RowScope
from tenants.access.grants import grants_of
from tenants.models import User


def scope_of(user: User) -> RowScope:
    """Return all rows for a user with a role on the platform; else those of the tenants with a role, and
    below.

    This is coarser than the permissions, which decide what may be done with the rows: it is a second line of
    defence.
    """
    grants = grants_of(user)
    if any(grant.path is None for grant in grants):
        return EVERYTHING
    return row_scope.of_paths([grant.path for grant in grants if grant.path], user.pk)


def act_for(user: object) -> None:
    """Narrow the rows to those of the authenticated user; a user without an account sees nothing."""
    if isinstance(user, User):
        row_scope.narrow_scope(scope_of(user))
        serving.set_user(str(user.pk))
