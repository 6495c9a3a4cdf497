"""Measures the store in the environment's database and prints JSON.

Arguments: `NODES CARDS MEASURES ROUNDS PROCESSES ALERT_RULES ALERT_SUBJECTS`.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import sys
import time
from datetime import timedelta
from threading import Barrier
from typing import Any, Final

import django

django.setup()

from django.db import connection  # noqa: E402 (models load only after the set-up)

from benchmarks.telemetry.alert_rules import evaluation_s  # noqa: E402
from clusters.gpu.measures import MEASURES, Level, MeasureKind  # noqa: E402
from clusters.gpu.report import read_report  # noqa: E402
from clusters.models import Cell, Cluster, Device, Flavor, Node  # noqa: E402
from foundation.core import clock  # noqa: E402
from foundation.core.actor import SYSTEM  # noqa: E402
from telemetry.models import (  # noqa: E402
    Channel,
    PendingBucket,
    Rolled,
    RolledMinute,
    RolledTenMinutes,
    RolledTwoHours,
    Scope,
)
from telemetry.series import cluster_series  # noqa: E402
from telemetry.services.folding import Fold  # noqa: E402
from telemetry.services.roll_up import roll_up  # noqa: E402
from telemetry.store.ingest import store_batches  # noqa: E402
from telemetry.store.packing import stats_of  # noqa: E402
from telemetry.store.times import MINUTE_MS, TEN_MINUTES_MS, TWO_HOURS_MS, floor_ms, to_ms  # noqa: E402

_WEIGHED: Final = 5
_DAY_MS: Final = 86_400_000


def _build(nodes: int, cards: int) -> Cluster:
    cluster = Cluster.unscoped.create(
        cell=Cell.unscoped.create(name="bench"), name="bench", backend="simulated", health="healthy"
    )
    pool = Flavor.unscoped.create(cluster=cluster, name="h100", card_model="H100", card_memory_mib=81_920)
    made = Node.unscoped.bulk_create(
        Node(cluster=cluster, flavor=pool, name=f"node-{n}", cpu_millicores=1, memory_mib=1)
        for n in range(nodes)
    )
    Device.unscoped.bulk_create(
        Device(
            node=node, uuid=f"GPU-{node.name}-{index}", index=index, model="H100", memory_mib=81_920,
            memory_capacity=81_920,
        )
        for node in made
        for index in range(cards)
    )  # fmt: skip
    return cluster


def _values(dice: random.Random, measures: int, moment: int) -> dict[str, float]:
    """Return values like those of a busy GPU: half of the gauges change, the rest and the limits are
    constant.
    """
    found: dict[str, float] = {}
    for number, measure in enumerate([m for m in MEASURES if Level.DEVICE in m.levels][:measures]):
        if measure.kind is MeasureKind.GAUGE:
            found[measure.name] = round(dice.uniform(1, 99), 2) if number % 2 else 50.0
        else:
            found[measure.name] = float(moment if measure.name == "energy_j" else 4)
    return found


def _report(dice: random.Random, node: int, cards: int, measures: int, at_ms: int) -> bytes:
    devices = [
        {"uuid": f"GPU-node-{node}-{index}", "parent": None, "values": _values(dice, measures, at_ms)}
        for index in range(cards)
    ]
    batch = {"at_ms": at_ms, "interval_ms": 15_000, "devices": devices}
    body = {"version": 1, "node": f"node-{node}", "sent_at_ms": at_ms, "batches": [batch]}
    return json.dumps(body).encode()


def _store_part(
    part: list[int], cluster: Cluster, sizes: tuple[int, int], rounds: list[int], barrier: Barrier
) -> None:
    """Store the reports of some nodes, one round after the other; all processes begin each round together."""
    cards, measures = sizes
    dice = random.Random(part[0])
    for at_ms in rounds:
        bodies = [_report(dice, node, cards, measures, at_ms) for node in part]
        barrier.wait(300)
        for body in bodies:
            report = read_report(json.loads(body), at_ms)
            store_batches(cluster.pk, report.batches)
        barrier.wait(300)


def _ingest(
    cluster: Cluster, nodes: int, sizes: tuple[int, int], rounds: list[int], processes: int
) -> list[float]:
    """Return the seconds of each round, stored by as many processes as a web server has."""
    fork = multiprocessing.get_context("fork")
    barrier = fork.Barrier(processes + 1)
    connection.close()
    parts = [list(range(number, nodes, processes)) for number in range(processes)]
    workers = [
        fork.Process(target=_store_part, args=(part, cluster, sizes, rounds, barrier)) for part in parts
    ]
    for worker in workers:
        worker.start()
    seconds = []
    for _ in rounds:
        barrier.wait(300)
        begun = time.perf_counter()
        barrier.wait(300)
        seconds.append(time.perf_counter() - begun)
    for worker in workers:
        worker.join(60)
    return seconds


def _rolled(
    model: type[Rolled], channel: int, step_ms: int, dice: random.Random, measures: int
) -> list[Rolled]:
    start = floor_ms(to_ms(clock.now()), _DAY_MS) - 10 * _DAY_MS
    rows = []
    for at_ms in range(start, start + _DAY_MS, step_ms):
        fold = Fold()
        values = [_values(dice, measures, at_ms + second) for second in range(4)]
        row = {"cores_used": 40.5, "memory_used_mib": 4_000, "temperature_c": 61.2, "power_w": 411.0}
        fold.add_row(
            row | {"cores_allocated": 100, "memory_allocated_mib": 80_000}, 4, step_ms, stats_of(values)
        )
        rows.append(fold.build_row(model, channel, at_ms, step_ms))
    return rows


def _table_bytes(model: type[Rolled]) -> int:
    table = model._meta.db_table
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT pg_total_relation_size(%s)", [table])
            return int(cursor.fetchone()[0])
        cursor.execute("PRAGMA page_count")
        pages = int(cursor.fetchone()[0])
        cursor.execute("PRAGMA page_size")
        return pages * int(cursor.fetchone()[0])


def _weigh(model: Any, step_ms: int, measures: int) -> float:
    """Return the bytes of one GPU's day at one step, with its indexes."""
    channels = (
        Channel.unscoped.filter(scope=Scope.CARD).order_by("id").values_list("id", flat=True)[:_WEIGHED]
    )
    before, dice = _table_bytes(model), random.Random(2)
    for channel in channels:
        model.unscoped.bulk_create(_rolled(model, channel, step_ms, dice, measures))
    return (_table_bytes(model) - before) / _WEIGHED


def _page_ms(cluster: Cluster, measures: int) -> float:
    """Return the time to read a cluster's lines over 30 days: the minimum of five reads, the first without a
    cache.
    """
    channel = Channel.unscoped.get(scope=Scope.CLUSTER)
    now, dice = to_ms(clock.now()), random.Random(3)
    packed = stats_of([_values(dice, measures, n) for n in range(4)])
    rows = []
    for at_ms in range(floor_ms(now - 30 * _DAY_MS, TEN_MINUTES_MS), floor_ms(now - 7_200_000, TEN_MINUTES_MS), TEN_MINUTES_MS):  # fmt: skip  # noqa: E501
        fold = Fold()
        row = {"cores_used": 4e4, "cores_allocated": 9e4, "memory_used_mib": 4e7, "memory_allocated_mib": 6e7,
               "temperature_c": 61.0, "power_w": 4e5, "cards": 1e3, "cards_sampled": 1e3,
               "cards_allocated": 900.0,
               "memory_capacity_mib": 8e7}  # fmt: skip
        fold.add_row(row, 40, 600_000, packed)
        rows.append(fold.build_row(RolledTenMinutes, channel.pk, at_ms, TEN_MINUTES_MS))
    RolledTenMinutes.unscoped.bulk_create(rows, ignore_conflicts=True)  # type: ignore[arg-type]
    taken = []
    for _ in range(5):
        begun, end = time.perf_counter(), clock.now()
        found = cluster_series(SYSTEM, cluster, end - timedelta(days=30) + timedelta(minutes=10), end)
        taken.append(1000 * (time.perf_counter() - begun))
        line = found.get("utilisation")
        if line is None or sum(value is not None for _, value in line.points) < 200:
            raise RuntimeError("the cluster page lacks its values")
    return sorted(taken)[len(taken) // 2]


def main(
    nodes: int, cards: int, measures: int, rounds: int, processes: int, rules: int, subjects: int
) -> None:
    """Build, measure, and print."""
    cluster = _build(nodes, cards)
    start = floor_ms(to_ms(clock.now()), MINUTE_MS) - 30 * MINUTE_MS
    times = [start + 15_000 * number for number in range(rounds + 1)]
    # The first round is not measured, because it creates the channels.
    seconds = _ingest(cluster, nodes, (cards, measures), times, processes)[1:]
    begun = time.perf_counter()
    minutes = PendingBucket.unscoped.filter(grain_ms=MINUTE_MS).count()
    roll_up()
    rolled_s = (time.perf_counter() - begun) / minutes
    weights = {
        step: _weigh(model, step, measures)
        for model, step in (
            (RolledMinute, MINUTE_MS), (RolledTenMinutes, TEN_MINUTES_MS), (RolledTwoHours, TWO_HOURS_MS),
        )
    }  # fmt: skip
    typical = sorted(seconds)[len(seconds) // 2]
    answer = {
        "round_s": typical,
        "samples_per_s": nodes * cards * measures / typical,
        "roll_up_s": rolled_s,
        "minutes_mb": weights[MINUTE_MS] / 1e6,
        "day_mb": (weights[TEN_MINUTES_MS] + weights[TWO_HOURS_MS]) / 1e6,
        "page_ms": _page_ms(cluster, measures),
        "alert_s": evaluation_s(rules, subjects),
    }
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:8]))
