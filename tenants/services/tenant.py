"""Growing the tenant tree."""

from __future__ import annotations

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from foundation import audit
from foundation.actor import Actor
from foundation.errors import Conflict, Invalid
from foundation.identifiers import is_dns_label, new_id
from tenants import permissions
from tenants.models import Tenant, TenantKind
from tenants.permissions import Permission


@transaction.atomic
def tenant_create(
    *, acting_user: Actor, parent: Tenant | None, kind: TenantKind, slug: str, name: str
) -> Tenant:
    """Add a folder or workspace below `parent`; without a parent, the root of the tree.

    Raises: PermissionDenied; Invalid for a slug that cannot name a namespace or a parent that is a
    workspace; Conflict when the slug is taken or the root exists already.
    """
    permissions.require(acting_user, Permission.TENANT_EDIT, parent)
    if not is_dns_label(slug):
        message = _("%(name)s cannot name a tenant: use lower-case letters, digits and hyphens.")
        raise Invalid(message % {"name": slug})
    if parent is not None and parent.is_workspace:
        raise Invalid(_("A workspace has no tenants below it; choose a folder."))
    tenant = Tenant(id=new_id(), parent=parent, kind=kind, slug=slug, name=name)
    tenant.path = f"{parent.path if parent else '/'}{tenant.id}/"
    try:
        with transaction.atomic():
            tenant.save(force_insert=True)
    except IntegrityError as error:
        raise Conflict(_("There is a tenant named %(name)s already.") % {"name": slug}) from error
    audit.record(
        acting_user,
        "tenant.create",
        entity="tenant",
        entity_id=tenant.id,
        tenant_id=tenant.id,
        after={"slug": slug, "kind": kind, "parent": parent.slug if parent else None},
    )
    return tenant
