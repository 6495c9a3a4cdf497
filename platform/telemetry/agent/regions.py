"""The files in which HAMi's library keeps a container's limits, read and written from outside the container.

Layout, major version 1, as of HAMi 2.7.1 to 2.10: little endian, of fixed size, sixteen columns of cards. The
library reads `limit` on every allocation, so a changed limit applies from the next allocation on.

The folder is mounted writable into the container, so a tenant may have changed anything in it. No link is
followed, no file is created or extended, and a file that does not match the known layout exactly is left
alone. Files are read and written by system calls and not mapped: truncating a mapped file would end this
program. The number of files and names is bounded, files are read one after another, and of their processes
only sums are kept: a container cannot make this program use much memory or many descriptors.
"""

from __future__ import annotations

import os
import re
import stat
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from errno import ELOOP, ENOENT, ENOTDIR, ENXIO
from pathlib import Path
from typing import Final

MIB: Final = 1 << 20
MAGIC: Final = 19_920_718
MAJOR: Final = 1
SIZES: Final = (2_008_952, 2_008_953)
"""The size of the structure; the library makes its file one byte longer."""
CARDS_MOST: Final = 16
FILES_MOST: Final = 16
"""The most files of limits in one folder; the library makes one for each container."""
NAMES_MOST: Final = 1024
"""The most names in one folder, of any kind."""
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
    """The file is being written, or was removed meanwhile: the next read may succeed."""


class Absent(Exception):
    """There is no file: no process of the container has used a card yet."""


class Unusable(Exception):
    """The file does not match the known layout, so it is not touched; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class Region:
    """One file, by the uuid of the card: limits in bytes, where 0 is none, and the sums over its processes.

    `used` is memory in bytes, `sm` SM utilization in percent of each process, added up.
    `last_kernel`: the time at which a kernel was last started, in seconds since 1970, 0 for never.
    """

    name: str
    limits: Mapping[str, int]
    used: Mapping[str, int]
    sm: Mapping[str, int]
    last_kernel: int = 0


def _count_all(_host_pid: int) -> bool:
    return True


def folder_of(root: Path, pod_uid: str, container: str) -> Path:
    """Return the folder of a container's files. Raises: Unusable for names that no cluster assigns."""
    if not _POD.fullmatch(pod_uid) or not _CONTAINER.fullmatch(container):
        raise Unusable(f"{pod_uid!r} and {container!r} name no container")
    return root / f"{pod_uid}_{container}"


def read_regions(folder: Path, counts: Callable[[int], bool] = _count_all) -> list[Region]:
    """Read all files of a container.

    `counts` returns whether a process is part of the sums, by its pid on the host, which is 0 if the library
    does not know it. Raises: Absent, NotReady, Unusable.
    """
    found = []
    with _open_folder(folder) as place:
        for name in _list_names(place, folder.name):
            with _open_file(place, name, os.O_RDONLY) as file:
                found.append(_region(name, file, counts))
    return found


def write_limits(folder: Path, memory_mib: Mapping[str, int]) -> None:
    """Set the limits of exactly these cards, in every file of a container, and read them back.

    All files are checked before the first is written.
    Raises: Absent, NotReady, Unusable.
    """
    with ExitStack() as stack:
        place = stack.enter_context(_open_folder(folder))
        names = _list_names(place, folder.name)
        files = {name: stack.enter_context(_open_file(place, name, os.O_RDWR)) for name in names}
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
def _open_folder(folder: Path) -> Iterator[int]:
    try:
        place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise Absent(f"{folder.name} not found") from error
    except OSError as error:
        raise _open_failure(folder.name, error) from error
    try:
        yield place
    finally:
        os.close(place)


def _list_names(place: int, folder: str) -> list[str]:
    """Return the sorted names of the files of limits. Raises: Absent; Unusable for too many names."""
    names = []
    with os.scandir(place) as entries:  # by descriptor: its path may lead elsewhere now
        for number, entry in enumerate(entries, start=1):
            if entry.name.endswith(_FILE):
                names.append(entry.name)
            if len(names) > FILES_MOST:
                raise Unusable(f"{folder} has more than {FILES_MOST} files of limits")
            if number > NAMES_MOST:
                raise Unusable(f"{folder} has more than {NAMES_MOST} files")
    if not names:
        raise Absent(f"file of limits not found in {folder}")
    return sorted(names)


@contextmanager
def _open_file(place: int, name: str, access: int) -> Iterator[int]:
    """Open a file of the known kind and yield its descriptor."""
    try:
        file = os.open(name, _FLAGS | access, dir_fd=place)
    except OSError as error:
        raise _open_failure(name, error) from error
    try:
        _check_kind(name, file)
        _check_head(name, file)
        yield file
    finally:
        os.close(file)


def _open_failure(name: str, error: OSError) -> Exception:
    if error.errno == ENOENT:
        return NotReady(f"{name} went away")
    if error.errno in (ELOOP, ENOTDIR, ENXIO):
        return Unusable(f"{name} is a link or no file")
    return Unusable(f"{name} can't be opened: {error.strerror}")


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
        raise Unusable(f"{name} claims {cards} GPUs")


def _region(name: str, file: int, counts: Callable[[int], bool]) -> Region:
    uuids = _uuids(name, file)
    limits = struct.unpack(f"<{len(uuids)}Q", _bytes(file, 8 * len(uuids), _LIMITS))
    used, sm = dict.fromkeys(uuids, 0), dict.fromkeys(uuids, 0)
    count = max(0, min(_number("i", file, _PROCESS_COUNT), _PROCESSES_MOST))
    for number in range(count):
        data = _bytes(file, _PROCESS_BYTES, _PROCESSES + number * _PROCESS_BYTES)
        (host_pid,) = struct.unpack_from("<i", data, _HOST_PID)
        if not counts(host_pid):
            continue
        for column, uuid in enumerate(uuids):
            used[uuid] += struct.unpack_from("<Q", data, _USED + column * _USED_BYTES)[0]
            sm[uuid] += struct.unpack_from("<Q", data, _SM + column * _SM_BYTES)[0]
    last_kernel = _number("q", file, _LAST_KERNEL)
    return Region(name, dict(zip(uuids, limits, strict=True)), used, sm, last_kernel)


def _uuids(name: str, file: int) -> list[str]:
    """Return the cards in the order of their columns."""
    cards = _number("Q", file, _CARDS)
    if not 1 <= cards <= CARDS_MOST:  # checked before, but it may have changed since
        raise Unusable(f"{name} claims {cards} GPUs")
    data = _bytes(file, cards * _UUID_BYTES, _UUIDS)
    texts = [data[start : start + _UUID_BYTES] for start in range(0, cards * _UUID_BYTES, _UUID_BYTES)]
    uuids = [text.split(b"\0")[0].decode("ascii", "replace") for text in texts]
    if not all(uuids) or len(set(uuids)) < len(uuids):
        raise Unusable(f"{name} does not name each of its GPUs once")
    return uuids


def _places(name: str, file: int, memory_mib: Mapping[str, int]) -> dict[int, int]:
    """Return the number of bytes to write at each offset."""
    uuids = _uuids(name, file)
    if missing := sorted(memory_mib.keys() - set(uuids)):
        raise Unusable(f"{name} has no GPU {missing[0]}")
    return {_LIMITS + 8 * uuids.index(uuid): mib * MIB for uuid, mib in sorted(memory_mib.items())}


def _number(kind: str, file: int, offset: int) -> int:
    (number,) = struct.unpack(f"<{kind}", _bytes(file, struct.calcsize(f"<{kind}"), offset))
    return int(number)


def _bytes(file: int, size: int, offset: int) -> bytes:
    data = os.pread(file, size, offset)
    if len(data) < size:
        raise NotReady("a file was cut short")
    return data
