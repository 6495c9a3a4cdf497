"""The options of benchmarks on the installation of `bench lists`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from benchmarks.support.report import read_limits

WORLD: Final = "benchmarks.lists.world"
_SIZES: Final = ("tenants", "jobs", "nodes", "users", "audit")


def add_options(parser: argparse.ArgumentParser, *, times: int, of: str) -> None:
    """Add the sizes of the installation, the number of requests for each `of`, and the target of results."""
    sizes = read_limits("lists")
    for name in _SIZES:
        parser.add_argument(f"--{name}", type=int, default=sizes[name], metavar="N")
    parser.add_argument("--times", type=int, default=times, metavar="N", help=f"of each {of}")
    parser.add_argument("--only", metavar="TEXT", default="", help="addresses that contain this text")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep the database in this directory, or reuse it"
    )
    parser.add_argument("--json", metavar="FILE")


def read_size(options: argparse.Namespace) -> dict[str, int]:
    """Return the numbers of which the installation consists."""
    return {name: getattr(options, name) for name in _SIZES}
