"""The Python files of the repository: each is read, parsed and walked through once for all rules."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PRODUCT: Final = ("platform", "tenants", "quotas", "scheduling", "frontend")
"""The folders of what is installed."""


@cache
def find_files(*folders: str, migrations: bool = False) -> tuple[Path, ...]:
    """The files below the folders, sorted folder by folder; generated migrations only on request."""
    skipped = {"__pycache__", ".venv"} | (set() if migrations else {"migrations"})
    found = (path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))
    return tuple(path for path in found if not skipped.intersection(path.relative_to(ROOT).parts))


@cache
def read_file(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def parse_text(text: str) -> ast.Module:
    return ast.parse(text)


def parse_file(path: Path) -> ast.Module:
    return parse_text(read_file(path))


@cache
def walk_tree(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Every node of a tree, as `ast.walk` yields them; a dozen rules look at the same ones."""
    return tuple(ast.walk(tree))
