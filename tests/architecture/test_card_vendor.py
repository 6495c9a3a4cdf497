"""Names of a card vendor are spelled in one folder: how a cluster calls cards is a fact of its plug-in."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.sources import PRODUCT, ROOT, find_files, parse_file, walk_tree

HOME = "platform/clusters/gpu/"
VENDOR_PREFIXES = ("nvidia.com/", "hami.io/")


def spelled_names(path: str, tree: ast.Module) -> Iterator[str]:
    """Yield every string outside the vendor's folder that spells a vendor's resource, label or annotation."""
    if path.startswith(HOME):
        return
    for node in walk_tree(tree):
        text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
        if "\n" not in text and any(prefix in text for prefix in VENDOR_PREFIXES):
            yield f"{path}:{node.lineno} spells {text}"


def test_vendor_names_are_spelled_in_one_folder() -> None:
    found = [
        finding
        for file in find_files(*PRODUCT)
        for finding in spelled_names(file.relative_to(ROOT).as_posix(), parse_file(file))
    ]
    assert found == []


@pytest.mark.parametrize(
    "line", ['X = "nvidia.com/gpu"', 'f"hami.io/{name}"', 'd["a"] = {"nvidia.com/gpu.product": 1}']
)
def test_a_name_elsewhere_is_noticed(line: str) -> None:
    assert list(spelled_names("scheduling/x.py", ast.parse(line)))
    assert not list(spelled_names(f"{HOME}x.py", ast.parse(line)))
