"""Service accounts: a tenant's accounts for pipelines and other automation."""

from __future__ import annotations

from django.db import transaction
from django.utils.translation import gettext as _

from foundation.audit import audit_log
from foundation.core import clock
from foundation.core.actor import Actor
from foundation.core.errors import Conflict, FieldError
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import AccessKey, AccountKind, Member, Tenant, User
from tenants.models.names import clean_slug
from tenants.services.tree import require_live


@transaction.atomic
def service_account_create(*, acting_user: Actor, tenant: Tenant, name: str) -> User:
    """Create the account `<name>@<tenant>`; it has no permissions until `member_set` gives it a role at home.

    Raises: PermissionDenied, NotFound; Invalid for the name; Conflict when it is taken or the tenant is
    archived.
    """
    permissions.require_permission(acting_user, Permission.MEMBER_EDIT, tenant)
    require_live(tenant)
    username = f"{clean_slug(name, field='name')}@{tenant.slug}"
    if User.objects.filter(username__iexact=username).exists():
        message = _("User %(name)s already exists.") % {"name": username}
        raise Conflict(message, code="NAME_TAKEN", errors=[FieldError("name", "taken", message)])
    user = User(username=username, kind=AccountKind.SERVICE, home=tenant)
    user.set_unusable_password()
    user.save(force_insert=True)
    _note(acting_user, "create", user)
    return user


@transaction.atomic
def service_account_close(*, acting_user: Actor, account: User) -> None:
    """Close a service account: its keys are revoked and its roles removed; its jobs keep its name.

    Raises: PermissionDenied, NotFound.
    """
    require_manage(acting_user, account)
    if not account.is_active:
        return
    account.is_active = False
    account.save(update_fields=["is_active"])
    AccessKey.unscoped.filter(user=account, revoked_at__isnull=True).update(revoked_at=clock.now())
    for member in Member.unscoped.filter(user=account):
        member.delete()
    _note(acting_user, "close", account)


def require_manage(actor: Actor, account: User) -> None:
    """Check that `actor` may manage a service account: a holder of its keys has all its permissions.

    Raises: PermissionDenied, also when the account has more permissions than the actor; NotFound.
    """
    permissions.require_permission(actor, Permission.MEMBER_EDIT, account.home)
    permissions.require_over(actor, account)


def _note(actor: Actor, verb: str, account: User) -> None:
    audit_log.record_action(
        actor,
        f"service-account.{verb}",
        entity="user",
        entity_id=account.pk,
        tenant_id=account.home_id,
        after={"username": account.username},
    )
