"""The GPUs of the node as NVML enumerates them: names, bus addresses, NVLinks, MIG instances."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from typing import Any, Final

import pynvml

from telemetry.agent.nvml.calls import SYSTEM, Calls, DeviceDown

MIB: Final = 1 << 20
PCI_DEVICES: Final = Path("/sys/bus/pci/devices")
_KINDS: Final = {
    pynvml.NVML_TOPOLOGY_INTERNAL: "same-board",
    pynvml.NVML_TOPOLOGY_SINGLE: "single-switch",
    pynvml.NVML_TOPOLOGY_MULTIPLE: "multiple-switch",
    pynvml.NVML_TOPOLOGY_HOSTBRIDGE: "host-bridge",
    pynvml.NVML_TOPOLOGY_NODE: "same-cpu",
    pynvml.NVML_TOPOLOGY_SYSTEM: "system",
}
_NVLINK: Final = "nvlink"
_LINKS_MOST: Final = pynvml.NVML_NVLINK_MAX_LINKS


@dataclass(slots=True)
class Instance:
    """A MIG instance. `gpu` and `compute`: its ids on the device."""

    uuid: str
    handle: Any
    gpu: int
    compute: int


@dataclass(slots=True)
class NvmlDevice:
    """A GPU that answers. `links`: its active NVLinks with the bus id of the other end, "" for a switch."""

    uuid: str
    index: int
    handle: Any
    bus_id: str = ""
    mig_enabled: bool = False
    links: dict[int, str] = field(default_factory=dict)
    instances: list[Instance] = field(default_factory=list)


def enumerate_devices(calls: Calls, skip: frozenset[int]) -> tuple[list[NvmlDevice], dict[int, str]]:
    """Return the GPUs that answer, and the problems of others by index. `skip`: GPUs that are not called.

    Raises: DriverReplaced.
    """
    devices, down = [], {}
    for index in range(calls.call(SYSTEM, "nvmlDeviceGetCount") or 0):
        if index in skip:
            continue
        try:
            device = _open_device(calls, index)
        except DeviceDown as error:
            down[index] = error.kind
        else:
            if device is None:
                down[index] = "lost"
            else:
                devices.append(device)
    return devices, down


def _open_device(calls: Calls, index: int) -> NvmlDevice | None:
    place = f"#{index}"
    handle = calls.call(place, "nvmlDeviceGetHandleByIndex", index)
    uuid = None if handle is None else calls.call(place, "nvmlDeviceGetUUID", handle)
    if handle is None or not uuid:
        return None
    device = NvmlDevice(uuid, index, handle)
    pci = calls.call(uuid, "nvmlDeviceGetPciInfo", handle)
    device.bus_id = _bus_id(pci)
    device.links = _read_links(calls, device)
    refresh_instances(calls, device)
    return device


def refresh_instances(calls: Calls, device: NvmlDevice) -> bool:
    """Read the MIG instances of a device again; return whether they have changed.

    Raises: DeviceDown, DriverReplaced.
    """
    mode = calls.call(device.uuid, "nvmlDeviceGetMigMode", device.handle)
    enabled = bool(mode and mode[0] == 1)
    instances = _read_instances(calls, device) if enabled else []
    before = (device.mig_enabled, [each.uuid for each in device.instances])
    device.mig_enabled, device.instances = enabled, instances
    return before != (enabled, [each.uuid for each in instances])


def describe_inventory(calls: Calls, devices: list[NvmlDevice]) -> dict[str, Any]:
    """Return the inventory as it is sent to the platform. Raises: DeviceDown, DriverReplaced."""
    cuda = calls.call(SYSTEM, "nvmlSystemGetCudaDriverVersion_v2") or 0
    rows = []
    for device in devices:
        rows.append(_describe_device(calls, device))
        rows.extend(_describe_instance(calls, device, place) for place in range(len(device.instances)))
    links = _describe_links(calls, devices)
    for row in rows:
        row["links"] = links.get(row["uuid"], [])
    return {
        "driver": calls.call(SYSTEM, "nvmlSystemGetDriverVersion") or "",
        "nvml": calls.call(SYSTEM, "nvmlSystemGetNVMLVersion") or "",
        "cuda": f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else "",
        "devices": rows,
    }


def _describe_device(calls: Calls, device: NvmlDevice) -> dict[str, Any]:
    uuid, handle = device.uuid, device.handle
    return {
        "uuid": uuid,
        "name": calls.call(uuid, "nvmlDeviceGetName", handle) or "",
        "serial": calls.call(uuid, "nvmlDeviceGetSerial", handle) or "",
        "index": device.index,
        "minor": calls.call(uuid, "nvmlDeviceGetMinorNumber", handle),
        "pci_bus_id": device.bus_id,
        "numa_node": _numa_node(calls, device),
        "memory_mib": _memory_mib(calls, uuid, handle),
        "mig_enabled": device.mig_enabled,
        "parent": None,
    }


def _numa_node(calls: Calls, device: NvmlDevice) -> int | None:
    """Return the driver's NUMA node, which few machines have, or else the kernel's (-1: unknown)."""
    node = calls.call(device.uuid, "nvmlDeviceGetNumaNodeId", device.handle)
    if node is not None:
        return int(node)
    try:
        # The kernel writes the domain of the bus with four digits, NVML with eight.
        found = int((PCI_DEVICES / device.bus_id[4:] / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return found if found >= 0 else None


def _describe_instance(calls: Calls, device: NvmlDevice, place: int) -> dict[str, Any]:
    instance = device.instances[place]
    return {
        "uuid": instance.uuid,
        "name": calls.call(instance.uuid, "nvmlDeviceGetName", instance.handle) or "",
        "serial": "",
        "index": place,
        "minor": None,
        "pci_bus_id": device.bus_id,
        "numa_node": None,
        "memory_mib": _memory_mib(calls, instance.uuid, instance.handle),
        "mig_enabled": False,
        "parent": device.uuid,
    }


def _memory_mib(calls: Calls, uuid: str, handle: Any) -> int | None:
    memory = calls.call(uuid, "nvmlDeviceGetMemoryInfo", handle, 0x02000028, key="memory of version 2")
    if memory is None:
        memory = calls.call(uuid, "nvmlDeviceGetMemoryInfo", handle, key="memory of version 1")
    return None if memory is None else int(memory.total // MIB)


def _read_instances(calls: Calls, device: NvmlDevice) -> list[Instance]:
    found = []
    for place in range(calls.call(device.uuid, "nvmlDeviceGetMaxMigDeviceCount", device.handle) or 0):
        handle = calls.call(device.uuid, "nvmlDeviceGetMigDeviceHandleByIndex", device.handle, place)
        if handle is None:
            continue
        uuid, gpu, compute = (
            calls.call(device.uuid, name, handle, key=f"instance {name}")
            for name in ("nvmlDeviceGetUUID", "nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetComputeInstanceId")
        )
        if uuid is not None and gpu is not None and compute is not None:
            found.append(Instance(uuid, handle, gpu, compute))
    return found


def _read_links(calls: Calls, device: NvmlDevice) -> dict[int, str]:
    """Return the active NVLinks. The first link without a state is the one after the last."""
    found = {}
    for link in range(_LINKS_MOST):
        state = calls.call(device.uuid, "nvmlDeviceGetNvLinkState", device.handle, link, key=f"link {link}")
        if state is None:
            break
        if state == 1:
            pci = calls.call(
                device.uuid, "nvmlDeviceGetNvLinkRemotePciInfo", device.handle, link, key=f"remote of {link}"
            )
            found[link] = _bus_id(pci)
    return found


def _describe_links(calls: Calls, devices: list[NvmlDevice]) -> dict[str, list[dict[str, Any]]]:
    """Return the links of each GPU to each other one: the level of the bus, and NVLinks if any."""
    gpus = {device.bus_id for device in devices}
    rows: dict[str, list[dict[str, Any]]] = {device.uuid: [] for device in devices}
    for one, other in permutations(devices, 2):
        level = calls.call(
            one.uuid,
            "nvmlDeviceGetTopologyCommonAncestor",
            one.handle,
            other.handle,
            key=f"common ancestor with {other.uuid}",
        )
        if level in _KINDS:
            rows[one.uuid].append({"to": other.uuid, "kind": _KINDS[level], "count": 1})
        direct = sum(1 for bus_id in one.links.values() if bus_id and bus_id == other.bus_id)
        # Links that end at no GPU of the node end at a switch, which connects all GPUs with such links.
        switched = min(sum(1 for bus_id in end.links.values() if bus_id not in gpus) for end in (one, other))
        if direct + switched:
            rows[one.uuid].append({"to": other.uuid, "kind": _NVLINK, "count": direct + switched})
    return rows


def _bus_id(pci: Any) -> str:
    if pci is None:
        return ""
    text = pci.busId
    return (text.decode("ascii", "replace") if isinstance(text, bytes) else str(text)).lower()
