"""The house rules that a machine can check: sizes, layers, swallowed errors, migrations."""

from __future__ import annotations

import ast
import os
import statistics
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.sources import PRODUCT, ROOT, find_files, parse_file, read_file, walk_tree
from tests.fixtures.programs import run_to_end

SOURCES = ("platform", "tenants", "quotas", "scheduling", "frontend", "benchmarks", "tests")
FILE_LIMIT = 600
FILE_P90 = 350
FUNCTION_LIMIT = 60
FOLDER_LIMIT = 20
NEEDS_NO_WORDS = 20  # lines of a module whose name says enough
FUNCTION_P90 = 30


def sources() -> dict[Path, str]:
    """Return every Python file of the repository except generated migrations."""
    files = (ROOT / "manage.py", *find_files(*SOURCES))
    return {file.relative_to(ROOT): read_file(file) for file in files}


def trees() -> dict[Path, ast.Module]:
    return {file: parse_file(ROOT / file) for file in sources()}


def functions() -> Iterator[tuple[str, int]]:
    """Yield each function's place and its number of lines without decorators."""
    for file, tree in trees().items():
        for node in walk_tree(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
                yield f"{file}:{node.lineno} {node.name}", node.end_lineno - node.lineno + 1


def test_no_file_is_too_long() -> None:
    sizes = {str(file): text.count("\n") for file, text in sources().items()}
    assert {file: size for file, size in sizes.items() if size > FILE_LIMIT} == {}
    filled = [size for size in sizes.values() if size]
    assert statistics.quantiles(filled, n=10)[-1] <= FILE_P90


def test_no_folder_of_the_product_is_too_full() -> None:
    files = Counter(str(file.parent.relative_to(ROOT)) for file in find_files(*PRODUCT))
    full = [f"{folder}: {count} Python files" for folder, count in files.items() if count > FOLDER_LIMIT]
    assert full == [], f"more than {FOLDER_LIMIT} files in one folder; split it by noun"


def test_no_function_is_too_long() -> None:
    sizes = dict(functions())
    assert {where: size for where, size in sizes.items() if size > FUNCTION_LIMIT} == {}
    assert statistics.quantiles(sizes.values(), n=10)[-1] <= FUNCTION_P90


def test_no_error_is_swallowed() -> None:
    silent = [
        f"{file}:{node.lineno}"
        for file, tree in trees().items()
        for node in walk_tree(tree)
        if isinstance(node, ast.ExceptHandler)
        and all(isinstance(line, ast.Pass) or _is_ellipsis(line) for line in node.body)
    ]
    assert silent == [], "say what happens then, or why nothing need happen (contextlib.suppress)"


def _is_ellipsis(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and line.value.value is ...


def test_every_module_says_what_it_is_for() -> None:
    bare = [
        str(file)
        for file, tree in trees().items()
        if file.name != "__init__.py"
        and read_file(ROOT / file).count("\n") > NEEDS_NO_WORDS
        and ast.get_docstring(tree) is None
    ]
    assert bare == []


def test_the_console_reads_through_selectors() -> None:
    """Check that no page queries a model itself, which would not be bound to what its viewer may see."""
    own_queries = [
        f"{path}:{node.lineno}"
        for path, tree in trees().items()
        if path.parts[0] == "frontend"
        for node in walk_tree(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("unscoped", "objects")
    ]
    assert own_queries == []


def test_imports_keep_the_layers() -> None:
    program = Path(sys.executable).with_name("lint-imports")
    if not program.exists():
        pytest.skip("import-linter is missing; to get it: make lint")
    result = run_to_end([str(program), "--no-cache"], cwd=ROOT, capture_output=True, text=True, within_s=120)
    assert result.returncode == 0, result.stdout + result.stderr


def test_migrations_are_complete() -> None:
    result = run_to_end(
        [sys.executable, "manage.py", "makemigrations", "--check", "--dry-run"],
        cwd=ROOT, capture_output=True, text=True, within_s=120,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "allotment.settings.test"},
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr


def _writes_audit(node: ast.AST) -> bool:
    return any(
        isinstance(each, ast.Call)
        and isinstance(each.func, ast.Attribute)
        and each.func.attr in ("record", "record_many")
        and ast.unparse(each.func.value) == "audit"
        for each in ast.walk(node)
    )


def _written_and_undone(tree: ast.Module) -> Iterator[int]:
    """Yield the lines of functions that write to the audit and then refuse."""
    for node in walk_tree(tree):
        for _, block in ast.iter_fields(node):
            if not isinstance(block, list) or not all(isinstance(each, ast.stmt) for each in block):
                continue
            raises = [number for number, each in enumerate(block) if isinstance(each, ast.Raise)]
            for each in block[: max(raises, default=0)]:
                if not isinstance(each, ast.FunctionDef | ast.ClassDef) and _writes_audit(each):
                    yield each.lineno


def test_what_is_written_about_a_refusal_outlives_the_transaction_that_it_undoes() -> None:
    """`audit.record` is rolled back with the change; a refusal needs `record_failure` or `denied`."""
    found = [
        f"{file}:{line}"
        for file, tree in trees().items()
        if file.parts[0] != "tests"
        for line in _written_and_undone(tree)
    ]
    assert found == []
    planted = ast.parse("try:\n    f()\nexcept E:\n    with a:\n        audit.record(x)\n    raise F\n")
    assert list(_written_and_undone(planted)) == [4]


def _waits_a_fixed_time(tree: ast.Module) -> Iterator[int]:
    """Yield the lines where a test gives a program a fixed number of seconds, on a busy machine as well."""
    for node in walk_tree(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        name = ast.unparse(node.func)
        limits = [word.value for word in node.keywords if word.arg == "timeout"]
        if name.endswith("process.wait"):
            limits += node.args
        elif name != "subprocess.run" and node.func.attr != "communicate":
            continue
        if any("DEADLINE_FACTOR" not in ast.unparse(limit) for limit in limits):
            yield node.lineno


def test_programs_have_longer_to_end_where_many_tests_run_at_once() -> None:
    """`tests.fixtures.programs` multiplies deadlines by `DEADLINE_FACTOR`."""
    found = [
        f"{file}:{line}"
        for file, tree in trees().items()
        if file.parts[0] == "tests"
        for line in _waits_a_fixed_time(tree)
    ]
    assert found == []
    planted = (
        "subprocess.run(c, timeout=60)\nself.process.wait(5)\np.communicate(timeout=2)\np.process.wait()"
    )
    assert list(_waits_a_fixed_time(ast.parse(planted))) == [1, 2, 3]
