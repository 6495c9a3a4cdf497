"""The container of a task and its mounts, translated from the terms of a job file to those of Kubernetes.

The values are checked where a job file is read; here they are only translated, except for those by which a
pod would reach more of a card than it was allocated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from clusters.backends.base import GANG_FOLDER, SHARED_MEMORY, GangSpec, TaskSpec, Variable
from clusters.backends.kubernetes.client.api import Json
from clusters.gpu.reserved import (
    NO_DEVICES,
    VISIBLE_DEVICES,
    could_be_reserved,
    is_reserved_mount,
    is_reserved_variable,
    plain_path,
)

CONTAINER: Final = "main"
_FILES: Final = "allotment-files"
_SHARED_MEMORY: Final = "shared-memory"
_TOGETHER_BYTES: Final = 768 * 1024
"""The most bytes of files that share the gang's ConfigMap, which holds 1 MiB at most."""
# An image may request every card of the node by its own environment. The pod's environment overrides the
# image's, but also that of a device plugin: so in a container with cards only the plugin sets these
# variables.
_CARDLESS: Final = {VISIBLE_DEVICES: NO_DEVICES}
_TIMES: Final = {
    "delay_s": "initialDelaySeconds",
    "period_s": "periodSeconds",
    "timeout_s": "timeoutSeconds",
    "failures": "failureThreshold",
    "successes": "successThreshold",
}


class SpecInvalid(ValueError):
    """A task for which no pod can be created, with the reason."""


def build_container(spec: TaskSpec, cards: Mapping[str, str], environment: Mapping[str, str]) -> Json:
    """Build the container of a task, with the `cards` it may use and their `environment`.

    Raises: SpecInvalid.
    """
    options = spec.options
    if reserved := sorted(name for name in spec.environment if is_reserved_variable(name)):
        raise SpecInvalid(f"the environment may not set {', '.join(reserved)}")
    variables = {**spec.environment, **environment, **({} if cards else _CARDLESS)}
    found: Json = {
        "name": CONTAINER,
        "image": spec.image,
        "command": list(spec.command),
        "args": options.get("args"),
        "workingDir": options.get("working_directory"),
        "imagePullPolicy": options.get("image_pull_policy"),
        "env": [_variable(name, value) for name, value in variables.items()],
        "envFrom": [_all_of(source) for source in options.get("environment_from", ())],
        "resources": _resources(spec, cards),
        "volumeMounts": [*_mounts(spec)],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        **{f"{kind}Probe": _probe(probe) for kind, probe in options.get("probes", {}).items()},
    }
    if hook := options.get("pre_stop"):
        found["lifecycle"] = {"preStop": _action(hook)}
    return {key: value for key, value in found.items() if value}


def build_volumes(spec: TaskSpec) -> list[Json]:
    """Build the volumes of a pod: those of the job file, its shared memory, and the files of its gang."""
    found = [{"name": f"volume-{number}", **_source(one)} for number, one in enumerate(_volumes(spec))]
    if size := spec.options.get("shared_memory"):
        found.append({"name": _SHARED_MEMORY, **_source({"empty": size, "in_memory": True})})
    if spec.gang is not None and spec.gang.files:
        found += [volume for volume, _ in _of_files(spec.gang)]
    return found


def config_maps(gang: GangSpec) -> dict[str, dict[str, str]]:
    """Return the files of a gang by the name of the ConfigMap that holds them; the first owns the others.

    An attempt's files do not change in number or size while its pods run, so all pods use the same
    ConfigMaps.
    """
    if sum(map(len, gang.files.values())) <= _TOGETHER_BYTES:  # they are ASCII
        return {gang.name: dict(gang.files)}
    apart = {f"{gang.name}-{name}": {name: text} for name, text in sorted(gang.files.items())}
    return {gang.name: {}, **apart}


def _of_files(gang: GangSpec) -> Iterator[tuple[Json, Json]]:
    """Yield the volumes with a gang's files and their mounts: one folder, or each file by itself."""
    maps = config_maps(gang)
    if len(maps) == 1:
        yield _file_volume(_FILES, gang.name), {"name": _FILES, "mountPath": GANG_FOLDER, "readOnly": True}
        return
    for number, (name, files) in enumerate((name, files) for name, files in maps.items() if files):
        volume = f"{_FILES}-{number}"
        for file in files:
            mount = {"name": volume, "mountPath": f"{GANG_FOLDER}/{file}", "subPath": file, "readOnly": True}
            yield _file_volume(volume, name), mount


def _file_volume(name: str, config_map: str) -> Json:
    return {"name": name, "configMap": {"name": config_map}}


def _volumes(spec: TaskSpec) -> tuple[Mapping[str, Any], ...]:
    return tuple(spec.options.get("volumes", ()))


def _variable(name: str, value: Variable) -> Json:
    if isinstance(value, str):
        return {"name": name, "value": value}
    kind, reference = _reference(value)
    return {"name": name, "valueFrom": {f"{kind}KeyRef": {**reference, "key": value["key"]}}}


def _all_of(source: Mapping[str, Any]) -> Json:
    if could_be_reserved(source["prefix"]):
        raise SpecInvalid(f"variables may not begin with {source['prefix']!r}")
    kind, reference = _reference(source)
    return {"prefix": source["prefix"], f"{kind}Ref": reference}


def _reference(source: Mapping[str, Any]) -> tuple[str, Json]:
    """Return the kind and the name of a referenced secret or config map."""
    kind, name = ("secret", "secret") if "secret" in source else ("configMap", "config")
    return kind, {"name": source[name], **({"optional": True} if source.get("optional") else {})}


def _resources(spec: TaskSpec, cards: Mapping[str, str]) -> Json:
    """Return requests and limits: equal, unless the job file permits the task to exceed its requests."""
    asked = {"cpu": spec.cpu_millicores and f"{spec.cpu_millicores}m"}
    asked["memory"] = spec.memory_mib and f"{spec.memory_mib}Mi"
    requests = {name: str(amount) for name, amount in asked.items() if amount}
    beyond: Mapping[str, str] = spec.options.get("limits", {})
    # A limit alone would count as a request of the same size.
    requests |= {name: "0" for name in beyond if name not in requests}
    limits = {name: amount for name, amount in (requests | dict(beyond)).items() if amount != "0"}
    return {"requests": {**requests, **cards}, "limits": {**limits, **cards}}


def _mounts(spec: TaskSpec) -> Iterator[Json]:
    for number, volume in enumerate(_volumes(spec)):
        if is_reserved_mount(volume["mount"]):
            raise SpecInvalid(f"nothing may be mounted at {volume['mount']}")
        mount: Json = {"name": f"volume-{number}", "mountPath": plain_path(volume["mount"])}
        if volume.get("read_only") or "secret" in volume or "config" in volume:
            mount["readOnly"] = True
        if "sub_path" in volume:
            mount["subPath"] = volume["sub_path"]
        yield mount
    if "shared_memory" in spec.options:
        yield {"name": _SHARED_MEMORY, "mountPath": SHARED_MEMORY}
    if spec.gang is not None and spec.gang.files:
        yield from (mount for _, mount in _of_files(spec.gang))


def _source(volume: Mapping[str, Any]) -> Json:
    optional = {"optional": True} if volume.get("optional") else {}
    if "claim" in volume:
        return {"persistentVolumeClaim": {"claimName": volume["claim"]}}
    if "config" in volume:
        return {"configMap": {"name": volume["config"], **optional}}
    if "secret" in volume:
        return {"secret": {"secretName": volume["secret"], **optional}}
    medium = {"medium": "Memory"} if volume.get("in_memory") else {}
    return {"emptyDir": {"sizeLimit": volume["empty"], **medium}}


def _probe(probe: Mapping[str, Any]) -> Json:
    return {**_action(probe), **{_TIMES[key]: probe[key] for key in _TIMES if key in probe}}


def _action(said: Mapping[str, Any]) -> Json:
    if "command" in said:
        return {"exec": {"command": list(said["command"])}}
    if "http" in said:
        return {"httpGet": dict(said["http"])}
    if "tcp" in said:
        return {"tcpSocket": {"port": said["tcp"]}}
    return {"sleep": {"seconds": said["sleep_s"]}}
