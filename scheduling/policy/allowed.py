"""Fields of a job file whose values a policy may restrict to those that it lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from django.utils.translation import gettext as _

from scheduling.job_file import JobSpec
from scheduling.job_file.volumes import SOURCES as VOLUMES

Value = tuple[str, str]
"""(path in the job file, value as text)."""


def _one(name: str, read: Callable[[JobSpec], str | None]) -> Callable[[JobSpec], Iterator[Value]]:
    def values(spec: JobSpec) -> Iterator[Value]:
        found = read(spec)
        if found:
            yield name, found

    return values


def _of_cards(name: str, read: Callable[[Any], Iterator[str]]) -> Callable[[JobSpec], Iterator[Value]]:
    def values(spec: JobSpec) -> Iterator[Value]:
        for index, role in enumerate(spec.roles):
            if role.gpu is not None:
                for found in read(role.gpu):
                    yield f"roles.{index}.resources.gpu.{name}", found

    return values


def _parts(spec: JobSpec) -> Iterator[Value]:
    return ((f"placement.{name}", name) for name in spec.placement)


def _selector(spec: JobSpec) -> Iterator[Value]:
    labels: Mapping[str, str] = spec.placement.get("node_selector", {})
    return ((f"placement.node_selector.{key}", f"{key}={value}") for key, value in labels.items())


def _tolerations(spec: JobSpec) -> Iterator[Value]:
    for index, item in enumerate(spec.placement.get("tolerations", ())):
        yield f"placement.tolerations.{index}.key", item.get("key", "*")


def _level(spec: JobSpec) -> str | None:
    topology: Mapping[str, str] = spec.placement.get("topology", {})
    return topology.get("level")


def _volumes(spec: JobSpec) -> Iterator[Value]:
    for index, volume in enumerate(spec.volumes):
        yield from ((f"volumes.{index}", kind) for kind in VOLUMES if kind in volume)


def _named_volumes(kind: str) -> Callable[[JobSpec], Iterator[Value]]:
    def values(spec: JobSpec) -> Iterator[Value]:
        for index, volume in enumerate(spec.volumes):
            if kind in volume:
                yield f"volumes.{index}.{kind}", volume[kind]

    return values


def _variables_from(kind: str) -> Callable[[JobSpec], Iterator[Value]]:
    def values(spec: JobSpec) -> Iterator[Value]:
        for name, value in spec.environment.items():
            if not isinstance(value, str) and kind in value:
                yield f"environment.{name}.{kind}", value[kind]
        for index, source in enumerate(spec.runtime.get("environment_from", ())):
            if kind in source:
                yield f"environment_from.{index}.{kind}", source[kind]

    return values


def _pull_secrets(spec: JobSpec) -> Iterator[Value]:
    names = enumerate(spec.runtime.get("image_pull_secrets", ()))
    return ((f"image_pull_secrets.{index}", name) for index, name in names)


def _pull_policies(spec: JobSpec) -> Iterator[Value]:
    for index, role in enumerate(spec.roles):
        if policy := role.container.get("image_pull_policy"):
            yield f"roles.{index}.image_pull_policy", policy


def _user(spec: JobSpec) -> str | None:
    return str(spec.runtime.get("security", {}).get("run_as_user", "")) or None


CHOICES: Final[Mapping[str, Callable[[JobSpec], Iterator[Value]]]] = {
    "kind": _one("kind", lambda spec: str(spec.kind)),
    "queue": _one("queue", lambda spec: spec.queue),
    "priority_class": _one("priority_class", lambda spec: spec.priority_class),
    "roles.resources.gpu.mode": _of_cards("mode", lambda gpu: iter([str(gpu.mode)])),
    "roles.resources.gpu.model": _of_cards("model", lambda gpu: iter(gpu.models)),
    "roles.image_pull_policy": _pull_policies,
    "image_pull_secrets": _pull_secrets,
    "security.run_as_user": _one("security.run_as_user", _user),
    "environment.secret": _variables_from("secret"),
    "environment.config": _variables_from("config"),
    "volumes": _volumes,
    "volumes.claim": _named_volumes("claim"),
    "volumes.config": _named_volumes("config"),
    "volumes.secret": _named_volumes("secret"),
    "placement": _parts,
    "placement.node_name": _one("placement.node_name", lambda spec: spec.placement.get("node_name")),
    "placement.node_selector": _selector,
    "placement.tolerations": _tolerations,
    "placement.topology.level": _one("placement.topology.level", _level),
}
"""By name, the values of a job there. What a job does not name is no value: it is left to the engine.

`placement` is which of its parts a job may name at all, `volumes` which kinds of them it may have;
labels of nodes are written `label=value`.
"""


def unknown_choice() -> str:
    """The sentence for a name that is none of `CHOICES`."""
    return _("A policy cannot list values of this; it lists those of: %(known)s") % {
        "known": ", ".join(CHOICES)
    }
