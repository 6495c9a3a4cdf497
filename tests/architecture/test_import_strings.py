"""Names in strings and attributes of imported modules exist.

A rename that follows types misses both: the strings in settings, schedules, lazy tables, `defer_import` and
`monkeypatch`, and `engine.name` in tests and benchmarks, which mypy does not read.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest
from django.apps import apps

from allotment.celery import app as celery
from scheduling.engine.placement import matrix
from scheduling.engine.state.fleet import CHANGING_ARRAYS, Fleet
from scheduling.engine.state.task_shape import TaskShape
from tests.architecture.sources import ROOT, find_files, parse_file, parse_text, read_file, walk_tree

FOLDERS = ("platform", "tenants", "quotas", "scheduling", "frontend", "benchmarks", "tests", "client")
PACKAGES = (
    "allotment", "benchmarks", "clusters", "foundation", "frontend", "quotas", "scheduling", "telemetry",
    "tenants",
)  # fmt: skip
STRING = re.compile(rf'"((?:{"|".join(PACKAGES)})(?:\.[A-Za-z_]\w*)+(?::[A-Za-z_][\w.]*)?)"')
# A package whose attributes are read under an alias, and the pattern by which a module imports it so.
ALIASES = {
    "scheduling.engine": re.compile(r"^from scheduling import (?:[\w, ]+, )?(engine)\b", re.MULTILINE),
    "scheduling.engine.model": re.compile(r"^from scheduling\.engine import model as (\w+)", re.MULTILINE),
}

# Strings of this form that name something other than a module, a task or a model.
NO_IMPORT = {
    "allotment.engine": "the entry-point group of plug-ins",
    "allotment.scope": "a setting of a PostgreSQL session",
    "allotment.settings.prod": "a wrong name that a test plants",
    "allotment.sqlite3": "a file",
    "allotment.test.costly": "a task that a test defines",
    "allotment.user": "a setting of a PostgreSQL session",
    "quotas.csv": "a file",
    "quotas.yaml": "a file",
}


def sources() -> dict[str, str]:
    """Every Python file by its path, except generated migrations and the planted names of this file."""
    files = (file for file in find_files(*FOLDERS) if file != Path(__file__))
    return {str(file.relative_to(ROOT)): read_file(file) for file in files}


@cache
def find_module(name: str) -> Path | None:
    """The file or folder of a module of this repository, without an import of it."""
    below = Path(*name.split("."))
    found = (
        path
        for root in (ROOT, ROOT / "platform")
        for path in (root / below.with_suffix(".py"), root / below / "__init__.py", root / below)
    )
    return next((path for path in found if path.exists()), None)


@cache
def module_names(path: Path) -> frozenset[str]:
    """The names that a module binds at its top level, in branches too."""
    if path.is_dir():
        return frozenset()
    names: set[str] = set()
    for node in walk_tree(parse_file(path)):
        match node:
            case (
                ast.FunctionDef(col_offset=0)
                | ast.AsyncFunctionDef(col_offset=0)
                | ast.ClassDef(col_offset=0)
            ):
                names.add(node.name)
            case ast.Name(ctx=ast.Store()):
                names.add(node.id)
            case ast.alias():
                names.add(node.asname or node.name)
    return frozenset(names)


def is_import(text: str) -> bool:
    """Return whether `package.module`, with or without `.name` or `:name`, exists."""
    path, _, qualified = text.partition(":")
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        module = find_module(".".join(parts[:end]))
        if module is not None:
            attributes = [*parts[end:], *(qualified.split(".") if qualified else ())]
            if not attributes:
                return True
            if len(attributes) == 1 and attributes[0] in module_names(module):
                return True
            return has_attributes(".".join(parts[:end]), attributes)
    return False


def has_attributes(module: str, attributes: Iterable[str]) -> bool:
    """Return whether the imported module has an attribute of an attribute, or one that is found lazily."""
    found: object = importlib.import_module(module)
    for name in attributes:
        if not hasattr(found, name):
            return False
        found = getattr(found, name)
    return True


def is_model(text: str) -> bool:
    """Return whether a string is the label of a model: `app.Model`."""
    label, _, name = text.rpartition(".")
    return label in apps.app_configs and name.lower() in apps.get_app_config(label).models


def dangling_strings(texts: Iterable[tuple[str, str]]) -> Iterator[str]:
    """The strings that look like an import and name nothing, each with its file."""
    celery.loader.import_default_modules()
    for path, text in texts:
        for name in dict.fromkeys(STRING.findall(text)):
            if not (name in NO_IMPORT or name in celery.tasks or is_import(name) or is_model(name)):
                yield f"{path}: {name}"


def dangling_attributes(texts: Iterable[tuple[str, str]]) -> Iterator[str]:
    """The attributes `alias.name` of the packages in `ALIASES` that the package does not have."""
    for path, text in texts:
        aliases = {found[1]: package for package, form in ALIASES.items() if (found := form.search(text))}
        if not aliases:
            continue
        for node in walk_tree(parse_text(text)):
            match node:
                case ast.Attribute(value=ast.Name(id=alias), attr=name) if alias in aliases:
                    if not hasattr(importlib.import_module(aliases[alias]), name):
                        yield f"{path}:{node.lineno} {alias}.{name}"


def test_every_import_string_names_what_exists() -> None:
    assert list(dangling_strings(sources().items())) == []


def test_every_attribute_of_the_engine_exists() -> None:
    assert list(dangling_attributes(sources().items())) == []


def test_no_exception_is_without_use() -> None:
    used = {name for text in sources().values() for name in STRING.findall(text)}
    assert sorted(NO_IMPORT.keys() - used) == []


def test_tables_of_field_names_name_fields() -> None:
    shape = {field.name for field in fields(TaskShape)}
    assert set(matrix.USUAL) - shape == set()
    assert [name for name in CHANGING_ARRAYS if not hasattr(Fleet(()), name)] == []


@pytest.mark.parametrize(
    "text",
    [
        'X = "scheduling.engine.state.books"',
        'defer_import("scheduling.services.drain:no_such_function")',
        'monkeypatch.setattr("scheduling.engine.cycle.no_such_name", 1)',
        'BEAT = {"task": "telemetry.no_such_task"}',
        'NAME = "scheduling.engine:demand"',
    ],
)
def test_a_planted_string_is_found(text: str) -> None:
    assert len(list(dangling_strings([("planted.py", text)]))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "from scheduling import engine\nengine.demand",
        "from scheduling import commit, engine\nengine.assign(1)",
        "from scheduling.engine import model as em\nem.Outcome",
    ],
)
def test_a_planted_attribute_is_found(text: str) -> None:
    assert len(list(dangling_attributes([("planted.py", text)]))) == 1


@pytest.mark.parametrize(
    "text",
    ["scheduling.engine:Snapshot", "scheduling.engine.Snapshot.from_json", "clusters.backends.registry"],
)
def test_names_that_exist_are_found(text: str) -> None:
    assert is_import(text)
