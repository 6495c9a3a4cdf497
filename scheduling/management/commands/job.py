"""`allotment job …`: manage jobs from a shell, with the same services as the REST API."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.table import Table

from foundation.core.lazy_import import defer_import
from foundation.web.listing import ColumnCondition
from scheduling.api.jobs.serializers import JobDetailSerializer, JobSerializer, list_row
from scheduling.job_file import load_text
from scheduling.job_file.declaration.describing import fields_page
from scheduling.job_file.declaration.reasons_page import reasons_page
from scheduling.management.log_options import add_log_options
from scheduling.selectors.jobs.job import job_get, job_list
from scheduling.selectors.jobs.job_filter import COLUMNS, JobFilter
from scheduling.services.jobs.idle_extension import extend_idle_job
from scheduling.services.jobs.job import job_cancel, job_submit
from scheduling.services.jobs.job_read import job_read
from scheduling.services.jobs.job_tags import change_job_tags
from tenants.management.results import USAGE, acting_user, report_refusals, write_json
from tenants.management.verbs import format_table
from tenants.models import Tenant, User
from tenants.selectors.tenant import workspace_get

# They load the views of the REST API and the client of Redis, which the list of commands needs not.
explain_job: Final = defer_import("scheduling.management.job_output:explain_job")
explanation_table: Final = defer_import("scheduling.management.job_output:explanation_table")
print_logs: Final = defer_import("scheduling.management.job_output:print_logs")

_PAGES: Final = {"fields": fields_page, "reasons": reasons_page}

_ONE_JOB: Final = {
    "get": "get one job",
    "logs": "print the logs of a job",
    "explain": "explain why a job is pending, doesn't start or still terminates",
    "cancel": "cancel one job",
}


class Command(BaseCommand):
    help = (
        "Submit, list, show, explain, cancel, extend or tag jobs of a workspace; print logs, the job file"
        " fields or reason codes"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(
            dest="verb",
            required=True,
            metavar="submit|list|get|logs|explain|cancel|extend|tag|fields|reasons",
        )
        submit = verbs.add_parser("submit", help="submit a job file")
        submit.add_argument(
            "-f", "--file", required=True, metavar="YAML", help="job file; - for standard input"
        )
        listing = verbs.add_parser("list", help="list jobs, newest first")
        listing.add_argument("--state", action="append", default=[], help="repeatable")
        listing.add_argument("--tag", action="append", default=[], help="jobs that have each; repeatable")
        listing.add_argument("--limit", type=int, default=50)
        listing.add_argument(
            "--tenant", default="", metavar="T", help="with -A: one workspace or folder (slug)"
        )
        place = listing.add_mutually_exclusive_group(required=True)
        place.add_argument("--workspace", "-w", metavar="W", help="workspace ID (slug)")
        place.add_argument(
            "--all-workspaces",
            "-A",
            action="store_true",
            help="jobs of all workspaces that the user can view",
        )
        for verb, does in _ONE_JOB.items():
            one = verbs.add_parser(verb, help=does)
            one.add_argument("job", metavar="JOB", help="job ID or name")
            if verb == "logs":
                add_log_options(one)
        extend = verbs.add_parser("extend", help="put off what the idle policy announced for a job")
        extend.add_argument("job", metavar="JOB", help="job ID or name")
        extend.add_argument("--seconds", type=int, help="at most the idle timeout; default: all of it")
        tag = verbs.add_parser("tag", help="change the tags of a job")
        tag.add_argument("job", metavar="JOB", help="job ID or name")
        tag.add_argument("--add", action="append", default=[], metavar="TAG", help="repeatable")
        tag.add_argument("--remove", action="append", default=[], metavar="TAG", help="repeatable")
        pages = {
            verbs.add_parser("fields", help="print the fields of a job file as Markdown"),
            verbs.add_parser("reasons", help="print the reason codes as Markdown"),
        }
        for chosen in set(verbs.choices.values()) - pages:
            if chosen is not listing:
                chosen.add_argument(
                    "--workspace", "-w", required=True, metavar="W", help="workspace ID (slug)"
                )
            chosen.add_argument(
                "--user", metavar="NAME", help="acting user; default: the first platform admin"
            )
            chosen.add_argument(
                "--json", metavar="FILE", help="write the result as JSON; - for standard output"
            )

    def handle(self, *args: Any, **options: Any) -> None:
        if page := _PAGES.get(options["verb"]):
            self.stdout.write(page(), ending="")
            return
        if options.get("follow") and options["json"]:
            raise CommandError("--follow can't be used with --json.", returncode=USAGE)
        user = acting_user(options["user"])
        with report_refusals(options.get("file") or ""):
            slug = options["workspace"]
            workspace = None if slug is None else workspace_get(viewer=user, slug=slug)
            result = getattr(self, f"_{options['verb']}")(user, workspace, options)
        if options["json"]:
            write_json(options["json"], result)
        if options["verb"] == "explain" and options["json"] != "-":
            self.stdout.write(format_table(explanation_table(result)))
        elif options["verb"] != "logs" and options["json"] != "-":
            jobs = result.get("items", [result])
            self.stdout.write(format_table(_table(jobs, with_workspace=workspace is None)))

    def _submit(self, user: User, workspace: Tenant, options: dict[str, Any]) -> Any:
        body = load_text(_read(options["file"]))
        reading = job_read(acting_user=user, workspace=workspace, body=body)
        job = job_submit(acting_user=user, workspace=workspace, spec=reading.spec)
        return JobSerializer(job).data

    def _list(self, user: User, workspace: Tenant | None, options: dict[str, Any]) -> Any:
        if options["tenant"] and workspace is not None:
            raise CommandError("--tenant needs --all-workspaces.", returncode=USAGE)
        conditions = [ColumnCondition(COLUMNS["tags"], "==", tag) for tag in options["tag"]]
        page = job_list(
            viewer=user,
            workspace=workspace,
            filters=JobFilter(states=options["state"], tenant=options["tenant"], conditions=conditions),
            limit=max(1, options["limit"]),
        )
        return {"items": [list_row(row) for row in page.items], "total": None, "next": page.next}

    def _get(self, user: User, workspace: Tenant, options: dict[str, Any]) -> Any:
        job = job_get(viewer=user, workspace=workspace, ref=options["job"])
        return JobDetailSerializer(job).data

    def _logs(self, user: User, workspace: Tenant, options: dict[str, Any]) -> Any:
        job = job_get(viewer=user, workspace=workspace, ref=options["job"])
        return print_logs(user, job, options, self.stdout)

    def _explain(self, user: User, workspace: Tenant, options: dict[str, Any]) -> Any:
        return explain_job(user, job_get(viewer=user, workspace=workspace, ref=options["job"]))

    def _cancel(self, user: User, workspace: Tenant, options: dict[str, Any]) -> Any:
        job = job_get(viewer=user, workspace=workspace, ref=options["job"])
        job_cancel(acting_user=user, job=job)
        return JobSerializer(job).data

    def _extend(self, user: User, workspace: Tenant, options: dict[str, Any]) -> Any:
        job = job_get(viewer=user, workspace=workspace, ref=options["job"])
        extend_idle_job(acting_user=user, job=job, seconds=options["seconds"])
        return JobDetailSerializer(job).data

    def _tag(self, user: User, workspace: Tenant, options: dict[str, Any]) -> Any:
        job = job_get(viewer=user, workspace=workspace, ref=options["job"])
        change_job_tags(acting_user=user, job=job, add=options["add"], remove=options["remove"])
        return JobSerializer(job).data


def _read(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{file}: {error}", returncode=USAGE) from error


def _table(jobs: list[dict[str, Any]], *, with_workspace: bool) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in (
        *(["workspace"] if with_workspace else []),
        "name",
        "state",
        "reason",
        "queue",
        "by",
        "submitted",
        "id",
    ):
        table.add_column(heading, overflow="fold")
    for job in jobs:
        reason = job["reason"]["code"] if job["reason"] else ""
        submitted = f"{datetime.fromisoformat(job['submitted_at']):%Y-%m-%d %H:%M:%S}"
        place = [job["workspace"]] if with_workspace else []
        facts = (job["state"], reason, job["queue"], job["submitted_by"], submitted, job["id"])
        table.add_row(*place, job["name"], *facts)
    return table
