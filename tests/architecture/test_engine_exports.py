"""The engine's public names: each is used by others, and none is imported before it is used."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from scheduling import engine
from scheduling.engine import public
from tests.fixtures.programs import run_to_end

ROOT = Path(__file__).resolve().parents[2]
WORD = re.compile(r"\w+")
NAMES = {name for name in vars(public) if not name.startswith("_")}
MODEL_ALONE = """
import sys
from scheduling.engine import model
assert model.Job
print([name for name in sys.modules if name == "numpy" or name.startswith("scheduling.engine.state")])
"""


def test_every_public_name_can_be_imported() -> None:
    assert all(getattr(engine, name) is getattr(public, name) for name in NAMES)
    assert not hasattr(engine, "place_anything")


def test_every_public_name_is_used_outside_the_engine() -> None:
    sources = [
        path
        for folder in ("scheduling", "benchmarks", "docs", "tests", "platform")
        for path in (ROOT / folder).rglob("*.py")
        if ROOT / "scheduling" / "engine" not in path.parents
    ]
    texts = [path.read_text() for path in (*sources, ROOT / "docs" / "plugins.md")]
    used = {word for text in texts if "engine" in text for word in WORD.findall(text)}
    assert sorted(NAMES - used) == []


def test_the_data_model_is_imported_without_the_algorithms() -> None:
    ended = run_to_end(
        [sys.executable, "-c", MODEL_ALONE], cwd=ROOT, within_s=60, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stdout) == (0, "[]\n"), ended.stderr
