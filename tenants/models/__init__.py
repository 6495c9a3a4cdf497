from tenants.models.access_key import AccessKey
from tenants.models.group import Group, GroupMember
from tenants.models.member import Member
from tenants.models.role import PLATFORM_ROLES, CustomRole, Role
from tenants.models.tenant import Tenant, TenantKind
from tenants.models.user import AccountKind, User

__all__ = [
    "PLATFORM_ROLES",
    "AccessKey",
    "AccountKind",
    "CustomRole",
    "Group",
    "GroupMember",
    "Member",
    "Role",
    "Tenant",
    "TenantKind",
    "User",
]
