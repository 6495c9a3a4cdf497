"""Runs the real supervisor over shell scripts: a program that tests start, signal and kill.

`python fake_supervisor.py FOLDER`: FOLDER/plan.json holds the scripts, FOLDER/broker-up says that the
broker answers, FOLDER/ready that the platform is ready.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from allotment.supervisor import child, supervisor
from allotment.supervisor.child import Program
from allotment.supervisor.console import print_line
from allotment.supervisor.errors import StartError
from allotment.supervisor.programs import ProgramPlan
from allotment.supervisor.readiness import Readiness
from allotment.supervisor.signals import watch_signals


def _program(entry: dict[str, object]) -> Program:
    command = ("sh", "-c", str(entry["script"]))
    return Program(name=str(entry["name"]), command=command, stop_s=float(str(entry.get("stop_s", 5))))


def main(folder: Path) -> int:
    description = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    # The delays of a person at a terminal are too long for a test.
    child.FIRST_DELAY_S = description.get("first_delay_s", 0.05)
    supervisor.ASK_EVERY_S = supervisor.WATCH_EVERY_S = 0.1
    broker = description.get("broker")
    plan = ProgramPlan(
        broker=_program(broker) if broker else None,
        steps=tuple(map(_program, description.get("steps", []))),
        services=tuple(map(_program, description.get("services", []))),
    )

    def readiness() -> Readiness:
        ready = (folder / "ready").exists()
        return Readiness(ready=ready, problems=[] if ready else ["demo: is away"])

    try:
        with watch_signals() as signals:
            return supervisor.Supervisor(
                plan=plan,
                logs=folder,
                signals=signals,
                broker_answers=(folder / "broker-up").exists,
                readiness=readiness,
                on_ready=lambda: print_line("READY"),
            ).run()
    except StartError as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
