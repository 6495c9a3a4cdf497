"""`allotment usage`: the usage report of a month from a shell, as a table, JSON, CSV or XLSX."""

from __future__ import annotations

from typing import Any, Final

from django.core.management.base import BaseCommand, CommandParser

from telemetry.usage.grouping import GroupBy

_SHOWN: Final = 50


class Command(BaseCommand):
    help = "Show GPU-hours and cost of a month by tenant, user, queue, pool or job"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--month", default="", metavar="YYYY-MM", help="default: the current month")
        parser.add_argument("--time-zone", default="", metavar="ZONE", help="IANA name of a time zone")
        parser.add_argument("--by", choices=[one.value for one in GroupBy], default=GroupBy.TENANT.value)
        parser.add_argument("--tenant", "-t", metavar="T", help="only this tenant and its children (slug)")
        parser.add_argument("--limit", type=int, default=_SHOWN, help="rows of the table and of JSON")
        parser.add_argument("--csv", metavar="FILE", help="write all rows as CSV")
        parser.add_argument("--xlsx", metavar="FILE", help="write all rows as XLSX")
        parser.add_argument("--user", metavar="NAME", help="acting user; default: the first platform admin")
        parser.add_argument("--json", metavar="FILE", help="write the result as JSON; - for standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        # Imported late: numpy and the REST API are too slow to import for every list of commands.
        from telemetry.management.usage_output import write_usage  # noqa: PLC0415 (as above)

        shown = write_usage(options)
        if shown:
            self.stdout.write(shown)
