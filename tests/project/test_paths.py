"""The files of an installation, and that deep folders still get a usable socket."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from allotment.processes import paths


def test_home_is_dot_allotment_in_the_current_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ALLOTMENT_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    assert paths.find_home_folder() == tmp_path / ".allotment"


@pytest.mark.parametrize("value", ["", "relative/folder"])
def test_home_is_always_absolute(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("ALLOTMENT_HOME", value)
    assert paths.find_home_folder().is_absolute()


def test_socket_lies_in_the_home() -> None:
    assert paths.broker_socket(Path("/srv/allotment")) == Path("/srv/allotment/run/broker.sock")


@pytest.mark.parametrize("length", [80, 92, 93, 94, 120, 400])
def test_socket_path_never_exceeds_the_kernels_limit(length: int) -> None:
    home = Path("/" + "x" * (length - 1))
    assert len(os.fsencode(paths.broker_socket(home))) <= paths.SOCKET_PATH_LIMIT


def test_deep_homes_do_not_share_a_socket() -> None:
    deep = "/" + "x" * 200
    assert paths.broker_socket(Path(deep, "a")) != paths.broker_socket(Path(deep, "b"))
    assert paths.broker_socket(Path(deep, "a")) == paths.broker_socket(Path(deep, "a"))


def test_an_unusable_runtime_folder_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/nonexistent")
    assert paths.broker_socket(Path("/" + "x" * 200)).parts[:2] == ("/", "tmp")
