"""The output of a simulated pod: plausible lines derived from its name, its phases and the time."""

from __future__ import annotations

import math
import time
import uuid
from collections import deque
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from clusters.backends.base import TaskRef
from clusters.backends.simulated import chance, life
from clusters.backends.simulated.state import ClusterState
from clusters.models import SimulatedPhase, SimulatedPod

_STEP_S: Final = 10  # simulated seconds between two lines of progress
_MOST_STEPS: Final = 500  # a pod that ran for days prints its last part only
_POLL_S: Final = 1.0


def read_logs(
    cluster_id: uuid.UUID,
    ref: TaskRef,
    *,
    follow: bool = False,
    since: datetime | None = None,
    last: int | None = None,
) -> Iterator[str]:
    """Yield the log lines of a pod, each after its time: only those after `since`, the `last` so many; none
    if the pod is absent.

    Times have their full precision, so a reader that asks again after the last of them gets no line twice.
    With `follow` the lines continue until the pod has ended.
    """
    while True:
        moment = life.advance_cluster(cluster_id)
        pod = _find(moment, ref)
        if pod is None:
            return
        lines = deque((line for line in _lines(moment, pod) if since is None or line[0] > since), last)
        last = None  # later lines are not limited
        for at, text in lines:
            since = at
            yield f"{at.isoformat(timespec='microseconds')} {text}"
        if not follow or not pod.holds:
            return
        time.sleep(_POLL_S)


def _find(moment: ClusterState, ref: TaskRef) -> SimulatedPod | None:
    pods = SimulatedPod.unscoped.filter(simulation=moment.row, namespace=ref.namespace, name=ref.name)
    if ref.uid:
        pods = pods.filter(uid=ref.uid)
    return pods.exclude(phase=SimulatedPhase.REMOVED).first()


def _lines(moment: ClusterState, pod: SimulatedPod) -> Iterator[tuple[datetime, str]]:
    """Yield all lines so far, in order, no two at the same time."""
    if pod.started_ms is None:
        return
    real = moment.timeline.real_at
    cards = len(pod.devices)
    # Most simulated jobs have neither a command nor an image.
    words = ("starting", *(pod.command or (pod.image,)), "on", pod.node_name)
    yield real(pod.started_ms), " ".join(filter(None, words))
    yield real(pod.started_ms + 1), f"found {cards} GPU{'' if cards == 1 else 's'}"
    end_ms = moment.sim_ms if pod.ended_ms is None else pod.ended_ms
    steps = (end_ms - pod.started_ms) // (_STEP_S * 1000)
    for step in range(max(1, steps - _MOST_STEPS + 1), steps + 1):
        yield real(pod.started_ms + step * _STEP_S * 1000), _progress(pod.name, step)
    if pod.ended_ms is not None:
        # One millisecond later: the last step may coincide with the end.
        yield real(pod.ended_ms) + timedelta(milliseconds=1), _farewell(pod)


def _progress(name: str, step: int) -> str:
    floor = chance.random_between(0.8, 2.2, name, "floor")
    loss = floor + 6.0 * math.exp(-step / 40) + chance.random_between(-0.03, 0.03, name, step)
    rate = chance.random_between(2400, 2600, name, "rate") + chance.random_between(
        -60, 60, name, step, "rate"
    )
    return f"step {step * 20} loss {loss:.4f} {rate:.0f} tokens/s"


def _farewell(pod: SimulatedPod) -> str:
    if pod.reason:
        return f"killed: {pod.message}"
    return "done" if pod.ended_code == 0 else f"exit code {pod.ended_code}"
