"""HAMi's files of limits: the fields that are read, written and left alone."""

from __future__ import annotations

import os
import struct
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from telemetry.agent import regions
from telemetry.agent.regions import (
    FILES_MOST,
    Absent,
    NotReady,
    Unusable,
    folder_of,
    read_regions,
    write_limits,
)
from tests.builders.regions import MIB, SIZE, limits_mib, put_region, region

POD = "4a1f6c1e-7f5b-4a51-9f0e-6d1b1d8f0c55"
TWO = {"GPU-a": 3000, "GPU-b": 5000}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return folder_of(tmp_path, POD, "main")


def test_a_region_is_read_as_the_library_wrote_it(tmp_path: Path, folder: Path) -> None:
    used = [{"GPU-a": 100, "GPU-b": 7}, {"GPU-a": 20}]
    put_region(tmp_path, POD, region(TWO, used_mib=used))
    (found,) = read_regions(folder)
    assert found.limits == {"GPU-a": 3000 * MIB, "GPU-b": 5000 * MIB}
    assert found.used == {"GPU-a": 120 * MIB, "GPU-b": 7 * MIB}


def test_exactly_the_limit_of_the_named_card_changes(tmp_path: Path, folder: Path) -> None:
    before = region(TWO, used_mib=[{"GPU-a": 100}])
    file = put_region(tmp_path, POD, before)
    write_limits(folder, {"GPU-b": 8192})
    after = file.read_bytes()
    assert struct.unpack_from("<Q", after, 1608) == (8192 * MIB,)
    changed = [at for at, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    assert changed
    assert all(1608 <= at < 1616 for at in changed)
    assert len(after) == SIZE


def test_every_file_of_a_container_is_set(tmp_path: Path, folder: Path) -> None:
    first = put_region(tmp_path, POD, region(TWO))
    second = folder / "older.cache"
    second.write_bytes(region({"GPU-b": 5000, "GPU-a": 3000}))
    (folder / "note.txt").write_text("nothing of ours")
    write_limits(folder, {"GPU-a": 1024})
    assert limits_mib(first, 2) == [1024, 5000]
    assert limits_mib(second, 2) == [5000, 1024]


def link(file: Path) -> None:
    target = file.with_name("elsewhere")
    file.rename(target)
    file.symlink_to(target)


def second_name(file: Path) -> None:
    os.link(file, file.with_name("elsewhere"))


def pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def into_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


HOSTILE: dict[str, tuple[Callable[[Path], object], type[Exception]]] = {
    "a link to another file": (link, Unusable),
    "a second name somewhere": (second_name, Unusable),
    "a pipe": (pipe, Unusable),
    "a folder": (into_folder, Unusable),
    "not begun": (lambda file: file.write_bytes(b""), NotReady),
    "half written": (lambda file: file.write_bytes(bytes(region(TWO))[:4096]), NotReady),
    "of full size without its mark": (lambda file: file.write_bytes(region(TWO, magic=0)), NotReady),
    "another mark": (lambda file: file.write_bytes(region(TWO, magic=1)), Unusable),
    "another version": (lambda file: file.write_bytes(region(TWO, major=2)), Unusable),
    "longer than known": (lambda file: file.write_bytes(bytes(region(TWO)) + b"\0" * 8), Unusable),
    "no card": (lambda file: file.write_bytes(region(TWO, cards=0)), Unusable),
    "more cards than there is room for": (lambda f: f.write_bytes(region(TWO, cards=17)), Unusable),
    "a count that wraps": (lambda file: file.write_bytes(region(TWO, cards=(1 << 64) - 1)), Unusable),
    "a card without a name": (lambda file: file.write_bytes(region(TWO, cards=3)), Unusable),
    "other cards": (lambda file: file.write_bytes(region({"GPU-x": 1})), Unusable),
    "gone": (lambda file: file.unlink(), Absent),
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_what_is_not_known_is_left_alone(tmp_path: Path, folder: Path, name: str) -> None:
    spoil, expected = HOSTILE[name]
    file = put_region(tmp_path, POD, region(TWO))
    spoil(file)
    before = sorted((item.name, item.lstat().st_size, item.lstat().st_mtime_ns) for item in folder.iterdir())
    with pytest.raises(expected):
        write_limits(folder, {"GPU-a": 4096})
    after = sorted((item.name, item.lstat().st_size, item.lstat().st_mtime_ns) for item in folder.iterdir())
    assert after == before


def test_one_bad_file_keeps_the_good_one_from_being_written(tmp_path: Path, folder: Path) -> None:
    good = put_region(tmp_path, POD, region(TWO))
    (folder / "z.cache").write_bytes(region({"GPU-x": 1}))
    with pytest.raises(Unusable, match=r"z\.cache has no GPU GPU-a"):
        write_limits(folder, {"GPU-a": 4096})
    assert limits_mib(good, 2) == [3000, 5000]


def test_a_linked_folder_is_not_entered(tmp_path: Path, folder: Path) -> None:
    put_region(tmp_path, "another", region(TWO))
    folder.symlink_to(tmp_path / "another_main")
    with pytest.raises(Unusable):
        read_regions(folder)


def test_a_file_that_goes_away_between_name_and_opening(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_region(tmp_path, POD, region(TWO))
    monkeypatch.setattr(regions, "_list_names", lambda *_: ["went.cache"])
    with pytest.raises(NotReady, match="went away"):
        read_regions(folder)


def change(folder: Path) -> None:
    write_limits(folder, {"GPU-a": 4096})


def count_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@contextmanager
def bounded(monkeypatch: pytest.MonkeyPatch, memory: int, descriptors: int) -> Iterator[None]:
    """Check that the block uses at most so many bytes and so many open files at once."""
    most, real = 0, os.open
    before = count_descriptors()

    def count(*arguments: Any, **named: Any) -> int:
        nonlocal most
        file = real(*arguments, **named)
        most = max(most, count_descriptors() - before)
        return file

    monkeypatch.setattr(regions.os, "open", count)
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < memory
    assert most <= descriptors
    assert count_descriptors() == before


@pytest.mark.parametrize(("ending", "count"), [(".cache", 17), (".cache", 10_000), (".txt", 1_100)])
def test_a_folder_with_many_files_is_left_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch, ending: str, count: int
) -> None:
    folder.mkdir()
    (folder / "own.cache").write_bytes(region(TWO))
    for number in range(count - 1 if ending == ".cache" else count):
        (folder / f"{number}{ending}").hardlink_to(folder / "own.cache")
    acts: list[Callable[[Path], object]] = [read_regions, change]
    with bounded(monkeypatch, 1 << 20, 1):
        for act in acts:
            with pytest.raises(Unusable, match="has more than"):
                act(folder)
    assert limits_mib(folder / "own.cache", 2) == [3000, 5000]


def test_full_files_are_read_in_little_memory_one_at_a_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = bytes(region(TWO, used_mib=[{"GPU-a": 5}, {"GPU-a": 7}], host_pids=[4, 5]))
    folder.mkdir()
    for number in range(FILES_MOST):
        with (folder / f"{number}.cache").open("wb") as file:  # the other processes are zeros
            file.write(data[: 1856 + 2 * 1960])
            file.seek(2_008_896)
            file.write(struct.pack("<i", 1024))
            file.truncate(SIZE)
    asked: Counter[int] = Counter()

    def counts(host_pid: int) -> bool:
        asked[host_pid] += 1
        return host_pid == 4

    with bounded(monkeypatch, 1 << 20, 2):
        found = read_regions(folder, counts)
    assert [each.used["GPU-a"] for each in found] == [5 * MIB] * FILES_MOST
    assert asked == {4: FILES_MOST, 5: FILES_MOST, 0: 1022 * FILES_MOST}


@pytest.mark.parametrize("count", [-1, 5000])
def test_a_made_up_number_of_processes_reads_nothing_beyond_the_file(
    tmp_path: Path, folder: Path, count: int
) -> None:
    data = region(TWO, used_mib=[{"GPU-a": 9}])
    struct.pack_into("<i", data, 2_008_896, count)
    put_region(tmp_path, POD, data)
    (found,) = read_regions(folder)
    assert found.used["GPU-a"] == (9 * MIB if count > 0 else 0)


@pytest.mark.parametrize(("uid", "container"), [("../x", "main"), (POD, "../main"), ("", "main"), (POD, "A")])
def test_names_that_no_cluster_gives_lead_nowhere(tmp_path: Path, uid: str, container: str) -> None:
    with pytest.raises(Unusable):
        folder_of(tmp_path, uid, container)
