"""`allotment tenant add|list`: the tree of folders and workspaces from a shell."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from tenants.management.results import USAGE
from tenants.management.verbs import VerbCommand, table_text
from tenants.models import Tenant, TenantKind, User
from tenants.selectors.tenant import tenant_list
from tenants.services.tenant import tenant_create


class Command(VerbCommand):
    help = "Manage tenants: folders, and workspaces for jobs"

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="add|list")
        add = verbs.add_parser("add", help="add a workspace or a folder")
        add.add_argument("slug", metavar="SLUG", help="ID, used in URLs and namespaces")
        add.add_argument("--name", default="", help="display name; default: the ID")
        add.add_argument(
            "--parent", default="", metavar="SLUG", help="parent folder; default: the root tenant"
        )
        add.add_argument("--folder", action="store_true", help="create a folder instead of a workspace")
        verbs.add_parser("list", help="list tenants as a tree")
        self.common_arguments(verbs)

    def _add(self, user: User, options: dict[str, Any]) -> tuple[Any, str]:
        kind = TenantKind.FOLDER if options["folder"] else TenantKind.WORKSPACE
        tenant = tenant_create(
            acting_user=user,
            parent=_parent(user, options["parent"]),
            kind=kind,
            slug=options["slug"],
            name=options["name"] or options["slug"],
        )
        text = f"{kind.value} {tenant.slug} added below {tenant.parent.slug if tenant.parent else '/'}"
        if kind is TenantKind.WORKSPACE:
            text += f"; next: allotment queue add {tenant.slug} default"
        return _describe(tenant), text

    def _list(self, user: User, options: dict[str, Any]) -> tuple[Any, str]:
        tenants = tenant_list(viewer=user)
        columns = ("slug", "name", "kind", "parent")
        rows = [[str(_describe(tenant)[column] or "") for column in columns] for tenant in tenants]
        return {"items": [_describe(tenant) for tenant in tenants]}, table_text(columns, rows)


def _parent(user: User, slug: str) -> Tenant:
    tenants = tenant_list(viewer=user)
    for tenant in tenants:
        if tenant.slug == slug or (not slug and tenant.parent_id is None):
            return tenant
    if slug:
        raise CommandError(f"--parent: tenant {slug!r} not found, or you can't view it", returncode=USAGE)
    raise CommandError("specify a folder with --parent; you can't view the root tenant", returncode=USAGE)


def _describe(tenant: Tenant) -> dict[str, Any]:
    parent = tenant.parent.slug if tenant.parent else None
    return {"slug": tenant.slug, "name": tenant.name, "kind": tenant.kind, "parent": parent}
