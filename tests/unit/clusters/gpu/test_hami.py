"""HAMi's annotations, as its versions 2.6 to 2.10 write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.gpu import hami
from clusters.gpu.hami import CardShare, HamiFormatError, NodeLock, RegisteredCard

A = RegisteredCard(
    uuid="GPU-aaaa", index=0, slots=10, memory_mib=143771, cores=100, model="NVIDIA H200", numa=0,
    mode="hami-core", healthy=True,
)  # fmt: skip
B = RegisteredCard(
    uuid="GPU-bbbb", index=1, slots=10, memory_mib=143771, cores=100, model="NVIDIA H200", numa=1,
    mode="hami-core", healthy=False,
)  # fmt: skip
JSON = (
    '[{"id":"GPU-aaaa","count":10,"devmem":143771,"devcore":100,"type":"NVIDIA H200","mode":"hami-core",'
    '"health":true},{"id":"GPU-bbbb","index":1,"count":10,"devmem":143771,"devcore":100,'
    '"type":"NVIDIA H200","numa":1,"mode":"hami-core"}]'
)
CSV = (
    "GPU-aaaa,10,143771,100,NVIDIA H200,0,true,0,hami-core:"
    "GPU-bbbb,10,143771,100,NVIDIA H200,1,false,1,hami-core:"
)


@pytest.mark.parametrize("text", [JSON, CSV, f" {CSV}\n"])
def test_both_formats_have_the_same_cards(text: str) -> None:
    assert hami.parse_register(text) == [A, B]


def test_very_old_cards_have_seven_fields() -> None:
    (card,) = hami.parse_register("GPU-aaaa,10,143771,100,NVIDIA H200,0,true:")
    assert card == A


@pytest.mark.parametrize("text", ["", "[]", "[null]"])
def test_no_cards(text: str) -> None:
    assert hami.parse_register(text) == []


@pytest.mark.parametrize(
    "text", ["[1]", "[{]", '[{"devmem":"much"}]', "GPU-a,1,2:", "GPU-a,x,143771,100,H200,0,true:", "[[]"]
)
def test_what_is_no_register_is_refused(text: str) -> None:
    with pytest.raises(HamiFormatError, match="node-nvidia-register"):
        hami.parse_register(text)


GOLDEN = [
    ([[("GPU-a", 3000, 30)]], "GPU-a,NVIDIA,3000,30:;"),
    ([[("GPU-a", 3000, 0)], [("GPU-a", 5000, 0)]], "GPU-a,NVIDIA,3000,0:;GPU-a,NVIDIA,5000,0:;"),
    ([[("GPU-a", 5000, 0), ("GPU-b", 5000, 0)]], "GPU-a,NVIDIA,5000,0:GPU-b,NVIDIA,5000,0:;"),
    ([[], [("GPU-a", 3000, 30)]], ";GPU-a,NVIDIA,3000,30:;"),
]


@pytest.mark.parametrize(("containers", "text"), GOLDEN)
def test_shares_are_written_as_hami_does(containers: list[list[tuple[str, int, int]]], text: str) -> None:
    shares = [[CardShare(*share) for share in container] for container in containers]
    assert hami.encode_shares(shares) == text
    assert hami.decode_shares(text) == shares


def test_a_missing_end_is_forgiven_and_a_missing_field_is_not() -> None:
    assert hami.decode_shares("GPU-a,NVIDIA,3000,30") == [[CardShare("GPU-a", 3000, 30)]]
    assert hami.decode_shares("") == []
    for text in ("GPU-a,NVIDIA,3000", "GPU-a,NVIDIA,much,30:;"):
        with pytest.raises(HamiFormatError, match="share of a GPU"):
            hami.decode_shares(text)


@pytest.mark.parametrize(
    "text",
    [
        "GPU-a,NVIDIA,-40960,30:;",  # would make room that is not there
        "GPU-a,NVIDIA,4096,-100:;",
        ",NVIDIA,4096,10:;",
        "GPU-a,NVIDIA,4096,99999999999:;",
        f"GPU-a,NVIDIA,{'9' * 5000},10:;",
        "GPU-a,NVIDIA,1,1:" * 20_000,
        ";" * 100_000,
    ],
    ids=range(7),
)
def test_amounts_and_lengths_that_no_version_writes_are_refused(text: str) -> None:
    with pytest.raises(HamiFormatError) as refused:
        hami.decode_shares(text)
    assert len(str(refused.value)) < 400


_SHARES = st.builds(
    CardShare,
    st.from_regex(r"GPU-[0-9a-f]{4}", fullmatch=True),
    st.integers(1, 10**6),
    st.integers(1, 100),
)


@given(st.lists(st.lists(_SHARES, max_size=8), max_size=4))
def test_what_is_written_is_read_back(containers: list[list[CardShare]]) -> None:
    assert hami.decode_shares(hami.encode_shares(containers)) == containers


def test_a_lock_names_its_pod_and_expires() -> None:
    now = datetime(2026, 8, 21, 6, 20, 39, tzinfo=UTC)
    lock = hami.parse_lock("2026-08-21T06:20:39Z,team-a,job-1-0")
    assert lock == NodeLock(now, "team-a", "job-1-0")
    assert lock.to_annotation() == "2026-08-21T06:20:39Z,team-a,job-1-0"
    assert lock.held_by("team-a", "job-1-0")
    assert not lock.held_by("team-a", "job-1-1")
    assert not lock.is_expired(now + timedelta(minutes=5))
    assert lock.is_expired(now + timedelta(minutes=5, seconds=1))


def test_an_old_lock_is_a_time_alone() -> None:
    assert hami.parse_lock("2026-08-21T06:20:39Z").pod == ""
    with pytest.raises(HamiFormatError, match="mutex"):
        hami.parse_lock("soon")
