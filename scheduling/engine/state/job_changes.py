"""The log of changed jobs, so that caches that live from cycle to cycle update only those."""

from __future__ import annotations

MAX_REMEMBERED = 100_000


class JobChanges:
    """The jobs that were added, changed or removed, or of which an allocation was added or removed.

    `number` counts the changes. An undone change is recorded as well, because a reader looks at the job
    itself.
    """

    def __init__(self) -> None:
        self.number = 0
        self._forgotten = 0
        self._last: dict[str, int] = {}

    def record_job(self, job_id: str) -> None:
        """Record that a job, or an allocation of it, changed."""
        self.number += 1
        # The entry is inserted again, so that the latest changes come last.
        self._last.pop(job_id, None)
        self._last[job_id] = self.number
        if len(self._last) > MAX_REMEMBERED:
            self._last.clear()
            self._forgotten = self.number

    def jobs_since(self, number: int) -> list[str] | None:
        """Return the jobs that changed after the first `number` changes; None if the log was cut since."""
        if number < self._forgotten:
            return None
        found: list[str] = []
        for job_id in reversed(self._last):
            if self._last[job_id] <= number:
                break
            found.append(job_id)
        return found
