"""The output of a pod's container, each line after its time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from clusters.backends.base import TaskRef
from clusters.backends.kubernetes.client.api import KubernetesApi, RequestRefused
from clusters.backends.kubernetes.pods import pods
from clusters.backends.kubernetes.pods.containers import CONTAINER

_QUIET_S: Final = 10.0
_FOLLOWED_S: Final = 300.0  # a program may print nothing for so long
_LONGEST_BYTES: Final = 16 * 1024 * 1024
# The pod is missing, or none of its containers has started.
_NOTHING: Final = (400, 404)


def read_logs(
    api: KubernetesApi,
    ref: TaskRef,
    *,
    follow: bool = False,
    since: datetime | None = None,
    last: int | None = None,
) -> Iterator[str]:
    """Yield the log lines of a pod, only those after `since` and the `last` so many of them; none if it is
    absent or has not started.

    A log that is too long for one answer is cut at its end, so only `last` reads its end. With `follow` the
    lines continue until the container has ended. Raises: BackendUnavailable.
    """
    query: dict[str, str | int] = {"container": CONTAINER, "timestamps": "true"}
    query |= {"limitBytes": _LONGEST_BYTES} if not follow else {"follow": "true"}
    if last is not None:
        query["tailLines"] = last
    if since is not None:
        query["sinceTime"] = f"{since.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"  # whole seconds: see below
    try:
        for line in api.stream_lines(
            pods.pod_path(ref.namespace, ref.name) + "/log", _wait_s(follow), **query
        ):
            text = line.decode(errors="replace").rstrip("\r")
            if since is None or _at(text) > since:
                yield text
    except RequestRefused as error:
        if error.status not in _NOTHING:
            raise


def _wait_s(follow: bool) -> float:
    return _FOLLOWED_S if follow else _QUIET_S


def _at(line: str) -> datetime:
    """Return the time of a line, which has nanoseconds, in microseconds."""
    stamp = line.split(" ", 1)[0]
    try:
        return datetime.fromisoformat(stamp)
    except ValueError:
        return datetime.max.replace(tzinfo=UTC)  # the rest of a cut line is kept
