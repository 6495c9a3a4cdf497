"""The options of `allotment job logs`."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from datetime import datetime
from typing import Final

from django.utils import timezone
from django.utils.dateparse import parse_datetime

_TAIL: Final = 500


def add_log_options(parser: ArgumentParser) -> None:
    """Add the options of `logs`."""
    parser.add_argument("--follow", action="store_true", help="print new lines until the attempt ends")
    parser.add_argument(
        "--since", type=_read_time, metavar="TIME", help="only lines after this time (ISO 8601)"
    )
    parser.add_argument("--task", default="", metavar="TASK", help="only this task, for example worker-0")
    parser.add_argument("--previous", action="store_true", help="logs of the attempt before the latest")
    parser.add_argument("--limit", type=int, default=_TAIL, metavar="N", help=f"last lines; default: {_TAIL}")


def _read_time(text: str) -> datetime:
    """Return an aware time; one without an offset is in the time zone of the installation."""
    try:
        found = parse_datetime(text)
    except ValueError:
        found = None
    if found is None:
        raise ArgumentTypeError(f"{text!r} is not a time, for example 2026-05-04T12:00:00Z")
    return found if timezone.is_aware(found) else timezone.make_aware(found)
