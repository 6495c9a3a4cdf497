"""The verbs `logs` and `explain` of `allotment job`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

from django.core.management.base import OutputWrapper
from rich.table import Table
from rich.text import Text

from foundation.core.quantities import Resource
from foundation.core.reasons import find_reason
from quotas.texts.amounts import format_amount
from scheduling.api.jobs.serializers import ExplanationSerializer
from scheduling.api.pending.explain import read_explanation
from scheduling.api.pods.logs import LogLineSerializer
from scheduling.hooks.recommendation_texts import describe_recommendations
from scheduling.models import Job
from scheduling.selectors.pods.log_follow import LogFollower
from scheduling.selectors.pods.logs import LogLine, LogQuery, job_logs
from tenants.models import User

_POLL_EVERY_S: Final = 2.0
_DECISIONS: Final = 5


def print_logs(user: User, job: Job, options: dict[str, Any], output: OutputWrapper) -> Any:
    """Print the lines of a job as they are read; return those that were not followed.

    Raises: NotFound, PermissionDenied, Conflict.
    """
    query = LogQuery(
        task=options["task"],
        since=options["since"],
        previous=options["previous"],
        limit=max(1, options["limit"]),
    )
    if options["follow"]:
        for lines in _follow_lines(user, job, query):
            _write_lines(lines, output)
            output.flush()  # a pipe would hold lines back
        return {"items": []}
    lines = job_logs(viewer=user, job=job, query=query)
    if options["json"] != "-":
        _write_lines(lines, output)
    return {"items": LogLineSerializer(lines, many=True).data}


def _follow_lines(user: User, job: Job, query: LogQuery) -> Iterator[list[LogLine]]:
    """Yield new lines until the attempt has ended or the user presses Ctrl-C."""
    follower = LogFollower(job.pk, query)
    try:
        while True:
            news = follower.poll_lines(viewer=user, workspace=job.workspace)
            yield news.lines
            if news.over:
                return
            time.sleep(_POLL_EVERY_S)
    except KeyboardInterrupt:
        return


def _write_lines(lines: Iterable[LogLine], output: OutputWrapper) -> None:
    for line in lines:
        output.write(f"{line.task}  {line.text}")


def explain_job(user: User, job: Job) -> dict[str, Any]:
    """Return the state, the reason, its numbers and recommendations, as the REST API does."""
    return dict(ExplanationSerializer(read_explanation(user, job)).data)


def explanation_table(found: dict[str, Any]) -> Table:
    """Return an explanation as a table of names and values."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, value in _list_facts(found):
        table.add_row(name, Text(value))  # messages of clusters can contain brackets
    return table


def _list_facts(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "state", found["state"]
    if reason := found["reason"]:
        known = find_reason(reason["code"])
        yield "reason", f"{known.row.label} ({reason['code']})" if known else reason["code"]
        yield "since", str(reason["since"] or "")
        yield from ((f"  {name}", str(value)) for name, value in reason["numbers"].items())
        sentences = describe_recommendations(reason["code"], reason["numbers"], reason["help"])
        yield from (("recommendation", sentence) for sentence in sentences)
    if position := found["position"]:
        yield "jobs ahead", f"{position['position_in_local_queue']} of {position['waiting']} pending"
    if found["promised_until"]:
        yield "nodes reserved until", str(found["promised_until"])
    if found["cause"]:
        yield "latest eviction", ", ".join(f"{name}: {value}" for name, value in found["cause"].items())
    for pool in found["held_by"]:
        free, total = (format_amount(Resource(pool["resource"]), pool[name]) for name in ("free", "total"))
        yield f"pool {pool['cluster']}/{pool['flavor']}", f"{free} free of {total}"
    for one in found["decisions"][:_DECISIONS]:
        yield "decision", f"{one['at']}  {one['kind']}  {one['code']}"
