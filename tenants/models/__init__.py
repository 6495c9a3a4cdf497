from tenants.models.access_key import AccessKey
from tenants.models.member import PLATFORM_ROLES, Member, Role
from tenants.models.tenant import Tenant, TenantKind
from tenants.models.user import User

__all__ = ["PLATFORM_ROLES", "AccessKey", "Member", "Role", "Tenant", "TenantKind", "User"]
