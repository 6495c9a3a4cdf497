"""The output for the user at the terminal: few lines, and the next step."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

from allotment.supervisor import logfile


def print_line(text: str) -> None:
    """Write one line to standard output and flush it: standard output may be a pipe."""
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # The terminal is gone; stopping the children in order matters more than this line.
        return


def print_banner(home: Path, port: int) -> str:
    """Print address, account and, while it is valid, one-time password, and where the files are."""
    rows = [("Allotment is running at", f"http://127.0.0.1:{port}")]
    account = _first_sign_in(home)
    if account:
        user, password = account
        rows += [("sign in as", user), ("one-time password", f"{password}   (shown until it is changed)")]
    rows += [("data", str(home)), ("logs", str(home / "logs"))]
    lines = [f"  {name:<24} {value}" for name, value in rows]
    return "\n".join(["", *lines, "", "  Ctrl-C stops everything.", ""])


def _first_sign_in(home: Path) -> tuple[str, str] | None:
    try:
        content = json.loads((home / "first-sign-in.json").read_text(encoding="utf-8"))
        return str(content["user"]), str(content["password"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def describe_exit(name: str, status: int) -> str:
    """Describe how a process ended."""
    if status >= 0:
        return f"{name} ended with status {status}"
    try:
        return f"{name} was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"{name} was killed by signal {-status}"


def last_words(name: str, log: Path) -> str:
    """Return the end of a log, indented, for a failed start."""
    lines = logfile.read_last_lines(log) or ["(nothing)"]
    return "\n".join([f"the last lines of {log}:", *(f"  {name} | {line}" for line in lines)])
