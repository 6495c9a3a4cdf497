"""Tenants, users, memberships and access keys."""

from __future__ import annotations

from foundation.core.actor import SYSTEM
from foundation.core.identifiers import new_id
from tenants.models import (
    AccountKind,
    CustomRole,
    Group,
    GroupMember,
    Member,
    Role,
    Tenant,
    TenantKind,
    User,
)
from tenants.services.access_key import access_key_create


def root() -> Tenant:
    """The root folder, made on first use."""
    found = Tenant.unscoped.filter(parent__isnull=True).first()
    return found or _tenant("root", TenantKind.FOLDER, None)


def folder(slug: str = "research", parent: Tenant | None = None) -> Tenant:
    return _tenant(slug, TenantKind.FOLDER, parent or root())


def workspace(slug: str = "team-a", parent: Tenant | None = None) -> Tenant:
    return _tenant(slug, TenantKind.WORKSPACE, parent or root())


def _tenant(slug: str, kind: TenantKind, parent: Tenant | None) -> Tenant:
    tenant = Tenant(id=new_id(), slug=slug, name=slug.replace("-", " ").title(), kind=kind, parent=parent)
    tenant.path = f"{parent.path if parent else '/'}{tenant.id}/"
    tenant.save(force_insert=True)
    return tenant


def user(username: str = "ada", tenant: Tenant | None = None, role: Role | None = None) -> User:
    """A user; with a role, a member of `tenant`, or of the platform when there is no tenant."""
    made = User.objects.create_user(username=username, password="a long password 1")
    if role is not None:
        member(made, tenant, role)
    return made


def member(of: User, tenant: Tenant | None, role: Role) -> Member:
    return Member.unscoped.create(user=of, tenant=tenant, role=role)


def platform_admin(username: str = "root") -> User:
    return user(username, None, Role.PLATFORM_ADMIN)


def service_account(name: str, home: Tenant) -> User:
    """The account `<name>@<home>`, without a role."""
    return User.objects.create(username=f"{name}@{home.slug}", kind=AccountKind.SERVICE, home=home)


def access_key(of: User) -> str:
    """A fresh bearer token of the user."""
    return access_key_create(acting_user=SYSTEM, user=of, name="test")[1]


def group(name: str = "ml", *people: User, claim: str | None = None) -> Group:
    """A group with these people in it."""
    made = Group.unscoped.create(name=name, claim=claim)
    GroupMember.unscoped.bulk_create(GroupMember(group=made, user=each) for each in people)
    return made


def group_member(of: Group, tenant: Tenant | None, role: Role) -> Member:
    return Member.unscoped.create(group=of, tenant=tenant, role=role)


def custom_role(tenant: Tenant | None, name: str, *points: str) -> CustomRole:
    return CustomRole.unscoped.create(tenant=tenant, name=name, points=list(points))
