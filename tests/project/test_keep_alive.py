"""Wherever the platform starts its web server, connections are kept longer than proxies keep theirs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from allotment.supervisor.programs import embedded_plan

ROOT: Final = Path(__file__).resolve().parents[2]
LONGEST_OF_PROXIES_S: Final = 60
_KEPT: Final = re.compile(r"--timeout-keep-alive\W+(\d+)")


def starts() -> dict[str, str]:
    """Each place that starts the web server, with its command as text."""
    found = {"allotment up": " ".join(embedded_plan(Path("/nowhere"), 8080).services[0].command)}
    for path in [ROOT / "docker-compose.yml", *(ROOT / "deploy").rglob("*")]:
        if not path.is_file():
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if "uvicorn" in line and "allotment.asgi" in line:
                found[f"{path.relative_to(ROOT)}:{number}"] = line
    return found


def test_there_are_places_to_look_at() -> None:
    assert len(starts()) >= 3


@pytest.mark.parametrize("place", starts())
def test_a_connection_is_kept_longer_than_by_a_proxy(place: str) -> None:
    kept = _KEPT.search(starts()[place])
    assert kept is not None and int(kept[1]) > LONGEST_OF_PROXIES_S
