"""The numbers, at three grains: readings as they came, ticks per cluster and node, and roll-ups.

All three name the same measures the same way, so one query builder serves them:

- `cores_used`: measured compute in percent points, 100 = one whole card busy. Of one card or slice it
  is its utilisation in percent of the card; of a node or cluster the sum over its cards.
- `cores_allocated`, `memory_allocated_mib`: what the ledger had granted there at that moment.
- `memory_used_mib`: measured. `power_w`: the sum over cards. `temperature_c`: the mean over cards.

What is allocated and what is used are never mixed into one number. Times are integers, milliseconds
since 1970 in UTC: a bucket is then a whole-number division, which every database does alike, and a
row on SQLite is half as long.
"""

from __future__ import annotations

from typing import ClassVar, Self

from django.db import models

from telemetry.models.channel import Channel


class Measured(models.Model):
    """The key that every grain shares; one row per channel and time makes writing idempotent."""

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
    """One reading of a card or slice, as it was sampled. Slices have no temperature and no power."""

    cores_used = models.FloatField()
    cores_allocated = models.IntegerField()
    memory_used_mib = models.IntegerField()
    memory_allocated_mib = models.IntegerField()
    temperature_c = models.FloatField(null=True)
    power_w = models.FloatField(null=True)

    class Meta(Measured.Meta):
        abstract = False
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["channel", "at_ms"], name="reading_once"),
        ]
        indexes: ClassVar = [models.Index(fields=["at_ms"], name="reading_at")]


class Tick(Measured):
    """Sums over the cards of one node or cluster in one interval of ten seconds, which starts at `at_ms`.

    `cards`, capacities and allocations cover every known card; `cores_used`, `memory_used_mib`, power
    and temperature cover the `cards_sampled` that answered.
    """

    cards = models.IntegerField()
    cards_sampled = models.IntegerField()
    cards_allocated = models.IntegerField()
    cores_used = models.FloatField()
    cores_allocated = models.IntegerField()
    memory_capacity_mib = models.BigIntegerField()
    memory_used_mib = models.BigIntegerField()
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
    """Five minutes of one channel, starting at `at_ms`: means over `count` rows, with extremes.

    The columns from `cards` to `memory_capacity_mib` are means over ticks and empty for cards and slices.
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
