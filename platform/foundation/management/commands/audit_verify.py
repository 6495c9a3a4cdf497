"""`allotment audit-verify`: whether the audit is as it was written; names the first record that is not."""

from __future__ import annotations

import json
import re
import sys
from argparse import ArgumentParser, ArgumentTypeError
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from foundation import audit_chain
from foundation.audit_chain import Verdict


def _seal(text: str) -> tuple[int, str]:
    found = re.fullmatch(r"(\d+):([0-9a-f]{64})", text)
    if found is None:
        raise ArgumentTypeError("write NUMBER:HASH as this command printed it")
    return int(found[1]), found[2]


class Command(BaseCommand):
    help = "Check the chain of hashes over the audit; exit status 1 when it is broken"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--expect", type=_seal, metavar="NUMBER:HASH", help="a head noted earlier")
        parser.add_argument("--json", metavar="FILE", help="write the result as JSON; - is standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        audit_chain.seal(limit=sys.maxsize)
        verdict = audit_chain.verify(options["expect"])
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


def _sentence(verdict: Verdict) -> str:
    broken = verdict.broken
    if broken is None:
        return f"{verdict.sealed} records are as they were written. Head: {verdict.head}"
    what = f"record {broken.record_id}" if broken.record_id else "the record"
    return f"BROKEN at seal {broken.number}: {what}: {broken.why}. The {verdict.sealed} before it hold."
