"""The commands: each makes one or two calls, then prints a table or JSON."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from allotment_client.cli.show import (
    event_line,
    format_explanation,
    job_table,
    print_answer,
    quota_table,
    show_line,
)
from allotment_client.client import ENDED, Client
from allotment_client.errors import ConfigurationError
from allotment_client.shapes import Job

Command = Callable[[Client, str, argparse.Namespace], int]


def submit_job(client: Client, workspace: str, options: argparse.Namespace) -> int:
    """Submit the file unchanged: the server parses the YAML and reports every error by field."""
    job = client.submit(
        workspace,
        _read(options.file),
        dry_run=options.dry_run,
        idempotency_key=options.idempotency_key,
    )
    if options.dry_run:
        demand = ", ".join(f"{name} {amount}" for name, amount in sorted(job.get("demand", {}).items()))
        print_answer(options.output, job, lambda: f"{job['name']} would be accepted; it asks for {demand}.")
    elif not options.wait or options.output != "json":
        print_answer(options.output, job, lambda: job_table([job]))
    for filled in job.get("defaults", ()):
        print(f"default from policy: {filled['field']} = {filled['value']}", file=sys.stderr)
    if options.dry_run or not options.wait:
        return 0
    return _ended(client.wait(workspace, job["id"], deadline_s=options.timeout), options.output)


def list_jobs(client: Client, workspace: str, options: argparse.Namespace) -> int:
    """Print one table of jobs, and with `--watch` their events afterwards."""
    wanted = {
        "states": tuple(options.state),
        "queue": options.queue,
        "mine": options.mine,
        "tags": tuple(options.tag),
        "limit": options.limit,
    }
    if options.all_workspaces:
        if options.watch:
            raise ConfigurationError("--watch needs one workspace.")
        jobs = list(client.all_jobs(tenant=options.tenant, **wanted))
    elif options.tenant:
        raise ConfigurationError("--tenant needs --all-workspaces.")
    else:
        jobs = list(client.jobs(workspace, **wanted))
    print_answer(
        options.output, {"items": jobs}, lambda: job_table(jobs, with_workspace=options.all_workspaces)
    )
    if not options.watch:
        return 0
    for event in client.watch(workspace):
        show_line(options.output, event, event_line(event))
    return 0


def print_logs(client: Client, workspace: str, options: argparse.Namespace) -> int:
    """Print lines, each after its task; the reason for no lines goes to standard error."""
    if options.follow:
        lines = client.follow_logs(workspace, options.job, task=options.task, limit=options.tail)
    else:
        query = {"task": options.task, "attempt": options.attempt, "limit": options.tail}
        lines = iter(client.logs(workspace, options.job, **query))
    nothing = True
    for line in lines:
        nothing = False
        show_line(options.output, line, f"{line['task']} {line['at'] or ''} {line['text']}")
    if nothing:
        print(_no_lines(client.job(workspace, options.job)), file=sys.stderr)
    return 0


def _no_lines(job: Job) -> str:
    """Return why a job has no lines."""
    head = f"No logs of {job['name']}"
    if job["state"] in ENDED:
        return (
            f"{head}: the job has finished ({job['state']}) and its pods were deleted. Use --follow"
            " while the job runs, or a log collector in the cluster."
        )
    if job["state"] in ("submitted", "queued", "suspended"):
        return f"{head}: the job hasn't started ({job['state']}). Run allotment-client explain {job['name']}."
    return f"{head}: the job is {job['state']} and has no matching logs yet."


def explain_job(client: Client, workspace: str, options: argparse.Namespace) -> int:
    """Print why a job is pending."""
    found = client.explain(workspace, options.job)
    print_answer(options.output, found, lambda: format_explanation(found))
    return 0


def get_job(client: Client, workspace: str, options: argparse.Namespace) -> int:
    """Print one job."""
    job = client.job(workspace, options.job)
    print_answer(options.output, job, lambda: job_table([job]))
    return 0


def cancel_job(client: Client, workspace: str, options: argparse.Namespace) -> int:
    """Cancel a job."""
    job = client.cancel(workspace, options.job)
    print_answer(options.output, job, lambda: job_table([job]))
    return 0


def tag_job(client: Client, workspace: str, options: argparse.Namespace) -> int:
    """Add and remove tags."""
    job = client.change_tags(workspace, options.job, add=options.add, remove=options.remove)
    print_answer(options.output, job, lambda: job_table([job]))
    return 0


def show_quota(client: Client, workspace: str, options: argparse.Namespace) -> int:
    """Print the quota of the workspace and its queues."""
    rows = client.quota(workspace)
    print_answer(options.output, {"items": rows}, lambda: quota_table(rows))
    return 0


def wait_for_job(client: Client, workspace: str, options: argparse.Namespace) -> int:
    """Wait until a job has ended; return 0 if it succeeded, 1 otherwise."""
    return _ended(client.wait(workspace, options.job, deadline_s=options.timeout), options.output)


def watch_events(client: Client, workspace: str, options: argparse.Namespace) -> int:
    """Print events until the timeout; without `--timeout` forever."""
    until = None if options.timeout is None else time.monotonic() + options.timeout
    for event in client.watch(workspace, after=options.after, until=until):
        show_line(options.output, event, event_line(event))
    return 0


def show_caller(client: Client, _workspace: str, options: argparse.Namespace) -> int:
    """Print the account that the key belongs to."""
    found = client.me()
    print_answer(
        options.output, found, lambda: "\n".join(f"{name}: {value}" for name, value in found.items())
    )
    return 0


def _ended(job: Job, output: str) -> int:
    print_answer(output, job, lambda: job_table([job]))
    return 0 if job["state"] == "succeeded" else 1


def _read(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file}: {error}") from error
