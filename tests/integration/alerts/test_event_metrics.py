"""Rules on events fire for the job or node of the event, and resolve 15 minutes after the last one."""

from __future__ import annotations

from datetime import timedelta

from django.db import connection

from alerts.metrics.catalogue import BY_NAME
from alerts.models import Alert
from clusters.models import NodeEvent
from foundation.core import clock
from scheduling.lifecycle.transitions import add_event
from tests.builders import jobs
from tests.integration.alerts.conftest import Bench


def _count(metric: str) -> dict[str, float | None]:
    return {each.label: each.value for each in BY_NAME[metric].read(clock.now())}


def test_events_of_jobs_are_counted_by_reason_for_15_minutes(bench: Bench) -> None:
    w = bench.world
    job, other = jobs.job(w.queue, w.editor, "train"), jobs.job(w.other_queue, w.outsider, "theirs")
    for one, code, facts in (
        (job, "evicting", {"rule": "RECLAIM_NOMINAL"}),
        (job, "evicting", {"rule": "NODE_LOST"}),
        (job, "evicting", {"rule": "TASK_FAILED", "reason": "OOMKilled"}),
        (job, "shrunk", {"rule": "FAIR_SHARE"}),
        (job, "shrunk", {"rule": "IDLE"}),
        (other, "failed", {}),
        (other, "held_up", {"reason": "IMAGE_PULL"}),
    ):
        add_event(one, code, now=clock.now(), numbers=facts)
    assert _count("job.evictions") == {"team-a/train": 2}
    assert _count("job.preemptions") == {"team-a/train": 2}
    assert _count("job.oom_kills") == {"team-a/train": 1}
    assert _count("job.failures") == _count("job.start_problems") == {"team-b/theirs": 1}
    own = {"hold_s": 0, "threshold": 0.0}
    bench.rule(w.workspace, name="evicted", metric="job.evictions", **own)
    bench.rule(w.workspace, name="failed", metric="job.failures", **own)
    bench.step()
    (alert,) = Alert.unscoped.all()
    assert (alert.label, alert.state, alert.value) == ("team-a/train", "firing", 2)
    bench.step(15 * 60)
    alert.refresh_from_db()
    assert alert.state == "resolved"


def test_events_of_nodes_are_counted(bench: Bench) -> None:
    node, now = bench.world.nodes[0], clock.now()
    for code, facts in (("not-ready", {}), ("cards-lost", {"cards": 3}), ("pressure", {"of": "disk"})):
        NodeEvent.unscoped.create(node=node, at=now, code=code, numbers=facts)
    NodeEvent.unscoped.create(node=node, at=now - timedelta(minutes=16), code="cordoned")
    assert _count("node.not_ready_events") == _count("node.pressures") == {node.name: 1}
    assert _count("node.gpu_losses") == {node.name: 3}
    assert _count("node.cordons") == _count("node.removals") == {}


def test_events_of_nodes_are_found_by_time(bench: Bench) -> None:
    lately = NodeEvent.unscoped.filter(at__gt=clock.now() - timedelta(minutes=15), code__in=["left"])
    if connection.vendor == "postgresql":  # It would read a small table whole.
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")
    assert "node_event_time" in lately.explain()
