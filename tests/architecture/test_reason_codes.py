"""Every reason code is a row of one table, each row is produced, and no module spells other codes.

Each rule is a function from source text to findings, so that it can be shown to find something.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from foundation.core.reasons import Reason
from tests.architecture.sources import PRODUCT, ROOT, find_files, parse_file, walk_tree

CORE = ROOT / "platform" / "foundation" / "core"
TABLE = {CORE / "reasons.py", *(CORE / "reason_rows").glob("*.py")}
CODES = frozenset(str(reason) for reason in Reason)
_CODE: Final = re.compile(r"[A-Z]+(_[A-Z]+)*")
_PLACE: Final = re.compile(r"%\(\w+\)s")
_TAKE_CODES: Final = {"Wait": 1, "report_wait": 1, "Unwanted": 0, "Obstacle": 0, "Outcome": 2}
"""Callables whose argument at this position is a reason code."""


def sources() -> Iterator[tuple[Path, ast.Module]]:
    for path in find_files(*PRODUCT):
        if path not in TABLE:
            yield path.relative_to(ROOT), parse_file(path)


def spelled_codes(tree: ast.Module) -> list[str]:
    """The codes of the table that are written as strings."""
    constants = (node.value for node in walk_tree(tree) if isinstance(node, ast.Constant))
    return [value for value in constants if isinstance(value, str) and value in CODES]


def undeclared_codes(tree: ast.Module) -> list[str]:
    """Strings that are handed over as reason codes, whether or not the table has them."""
    found: list[ast.expr] = []
    for node in walk_tree(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            found += node.args[_TAKE_CODES[name] :][:1] if name in _TAKE_CODES else []
            found += [each.value for each in node.keywords if each.arg == "reason"]
        elif isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            found += [
                value for key, value in pairs if isinstance(key, ast.Constant) and key.value == "reason"
            ]
    texts = [each.value for each in found if isinstance(each, ast.Constant)]
    return [text for text in texts if isinstance(text, str) and _CODE.fullmatch(text)]


def produced_codes(tree: ast.Module) -> set[str]:
    """The members of the table that are named other than to compare with them or to group them."""
    skipped: set[ast.AST] = set()
    for node in walk_tree(tree):
        groups = isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Tuple)
        if isinstance(node, ast.Compare) or groups:
            skipped.update(ast.walk(node))
    named = (node for node in walk_tree(tree) if isinstance(node, ast.Attribute) and node not in skipped)
    return {
        node.attr
        for node in named
        if isinstance(node.value, ast.Name | ast.Attribute) and _is_table(node.value)
    }


def _is_table(node: ast.Name | ast.Attribute) -> bool:
    return (node.id if isinstance(node, ast.Name) else node.attr) == "Reason"


def test_no_module_spells_a_reason_code() -> None:
    assert {str(path): found for path, tree in sources() if (found := spelled_codes(tree))} == {}


def test_no_module_hands_over_a_code_that_the_table_lacks() -> None:
    assert {str(path): found for path, tree in sources() if (found := undeclared_codes(tree))} == {}


def test_each_code_is_produced_outside_the_console() -> None:
    produced = {
        code for path, tree in sources() if path.parts[0] != "frontend" for code in produced_codes(tree)
    }
    assert CODES - produced == set()


@pytest.mark.parametrize("reason", Reason)
def test_a_row_is_complete(reason: Reason) -> None:
    row = reason.row
    assert reason.name == reason.value == row.code
    assert 0 < len(row.label.split()) <= 7
    assert row.meaning.endswith(".")
    for texts in (row.sentences, row.helps):
        assert len(set(texts)) == len(texts)
        assert not _PLACE.search(texts[-1]) or reason in NEVER_WITHOUT_NUMBERS, texts[-1]


NEVER_WITHOUT_NUMBERS: Final = (
    Reason.CLUSTER_UNREACHABLE,
    Reason.IMAGE_PULL_FAILED,
    Reason.CONTAINER_NOT_CREATED,
    Reason.VOLUME_NOT_MOUNTED,
)
"""Reasons that always come with the cluster or pod that they are about."""


def test_the_rules_find_what_they_forbid() -> None:
    source = """
    LASTING = (Reason.PROTECTED, Reason.BACKOFF)
    def note(job, wait):
        if job.reason == "NO_ROOM" or wait is Reason.IN_LINE:
            return Wait(job, "NEW_CODE", {}, [])
        job.update(reason="OTHER_CODE", values={"reason": "THIRD_CODE"})
        return Wait(job, em.Reason.SUSPENDED, {}, [])
    """
    tree = ast.parse("if True:\n" + source)
    assert spelled_codes(tree) == ["NO_ROOM"]
    assert sorted(undeclared_codes(tree)) == ["NEW_CODE", "OTHER_CODE", "THIRD_CODE"]
    assert produced_codes(tree) == {"SUSPENDED"}
