"""The files in which HAMi's library keeps a container's limits, read and written from outside the container.

Layout, major version 1, as of HAMi 2.7.1 to 2.10: little endian, of fixed size, sixteen columns of cards.
The library looks at `limit` on every allocation, so a changed number holds from the next one on.

The folder is mounted writable into the container, so whatever lies there may be the doing of a tenant. No
link is followed, nothing is made or made longer, and a file that is not exactly what is known is left alone.
It is read and written by calls and not by a mapping: a mapped file that its owner cuts short would end this
program.
"""

from __future__ import annotations

import os
import re
import stat
import struct
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from errno import ELOOP, ENOENT, ENOTDIR, ENXIO
from pathlib import Path
from typing import Final

MIB: Final = 1 << 20
MAGIC: Final = 19_920_718
MAJOR: Final = 1
SIZES: Final = (2_008_952, 2_008_953)
"""Of the structure; the library makes its file one byte longer."""
CARDS_MOST: Final = 16
_MAJOR, _CARDS, _UUIDS, _LIMITS = 4, 56, 64, 1600
_UUID_BYTES: Final = 96
_PROCESSES, _PROCESS_BYTES, _USED, _USED_BYTES = 1856, 1960, 40, 64
_HOST_PID, _SM, _SM_BYTES = 4, 1176, 48
_PROCESS_COUNT, _PROCESSES_MOST, _LAST_KERNEL = 2_008_896, 1024, 2_008_912
_FILE: Final = ".cache"
_FLAGS: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_POD: Final = re.compile(r"[0-9A-Za-z-]{1,64}")
_CONTAINER: Final = re.compile(r"[0-9a-z]([-0-9a-z]{0,61}[0-9a-z])?")


class NotReady(Exception):
    """It is being written, or went away meanwhile: the next look may find it."""


class Absent(Exception):
    """There is no such file: no process of the container has used a card yet."""


class Unusable(Exception):
    """Not what is known, so it is not touched; the message says what is wrong."""


@dataclass(frozen=True, slots=True)
class RegionProcess:
    """One process in a file: memory in bytes and SM utilization in percent, by the uuid of the card.

    `host_pid` is 0 where the library does not know it.
    """

    host_pid: int
    used: Mapping[str, int]
    sm: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Region:
    """One file: bytes by the uuid of the card; a limit of 0 is none.

    `last_kernel`: the time at which a kernel was last started, in seconds since 1970, 0 for never.
    """

    name: str
    limits: Mapping[str, int]
    processes: tuple[RegionProcess, ...] = ()
    last_kernel: int = 0

    @property
    def used(self) -> Mapping[str, int]:
        """The memory that all processes together say they use."""
        return {uuid: sum(process.used[uuid] for process in self.processes) for uuid in self.limits}


def folder_of(root: Path, pod_uid: str, container: str) -> Path:
    """Return the folder of a container's files. Raises: Unusable for names that no cluster gives."""
    if not _POD.fullmatch(pod_uid) or not _CONTAINER.fullmatch(container):
        raise Unusable(f"{pod_uid!r} and {container!r} name no container")
    return root / f"{pod_uid}_{container}"


def read_regions(folder: Path) -> list[Region]:
    """All files of a container. Raises: Absent, NotReady, Unusable."""
    with _opened(folder, os.O_RDONLY) as files:
        return [_region(name, file) for name, file in files.items()]


def write_limits(folder: Path, memory_mib: Mapping[str, int]) -> None:
    """Set the limits of exactly these cards, in every file of a container, and read them back.

    All files are looked at before the first is written.
    Raises: Absent, NotReady, Unusable.
    """
    with _opened(folder, os.O_RDWR) as files:
        places = {file: _places(name, file, memory_mib) for name, file in files.items()}
        for file, limits in places.items():
            for offset, limit in limits.items():
                if os.pwrite(file, struct.pack("<Q", limit), offset) != struct.calcsize("<Q"):
                    raise NotReady("a limit was written in part")
        for name, file in files.items():
            _check_kind(name, file)
            if any(_number("Q", file, offset) != limit for offset, limit in places[file].items()):
                raise NotReady(f"{name} does not say what was written")


@contextmanager
def _opened(folder: Path, access: int) -> Iterator[dict[str, int]]:
    """Descriptors of the files by name, each of the known kind."""
    with ExitStack() as stack:
        try:
            place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise Absent(f"there is no {folder.name}") from error
        except OSError as error:
            raise _open_failure(folder.name, error) from error
        stack.callback(os.close, place)
        files: dict[str, int] = {}
        names = os.listdir(place)  # noqa: PTH208 (of the folder that was opened: its path may lead elsewhere)
        for name in sorted(item for item in names if item.endswith(_FILE)):
            try:
                files[name] = os.open(name, _FLAGS | access, dir_fd=place)
            except OSError as error:
                raise _open_failure(name, error) from error
            stack.callback(os.close, files[name])
            _check_kind(name, files[name])
            _check_head(name, files[name])
        if not files:
            raise Absent(f"there is no file of limits in {folder.name}")
        yield files


def _open_failure(name: str, error: OSError) -> Exception:
    if error.errno == ENOENT:
        return NotReady(f"{name} went away")
    if error.errno in (ELOOP, ENOTDIR, ENXIO):
        return Unusable(f"{name} is a link or no file")
    return Unusable(f"{name} cannot be opened: {error.strerror}")


def _check_kind(name: str, file: int) -> None:
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode):
        raise Unusable(f"{name} is a link or no file")
    if found.st_nlink == 0:
        raise NotReady(f"{name} went away")
    if found.st_nlink > 1:
        raise Unusable(f"{name} has a second name, perhaps outside of its container")
    if found.st_size < min(SIZES):
        raise NotReady(f"{name} has {found.st_size} bytes and is not complete yet")
    if found.st_size not in SIZES:
        raise Unusable(f"{name} has {found.st_size} bytes, which is no known layout")


def _check_head(name: str, file: int) -> None:
    magic, major, cards = _number("i", file, 0), _number("I", file, _MAJOR), _number("Q", file, _CARDS)
    if magic == 0:
        raise NotReady(f"{name} is not complete yet")
    if magic != MAGIC or major != MAJOR:
        raise Unusable(f"{name} has the mark {magic} and version {major}, which is no known layout")
    if not 1 <= cards <= CARDS_MOST:
        raise Unusable(f"{name} claims {cards} cards")


def _region(name: str, file: int) -> Region:
    uuids = _uuids(name, file)
    count = max(0, min(_number("i", file, _PROCESS_COUNT), _PROCESSES_MOST))
    data = _bytes(file, count * _PROCESS_BYTES, _PROCESSES)
    processes = tuple(_process(data, number * _PROCESS_BYTES, uuids) for number in range(count))
    limits = struct.unpack(f"<{len(uuids)}Q", _bytes(file, 8 * len(uuids), _LIMITS))
    return Region(name, dict(zip(uuids, limits, strict=True)), processes, _number("q", file, _LAST_KERNEL))


def _process(data: bytes, start: int, uuids: list[str]) -> RegionProcess:
    (host_pid,) = struct.unpack_from("<i", data, start + _HOST_PID)
    used, sm = {}, {}
    for column, uuid in enumerate(uuids):
        (used[uuid],) = struct.unpack_from("<Q", data, start + _USED + column * _USED_BYTES)
        (sm[uuid],) = struct.unpack_from("<Q", data, start + _SM + column * _SM_BYTES)
    return RegionProcess(host_pid, used, sm)


def _uuids(name: str, file: int) -> list[str]:
    """The cards in the order of their columns."""
    cards = _number("Q", file, _CARDS)
    if not 1 <= cards <= CARDS_MOST:  # it was looked at before, and may have changed since
        raise Unusable(f"{name} claims {cards} cards")
    data = _bytes(file, cards * _UUID_BYTES, _UUIDS)
    texts = [data[start : start + _UUID_BYTES] for start in range(0, cards * _UUID_BYTES, _UUID_BYTES)]
    uuids = [text.split(b"\0")[0].decode("ascii", "replace") for text in texts]
    if not all(uuids) or len(set(uuids)) < len(uuids):
        raise Unusable(f"{name} does not name each of its cards once")
    return uuids


def _places(name: str, file: int, memory_mib: Mapping[str, int]) -> dict[int, int]:
    """Return the number of bytes to write at each offset."""
    uuids = _uuids(name, file)
    if missing := sorted(memory_mib.keys() - set(uuids)):
        raise Unusable(f"{name} knows no card {missing[0]}")
    return {_LIMITS + 8 * uuids.index(uuid): mib * MIB for uuid, mib in sorted(memory_mib.items())}


def _number(kind: str, file: int, offset: int) -> int:
    (number,) = struct.unpack(f"<{kind}", _bytes(file, struct.calcsize(f"<{kind}"), offset))
    return int(number)


def _bytes(file: int, size: int, offset: int) -> bytes:
    data = os.pread(file, size, offset)
    if len(data) < size:
        raise NotReady("a file was cut short")
    return data
