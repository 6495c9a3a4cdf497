"""`allotment audit-verify`: checks that the audit log is unchanged; names the first changed record."""

from __future__ import annotations

import json
import re
import sys
from argparse import ArgumentParser, ArgumentTypeError
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from foundation.audit import audit_log, chain, chain_heads
from foundation.audit.chain import Break, ChainVerdict
from foundation.audit.chain_heads import Head
from foundation.core.actor import SYSTEM


def _seal(text: str) -> tuple[int, str]:
    found = re.fullmatch(r"(\d+):([0-9a-f]{64})", text)
    if found is None:
        raise ArgumentTypeError("write NUMBER:HASH as this command printed it")
    return int(found[1]), found[2]


class Command(BaseCommand):
    help = "Verify the audit log hash chain (exit status 1 on failure)"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--expect", type=_seal, metavar="NUMBER:HASH", help="expected chain head")
        parser.add_argument(
            "--heads",
            metavar="FILE",
            help=(
                "file with stored chain heads, for example a log; - for standard input. Default: "
                "the file that the platform writes (ALLOTMENT_AUDIT_HEADS)"
            ),
        )
        parser.add_argument(
            "--accept",
            action="store_true",
            help="store the current head, after an older database was restored",
        )
        parser.add_argument("--json", metavar="FILE", help="write the result as JSON; - for standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        chain.seal_records(limit=sys.maxsize)
        verdict = chain.verify_chain(options["expect"])
        lost = None if options["accept"] else _first_lost(_heads(options["heads"]))
        if verdict.broken is None and lost is not None:
            verdict = replace(verdict, broken=Break(lost.number, "", "HEAD_LOST"))
        if options["accept"] and verdict.broken is None:
            _accept()
        if options["json"] != "-":
            self.stdout.write(_sentence(verdict))
        if options["json"] is not None:
            body = json.dumps(asdict(verdict)) + "\n"
            if options["json"] == "-":
                self.stdout.write(body, ending="")
            else:
                Path(options["json"]).write_text(body, encoding="utf-8")
        if verdict.broken is not None:
            sys.exit(1)


def _heads(file: str | None) -> list[Head]:
    try:
        if file is None:
            noted = chain_heads.noted_head()
            return [noted] if noted else []
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise CommandError(f"{file or chain_heads.heads_file()}: {error.strerror}") from error
    return list(chain_heads.read_heads(text))


def _first_lost(heads: list[Head]) -> Head | None:
    lost = [head for head in heads if not chain_heads.is_in_chain(head)]
    return min(lost, key=lambda head: head.number, default=None)


def _accept() -> None:
    """Store the head, and record its acceptance, which the next seal covers."""
    head = chain_heads.current_head()
    if head is None:
        return
    with transaction.atomic():
        before = str(chain_heads.noted_head() or "")
        audit_log.record_action(
            SYSTEM, "audit.accept", entity="audit", entity_id=str(head.number),
            before={"head": before}, after={"head": str(head)},
        )  # fmt: skip
        chain_heads.accept_head(head)


def _sentence(verdict: ChainVerdict) -> str:
    broken = verdict.broken
    if broken is None:
        return f"{verdict.sealed} records are as they were written. Head: {verdict.head}"
    if broken.why == "HEAD_LOST":
        return (
            f"BROKEN: the head {broken.number} was noted earlier and is not in the chain: its end was "
            f"cut off, or an older database was restored. The {verdict.sealed} that are there hold."
        )
    what = f"record {broken.record_id}" if broken.record_id else "the record"
    return f"BROKEN at seal {broken.number}: {what}: {broken.why}. The {verdict.sealed} before it hold."
