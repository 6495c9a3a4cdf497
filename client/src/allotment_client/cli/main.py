"""`allotment-client`: submit, list, logs, explain, tag, quota, wait, watch, cancel, me, completion.

Exit status: 0 done; 1 the job did not succeed; 2 bad usage or configuration; 3 the server refused; 4 the
server cannot be reached; 5 the deadline passed first.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from allotment_client import __version__
from allotment_client.cli import commands
from allotment_client.client import Client
from allotment_client.config import FILE, KEY, URL, WORKSPACE, read_configuration
from allotment_client.errors import ConfigurationError, DeadlineExceeded, Problem, ServerUnreachable

DONE: Final = 0
NOT_SUCCEEDED: Final = 1
USAGE: Final = 2
REFUSED: Final = 3
UNREACHABLE: Final = 4
TOO_LATE: Final = 5
_INTERRUPTED: Final = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status."""
    options = build_parser().parse_args(arguments)
    if options.verb == "completion":
        return _completion(options.shell)
    try:
        settings = read_configuration(url=options.url, workspace=options.workspace, file=options.config)
        if (
            options.needs_workspace
            and not settings.workspace
            and not getattr(options, "all_workspaces", False)
        ):
            raise ConfigurationError(f"No workspace. Use --workspace, or set {WORKSPACE}.")
        with Client(settings) as client:
            return int(options.run(client, settings.workspace, options))
    except ConfigurationError as error:
        return _say(error, USAGE)
    except Problem as error:
        return _say(error, REFUSED)
    except ServerUnreachable as error:
        return _say(error, UNREACHABLE)
    except DeadlineExceeded as error:
        return _say(error, TOO_LATE)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe on purpose; Python would report an error when it flushes standard output
        # at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE


def _completion(shell: str) -> int:
    """Print a script with which the shell completes commands, options and files."""
    import shtab  # noqa: PLC0415 - needed by nothing else

    top = build_parser()
    verbs = next(each for each in top._actions if isinstance(each, argparse._SubParsersAction))
    for action in (action for verb in verbs.choices.values() for action in verb._actions):
        if action.dest in ("file", "config"):
            action.complete = shtab.FILE  # the attribute that shtab reads
    print(shtab.complete(top, shell=shell))
    return DONE


def _say(error: Exception, status: int) -> int:
    print(f"allotment-client: {error}", file=sys.stderr)
    return status


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands and options."""
    top = argparse.ArgumentParser(
        prog="allotment-client",
        description="Submit and manage Allotment jobs.",
        epilog=f"Set {URL} (server URL) and {KEY} (access key) in the environment, or use {FILE} (YAML).",
    )
    top.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    verbs = top.add_subparsers(dest="verb", required=True, metavar="COMMAND")

    for add in (_add_submit, _add_list, _add_logs, _add_job_verbs, _add_waiting):
        add(verbs)
    _verb(verbs, "me", commands.show_caller, "show the owner of the access key", needs_workspace=False)
    completion = verbs.add_parser("completion", help="print shell completion: bash, zsh or tcsh")
    completion.add_argument("shell", choices=["bash", "zsh", "tcsh"])
    return top


def _add_submit(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command that submits a job."""
    submit = _verb(verbs, "submit", commands.submit_job, "submit a job file")
    submit.add_argument("-f", "--file", required=True, help="job file, YAML or JSON; - for standard input")
    submit.add_argument(
        "--dry-run", action="store_true", help="show the requested resources without submitting"
    )
    submit.add_argument(
        "--idempotency-key",
        default="",
        metavar="KEY",
        help=("idempotency key; a retry with the same key submits one job"),
    )
    submit.add_argument("--wait", action="store_true", help="wait until the job finishes")
    _deadline(submit)


def _add_list(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command that lists jobs."""
    listing = _verb(verbs, "list", commands.list_jobs, "list jobs, newest first")
    listing.add_argument("--state", action="append", default=[], help="filter by state; repeatable")
    listing.add_argument("--queue", default="", help="filter by queue")
    listing.add_argument("--tag", action="append", default=[], help="filter by tag; repeatable")
    listing.add_argument("--mine", action="store_true", help="show only your jobs")
    listing.add_argument("--limit", type=_count, default=50, help="maximum number of jobs (default 50)")
    listing.add_argument("--watch", action="store_true", help="keep watching for events")
    listing.add_argument(
        "-A", "--all-workspaces", action="store_true", help="list jobs of all workspaces that you can view"
    )
    listing.add_argument("--tenant", default="", help="with -A: workspace or folder ID")


def _add_logs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command that shows logs."""
    logs = _verb(verbs, "logs", commands.print_logs, "show the logs of a job")
    logs.add_argument("job", help="job ID or name")
    logs.add_argument("--task", default="", help="one task only, for example worker-0")
    logs.add_argument("--attempt", type=_count, help="attempt number (default: latest)")
    logs.add_argument("--tail", type=_count, default=500, metavar="LINES", help="number of last lines")
    logs.add_argument("--follow", action="store_true", help="follow until the job finishes")


def _add_job_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands for one job, and the quota."""
    _verb(verbs, "explain", commands.explain_job, "explain why a job is pending").add_argument(
        "job", help="job ID or name"
    )
    _verb(verbs, "get", commands.get_job, "show a job").add_argument("job", help="job ID or name")
    _verb(verbs, "cancel", commands.cancel_job, "cancel a job").add_argument("job", help="job ID or name")
    tag = _verb(verbs, "tag", commands.tag_job, "change the tags of a job")
    tag.add_argument("job", help="job ID or name")
    tag.add_argument("--add", action="append", default=[], metavar="TAG", help="add a tag; repeatable")
    tag.add_argument("--remove", action="append", default=[], metavar="TAG", help="remove a tag; repeatable")
    _verb(verbs, "quota", commands.show_quota, "show quota and usage of the workspace")


def _add_waiting(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands that wait."""
    wait = _verb(
        verbs, "wait", commands.wait_for_job, "wait until a job finishes; exit status 0 if it succeeded"
    )
    wait.add_argument("job", help="job ID or name")
    _deadline(wait)

    watch = _verb(verbs, "watch", commands.watch_events, "watch job events")
    watch.add_argument("--after", type=int, help="resume after this event ID")
    _deadline(watch)


def _verb(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    run: commands.Command,
    text: str,
    *,
    needs_workspace: bool = True,
) -> argparse.ArgumentParser:
    added = verbs.add_parser(name, help=text, description=text[:1].upper() + text[1:] + ".")
    added.add_argument("-w", "--workspace", default="", help=f"default: {WORKSPACE}")
    added.add_argument("--url", default="", help=f"server URL; default: {URL}")
    added.add_argument("--config", type=Path, default=None, help="configuration file")
    added.add_argument("-o", "--output", choices=["table", "json"], default="table")
    added.set_defaults(run=run, needs_workspace=needs_workspace)
    return added


def _deadline(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--timeout", type=_seconds, metavar="S", help="timeout in seconds")


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError("must be a whole number above 0")
    return int(text)


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 < found < 10**9:
        raise argparse.ArgumentTypeError("must be a number of seconds above 0")
    return found


if __name__ == "__main__":
    sys.exit(main())
