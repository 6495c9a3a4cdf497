"""`allotment quota get|set|apply|export`: quotas from a shell, through the same services."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

from django.core.management.base import CommandError, CommandParser
from rich.table import Table

from quotas.api.quota_serializers import DifferenceSerializer, NodeQuotaSerializer
from quotas.files import FileFormat, find_format
from quotas.selectors.tables.quota_row import QuotaRow
from quotas.selectors.tables.quota_table import NodeQuota, node_quota, quota_nodes, tenant_get
from quotas.services.quota import Shrink
from quotas.services.quota_files.quota_file import (
    QuotaDifference,
    QuotaFile,
    quota_file_apply,
    quota_file_check,
    quota_file_export,
)
from quotas.services.quota_plan import PlannedQuota
from quotas.texts.amounts import format_amount
from tenants.management.results import USAGE
from tenants.management.verbs import VerbCommand, format_table
from tenants.models import User

_LIMITS: Final = ("nominal", "borrowing", "lending")


class Command(VerbCommand):
    help = "Show, set, import and export quotas"

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="get|set|apply|export")
        get = verbs.add_parser("get", help="show the quota of a tenant and its queues")
        one = verbs.add_parser("set", help="set a limit; other limits are unchanged")
        for verb in (get, one):
            verb.add_argument("tenant", metavar="TENANT", help="tenant ID (slug)")
            verb.add_argument("--queue", default="", help="queue, instead of the tenant's own quota")
        one.add_argument("--flavor", required=True)
        one.add_argument("--cluster", default="", help="cluster; required if several have the flavor")
        one.add_argument("--resource", required=True, metavar="R", help="gpu.cards, gpu.cores, gpu.memory, …")
        for limit in _LIMITS:
            one.add_argument(f"--{limit}", default="", metavar="N", help='whole number or "unlimited"')
        apply = verbs.add_parser("apply", help="apply a YAML or CSV file atomically")
        apply.add_argument(
            "-f", "--file", required=True, metavar="FILE", help="quota file; - for YAML on standard input"
        )
        for verb in (one, apply):
            verb.add_argument("--reason", default="", help="reason, shown in the change history")
            verb.add_argument("--dry-run", action="store_true", help="preview without applying")
            verb.add_argument(
                "--shrink",
                choices=[choice.value for choice in Shrink],
                help="how to handle usage above the new quota",
            )
            verb.add_argument(
                "--on-top",
                action="store_true",
                help=("create new quota instead of taking it from the parent"),
            )
        export = verbs.add_parser("export", help="export all visible quotas")
        export.add_argument("--tenant", default="", help="tenant ID; includes its children")
        export.add_argument("--format", choices=[kind.value for kind in FileFormat], default="yaml")
        export.add_argument("--short", action="store_true", help="use whole GPUs per pool where equivalent")
        self.common_arguments(verbs)

    def _get(self, user: User, options: dict[str, Any]) -> tuple[Any, str]:
        nodes = [
            node_quota(user, node)
            for node in quota_nodes(user, tenant_get(user, options["tenant"]))
            if not options["queue"] or (node.is_queue and node.queue.name == options["queue"])
        ]
        return {"items": NodeQuotaSerializer(nodes, many=True).data}, format_table(_node_table(nodes))

    def _set(self, user: User, options: dict[str, Any]) -> tuple[Any, str]:
        limits = {f"{name}_limit".replace("nominal_limit", "nominal"): options[name] for name in _LIMITS}
        place = {name: options[name] for name in ("tenant", "queue", "cluster", "flavor", "resource")}
        values = place | limits
        if any("," in value or '"' in value for value in values.values()):
            raise CommandError("names and amounts can't contain commas or quotes", returncode=USAGE)
        text = f"{','.join(values)}\n{','.join(values.values())}\n"
        return self._change(user, QuotaFile(text, FileFormat.CSV, "command line"), options)

    def _apply(self, user: User, options: dict[str, Any]) -> tuple[Any, str]:
        name = options["file"]
        return self._change(user, QuotaFile(_read(name), find_format(name), name), options)

    def _change(self, user: User, file: QuotaFile, options: dict[str, Any]) -> tuple[Any, str]:
        found = quota_file_check(acting_user=user, file=file, on_top=options["on_top"])
        if not options["dry_run"]:
            quota_file_apply(
                acting_user=user,
                file=file,
                reason=options["reason"],
                shrink=Shrink(options["shrink"]) if options["shrink"] else None,
                on_top=options["on_top"],
            )
        result = {"applied": not options["dry_run"], **DifferenceSerializer(found).data}
        return result, format_table(_difference_table(found))

    def _export(self, user: User, options: dict[str, Any]) -> tuple[Any, str]:
        tenant = tenant_get(user, options["tenant"]) if options["tenant"] else None
        kind = FileFormat(options["format"])
        if options["short"] and kind is not FileFormat.YAML:
            raise CommandError("--short requires YAML", returncode=USAGE)
        text = quota_file_export(viewer=user, kind=kind, tenant=tenant, short=options["short"])
        return {"format": options["format"], "text": text}, text


def _read(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{file}: {error}", returncode=USAGE) from error


def _node_table(nodes: list[NodeQuota]) -> Table:
    table = _table("node", "flavor", "resource", "nominal", "own nominal", "reserved", "borrowed", "lent")
    for node in nodes:
        for row in node.assigned_rows:
            table.add_row(node.name, row.flavor.name, row.resource.value, *_amounts(row))
    return table


def _amounts(row: QuotaRow) -> list[str]:
    amounts = (row.nominal, row.own_nominal, row.reserved, row.borrowed, row.lent)
    return [format_amount(row.resource, amount) for amount in amounts]


def _difference_table(found: QuotaDifference) -> Table:
    table = _table("node", "flavor", "resource", "nominal", "borrowing limit", "lending limit")
    for change in found.changes:
        name = found.names[change.node.pk]
        table.add_row(name, change.flavor.name, change.resource.value, *_arrows(change))
    return table


def _arrows(change: PlannedQuota) -> list[str]:
    words = []
    for limit in ("nominal", "borrowing_limit", "lending_limit"):
        before, after = getattr(change.before, limit), getattr(change.after, limit)
        text = format_amount(change.resource, after)
        words.append(text if before == after else f"{format_amount(change.resource, before)} → {text}")
    return words


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table
