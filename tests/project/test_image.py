"""The packages of the image are pinned with hashes, and the pins are those of the project's dependencies."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
IMAGE = {"sys_platform": "linux", "platform_machine": "x86_64", "python_version": "3.13"}
_PIN = re.compile(r"(?P<name>[\w.-]+)(\[[\w,-]+\])?==(?P<version>[\w.!+]+)( ; (?P<marker>.+))?")


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def entries(file: str) -> list[list[str]]:
    """The requirements of a file: the pin first, then its hashes."""
    text = (DEPLOY / file).read_text(encoding="utf-8").replace("\\\n", "")
    return [line.split(" --") for line in text.splitlines() if line and not line.startswith("#")]


def pins(file: str) -> dict[str, Version]:
    """Versions by name."""
    found = (_PIN.fullmatch(words[0].strip()) for words in entries(file))
    return {canonicalize_name(pin["name"]): Version(pin["version"]) for pin in found if pin}


@pytest.mark.parametrize("file", ["requirements.txt", "requirements-agent.txt", "requirements-build.txt"])
def test_every_package_is_pinned_with_hashes_and_without_an_address(file: str) -> None:
    assert len(entries(file)) > 1
    for pin, *hashes in entries(file):
        assert _PIN.fullmatch(pin.strip()), pin
        assert hashes, f"{pin} has no hash"
        assert all(re.fullmatch(r"hash=sha256:[0-9a-f]{64}", each.strip()) for each in hashes), pin
    assert "//" not in (DEPLOY / file).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("file", "wanted"),
    [
        (
            "requirements.txt",
            [*project()["project"]["dependencies"], *project()["project"]["optional-dependencies"]["server"]],
        ),
        (
            "requirements-agent.txt",
            [*project()["project"]["dependencies"], *project()["project"]["optional-dependencies"]["agent"]],
        ),
        (
            "requirements-build.txt",
            [*project()["dependency-groups"]["image-build"], *project()["build-system"]["requires"]],
        ),
    ],
)
def test_the_pins_are_what_the_project_asks_for(file: str, wanted: list[str]) -> None:
    pinned = pins(file)
    for requirement in map(Requirement, wanted):
        if requirement.marker is None or requirement.marker.evaluate(IMAGE):
            version = pinned.get(canonicalize_name(requirement.name))
            assert version is not None, f"{requirement.name} is not pinned: run make lock"
            assert version in requirement.specifier, f"{requirement} and {version}: run make lock"


@pytest.mark.parametrize("file", ["Dockerfile", "agent.Dockerfile"])
def test_an_image_installs_nothing_else_and_takes_its_base_from_outside(file: str) -> None:
    text = (DEPLOY / file).read_text(encoding="utf-8").replace("\\\n", " ")
    installs = [line for line in text.splitlines() if "pip install" in line]
    assert len(installs) == 3
    assert all("--require-hashes" in line or "--no-deps" in line for line in installs)
    assert "--no-isolation" in text
    bases = [line.split()[1] for line in text.splitlines() if line.startswith("FROM")]
    assert set(bases) == {"${BASE}"}
