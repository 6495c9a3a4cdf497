"""A database that is set back to an older state while its cluster goes on, as by a restore from a backup."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.core.management import call_command
from django.db import transaction

from foundation.models.installation import installation_id
from scheduling.snapshots import snapshot_cache
from tests.builders.kube_stage import KubeStage


@contextmanager
def restored(stage: KubeStage) -> Iterator[None]:
    """Roll the database back after the block, as a restore does; the cluster keeps what happened."""
    backup = transaction.savepoint()
    yield
    transaction.savepoint_rollback(backup)
    snapshot_cache._cells.clear()  # every process was stopped
    stage.cluster.refresh_from_db()


def take_over(stage: KubeStage, *words: str) -> None:
    """Let the restored database own the cluster again; jobs that may have run start, unless `words` say."""
    choice = () if "--restarting" in words else ("--restarting", "start")
    call_command("cluster", "take-over", "east", "--owner", str(installation_id()), *words, *choice)
    stage.cluster.refresh_from_db()
