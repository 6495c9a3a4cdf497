"""Every chart of measurements: its lines, unit and title, by the kind of its subject."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from frontend.texts.clock_reasons import CLOCK_REASONS
from telemetry.series import POINTS

_GIB: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LineDefinition:
    """A line of a chart: a line of the level, or a measure of the catalogue, and its style."""

    measure: str
    name: str | Promise
    color: str
    area: bool = False
    subject: str = ""
    opacity: float = 1


class StateWord(NamedTuple):
    """A bit of a state as a label, and its color."""

    word: Promise
    color: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartDefinition:
    """A chart. Values are divided by `per` and shown in `unit`.

    `each` names a line of which every subject (GPU, task) is drawn; if there are more subjects than
    `each_most`, none is. `top` names the line whose peak is the top of the axis. `measures`: lines are
    measures of the catalogue, by their `statistic` if it is not the default. `words` names the bits of a
    state; such a chart has a row for each observed bit. `stacked`: lines are parts of a whole; they have no
    previous period. `points`: the approximate number of points of each line, if not the default.
    """

    key: str
    title: Promise
    unit: str
    lines: tuple[LineDefinition, ...] = ()
    per: float = 1
    note: str | Promise = ""
    each: str = ""
    each_most: int = 64
    top: str = ""
    measures: bool = False
    statistic: str = ""
    words: Mapping[int, StateWord] | None = None
    stacked: bool = False
    points: int = POINTS

    @property
    def needed(self) -> tuple[str, ...]:
        """The lines or measures to read."""
        names = [line.measure for line in self.lines] + [self.each, self.top]
        return tuple(dict.fromkeys(name for name in names if name))


def _allocated(measure: str, subject: str = "") -> LineDefinition:
    return LineDefinition(measure=measure, name=_("allocated"), color="allocated", area=True, subject=subject)


def _used(measure: str, subject: str = "") -> LineDefinition:
    return LineDefinition(measure=measure, name=_("used"), color="used", subject=subject)


def _share(measure: str, name: str, opacity: float) -> LineDefinition:
    return LineDefinition(measure=measure, name=name, color="used", opacity=opacity)


_ALLOCATION: Final = ChartDefinition(
    key="allocation",
    title=_("Allocation and utilization"),
    unit="%",
    lines=(_allocated("cores_allocated"), _used("utilisation")),
)
_MEMORY: Final = ChartDefinition(
    key="memory",
    title=_("GPU memory"),
    unit="GiB",
    per=_GIB,
    lines=(_allocated("memory_allocated"), _used("memory_used")),
    top="memory_total",
)


def _per_card(key: str, title: Promise, unit: str, each: str, per: float = 1) -> ChartDefinition:
    return ChartDefinition(key=key, title=title, unit=unit, each=each, per=per)


def _of_gpu(
    key: str, title: Promise, unit: str, *lines: tuple[str, str | Promise, str], per: float = 1
) -> ChartDefinition:
    """Return a chart of measures of the catalogue."""
    return ChartDefinition(
        key=key,
        title=title,
        unit=unit,
        per=per,
        measures=True,
        lines=tuple(LineDefinition(measure=name, name=word, color=color) for name, word, color in lines),
    )


_GPU_METRICS: Final = (
    _of_gpu(
        "temperature",
        _("Temperature"),
        "°C",
        ("temperature_c", _("GPU"), "series-3"),
        ("memory_temperature_c", _("GPU memory"), "series-8"),
    ),
    _of_gpu(
        "power",
        _("Power"),
        "W",
        ("power_w", _("power"), "series-5"),
        ("power_limit_w", _("Limit"), "series-8"),
    ),
    _of_gpu(
        "clocks",
        _("Clocks"),
        "MHz",
        ("sm_clock_mhz", _("SM"), "series-1"),
        ("memory_clock_mhz", _("GPU memory"), "series-4"),
        ("video_clock_mhz", _("Video engines"), "series-5"),
        ("app_sm_clock_mhz", _("SM, set"), "series-2"),
        ("app_memory_clock_mhz", _("GPU memory, set"), "series-8"),
    ),
    _of_gpu(
        "engines",
        _("Memory copy and video engines"),
        "%",
        ("memory_copy_percent", _("Memory copy"), "series-1"),
        ("encoder_percent", _("Encoder"), "series-3"),
        ("decoder_percent", _("Decoder"), "series-4"),
    ),
    _of_gpu(
        "activity",
        _("SM and memory activity"),
        "%",
        ("sm_active_percent", _("SM active"), "series-1"),
        ("sm_occupancy_percent", _("SM occupancy"), "series-2"),
        ("dram_active_percent", _("Memory bandwidth"), "series-4"),
        ("graphics_active_percent", _("Graphics engine"), "series-5"),
    ),
    _of_gpu(
        "pipes",
        _("Tensor, FP16, FP32 and FP64 cores"),
        "%",
        ("tensor_active_percent", _("Tensor cores"), "series-3"),
        ("fp16_active_percent", "FP16", "series-1"),
        ("fp32_active_percent", "FP32", "series-2"),
        ("fp64_active_percent", "FP64", "series-5"),
    ),
    _of_gpu(
        "links",
        _("PCIe and NVLink"),
        "MiB/s",
        ("pcie_tx_mib_s", _("PCIe sent"), "series-1"),
        ("pcie_rx_mib_s", _("PCIe received"), "series-2"),
        ("nvlink_mib_s", _("NVLink"), "series-3"),
    ),
)
"""The charts of GPUs that do not exist for pods."""
_REASON_COLORS: Final = {
    **dict.fromkeys((0x8, 0x40, 0x80), "unhealthy"),
    **dict.fromkeys((0x4, 0x20), "series-3"),
    0x1: "series-8",
}
_REASONS: Final = ChartDefinition(
    key="reasons",
    title=_("Reasons for lower clocks"),
    unit="",
    lines=(LineDefinition(measure="throttle_reasons", name=_("Reasons for lower clocks"), color="series-3"),),
    measures=True,
    statistic="seen",
    words={bit: StateWord(word, _REASON_COLORS.get(bit, "series-2")) for bit, word in CLOCK_REASONS.items()},
)
_BANDWIDTH: Final = _of_gpu(
    "bandwidth",
    _("Memory copy and bandwidth"),
    "%",
    ("memory_copy_percent", _("Memory copy"), "series-1"),
    ("dram_active_percent", _("Memory bandwidth"), "series-4"),
)
"""A chart of averages over the GPUs that measure it."""
_ENERGY: Final = _of_gpu("energy", _("Energy"), "kJ", ("energy_j", _("Energy"), "series-5"), per=1000)
CLUSTER: Final = (
    _ALLOCATION,
    _MEMORY,
    ChartDefinition(
        key="power",
        title=_("Power"),
        unit="kW",
        per=1000,
        lines=(LineDefinition(measure="power", name=_("power"), color="series-5"),),
    ),
    ChartDefinition(
        key="temperature",
        title=_("Temperature"),
        unit="°C",
        lines=(
            LineDefinition(measure="temperature_max", name=_("Max"), color="series-3"),
            LineDefinition(measure="temperature", name=_("Average"), color="series-8"),
        ),
    ),
    _BANDWIDTH,
    ChartDefinition(
        key="distribution",
        title=_("Distribution of GPU utilization over time"),
        unit="%",
        stacked=True,
        points=90,
        lines=(
            _share("gpus_below_25", "0\u201325 %", 0.2),
            _share("gpus_25_to_50", "25\u201350 %", 0.45),
            _share("gpus_50_to_75", "50\u201375 %", 0.7),
            _share("gpus_from_75", "75\u2013100 %", 1),
        ),
    ),
)
NODE: Final = (
    _ALLOCATION,
    _MEMORY,
    _per_card("card-utilisation", _("Utilization per GPU"), "%", "card_utilisation"),
    _per_card("card-memory", _("GPU memory used per GPU"), "GiB", "card_memory_used", _GIB),
    _per_card("card-temperature", _("Temperature per GPU"), "°C", "card_temperature"),
    _per_card("card-power", _("Power per GPU"), "W", "card_power"),
    _BANDWIDTH,
)
WORKSPACE: Final = (
    ChartDefinition(
        key="compute",
        title=_("GPU compute"),
        unit="GPU",
        note=_("in GPUs, allocated and used"),
        lines=(_allocated("compute_allocated"), _used("compute_used")),
    ),
    ChartDefinition(
        key="memory",
        title=_("GPU memory"),
        unit="GiB",
        per=_GIB,
        note=_("GiB, allocated and used"),
        lines=(_allocated("memory_allocated"), _used("memory_used")),
    ),
)
JOB: Final = (
    ChartDefinition(
        key="utilisation",
        title=_("GPU utilization"),
        note=_("percent of allocated compute and GPU memory"),
        unit="%",
        lines=(
            LineDefinition(
                measure="utilisation_of_grant", name=_("Compute"), color="used", subject="average"
            ),
            LineDefinition(
                measure="memory_of_grant", name=_("GPU memory"), color="series-4", subject="average"
            ),
        ),
        each="utilisation_of_grant",
        each_most=8,
    ),
    ChartDefinition(
        key="memory",
        title=_("GPU memory"),
        note=_("GiB, allocated and used"),
        unit="GiB",
        per=_GIB,
        lines=(_allocated("memory_granted", "total"), _used("memory_used", "total")),
        each="memory_used",
        each_most=0,
    ),
    *_GPU_METRICS,
    _REASONS,
    _ENERGY,
)
GPU: Final = (
    ChartDefinition(
        key="allocation",
        title=_("Allocation and utilization"),
        unit="%",
        lines=(_allocated("card_cores_allocated"), _used("card_utilisation")),
    ),
    ChartDefinition(
        key="memory",
        title=_("GPU memory"),
        unit="GiB",
        per=_GIB,
        lines=(_allocated("card_memory_allocated"), _used("card_memory_used")),
    ),
    *_GPU_METRICS,
    _REASONS,
    _of_gpu(
        "errors",
        _("New errors"),
        "",
        ("xid_errors", _("XID errors"), "series-3"),
        ("ecc_corrected", _("ECC corrected"), "series-4"),
        ("ecc_uncorrected", _("ECC uncorrected"), "series-5"),
        ("remapped_rows", _("Remapped rows"), "series-6"),
        ("pcie_replays", _("PCIe replays"), "series-7"),
        ("nvlink_errors", _("NVLink errors"), "series-8"),
    ),
    _ENERGY,
)
CHARTS: Final[Mapping[str, tuple[ChartDefinition, ...]]] = {
    "cluster": CLUSTER,
    "node": NODE,
    "gpu": GPU,
    "workspace": WORKSPACE,
    "job": JOB,
}
