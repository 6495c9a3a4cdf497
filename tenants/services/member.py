"""Accounts and memberships."""

from __future__ import annotations

from django.db import transaction
from django.utils.translation import gettext as _

from foundation import audit
from foundation.actor import Actor
from foundation.errors import Conflict, Invalid
from tenants import permissions
from tenants.models import PLATFORM_ROLES, Member, Role, Tenant, User
from tenants.permissions import Permission
from tenants.signals import password_changed


@transaction.atomic
def user_create(*, acting_user: Actor, username: str, password: str, must_change_password: bool) -> User:
    """Create an account with no rights; `member_set` gives it some.

    Raises: PermissionDenied; Conflict when the name is taken.
    """
    permissions.require(acting_user, Permission.MEMBER_EDIT)
    if User.objects.filter(username=username).exists():
        raise Conflict(_("There is a user named %(name)s already.") % {"name": username})
    user = User.objects.create_user(username=username, password=password)
    user.must_change_password = must_change_password
    user.save(update_fields=["must_change_password"])
    audit.record(acting_user, "user.create", entity="user", entity_id=user.pk, after={"username": username})
    return user


@transaction.atomic
def member_set(*, acting_user: Actor, user: User, tenant: Tenant | None, role: Role) -> Member:
    """Give `user` the role on `tenant` (or on the platform), replacing the one it had there.

    Raises: PermissionDenied; Invalid when the role does not belong to that scope.
    """
    permissions.require(acting_user, Permission.MEMBER_EDIT, tenant)
    if (tenant is None) != (role in PLATFORM_ROLES):
        message = (
            _("The role %(role)s cannot be given on the platform.")
            if tenant is None
            else _("The role %(role)s cannot be given on a tenant.")
        )
        raise Invalid(message % {"role": role})
    member = Member.unscoped.update_or_create(user=user, tenant=tenant, defaults={"role": role})[0]
    audit.record(
        acting_user,
        "member.set",
        entity="member",
        entity_id=member.pk,
        tenant_id=tenant.pk if tenant else None,
        after={"user": user.username, "role": role},
    )
    return member


@transaction.atomic
def password_change(*, acting_user: User, old_password: str, new_password: str) -> None:
    """Change one's own password.

    Raises: Invalid when the old password is wrong.
    """
    if not acting_user.check_password(old_password):
        raise Invalid(_("The old password is not right."))
    acting_user.set_password(new_password)
    acting_user.must_change_password = False
    acting_user.save(update_fields=["password", "must_change_password"])
    audit.record(acting_user, "user.password", entity="user", entity_id=acting_user.pk)
    username = acting_user.get_username()
    transaction.on_commit(lambda: password_changed.send(User, username=username))
