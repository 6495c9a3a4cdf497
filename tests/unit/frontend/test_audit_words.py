"""Every action that the platform writes into the audit log has words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from frontend.texts.audit_words import ACTIONS, ENTITIES, VERBS, describe_action, describe_field

ROOT: Final = Path(__file__).resolve().parents[3]
PACKAGES: Final = ("platform", "quotas", "scheduling", "tenants")
WRITERS: Final = (
    "record_action",
    "record_many",
    "record_failure",
    "record_change",
    "_record",
    "_note",
    "_done",
)
_PREFIX: Final = re.compile(r'f"([a-z-]+)\.\{verb\}"')


def written_actions() -> Iterator[str]:
    """Yield the actions in the calls that write records; `verb` in a module's own helper is filled in."""
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            source = file.read_text(encoding="utf-8")
            if "audit_log" not in source and "record_change" not in source:
                continue
            prefix = _PREFIX.search(source)
            for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
                name = getattr(call.func, "attr", getattr(call.func, "id", ""))
                if name in WRITERS:
                    spoken = "tenant" if name == "record_change" else prefix and prefix[1]
                    yield from _actions(call, spoken)


def _actions(call: ast.Call, prefix: str | None) -> Iterator[str]:
    for argument in call.args:
        for part in ast.walk(argument):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                if re.fullmatch(r"[a-z-]+\.[a-z_-]+", part.value):
                    yield part.value
                elif prefix and re.fullmatch(r"[a-z-]+", part.value):
                    yield f"{prefix}.{part.value}"


ALL: Final = sorted(set(written_actions()))


def test_the_actions_are_found() -> None:
    assert {"job.submit", "user.close", "tenant.archive", "quota.set", "alert-rule.create"} <= set(ALL)


@pytest.mark.parametrize("action", ALL)
def test_an_action_has_words(action: str) -> None:
    assert describe_action(action) != action


def test_every_text_of_the_audit_is_used() -> None:
    assert set(ACTIONS) - set(ALL) <= {"access.denied", "loan.miss", "user.sign-in"}
    assert {verb.partition(".")[2] for verb in ALL} | {"evict"} >= set(VERBS)
    assert {action.partition(".")[0] for action in ALL} | {"access", "route"} >= set(ENTITIES)


def test_an_unknown_action_is_shown_as_it_is() -> None:
    assert describe_action("thing.explode") == "thing.explode"


def test_fields_have_words_and_those_of_quotas_name_pool_and_resource() -> None:
    assert describe_field("cards") == "GPUs"
    assert describe_field("a100 gpu.memory") == "a100 • GPU memory"
    assert describe_field("half life") == "half life"
