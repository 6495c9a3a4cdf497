"""The loop over the pods of the node: all of them periodically, and each one after a change."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from telemetry.agent.api import AgentApi, Changed, Forgotten, Pod, Unavailable
from telemetry.agent.resizing.settle import settle_pod

log = logging.getLogger(__name__)
LOOK_S: Final = 30
"""Seconds between two passes over all pods."""
LOOK_SOON_S: Final = 2
"""The same while a request is unfinished."""
_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 30.0


class PodObserver(Protocol):
    """Receives the node's pods for telemetry."""

    def replace_pods(self, pods: Iterable[Pod]) -> None:
        """Replace all pods with these."""

    def put_pod(self, pod: Pod) -> None:
        """Add or replace one pod."""


@dataclass(frozen=True, slots=True)
class Agent:
    """The agent of one node; `root`: the folder in which HAMi keeps the folders of containers.

    `observer` receives every pod that is read, so that one watch serves resizing and telemetry.
    """

    api: AgentApi
    node: str
    root: Path
    observer: PodObserver | None = None

    def run(self, *, pause: Callable[[float], None]) -> None:
        """Run until the process ends; `pause` waits for so many seconds if the API does not answer."""
        pause_s = _PAUSE_S
        while True:
            try:
                self.watch_once()
                pause_s = _PAUSE_S
            except Unavailable as error:
                log.warning("%s; again in %.0f s", error, pause_s)
                pause(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def watch_once(self, *, most_s: int = LOOK_S) -> None:
        """Process every pod once, then those that change, until the next pass over all pods is due.

        Raises: Unavailable.
        """
        version, settled = self.list_once()
        seconds = most_s if settled else min(most_s, LOOK_SOON_S)
        try:
            for pod in self.api.follow_pods(self.node, version, seconds=seconds):
                if self.observer is not None:
                    self.observer.put_pod(pod)
                self._settle([pod])
        except Forgotten as error:
            log.info("watch begins anew: %s", error)

    def list_once(self) -> tuple[str, bool]:
        """Process every pod once; return the version to watch from, and whether nothing is left to do.

        Raises: Unavailable.
        """
        pods, version = self.api.list_pods(self.node)
        if self.observer is not None:
            self.observer.replace_pods(pods)
        return version, self._settle(pods)

    def _settle(self, pods: Iterable[Pod]) -> bool:
        done = True
        for pod in pods:
            try:
                done = settle_pod(self.api, self.root, pod) and done
            except Changed as error:
                log.info("looked at again: %s", error)
                done = False
        return done
