"""Every reason reads as a sentence, with and without its numbers."""

from __future__ import annotations

import re

import pytest
from django.utils import translation
from django.utils.html import strip_tags

from frontend.texts import labels, reasons
from frontend.texts.reason_texts import HELPS, SENTENCES, USUAL_HELP
from frontend.texts.recommendations import find_recommendations, recommendation_sentences, shorts_of
from scheduling.commit.reasons import FOREIGN_WORK
from scheduling.engine.model.kinds import EvictRule, HelpCode, Reason
from scheduling.engine.placement.explain import CHOSEN_BY_USER, FLAVOR_TAINT
from scheduling.engine.placement.filters.vetoes import VETOES


def test_every_code_of_the_engine_has_its_words() -> None:
    assert set(SENTENCES) == set(USUAL_HELP) == set(labels.REASON_WORDS) == {str(code) for code in Reason}
    assert set(HELPS) == {*(str(code) for code in HelpCode), FOREIGN_WORK}
    assert set(labels.RULES) == {str(rule) for rule in EvictRule}


@pytest.mark.parametrize("language", ["en", "zh-hans"])
@pytest.mark.parametrize("code", sorted(SENTENCES))
def test_a_reason_without_numbers_still_reads_well(code: str, language: str) -> None:
    with translation.override(language):
        for text in (reasons.reason_sentence(code), reasons.help_sentence(code), reasons.reason_title(code)):
            assert text
            assert "%" not in text


@pytest.mark.parametrize("code", sorted(SENTENCES))
def test_no_number_of_a_reason_decides_between_singular_and_plural(code: str) -> None:
    counted = re.compile(r"%\((?!flavor)\w+\)s (GPUs|jobs|tasks|nodes|pods)\b")
    for text in map(str, (*SENTENCES[code], *USUAL_HELP[code])):
        # Such reasons need several tasks.
        assert "together" in text or not counted.search(text)


def test_numbers_are_bold_and_carry_their_unit() -> None:
    numbers = {"asked": 9, "free": 4, "nominal": 16, "borrowable": 0, "resource": "gpu.cards"}
    assert reasons.reason_sentence("WAITING_FOR_QUOTA", numbers) == (
        "Requests <b>9 GPUs</b>; <b>4 GPUs</b> of <b>16 GPUs</b> nominal free, <b>0 GPUs</b> can be borrowed."
    )
    memory = {"asked": 40960, "available": 512, "resource": "gpu.memory"}
    assert "<b>40 GiB GPU memory</b>" in reasons.reason_sentence("WAITING_FOR_QUOTA", memory)


def test_a_gang_of_which_single_tasks_would_fit_does_not_get_no_node_holds_one() -> None:
    numbers = {
        "asked": 3, "together": 2, "role": "worker", "flavor": "a100", "cards_per_task": 4,
        "most_free_on_one_node": 8, "available": 2, "limit": 2,
    }  # fmt: skip
    said = reasons.reason_sentence("NEVER_FITS", numbers)
    assert said.startswith("<b>3</b> tasks of <b>worker</b> must run together")
    assert "at most <b>2</b> fit" in said
    assert "in one <b>rack</b>" in reasons.reason_sentence("NEVER_FITS", {**numbers, "level": "rack"})


@pytest.mark.parametrize("language", ["en", "zh-hans"])
@pytest.mark.parametrize("code", sorted({*SENTENCES, *HELPS}))
def test_no_text_shows_an_id(code: str, language: str) -> None:
    """A stored reason may contain the id of a job, pool or queue that had no name."""
    unnamed = "01a225e5-0000-7000-8000-00000000000a"
    texts = map(str, (*SENTENCES.get(code, ()), *HELPS.get(code, ()), *USUAL_HELP.get(code, ())))
    numbers = dict.fromkeys(re.findall(r"%\((\w+)\)s", " ".join(texts)), unnamed)
    with translation.override(language):
        shown = [reasons.help_sentence(code, numbers)]
        if code in SENTENCES:
            shown.append(reasons.reason_sentence(code, numbers))
    assert unnamed not in " ".join(shown)
    assert all("%" not in text for text in shown)


NODES = {"role": "main", "flavor": "a100", "cards_per_task": 4, "cards": 96, "free_cards": 96,
         "most_free_on_one_node": 8}  # fmt: skip


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        (
            {"asked": 1, "available": 0, "refused.cpu": 10, "refused.node-selector": 12},
            (
                "No a100 node fits a task, even when empty. GPUs per task: 4. Nodes by cause: node selector "
                "does not match (12), too little CPU (10)."
            ),
        ),
        (
            {"asked": 1, "available": 0, "cards_per_task": None, "refused.cordon": 2},
            "No a100 node fits a task, even when empty. Nodes by cause: cordoned (2).",
        ),
    ],
)
def test_what_never_fits_names_what_the_nodes_lack(numbers: dict[str, object], text: str) -> None:
    assert strip_tags(reasons.reason_sentence("NEVER_FITS", NODES | numbers)) == text


def test_no_room_names_what_the_nodes_lack() -> None:
    full = NODES | {
        "asked": 2,
        "available": 1,
        "free_cards": 9,
        "most_free_on_one_node": 5,
        "refused.memory": 3,
    }
    assert strip_tags(reasons.reason_sentence("NO_ROOM", full)) == (
        "Tasks that fit: 1 of 2. GPUs per task: 4. Most free GPUs on one node: 5, total: 9. Unsuitable nodes "
        "by cause: too little memory (3)."
    )
    apart = NODES | {"asked": 4, "available": 3, "level": "rack"}
    assert "only 3 of 4 tasks fit together in one rack" in strip_tags(
        reasons.reason_sentence("NO_ROOM", apart)
    )


def test_the_reason_of_a_job_with_several_roles_names_the_role() -> None:
    """The role is named if the sentence does not name it by itself."""
    lack = NODES | {"asked": 1, "available": 0}
    said = "Tasks that fit: 0 of 1."
    for roles, begin in ((1, said), (2, f"Task role main: {said}")):
        assert strip_tags(reasons.reason_sentence("NO_ROOM", reasons.name_role(lack, roles))).startswith(
            begin
        )
    named = reasons.name_role(NODES | {"asked": 3, "together": 2, "limit": 2}, 2)
    assert reasons.reason_sentence("NEVER_FITS", named).startswith("<b>3</b> tasks of <b>main</b>")
    assert reasons.reason_sentence("NEW_CODE", named) == "<code>NEW_CODE</code>"


def test_every_veto_of_the_engine_has_its_words() -> None:
    assert set(labels.VETOES) == {*(veto.name for veto in VETOES), FLAVOR_TAINT}
    assert {*labels.PLACEMENT_RULES, "taint"} == set(CHOSEN_BY_USER)


def test_a_placement_rule_is_named_in_words_and_a_taint_is_tolerated() -> None:
    said = reasons.help_sentence("LOOSEN_PLACEMENT", {"veto": "node-selector", "nodes": 12})
    assert said == "Remove the placement constraint: <b>node selector</b>."
    taint = reasons.help_sentence("LOOSEN_PLACEMENT", {"veto": "taint", "nodes": 12, "starts": 1})
    assert taint.startswith(
        "Tolerate all taints of the nodes. The job can start afterwards, unless jobs ahead"
    )
    tried = reasons.help_sentence("LOOSEN_PLACEMENT", {"veto": "taint", "starts": 1, "tried": 1})
    assert tried == "Tolerate all taints of the nodes. The job can start afterwards."


def test_zero_is_a_number() -> None:
    assert "<b>0</b>" in reasons.reason_sentence("WAITING_FOR_QUOTA", {"asked": 1, "available": 0})


def test_what_others_typed_is_escaped() -> None:
    text = reasons.reason_sentence("QUEUE_STOPPED", {"queue": "<script>"})
    assert "<script>" not in text
    assert "&lt;script&gt;" in text


def test_moments_are_clock_times() -> None:
    text = reasons.reason_sentence("BACKOFF", {"retry_at": "2026-03-01T14:52:00+00:00"})
    assert "14:52</time></b>" in text


def test_what_the_engine_found_comes_before_what_usually_helps() -> None:
    found = [{"code": "RAISE_QUOTA", "numbers": {"short": 5, "flavor": "a100", "resource": "gpu.cards"}}]
    said = recommendation_sentences("NO_ROOM", {}, found)
    assert said == ["Request more quota in <b>a100</b>: <b>5 GPUs</b>."]
    usual = recommendation_sentences("NO_ROOM", {}, [])
    assert usual == ["Use smaller tasks, or relax the placement constraints."]


@pytest.mark.parametrize("code", ["RAISE_QUOTA", "WAIT_FOR_RELEASE"])
def test_what_is_short_of_several_resources_is_one_recommendation(code: str) -> None:
    shorts = {"gpu.cards": 32, "gpu.cores": 3200, "gpu.memory": 1280 * 1024}
    found = [
        {"code": code, "numbers": {"flavor": "a100", "resource": resource, "short": short, "also": "NO_ROOM",
                                   "with": ",".join(name for name in shorts if name != resource)}}
        for resource, short in shorts.items()
    ]  # fmt: skip
    other = {"code": code, "numbers": {"flavor": "l40s", "resource": "gpu.cards", "short": 1}}
    (said, elsewhere) = find_recommendations([*found, other])
    # Compute belongs to whole GPUs and is not repeated; nothing else is needed beside it.
    assert "<b>32 GPUs, 1,280 GiB GPU memory</b>" in said.sentence
    assert "compute" not in said.sentence and "together" not in said.sentence
    assert shorts_of(said.items) == shorts
    assert (said.flavor, elsewhere.flavor) == ("a100", "l40s")


def test_changes_that_help_only_together_are_one_recommendation() -> None:
    codes = ("LOOSEN_PLACEMENT", "ASK_OTHER_MODEL", "ASK_FEWER_CARDS")
    numbers: tuple[dict[str, object], ...] = ({"veto": "node-selector"}, {"models": "A100"}, {"cards": 4})
    found = [
        {"code": code, "numbers": own | {"also": "NO_ROOM", "tried": 1, "with": ",".join({*codes} - {code})}}
        for code, own in zip(codes, numbers, strict=True)
    ]
    (one,) = find_recommendations(found)
    assert strip_tags(one.sentence) == (
        "Remove the placement constraint: node selector. Select an available GPU model: A100. "
        "Reduce GPUs per task to at most 4. The job still waits afterwards: Insufficient resources "
        "on nodes."
    )
    assert list(one.items) == found
    # A recommendation that names others is marked as one of several, also without them.
    assert "Effective only together" in find_recommendations(found[:1])[0].sentence


def test_compute_without_whole_gpus_is_said_in_gpus() -> None:
    found = [{"code": "RAISE_QUOTA", "numbers": {"short": 230, "flavor": "l40s", "resource": "gpu.cores"}}]
    assert "<b>compute of 2.30 GPUs</b>" in recommendation_sentences("NO_ROOM", {}, found)[0]


def test_a_recommendation_that_is_stored_wrongly_is_left_out() -> None:
    assert find_recommendations([None, {}, {"code": "NEW"}, {"code": "RAISE_QUOTA", "numbers": 3}]) != []
    assert recommendation_sentences("NO_ROOM", {}, [None, {}, {"code": "NEW"}])


def test_several_names_are_separated_as_the_language_does() -> None:
    numbers = {"models": "A100,H100"}
    assert "<b>A100, H100</b>" in reasons.help_sentence("ASK_OTHER_MODEL", numbers)
    with translation.override("zh-hans"):
        assert "<b>A100，H100</b>" in reasons.help_sentence("ASK_OTHER_MODEL", numbers)


def test_an_unknown_code_is_shown_as_it_is() -> None:
    assert reasons.reason_sentence("NEW_CODE") == "<code>NEW_CODE</code>"
    assert reasons.help_sentence("NEW_CODE") == ""


@pytest.mark.parametrize(
    ("code", "number"),
    [("VOLUME_NODE_CONFLICT", "excluded_nodes"), ("VOLUME_NODES_TOO_SMALL", "suitable_nodes")],
)
def test_nodes_excluded_by_volumes_are_counted_for_one_claim_or_for_all_together(
    code: str, number: str
) -> None:
    one = {"claim": "east", "flavor": "a100", number: 2, "available": 2, "asked": 4}
    said = strip_tags(reasons.reason_sentence(code, one))
    assert "claim east" in said and "2 of 4" in said
    assert "in one rack" in strip_tags(reasons.reason_sentence(code, {**one, "level": "rack"}))
    several = strip_tags(reasons.reason_sentence(code, {**one, "claims": "east,west", "level": "rack"}))
    assert "(nodes: 2): east, west." in several
    assert "of 4" not in several  # of nodes that can mount all of them


def test_a_volume_that_does_not_exist_yet_is_to_be_waited_for() -> None:
    numbers: dict[str, object] = {"claim": "data", "excluded_nodes": 1, "available": 1, "asked": 2}
    code, uncreated = "VOLUME_NODE_CONFLICT", {**numbers, "uncreated_claim": "data"}
    said = strip_tags(reasons.reason_sentence(code, uncreated))
    assert said.startswith("Until the volume of claim data is created")
    assert strip_tags(reasons.help_sentence(code, uncreated)).startswith(
        "Wait until the volume of claim data"
    )
    assert strip_tags(reasons.help_sentence(code, numbers)).startswith("Wait for the nodes")
    several = strip_tags(reasons.reason_sentence(code, {**uncreated, "claims": "data,home"}))
    assert "(nodes: 1): data, home." in several


def test_no_sentence_ends_in_a_count_that_seems_to_belong_to_a_name() -> None:
    """As in `… can't mount the volume of claim full: 1.`"""
    after_name = re.compile(r"%\((\w+)\)s: %\((\w+)\)s")
    found = [
        (reason, text)
        for reason in Reason
        for text in (*reason.row.sentences, *reason.row.helps)
        for name, count in after_name.findall(text)
        if count in reasons._COUNTS and name not in reasons._COUNTS
    ]
    assert not found


def test_who_lacks_a_permission_of_the_platform_is_sent_to_its_admin() -> None:
    """Users of a workspace can't grant it; the help names the permission that the sentence names."""
    permission = re.compile(r"\((\w+ on \w+)\)")
    lacking = [
        (reason, text, granted[1])
        for reason in Reason
        for text in reason.row.sentences
        if (granted := permission.search(text))
    ]
    assert {found for _reason, _text, found in lacking} == {
        "get on storageclasses",
        "patch on persistentvolumeclaims",
    }
    for reason, text, granted in lacking:
        numbers: dict[str, object] = dict.fromkeys(re.findall(r"%\((\w+)\)s", text), "x")
        said = strip_tags(reasons.help_sentence(reason, numbers))
        assert said.startswith("Ask a platform admin") and granted in said
    missing: dict[str, object] = {"claim": "x", "missing_claim": "x", "cluster": "y"}
    assert "admin" not in reasons.help_sentence("VOLUME_CLAIM_NOT_BOUND", missing)


def test_claims_that_exclude_all_nodes_only_together_are_not_helped_by_smaller_tasks() -> None:
    one = {"claim": "east", "suitable_nodes": 2, "available": 0, "asked": 1}
    assert "smaller tasks" in reasons.help_sentence("VOLUME_NODES_TOO_SMALL", one)
    both = strip_tags(reasons.help_sentence("VOLUME_NODES_TOO_SMALL", {**one, "claims": "east,west"}))
    assert both == (
        "Mount claims whose volumes the same nodes can mount, instead of all of these: east, west."
    )
