"""The alert rules use existing metrics, say what to do, and fire when they should."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from tests.fixtures.need import need
from tests.fixtures.programs import run_to_end

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / "deploy" / "monitoring"
OPERATIONS: Final = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
# Metrics that only PostgreSQL has.
_POSTGRESQL: Final = {"allotment_database_connections", "allotment_database_connections_max"}
_NAME: Final = re.compile(r"\ballotment_[a-z_]+\b")


def rules() -> dict[str, dict[str, Any]]:
    """Return every rule by its name."""
    (group,) = yaml.safe_load((FOLDER / "rules.yaml").read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


@pytest.fixture
def names(client: Client, settings: Any, db: None) -> set[str]:
    """Return the names of all metrics that a scraper gets, whether or not there are samples."""
    settings.ALLOTMENT_METRICS_TOKEN = "x"
    text = client.get("/metrics", headers={"Authorization": "Bearer x"}).content.decode()
    found = set(_POSTGRESQL)
    for family in text_string_to_metric_families(text):
        found.add(family.name + ("_total" if family.type == "counter" else ""))
    return found


def test_every_figure_that_is_asked_for_exists(names: set[str]) -> None:
    asked = {name for rule in rules().values() for name in _NAME.findall(rule["expr"])}
    assert asked
    assert asked - names == set()


def test_every_metric_is_documented(names: set[str]) -> None:
    """A document may shorten a name that continues the previous one to its end."""
    section = OPERATIONS.partition("## Alerts")[0]
    own = {name for name in names if name.startswith("allotment_") and "_tests_" not in name}
    ends = set(re.findall(r"`(_[a-z_]+)`", section))
    missing = {
        name for name in own if f"`{name}`" not in section and not any(end.strip("_") in name for end in ends)
    }
    assert missing == set()


@pytest.mark.parametrize("name", rules())
def test_every_alert_has_a_severity_and_leads_to_what_to_do(name: str) -> None:
    rule = rules()[name]
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert rule["annotations"]["summary"]
    assert rule["annotations"]["runbook"] == f"docs/operations.md#{name.lower()}"
    section = OPERATIONS.partition(f"### {name}\n")[2]
    assert len(section.partition("\n#")[0].strip()) > 40


@pytest.mark.parametrize("words", [["check", "rules", "rules.yaml"], ["test", "rules", "rules_test.yaml"]])
def test_prometheus_takes_them_and_they_fire_when_they_should(words: list[str]) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        need("promtool", "apt install prometheus")
    done = run_to_end(
        [promtool, *words], cwd=FOLDER, capture_output=True, text=True, within_s=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
