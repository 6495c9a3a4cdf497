"""`platform/` is a source root. As a package it would hide Python's own `platform` module.

The failures then name Celery or pytest and never the cause, hence this guard. It must not rely on how
pytest was started: the console script imports the standard module before the root is on the path.
"""

from __future__ import annotations

import platform
import sys
import sysconfig
import tomllib
from pathlib import Path

from tests.fixtures.programs import run_to_end

ROOT = Path(__file__).resolve().parents[2]
SOURCE_ROOT = ROOT / "platform"
PACKAGES = {"allotment", "foundation", "clusters", "telemetry", "alerts"}


def test_the_standard_module_is_not_ours() -> None:
    assert platform.__file__ is not None
    assert Path(platform.__file__).parent == Path(sysconfig.get_path("stdlib"))


def test_the_standard_module_wins_in_the_current_folder() -> None:
    code = "import platform; print(platform.system())"
    result = run_to_end([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, within_s=30)
    assert result.returncode == 0, result.stderr


def test_the_source_root_holds_packages_only() -> None:
    found = {entry.name for entry in SOURCE_ROOT.iterdir() if entry.name != "__pycache__"}
    assert found == PACKAGES
    assert all((SOURCE_ROOT / name / "__init__.py").is_file() for name in PACKAGES)


def test_the_source_root_holds_no_tests() -> None:
    # With importlib mode, a test there puts a made-up `platform` into sys.modules and pytest dies.
    tests = [
        file.relative_to(ROOT)
        for file in SOURCE_ROOT.rglob("*")
        if file.name in {"conftest.py", "tests"} or (file.name.startswith("test_") and file.suffix == ".py")
    ]
    assert tests == []


def test_the_wheel_packs_every_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packed = {Path(name) for name in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]}
    present = {
        file.parent.relative_to(ROOT) for base in (ROOT, SOURCE_ROOT) for file in base.glob("*/py.typed")
    }
    assert packed == present


def test_no_test_folder_is_called_platform() -> None:
    assert not (ROOT / "tests" / "platform").exists()


ROOT_MODULES = {"__init__", "apps", "tasks", "urls", "urls_operations", "wiring"}
ENTRY_POINTS = {"asgi", "celery", "cli", "wsgi"}


def test_the_root_of_an_app_holds_only_what_django_names() -> None:
    apps = {file.parent for base in (ROOT, SOURCE_ROOT) for file in base.glob("*/py.typed")}
    assert {app.name for app in apps} > PACKAGES
    modules = {f"{app.name}.{file.stem}": file.stem for app in apps for file in app.glob("*.py")}
    allowed = ROOT_MODULES | ENTRY_POINTS
    assert [name for name, stem in sorted(modules.items()) if stem not in allowed] == []
