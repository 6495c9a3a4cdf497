"""Parses the text format of Prometheus within bounds.

Lines are read one at a time, so that an invalid line affects only itself, and only those of the requested
metrics. The parser is that of prometheus_client; its labels are cached by text, because an exporter repeats
the labels of a GPU on each of its metrics.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from telemetry.sources.samples import RawSample

LINE_MAX: Final = 8 * 1024
"""The most characters of one line; exporters write some 400."""
SAMPLES_MAX: Final = 200_000
_MOST_LABELS: Final = 10_000
_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_YEAR_3000_S: Final = 32_503_680_000.0


@dataclass(slots=True)
class Exposition:
    """The samples of one text, and the number of unreadable lines with a requested metric."""

    samples: list[RawSample] = field(default_factory=list)
    unreadable: int = 0


def parse_exposition(text: str, names: Collection[str]) -> Exposition:
    """Read the samples of the metrics `names`; no text raises an error."""
    found = Exposition()
    known: dict[str, dict[str, str]] = {}
    asked = frozenset(names)
    for line in text.split("\n"):
        name = _NAME.match(line)
        if name is None or name[0] not in asked:
            continue
        if len(found.samples) >= SAMPLES_MAX:
            found.unreadable += 1
            continue
        sample = _parse_line(line, name[0], known)
        if sample is None:
            found.unreadable += 1
        else:
            found.samples.append(sample)
    return found


def _parse_line(line: str, name: str, known: dict[str, dict[str, str]]) -> RawSample | None:
    if len(line) > LINE_MAX:
        return None
    head, brace, tail = line.rpartition("}")
    labels_text, value_text = (head[len(name) :] + brace, tail) if brace else ("", line[len(name) :])
    if labels_text not in known:
        parsed = list(_parse(f"x{labels_text} 0")) if labels_text else [RawSample("x", {}, 0)]
        if len(parsed) != 1 or parsed[0].name != "x":
            return None
        if len(known) < _MOST_LABELS:
            known[labels_text] = dict(parsed[0].labels)
        labels = dict(parsed[0].labels)
    else:
        labels = known[labels_text]
    if len(value_text.split()) > 2:  # more than a value and a time
        return None
    values = list(_parse(f"x {value_text.strip()}"))
    if len(values) != 1 or values[0].labels or values[0].name != "x":
        return None
    return RawSample(name, labels, values[0].value, values[0].at_ms)


def _parse(line: str) -> Iterator[RawSample]:
    try:
        for family in text_string_to_metric_families(line):
            for sample in family.samples:
                seconds = sample.timestamp
                if seconds is not None and not 0 <= float(seconds) < _YEAR_3000_S:
                    continue
                at_ms = None if seconds is None else round(float(seconds) * 1000)
                yield RawSample(sample.name, sample.labels, sample.value, at_ms)
    except (ValueError, IndexError, KeyError, TypeError, OverflowError):
        return  # for an invalid line the parser may raise other errors than ValueError
