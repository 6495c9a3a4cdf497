"""Measured numbers: raw readings, ticks per cluster, workspace and node, and roll-ups in three grains.

All of them have the same columns for the same measures, so one query builder serves them:

- `cores_used`: measured compute in percent points, 100 = one whole card busy. Of one card or slice it
  is its utilisation in percent of the card; of a node or cluster the sum over its cards.
- `cores_allocated`, `memory_allocated_mib`: what the ledger had allocated there at that moment.
- `memory_used_mib`: measured. `power_w`: the sum over cards. `temperature_c`: the mean over cards.
- `values`: all other measures of `clusters.gpu.measures`, packed by `telemetry.store.packing`: a row costs
  more than its content, so one row per channel and time holds them all.

An unknown measure is NULL or absent, never 0.

Allocation and use are never mixed into one number. Times are integers, milliseconds since 1970 in UTC: a
bucket is then a whole-number division, which every database does alike, and a row on SQLite is half as long.
"""

from __future__ import annotations

from typing import ClassVar, Self

from django.db import models

from telemetry.models.channel import Channel


class Measured(models.Model):
    """The key that all grains share; one row per channel and time makes writing idempotent."""

    id = models.BigAutoField(primary_key=True)
    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="+", db_index=False)
    at_ms = models.BigIntegerField()

    unscoped: ClassVar[models.Manager[Self]] = models.Manager()

    class Meta:
        abstract = True
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"

    def __str__(self) -> str:
        return f"{self.channel_id} at {self.at_ms}"


class Reading(Measured):
    """One reading of a card, slice or process, as it was sampled. Slices have no temperature and no power.

    It covers the `interval_ms` after `at_ms`.
    """

    interval_ms = models.IntegerField(db_default=10_000)
    cores_used = models.FloatField(null=True)
    cores_allocated = models.IntegerField()
    memory_used_mib = models.IntegerField(null=True)
    memory_allocated_mib = models.IntegerField()
    temperature_c = models.FloatField(null=True)
    power_w = models.FloatField(null=True)
    values = models.BinaryField(null=True)

    class Meta(Measured.Meta):
        abstract = False
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["channel", "at_ms"], name="reading_once"),
        ]
        indexes: ClassVar = [models.Index(fields=["at_ms"], name="reading_at")]


class Tick(Measured):
    """Sums over the cards of one node or cluster, or over the slices of one workspace, in the `interval_ms`
    that start at `at_ms`.

    `cards`, capacities and allocations cover every known card; `cores_used`, `memory_used_mib`, power
    and temperature cover the `cards_sampled` with a sample. In a workspace a slice counts as one card.
    """

    interval_ms = models.IntegerField(db_default=10_000)
    cards = models.IntegerField()
    cards_sampled = models.IntegerField()
    cards_allocated = models.IntegerField()
    cores_used = models.FloatField(null=True)
    cores_allocated = models.IntegerField()
    memory_capacity_mib = models.BigIntegerField()
    memory_used_mib = models.BigIntegerField(null=True)
    memory_allocated_mib = models.BigIntegerField()
    temperature_c = models.FloatField(null=True)
    temperature_max_c = models.FloatField(null=True)
    power_w = models.FloatField(null=True)

    class Meta(Measured.Meta):
        abstract = False
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["channel", "at_ms"], name="tick_once"),
        ]
        indexes: ClassVar = [models.Index(fields=["at_ms"], name="tick_at")]


class RollUp(Measured):
    """Five minutes of one channel, in the format from before the three grains.

    No rows are added any more; `telemetry.services.old_grain` converts the remaining ones to ten minutes.
    """

    count = models.IntegerField()
    cores_used = models.FloatField()
    cores_used_min = models.FloatField()
    cores_used_max = models.FloatField()
    memory_used_mib = models.FloatField()
    memory_used_mib_min = models.FloatField()
    memory_used_mib_max = models.FloatField()
    cores_allocated = models.FloatField()
    memory_allocated_mib = models.FloatField()
    temperature_c = models.FloatField(null=True)
    temperature_max_c = models.FloatField(null=True)
    power_w = models.FloatField(null=True)
    power_w_max = models.FloatField(null=True)
    cards = models.FloatField(null=True)
    cards_sampled = models.FloatField(null=True)
    cards_allocated = models.FloatField(null=True)
    memory_capacity_mib = models.FloatField(null=True)

    class Meta(Measured.Meta):
        abstract = False
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["channel", "at_ms"], name="roll_up_once"),
        ]
        indexes: ClassVar = [models.Index(fields=["at_ms"], name="roll_up_at")]


class Rolled(Measured):
    """One channel in the interval of its grain that starts at `at_ms`: `count` readings or ticks, which cover
    `covered_ms` of it, their means weighted by their time, and extremes.

    `values` holds count, minimum, mean, maximum and last value of every measure, also of those with columns;
    of a node, cluster or workspace over all its cards or slices. The columns from `cards` to
    `memory_capacity_mib` are means over ticks and empty for cards, slices and processes.
    """

    count = models.IntegerField()
    covered_ms = models.IntegerField()
    cores_used = models.FloatField(null=True)
    cores_used_min = models.FloatField(null=True)
    cores_used_max = models.FloatField(null=True)
    memory_used_mib = models.FloatField(null=True)
    memory_used_mib_min = models.FloatField(null=True)
    memory_used_mib_max = models.FloatField(null=True)
    cores_allocated = models.FloatField()
    memory_allocated_mib = models.FloatField()
    temperature_c = models.FloatField(null=True)
    temperature_max_c = models.FloatField(null=True)
    power_w = models.FloatField(null=True)
    power_w_max = models.FloatField(null=True)
    cards = models.FloatField(null=True)
    cards_sampled = models.FloatField(null=True)
    cards_allocated = models.FloatField(null=True)
    memory_capacity_mib = models.FloatField(null=True)
    values = models.BinaryField(null=True)

    class Meta(Measured.Meta):
        abstract = True


class RolledMinute(Rolled):
    """Roll-ups of one minute."""

    class Meta(Rolled.Meta):
        abstract = False
        constraints: ClassVar = [models.UniqueConstraint(fields=["channel", "at_ms"], name="minute_once")]
        indexes: ClassVar = [models.Index(fields=["at_ms"], name="minute_at")]


class RolledTenMinutes(Rolled):
    """Roll-ups of ten minutes."""

    class Meta(Rolled.Meta):
        abstract = False
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["channel", "at_ms"], name="ten_minutes_once")
        ]
        indexes: ClassVar = [models.Index(fields=["at_ms"], name="ten_minutes_at")]


class RolledTwoHours(Rolled):
    """Roll-ups of two hours."""

    class Meta(Rolled.Meta):
        abstract = False
        constraints: ClassVar = [models.UniqueConstraint(fields=["channel", "at_ms"], name="two_hours_once")]
        indexes: ClassVar = [models.Index(fields=["at_ms"], name="two_hours_at")]


class PendingBucket(models.Model):
    """An interval of a cluster that has to be rolled up, for the first time or again.

    `token` is new after each write into the interval: the roll-up deletes the row only if the token is still
    the one that it read before, so that no reading is missed. `sums`: its ticks have not been summed from
    readings yet. `failures`: how often the roll-up failed.
    """

    id = models.BigAutoField(primary_key=True)
    cluster_id = models.UUIDField()
    grain_ms = models.IntegerField()
    at_ms = models.BigIntegerField()
    token = models.BigIntegerField()
    sums = models.BooleanField(default=False)
    failures = models.SmallIntegerField(default=0, db_default=0)

    unscoped: ClassVar[models.Manager[Self]] = models.Manager()

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["grain_ms", "at_ms", "cluster_id"], name="pending_once")
        ]

    def __str__(self) -> str:
        return f"{self.grain_ms} at {self.at_ms}"
