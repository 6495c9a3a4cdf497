"""Commands of several verbs, such as `allotment quota get|set`: acting user and output of results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from rich.console import Console
from rich.table import Table

from tenants.management.results import FAILED, USAGE, acting_user, report_refusals, write_json

_WIDTH: Final = 150


class VerbCommand(BaseCommand):
    """A command of several verbs. Each verb is a method `_<verb>(user, options)` that returns data and text.

    The results of `secret_verbs` contain a password or a token.
    """

    secret_verbs: frozenset[str] = frozenset()

    def common_arguments(self, verbs: Any) -> None:
        """Add the options that all verbs have; `verbs` is the parser's action for sub-commands."""
        for chosen in verbs.choices.values():
            chosen.add_argument(
                "--user", metavar="NAME", help="acting user; default: the first platform admin"
            )
            chosen.add_argument(
                "--json", metavar="FILE", help="write the result as JSON; - for standard output"
            )

    def handle(self, *args: Any, **options: Any) -> None:
        user, secret = acting_user(options["user"]), options["verb"] in self.secret_verbs
        # If a secret cannot be written, the transaction is rolled back: no user would know the secret.
        with transaction.atomic() if secret else nullcontext():
            with report_refusals():
                result, shown = getattr(self, f"_{options['verb'].replace('-', '_')}")(user, options)
            if options["json"]:
                write_json(options["json"], result, secret=secret)
            if options["json"] != "-":
                self.stdout.write(shown)


def confirm_by_name(
    question: str, name: str, *, wanted: str = "Enter the name to confirm", instead: str = "--yes"
) -> None:
    """Ask for the name of the object to be removed, or taken over; the option `instead` skips the question.

    Raises: CommandError for any other answer, and without a terminal to answer.
    """
    try:
        answer = input(f"{question} {wanted}: ")
    except EOFError:
        raise CommandError(
            f"no changes were made; use {instead} to skip the confirmation", returncode=USAGE
        ) from None
    if answer != name:
        raise CommandError("no changes were made", returncode=FAILED)


def format_table(table: Table) -> str:
    """Return a table for a terminal; a pipe gets its full width, because ids and reasons are copied."""
    console = Console()
    console.width = max(console.width, _WIDTH)
    with console.capture() as text:
        console.print(table)
    return text.get()


def table_text(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a plain table of texts with column headings."""
    table = Table(*(column.replace("_", " ") for column in columns))
    for row in rows:
        table.add_row(*row)
    return format_table(table)
