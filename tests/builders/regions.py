"""Builds the file in which HAMi's library stores a container's limits, byte by byte as the library does.

The offsets are those of the C structure and are repeated here, so that a mistake in the code that reads them
cannot hide in a shared constant.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

MIB = 1 << 20
SIZE = 2_008_953


def region(
    limits_mib: Mapping[str, int],
    *,
    used_mib: Sequence[Mapping[str, int]] = (),
    magic: int = 19_920_718,
    major: int = 1,
    cards: int | None = None,
    host_pids: Sequence[int] = (),
    sm: Sequence[Mapping[str, int]] = (),
    last_kernel: int = 0,
) -> bytearray:
    """Return a region with this memory limit for each card; `used_mib` is what each process uses of it.

    `host_pids` and `sm` are each process's number on the node and its percentage of each card's SMs.
    """
    data = bytearray(SIZE)
    struct.pack_into("<iII", data, 0, magic, major, 1)
    struct.pack_into("<Q", data, 56, len(limits_mib) if cards is None else cards)
    for column, (uuid, mib) in enumerate(limits_mib.items()):
        data[64 + 96 * column : 64 + 96 * column + len(uuid)] = uuid.encode()
        struct.pack_into("<Q", data, 1600 + 8 * column, mib * MIB)
        struct.pack_into("<Q", data, 1728 + 8 * column, 30)
    for number, process in enumerate(used_mib):
        start = 1856 + 1960 * number
        host_pid = host_pids[number] if number < len(host_pids) else 4000 + number
        struct.pack_into("<ii", data, start, 100 + number, host_pid)
        for column, uuid in enumerate(limits_mib):
            struct.pack_into("<Q", data, start + 8 + 64 * column + 32, process.get(uuid, 0) * MIB)
            share = sm[number].get(uuid, 0) if number < len(sm) else 0
            struct.pack_into("<Q", data, start + 1160 + 48 * column + 16, share)
    struct.pack_into("<iiii", data, 2_008_896, len(used_mib), 1, 2, 1)
    struct.pack_into("<q", data, 2_008_912, last_kernel)
    return data


def put_region(root: Path, pod_uid: str, data: bytes | bytearray, container: str = "main") -> Path:
    """Write a region to the path where HAMi does; returns the file."""
    folder = root / f"{pod_uid}_{container}"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "0b5ef1a2-5b0c-4b83-9d0a-2a5f0f1c9c11.cache"
    file.write_bytes(data)
    return file


def limits_mib(file: Path, cards: int = 1) -> list[int]:
    """Return the memory limits in the file, in MiB, by card."""
    return [limit // MIB for limit in struct.unpack_from(f"<{cards}Q", file.read_bytes(), 1600)]
