"""The API as Python methods. Every method raises `Problem` if the server refuses."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self, cast
from urllib.parse import quote

import httpx

from allotment_client import events
from allotment_client.config import Configuration
from allotment_client.errors import DeadlineExceeded
from allotment_client.shapes import Explanation, Job, JobEvent, LogLine, QuotaRow
from allotment_client.transport import Sleep, Transport

ENDED: Final = ("succeeded", "failed", "cancelled")
_PAGE: Final = 200
_LOOK_EVERY_S: Final = 2.0


class Client:
    """One server with one key. Use it in one thread, as a context manager."""

    def __init__(
        self,
        configuration: Configuration,
        *,
        sleep: Sleep = time.sleep,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._sleep = sleep
        self._api = Transport(configuration, sleep=sleep, transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._api.close()

    def me(self) -> dict[str, Any]:
        """Return the account that the key belongs to."""
        return cast(dict[str, Any], self._api.send_request("GET", "me").body)

    def submit(
        self,
        workspace: str,
        job: Mapping[str, Any] | str,
        *,
        dry_run: bool = False,
        idempotency_key: str = "",
    ) -> Job:
        """Submit a job file, as a mapping or as the text of YAML; with `dry_run` only return what it would
        do.

        The request carries an Idempotency-Key, given or new: if it is sent again with the same key within a
        day, even by another process, the stored response is returned and no second job is created.
        """
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        answer = self._api.send_request(
            "POST",
            f"{_place(workspace)}/jobs",
            query={"dry_run": "true"} if dry_run else None,
            body=job,
            headers=headers,
        )
        return cast(Job, answer.body)

    def jobs(
        self,
        workspace: str,
        *,
        states: tuple[str, ...] = (),
        queue: str = "",
        mine: bool = False,
        tags: tuple[str, ...] = (),
        sort: str = "",
        limit: int | None = None,
    ) -> Iterator[Job]:
        """Yield jobs, newest first unless sorted otherwise, page by page as they are read; at most `limit`.

        With `tags`, only jobs that have all of them.
        """
        words = {"queue": queue, "sort": sort}
        return self._jobs(f"{_place(workspace)}/jobs", words, states, mine, tags, limit)

    def all_jobs(
        self,
        *,
        tenant: str = "",
        states: tuple[str, ...] = (),
        queue: str = "",
        mine: bool = False,
        tags: tuple[str, ...] = (),
        sort: str = "",
        limit: int | None = None,
    ) -> Iterator[Job]:
        """Yield jobs of all workspaces above which the caller has a role, like `jobs`; `tenant` is the ID of
        one workspace, or of a folder with everything in it.
        """
        words = {"tenant": tenant, "queue": queue, "sort": sort}
        return self._jobs("admin/jobs", words, states, mine, tags, limit)

    def _jobs(
        self,
        path: str,
        words: Mapping[str, str],
        states: tuple[str, ...],
        mine: bool,
        tags: tuple[str, ...],
        limit: int | None,
    ) -> Iterator[Job]:
        query: dict[str, Any] = {"limit": min(limit or _PAGE, _PAGE)}
        query |= {name: value for name, value in words.items() if value}
        query |= {"state": list(states)} if states else {}
        query |= {"mine": "true"} if mine else {}
        query |= {"filterBy": [f"tags=={tag}" for tag in tags]} if tags else {}
        left = limit
        while True:
            page = self._api.send_request("GET", path, query=query).body
            for job in page["items"] if left is None else page["items"][:left]:
                yield cast(Job, job)
            left = None if left is None else left - len(page["items"])
            if page["next"] is None or (left is not None and left <= 0):
                return
            query["cursor"] = page["next"]

    def job(self, workspace: str, job: str) -> Job:
        """Return one job by id or name, with its specification."""
        return cast(Job, self._api.send_request("GET", _job(workspace, job)).body)

    def explain(self, workspace: str, job: str) -> Explanation:
        """Return the state of a job, why it is pending, and the engine's decisions about it."""
        return cast(Explanation, self._api.send_request("GET", f"{_job(workspace, job)}/explain").body)

    def cancel(self, workspace: str, job: str) -> Job:
        """Cancel a job."""
        return cast(Job, self._api.send_request("POST", f"{_job(workspace, job)}/cancel").body)

    def change_tags(
        self, workspace: str, job: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()
    ) -> Job:
        """Add tags to a job and remove others."""
        body = {"add": list(add), "remove": list(remove)}
        return cast(Job, self._api.send_request("POST", f"{_job(workspace, job)}/tags", body=body).body)

    def quota(self, workspace: str) -> list[QuotaRow]:
        """Return what the workspace and its queues have, reserve, borrow and could still get."""
        found: list[QuotaRow] = []
        while True:
            query = {"limit": _PAGE, "offset": len(found)}
            page = self._api.send_request("GET", f"{_place(workspace)}/quota", query=query).body
            found += page["items"]
            if page["next"] is None:
                return found

    def logs(
        self,
        workspace: str,
        job: str,
        *,
        task: str = "",
        attempt: int | None = None,
        since: str = "",
        limit: int = 500,
    ) -> list[LogLine]:
        """Return the last lines that the job's tasks printed, by time; `task` is `<role>-<index>`."""
        query: dict[str, Any] = {"limit": limit}
        query |= {name: value for name, value in (("task", task), ("since", since)) if value}
        query |= {"attempt": attempt} if attempt is not None else {}
        page = self._api.send_request("GET", f"{_job(workspace, job)}/logs", query=query).body
        return cast(list[LogLine], page["items"])

    def follow_logs(self, workspace: str, job: str, *, task: str = "", limit: int = 100) -> Iterator[LogLine]:
        """Yield lines as they come, until the job has ended."""
        since = ""
        while True:
            # The state is read first, so that lines printed before the end are still read afterwards.
            ended = self.job(workspace, job)["state"] in ENDED
            lines = self.logs(workspace, job, task=task, since=since, limit=5000 if since else limit)
            yield from lines
            since = max((line["at"] for line in lines if line["at"]), default=since)
            if ended:
                return
            self._sleep(_LOOK_EVERY_S)

    def watch(
        self, workspace: str, *, after: int | None = None, until: float | None = None
    ) -> Iterator[JobEvent]:
        """Yield events of the workspace's jobs as they happen, without gaps, until `until`
        (`time.monotonic`).
        """
        return events.job_events(self._api, workspace, after=after, until=until, sleep=self._sleep)

    def wait(self, workspace: str, job: str, *, deadline_s: float | None = None) -> Job:
        """Wait until a job has ended; return its final state.

        Raises: DeadlineExceeded with the last state.
        """
        until = None if deadline_s is None else time.monotonic() + deadline_s
        # The id is used, because the name is free again once the job has ended.
        job = self.job(workspace, job)["id"]
        while True:
            found = self.job(workspace, job)
            if found["state"] in ENDED:
                return found
            if until is not None and time.monotonic() >= until:
                message = f"{found['name']} is {found['state']} after {deadline_s:g} s."
                raise DeadlineExceeded(message, found["state"])
            left = _LOOK_EVERY_S if until is None else max(0.0, until - time.monotonic())
            self._sleep(min(_LOOK_EVERY_S, left))


def _place(workspace: str) -> str:
    return f"workspaces/{quote(workspace, safe='')}"


def _job(workspace: str, job: str) -> str:
    return f"{_place(workspace)}/jobs/{quote(job, safe='')}"
