"""Which jobs changed, so that what is kept from cycle to cycle has to follow only those."""

from __future__ import annotations

REMEMBERED = 100_000


class Changes:
    """Jobs that came, changed or left, or of which a task took or gave back something.

    `number` counts the changes. What a statement takes back is noted as well: whoever follows looks at
    the job itself.
    """

    def __init__(self) -> None:
        self.number = 0
        self._forgotten = 0
        self._last: dict[str, int] = {}

    def note(self, job_id: str) -> None:
        """Something of a job has changed."""
        self.number += 1
        # Put anew, so that the changed last stand at the end.
        self._last.pop(job_id, None)
        self._last[job_id] = self.number
        if len(self._last) > REMEMBERED:
            self._last.clear()
            self._forgotten = self.number

    def since(self, number: int) -> list[str] | None:
        """The jobs that changed after the first `number` changes; None where that is not known any more."""
        if number < self._forgotten:
            return None
        found: list[str] = []
        for job_id in reversed(self._last):
            if self._last[job_id] <= number:
                break
            found.append(job_id)
        return found
