"""docs/agent.md has every option and every metric of the node agent."""

from __future__ import annotations

import argparse
from pathlib import Path

from telemetry.agent.cli import add_agent_arguments
from telemetry.agent.describing import metrics_table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "agent.md"


def test_the_metrics_are_those_of_the_catalogue() -> None:
    assert PAGE.read_text(encoding="utf-8").endswith(f"\n\n{metrics_table()}"), (
        "replace the tables by the output of: allotment-agent --print-metrics"
    )


def test_every_option_is_described() -> None:
    parser = argparse.ArgumentParser(add_help=False)
    add_agent_arguments(parser)
    options = {option for action in parser._actions for option in action.option_strings}
    page = PAGE.read_text(encoding="utf-8")
    assert {option for option in options if f"`{option}`" not in page} == set()
