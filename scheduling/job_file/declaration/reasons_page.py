"""Writes the page of the documentation that explains each reason code."""

from __future__ import annotations

import re
from typing import Final

from foundation.core.reason_row import ReasonSeverity
from foundation.core.reasons import Reason

_PLACE: Final = re.compile(r"%\((\w+)\)s")
_HEAD: Final = """# Reason codes

Why a job is pending, doesn't start or still terminates: one stable code at a time, in the console, in \
`reason.code` of the REST API and in `allotment job get`. Of several that apply the first of this table is \
reported. Texts may change, codes don't. `numbers` of the REST API holds some of the numbers that are listed \
for a code. `allotment job reasons` prints this page.

| severity | meaning |
|---|---|
"""
_SEVERITIES: Final = {
    ReasonSeverity.ERROR: "Needs attention: change the job, or what it depends on.",
    ReasonSeverity.WAITING: "Goes on once others finish or capacity is released.",
    ReasonSeverity.PAUSED: "Suspended by a user.",
    ReasonSeverity.INFO: "Not evaluated yet.",
}


def reasons_page() -> str:
    """Return the page in Markdown."""
    severities = "".join(f"| {severity} | {meaning} |\n" for severity, meaning in _SEVERITIES.items())
    table = "".join(
        f"| [`{reason}`](#{reason.anchor.partition('#')[2]}) | {reason.row.label} | {reason.row.severity} "
        f"| {reason.row.gate} |\n"
        for reason in Reason
    )
    head = f"{_HEAD}{severities}\n| code | label | severity | check |\n|---|---|---|---|\n{table}"
    return head + "".join(_section(reason) for reason in Reason)


def _section(reason: Reason) -> str:
    row = reason.row
    texts = "".join((*row.sentences, *row.helps))
    numbers = ", ".join(f"`{name}`" for name in dict.fromkeys(_PLACE.findall(texts)))
    said = f"\nNumbers: {numbers}.\n" if numbers else ""
    return f"\n## {reason}\n\n**{row.label}.** {row.meaning} {row.helps[-1]}\n{said}"
