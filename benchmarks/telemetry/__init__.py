"""`allotment bench telemetry`: storing, aggregating, reading and keeping the measurements of 1,000 GPUs.

On SQLite and on PostgreSQL: reports of agents are parsed and stored node by node as by the API, a minute is
aggregated, the cluster page is read over 30 days, the bytes of a GPU's day are measured for each step, and
alert rules are evaluated.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any, Final

from benchmarks.support.postgres import running_postgres
from benchmarks.support.report import FigureRow, Report, read_limits

_DATABASE: Final = "allotment"


def run() -> Report:
    """Measure the store of telemetry on SQLite and PostgreSQL."""
    limits, begun = read_limits("telemetry"), time.monotonic()
    rows = _rows("SQLite", _measured(limits, None, 1), limits, limits["sqlite_round_s"])
    with running_postgres({"shared_buffers": "256MB", "max_wal_size": "2GB"}) as server:
        with server.connect_database() as connection:
            connection.execute(f"CREATE DATABASE {_DATABASE}")
        found = _measured(limits, server.database_url(_DATABASE), limits["postgres_processes"])
    rows += _rows("PostgreSQL", found, limits, limits["postgres_round_s"])
    size = {name: limits[name] for name in ("nodes", "cards_per_node", "measures", "rounds")}
    size |= {name: limits[name] for name in ("alert_rules", "alert_subjects")}
    seconds = time.monotonic() - begun
    return Report(name="telemetry", size=size, rows=rows, seconds=seconds, rate=found["samples_per_s"])


def _rows(
    name: str, found: Mapping[str, float], limits: Mapping[str, Any], round_s: float
) -> list[FigureRow]:
    rate = {"samples/s": found["samples_per_s"]}
    return [
        FigureRow(f"{name}: store one round of all GPUs, s", found["round_s"], round_s, rate),
        FigureRow(f"{name}: sum and roll up a minute, s", found["roll_up_s"], limits["roll_up_s"]),
        FigureRow(f"{name}: evaluate all alert rules, s", found["alert_s"], limits["alert_s"]),
        FigureRow(f"{name}: cluster page over 30 days, ms", found["page_ms"], limits["page_ms"]),
        FigureRow(f"{name}: a GPU's day in ten minutes and two hours, MB", found["day_mb"], limits["day_mb"]),
        FigureRow(
            f"{name}: a GPU's day in minutes, kept for 2 days, MB", found["minutes_mb"], limits["day_mb"]
        ),
    ]


def _measured(limits: Mapping[str, Any], database: str | None, processes: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="allotment-bench-") as home:
        environment = {
            **os.environ,
            "ALLOTMENT_HOME": home,
            "ALLOTMENT_DEMO": "off",
            "ALLOTMENT_LOG_LEVEL": "ERROR",
            "DJANGO_SETTINGS_MODULE": "allotment.settings.embedded",
            **({"ALLOTMENT_DATABASE_URL": database} if database else {}),
        }
        migrate = [sys.executable, "-m", "allotment.cli", "migrate", "--no-input", "--verbosity", "0"]
        subprocess.run(migrate, env=environment, check=True)
        numbers = [str(limits[name]) for name in ("nodes", "cards_per_node", "measures", "rounds")]
        numbers += [str(processes), str(limits["alert_rules"]), str(limits["alert_subjects"])]
        command = [sys.executable, "-m", "benchmarks.telemetry.measure", *numbers]
        made = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    found: dict[str, float] = json.loads(made.stdout.splitlines()[-1])
    return found
