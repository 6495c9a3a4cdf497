"""Measures that NVML returns as counters or as two samples: NVLink, memory temperature, GPM."""

from __future__ import annotations

import time
from typing import Any, Final

import pynvml

from telemetry.agent.nvml.calls import Calls

_ALL_LINKS: Final = 0xFFFFFFFF
_MEMORY_TEMPERATURE: Final = pynvml.NVML_FI_DEV_MEMORY_TEMP
_TRAFFIC: Final = (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX)
_ERRORS: Final = (
    pynvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL,
    pynvml.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL,
    pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL,
    pynvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL,
)
_FIELDS: Final = (
    (_MEMORY_TEMPERATURE, 0),
    *((field, _ALL_LINKS) for field in _TRAFFIC),
    *((field, 0) for field in _ERRORS),
)
_INTEGERS: Final = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}
_REFUSALS: Final = (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_INVALID_ARGUMENT)
"""Errors for one of several values: the device or an older library does not support it."""
_ERROR_COUNTERS: Final = range(4)  # of a link: replay, recovery, CRC of flits, CRC of data
_NOT_A_TEMPERATURE: Final = 200
_GPM: Final = {
    pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL: "graphics_active_percent",
    pynvml.NVML_GPM_METRIC_SM_UTIL: "sm_active_percent",
    pynvml.NVML_GPM_METRIC_SM_OCCUPANCY: "sm_occupancy_percent",
    pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL: "tensor_active_percent",
    pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL: "dram_active_percent",
    pynvml.NVML_GPM_METRIC_FP64_UTIL: "fp64_active_percent",
    pynvml.NVML_GPM_METRIC_FP32_UTIL: "fp32_active_percent",
    pynvml.NVML_GPM_METRIC_FP16_UTIL: "fp16_active_percent",
    pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC: "pcie_tx_mib_s",
    pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC: "pcie_rx_mib_s",
}
_GPM_NVLINK: Final = (
    pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC,
    pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC,
)
GPM_KEY: Final = "gpm"
FIELD_MEASURES: Final = ("memory_temperature_c", "nvlink_mib_s", "nvlink_errors")
GPM_MEASURES: Final = tuple(name for name in _GPM.values() if name.endswith("_percent"))


class FieldReader:
    """Reads field values of devices; stores the counters of the last poll to compute rates."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._before: dict[str, tuple[float, float]] = {}

    def read(self, device: str, handle: Any, links: tuple[int, ...]) -> dict[str, float]:
        """Return the measures computed from field values. `links`: the active NVLinks. Raises: DeviceDown."""
        found = self._read_fields(device, handle)
        values: dict[str, float] = {}
        temperature = found.get(_MEMORY_TEMPERATURE)
        if temperature is not None and 0 < temperature < _NOT_A_TEMPERATURE:
            values["memory_temperature_c"] = temperature
        traffic = [found[field] for field in _TRAFFIC if field in found]
        if len(traffic) == len(_TRAFFIC):
            values.update(self._rate(device, sum(traffic) / 1024))
        errors = [found[field] for field in _ERRORS if field in found]
        if errors:
            values["nvlink_errors"] = sum(errors)
        elif links:
            values.update(self._link_errors(device, handle, links))
        return values

    def find_unsupported(self, device: str) -> set[str]:
        """Return the measures whose fields are all unsupported."""
        sources = {
            "memory_temperature_c": (_MEMORY_TEMPERATURE,),
            "nvlink_mib_s": _TRAFFIC,
            "nvlink_errors": (*_ERRORS, "links"),
        }
        return {
            measure
            for measure, fields in sources.items()
            if all(self._calls.is_refused(device, f"field {field}") for field in fields)
        }

    def _read_fields(self, device: str, handle: Any) -> dict[int, float]:
        wanted = [each for each in _FIELDS if not self._calls.is_refused(device, f"field {each[0]}")]
        if not wanted:
            return {}
        answer = self._calls.call(device, "nvmlDeviceGetFieldValues", handle, wanted)
        if answer is None:
            if self._calls.is_refused(device, "nvmlDeviceGetFieldValues"):
                for field, _ in wanted:
                    self._calls.refuse(device, f"field {field}")
            return {}
        found: dict[int, float] = {}
        for value in answer:
            if value.nvmlReturn == pynvml.NVML_SUCCESS:
                found[value.fieldId] = float(getattr(value.value, _INTEGERS.get(value.valueType, "ullVal")))
            elif value.nvmlReturn in _REFUSALS:
                self._calls.refuse(device, f"field {value.fieldId}")
        return found

    def _rate(self, device: str, total_mib: float) -> dict[str, float]:
        now = time.monotonic()
        before = self._before.get(device)
        self._before[device] = (now, total_mib)
        if before is None or total_mib < before[1] or now <= before[0]:
            return {}  # a first value, or the counter restarted
        return {"nvlink_mib_s": (total_mib - before[1]) / (now - before[0])}

    def _link_errors(self, device: str, handle: Any, links: tuple[int, ...]) -> dict[str, float]:
        counts = [
            self._calls.call(
                device, "nvmlDeviceGetNvLinkErrorCounter", handle, link, counter, key=f"link errors {counter}"
            )
            for link in links
            for counter in _ERROR_COUNTERS
        ]
        known = [count for count in counts if count is not None]
        if not known:
            self._calls.refuse(device, "field links")
            return {}
        return {"nvlink_errors": float(sum(known))}


class GpmReader:
    """Reads GPU performance metrics (Hopper and later): means over the time between two polls."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._samples: dict[str, tuple[Any, Any]] = {}

    def read(self, device: str, handle: Any, instance: int | None = None) -> dict[str, float]:
        """Return the means since the last call; none at the first call.

        `instance`: the id of a GPU instance, with `handle` the whole device's. Raises: DeviceDown.
        """
        if self._calls.is_refused(device, GPM_KEY) or not self._is_supported(device, handle):
            return {}
        before, spare = self._samples.get(device, (None, None))
        sample = self._calls.call(device, "nvmlGpmSampleAlloc") if spare is None else spare
        if sample is None:
            return {}
        name = "nvmlGpmSampleGet" if instance is None else "nvmlGpmMigSampleGet"
        arguments = (handle, sample) if instance is None else (handle, instance, sample)
        if self._calls.call(device, name, *arguments) is None:
            self._samples[device] = (before, sample)
            if self._calls.is_refused(device, name):
                self._calls.refuse(device, GPM_KEY)
            return {}
        # The older of the two samples is reused for the next one.
        self._samples[device] = (sample, before)
        return {} if before is None else self._compare(device, before, sample)

    def find_unsupported(self, device: str) -> set[str]:
        """Return the activity measures that a device does not support, separately or as a group."""
        if self._calls.is_refused(device, GPM_KEY):
            return set(GPM_MEASURES)
        return {
            name
            for metric, name in _GPM.items()
            if name in GPM_MEASURES and self._calls.is_refused(device, _gpm_key(metric))
        }

    def _is_supported(self, device: str, handle: Any) -> bool:
        if device in self._samples:
            return True
        support = self._calls.call(device, "nvmlGpmQueryDeviceSupport", handle)
        if support is not None and support.isSupportedDevice:
            return True
        self._calls.refuse(device, GPM_KEY)
        return False

    def _compare(self, device: str, before: Any, sample: Any) -> dict[str, float]:
        request = pynvml.c_nvmlGpmMetricsGet_t()
        request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        request.sample1, request.sample2 = before, sample
        metrics = [
            metric for metric in (*_GPM, *_GPM_NVLINK) if not self._calls.is_refused(device, _gpm_key(metric))
        ]
        request.numMetrics = len(metrics)
        for place, metric in enumerate(metrics):
            request.metrics[place].metricId = metric
        answer = self._calls.call(device, "nvmlGpmMetricsGet", request)
        if answer is None:
            return {}
        found: dict[int, float] = {}
        for one in answer.metrics[: len(metrics)]:
            if one.nvmlReturn == pynvml.NVML_SUCCESS and one.value >= 0:
                found[one.metricId] = one.value
            elif one.nvmlReturn in _REFUSALS:
                self._calls.refuse(device, _gpm_key(one.metricId))
        values = {name: found[metric] for metric, name in _GPM.items() if metric in found}
        if all(metric in found for metric in _GPM_NVLINK):
            values["nvlink_mib_s"] = sum(found[metric] for metric in _GPM_NVLINK)
        return {
            name: min(value, 100.0) if name.endswith("_percent") else value for name, value in values.items()
        }


def _gpm_key(metric: int) -> str:
    return f"gpm {metric}"
