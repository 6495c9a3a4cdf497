"""The engine is a pure function, and it is the only place where tasks are placed or victims chosen.

Each rule is a function from source text to findings, so that it can be shown to find something.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.architecture.sources import PRODUCT, ROOT, find_files, parse_file, walk_tree

ENGINE = "scheduling/engine/"
PUBLIC = (
    "scheduling.engine",
    "scheduling.engine.extension",
    "scheduling.engine.model",
    "scheduling.engine.scoring",
)
# Rules of others, for the comparison with their cases and traces: they work with arrays as well.
OTHER_SCHEDULERS = ("scheduling/conformance/", "scheduling/simulation/published/")

# Standard modules through which the outside world, chance or another thread could get in.
IMPURE = {
    "asyncio", "concurrent", "datetime", "multiprocessing", "os", "random", "sched", "secrets", "select",
    "signal", "socket", "subprocess", "tempfile", "threading", "time", "urllib", "uuid",
}  # fmt: skip
MAY_IMPORT = {
    "scheduling/engine/": (
        "numpy",
        "foundation.core.flavor_resource",
        "foundation.core.quantities",
        "foundation.core.reasons",
        "quotas.tree",
        "scheduling.engine",
    ),
    "quotas/tree/": ("foundation.core.flavor_resource", "quotas.tree"),
}
DECIDES = re.compile(
    r"(^|_)(victims?|best_fit|worst_fit|first_fit|bin_pack|fill_back|score_nodes?|rank_nodes?"
    r"|(choose|pick|select|find)_(node|device|card|seat)s?)(_|$)"
)

Finding = str
Rule = Callable[[str, ast.Module], Iterator[Finding]]


def imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every module that the source imports, with its line; of `from a import b` the module is `a`."""
    for node in walk_tree(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, "." * node.level + (node.module or "")


def within(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def impure_imports(path: str, tree: ast.Module) -> Iterator[Finding]:
    """The engine and the quota tree import nothing but pure standard modules and what is listed."""
    allowed = next((modules for part, modules in MAY_IMPORT.items() if path.startswith(part)), None)
    if allowed is None:
        return
    for line, module in imports(tree):
        top = module.split(".")[0]
        standard = top in sys.stdlib_module_names and top not in IMPURE
        if not standard and not within(module, allowed):
            yield f"{path}:{line} imports {module}"


def chance_and_identity(path: str, tree: ast.Module) -> Iterator[Finding]:
    """No random numbers from numpy, and no `id` or `hash` whose value differs from run to run."""
    if not path.startswith(tuple(MAY_IMPORT)):
        return
    for node in walk_tree(tree):
        if isinstance(node, ast.Attribute) and node.attr == "random":
            yield f"{path}:{node.lineno} uses a random source"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("id", "hash"):
            yield f"{path}:{node.lineno} calls {node.func.id}()"


def inner_imports(path: str, tree: ast.Module) -> Iterator[Finding]:
    """Others see the engine through its public modules only."""
    if path.startswith(ENGINE):
        return
    for line, module in imports(tree):
        if within(module, ("scheduling.engine",)) and module not in PUBLIC:
            yield f"{path}:{line} imports {module}, which is inside the engine"


def arrays_outside(path: str, tree: ast.Module) -> Iterator[Finding]:
    """Arrays of nodes are the engine's means of scoring; nothing else in scheduling works with arrays."""
    if path.startswith((ENGINE, *OTHER_SCHEDULERS)) or not path.startswith(
        ("scheduling/", "quotas/", "tenants/")
    ):
        return
    for line, module in imports(tree):
        if within(module, ("numpy",)):
            yield f"{path}:{line} imports {module}"


def decisions_outside(path: str, tree: ast.Module) -> Iterator[Finding]:
    """No function or class outside the engine has a name of placement or victim choice."""
    if path.startswith((ENGINE, *OTHER_SCHEDULERS)):
        return
    for node in walk_tree(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", node.name).lower()
            if DECIDES.search(name):
                yield f"{path}:{node.lineno} defines {node.name}"


RULES: tuple[Rule, ...] = (
    impure_imports,
    chance_and_identity,
    inner_imports,
    arrays_outside,
    decisions_outside,
)


def sources() -> Iterator[tuple[str, ast.Module]]:
    for file in find_files(*PRODUCT, migrations=True):
        yield file.relative_to(ROOT).as_posix(), parse_file(file)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_engine_is_pure_and_alone(rule: Rule) -> None:
    checked = list(sources())
    assert any(path.startswith(ENGINE) for path, _ in checked)
    assert [finding for path, tree in checked for finding in rule(path, tree)] == []


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (impure_imports, "scheduling/engine/x.py", "import time"),
        (impure_imports, "scheduling/engine/x.py", "from random import choice"),
        (impure_imports, "scheduling/engine/x.py", "from django.db import models"),
        (impure_imports, "scheduling/engine/x.py", "from quotas.models import Quota"),
        (impure_imports, "scheduling/engine/x.py", "def f():\n    import threading"),
        (impure_imports, "quotas/tree/x.py", "import numpy"),
        (impure_imports, "quotas/tree/x.py", "from scheduling.engine import run_cycle"),
        (chance_and_identity, "scheduling/engine/x.py", "numpy.random.default_rng()"),
        (chance_and_identity, "scheduling/engine/x.py", "sorted(jobs, key=lambda job: hash(job))"),
        (
            inner_imports,
            "scheduling/simulation/x.py",
            "from scheduling.engine.placement.placer import Placer",
        ),
        (inner_imports, "frontend/x.py", "import scheduling.engine.actions.allocate"),
        (arrays_outside, "scheduling/simulation/x.py", "import numpy as np"),
        (decisions_outside, "scheduling/simulation/x.py", "def choose_node(nodes): ..."),
        (decisions_outside, "scheduling/services/x.py", "class BestFitPlacement: ..."),
        (decisions_outside, "frontend/x.py", "def likely_victims(): ..."),
    ],
)
def test_each_rule_finds_what_it_forbids(rule: Rule, path: str, text: str) -> None:
    assert len(list(rule(path, ast.parse(text)))) == 1


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (impure_imports, "scheduling/engine/x.py", "import heapq, numpy\nfrom quotas.tree import QuotaTree"),
        (impure_imports, "scheduling/simulation/x.py", "import time"),
        (inner_imports, "scheduling/snapshots/cell_reading.py", "from scheduling.engine.model import Node"),
        (inner_imports, "scheduling/engine/x.py", "from scheduling.engine.state.fleet import Fleet"),
        (decisions_outside, "scheduling/engine/x.py", "def choose_node(nodes): ..."),
        (decisions_outside, "frontend/x.py", "def show_nodes(): ..."),
    ],
)
def test_no_rule_finds_what_is_allowed(rule: Rule, path: str, text: str) -> None:
    assert list(rule(path, ast.parse(text))) == []
