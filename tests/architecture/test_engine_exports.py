"""The engine's public names are said twice: to type checkers, and to the import at first use."""

from __future__ import annotations

import ast
import inspect

from scheduling import engine


def test_both_lists_of_public_names_agree() -> None:
    tree = ast.parse(inspect.getsource(engine))
    checked = {
        alias.asname or alias.name: (str(node.module).removeprefix("scheduling.engine."), alias.name)
        for branch in tree.body
        if isinstance(branch, ast.If)
        for node in branch.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert checked == engine._SOURCES
    assert sorted(checked) == sorted(engine.__all__)


def test_every_public_name_can_be_imported() -> None:
    assert all(getattr(engine, name) is not None for name in engine.__all__)
