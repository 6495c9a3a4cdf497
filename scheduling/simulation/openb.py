"""Reads the openb packing traces: nodes, pods and arrival streams.

Card capacity is in thousandths of a card, as in the trace; one flavor has all nodes, and a pod that needs
certain card models has them in its request.
"""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduling.engine import WorkloadShape
from scheduling.engine.model import Device, Flavor, GpuMode, GpuRequest, Node, Request
from scheduling.simulation.errors import InputError, UsageError
from scheduling.simulation.tables import TableRow, read_table

CARD = 1000
MOST_CARDS = 64


@dataclass(frozen=True, slots=True)
class TracePod:
    """One row of a pod list. `milli` is per card."""

    name: str
    request: Request
    shape: WorkloadShape

    @property
    def milli(self) -> int:
        """The total request of the pod, in thousandths of a card."""
        return self.shape.cards * self.shape.cores


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The stream of one seed: rows of the pod list in arrival order, and the rank of each node row."""

    seed: int
    order: tuple[int, ...]
    node_rank: tuple[int, ...]


def packing_flavor(policy: str) -> Flavor:
    """Return the flavor of a packing run with a placement policy of the engine."""
    return Flavor(id="openb", card_cores=CARD, mode=GpuMode.SLICE, policy=policy)


def read_nodes(file: Path) -> list[Node]:
    """Return the nodes in file order, with empty cards.

    Raises:
        InputError: naming line and field.
    """
    rows = read_table(file, ("sn", "cpu_milli", "memory_mib", "gpu", "model"))
    nodes = [_node(row) for row in rows]
    seen: set[str] = set()
    for row, node in zip(rows, nodes, strict=True):
        if node.id in seen:
            raise row.cell_error("sn", f"{node.id} stands twice")
        seen.add(node.id)
    return nodes


def read_pods(file: Path) -> list[TracePod]:
    """Return the pods in file order.

    Raises:
        InputError: naming line and field.
    """
    return [
        _pod(row) for row in read_table(file, ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"))
    ]


def read_arrivals(file: Path, seed: int, *, pods: int, nodes: int) -> Arrivals:
    """Return the arrivals of a seed, checked against the lists that they index.

    Raises:
        InputError: when the file is damaged, lacks the seed, or does not belong to these lists.
    """
    seeds = []
    for number, text in enumerate(_lines(file), start=1):
        try:
            record = json.loads(text)
        except json.JSONDecodeError as error:
            raise InputError(f"isn't valid JSON: {error.msg}", file=file, line=number) from error
        if not isinstance(record, dict):
            raise InputError("is not a JSON object", file=file, line=number)
        seeds.append(record.get("seed"))
        if record.get("seed") == seed:
            order = _numbers(record, "order", pods, file, number)
            rank = _numbers(record, "node_rank", nodes, file, number)
            if len(rank) != nodes or len(set(rank)) != nodes:
                message = f"ranks {len(set(rank))} nodes, the node list has {nodes}"
                raise InputError(message, file=file, line=number, field="node_rank")
            return Arrivals(seed, order, rank)
    known = ", ".join(str(entry) for entry in seeds)
    raise InputError(f"has no seed {seed}; it has {known or 'none'}", file=file, field="seed")


def scale_trace(nodes: list[Node], arrivals: Arrivals, pods: int, times: int) -> tuple[list[Node], list[int]]:
    """Return ranked nodes and arrival order, with both lists repeated `times` times.

    Copy i of row r has index i·rows + r; copies arrive interleaved, and node ranks are rank·times + i.
    """
    if times < 1:
        raise UsageError(f"--scale is {times}; it is at least 1")
    ranked = [
        _copy(node, copy, arrivals.node_rank[row] * times + copy, times)
        for copy in range(times)
        for row, node in enumerate(nodes)
    ]
    order = [copy * pods + step for step in arrivals.order for copy in range(times)]
    return ranked, order


def _copy(node: Node, copy: int, rank: int, times: int) -> Node:
    name = node.id if times == 1 else f"{node.id}#{copy}"
    devices = tuple(
        Device(
            uuid=f"{name}/{device.index}",
            index=device.index,
            model=device.model,
            mode=device.mode,
            cores=CARD,
        )
        for device in node.devices
    )
    return Node(id=name, cpu=node.cpu, memory=node.memory, devices=devices, rank=rank)


def _node(row: TableRow) -> Node:
    name, model = row.read_text("sn"), row.read_text("model")
    devices = tuple(
        Device(uuid=f"{name}/{index}", index=index, model=model, mode=GpuMode.SLICE, cores=CARD)
        for index in range(row.read_whole("gpu", most=MOST_CARDS))
    )
    return Node(
        id=name, cpu=row.read_whole("cpu_milli"), memory=row.read_whole("memory_mib"), devices=devices
    )


def _pod(row: TableRow) -> TracePod:
    cpu, memory = row.read_whole("cpu_milli"), row.read_whole("memory_mib")
    cards = row.read_whole("num_gpu", most=MOST_CARDS)
    milli = min(row.read_whole("gpu_milli"), CARD) if cards else 0
    spec = row.read_text("gpu_spec", "") if cards else ""
    if cards and not milli:
        raise row.cell_error("gpu_milli", "is 0 although the pod requests GPUs")
    if cards > 1 and milli < CARD:
        raise row.cell_error("gpu_milli", f"is {milli}: only a pod with one GPU may request a part of it")
    gpu = None
    if cards:
        models = tuple(sorted({model for model in spec.split("|") if model}))
        if milli < CARD:
            gpu = GpuRequest(cards=cards, mode=GpuMode.SLICE, cores=milli, memory=0, models=models)
        else:
            gpu = GpuRequest(cards=cards, models=models)
    request = Request(cpu=cpu, memory=memory, gpu=gpu)
    return TracePod(row.read_text("name"), request, WorkloadShape(cpu, milli, cards, spec))


def _lines(file: Path) -> list[str]:
    try:
        data = file.read_bytes()
        text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        return text.decode().splitlines()
    except OSError as error:
        raise InputError(f"can't be read: {error.strerror or error}", file=file) from error
    except (EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InputError(f"is damaged: {error}", file=file) from error


def _numbers(record: dict[str, Any], field: str, below: int, file: Path, line: int) -> tuple[int, ...]:
    values = record.get(field)
    if not isinstance(values, list) or not all(type(value) is int for value in values):
        raise InputError("is not a list of whole numbers", file=file, line=line, field=field)
    wrong = next((value for value in values if not 0 <= value < below), None)
    if wrong is not None:
        message = f"{wrong} is no row of a list of {below}"
        raise InputError(message, file=file, line=line, field=field)
    return tuple(values)
