"""Names that a workload may not use, because they decide which cards it sees."""

from __future__ import annotations

import pytest

from clusters.gpu import reserved


@pytest.mark.parametrize(
    ("name", "yes"),
    [
        ("NVIDIA_VISIBLE_DEVICES", True),
        ("NVIDIA_X", True),
        ("CUDA_DEVICE_SM_LIMIT", True),
        ("CUDA_DISABLE_CONTROL", True),
        ("LD_PRELOAD", True),
        ("CUDA_VISIBLE_DEVICES", False),  # only hides cards from oneself
        ("CUDA_LAUNCH_BLOCKING", False),
        ("LD_LIBRARY_PATH", False),
        ("RANK", False),
    ],
)
def test_variables(name: str, yes: bool) -> None:
    assert reserved.is_reserved_variable(name) is yes


@pytest.mark.parametrize(
    ("path", "yes"),
    [
        ("/var/run/nvidia-container-devices", True),
        ("/var/run/nvidia-container-devices/all", True),
        ("/var/run/./x/../nvidia-container-devices/all/", True),
        ("/etc/ld.so.preload", True),
        ("/usr/local/vgpu/libvgpu.so", True),
        ("/usr/local/vgpus", False),
        ("/data", False),
        ("/", False),
    ],
)
def test_mounts(path: str, yes: bool) -> None:
    assert reserved.is_reserved_mount(path) is yes


@pytest.mark.parametrize(
    ("label", "yes"),
    [("allotment.io/job", True), ("hami.io/webhook", True), ("nvidia.com/x", True), ("app", False)],
)
def test_labels(label: str, yes: bool) -> None:
    assert reserved.is_reserved_label(label) is yes
