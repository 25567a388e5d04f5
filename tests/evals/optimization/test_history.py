"""Tests for the history file of a search."""

import json
import resource
import stat

import pytest

from agentkit.errors import SessionError
from agentkit.evals.optimization.candidates import Candidate, FailedCase
from agentkit.evals.optimization.history import AnswerCost, SearchLog
from agentkit.evals.optimization.search import CaseMeasurement, EvaluatedCandidate, Proposal, Propose
from agentkit.usage import Charge, Tariff, Usage

ORIGINAL = Candidate({"instruction": "Be brief."})
CHILD = Candidate({"instruction": "Be kind."}, (ORIGINAL.id,), 1, "It was rude.")
KEY = ("train", ORIGINAL.id, "c1")
QUESTION = Propose(1, ORIGINAL, "instruction", ())
MEASURED = CaseMeasurement(0.5, FailedCase("c1", "Hi", "No", "Yes", ("exact: no",), ("add() -> ok: 1",), ("add",)))
TAKEN = AnswerCost(Usage(10, 5, requests=1, tariff=Tariff("openai", "gpt")), 2, 1.5)


def lineage(path, key="k"):
    """Return a lineage in a file."""
    return SearchLog(path, key, {"agent": "helper", "suite": "sums"})


def filled(path):
    """Return a lineage with a measurement, a proposal and a candidate."""
    parent = lineage(path)
    parent.add_measured(KEY, MEASURED, TAKEN, Charge(10, 5, {"tool_calls": 2}, (0.1,)))
    parent.add_proposal(
        QUESTION,
        Proposal("Be kind.", "It was rude."),
        AnswerCost(Usage(1, 1, requests=1)),
        Charge(11, 6, {"tool_calls": 2}),
    )
    parent.add_tried(EvaluatedCandidate(CHILD, "kept", 0.75))
    return parent


@pytest.mark.parametrize("is_stored", [True, False])
def test_answers_are_stored(tmp_path, is_stored):
    """Measurements, proposals, candidates and their cost are stored in a file and in memory."""
    stored = filled(tmp_path / "search.jsonl" if is_stored else None)
    stored.close()
    again = lineage(tmp_path / "search.jsonl") if is_stored else stored
    assert again.measured == {KEY: MEASURED}
    assert again.proposal(QUESTION) == Proposal("Be kind.", "It was rude.")
    assert again.tried == {1: EvaluatedCandidate(CHILD, "kept", 0.75)}
    assert again.tried[1].candidate.reason == "It was rude."
    assert again.taken[KEY] == TAKEN
    assert again.usage == Usage(11, 6, requests=2)
    assert again.charged == Charge(11, 6, {"tool_calls": 2})
    again.close()


def test_only_the_answer_to_the_same_question_counts(tmp_path):
    """A stored proposal is only used for the same candidate, part and round."""
    stored = filled(None)
    assert stored.proposal(Propose(2, ORIGINAL, "instruction", ())) is None
    assert stored.proposal(Propose(1, CHILD, "instruction", ())) is None
    assert stored.proposal(Propose(1, ORIGINAL, "tool:add", ())) is None


def test_search_is_stored_as_private_json_lines(tmp_path):
    """A search is stored as JSON lines with mode 0600 and the texts of every candidate."""
    path = tmp_path / "search.jsonl"
    filled(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    header, measured, proposal, tried = map(json.loads, path.read_text("utf-8").splitlines())
    assert header == {"agentkit_search": 1, "key": "k", "agent": "helper", "suite": "sums"}
    assert measured["measured"]["score"] == 0.5
    assert proposal["proposal"]["parent"] == ORIGINAL.id
    assert tried["tried"]["texts"] == {"instruction": "Be kind."}
    assert tried["tried"]["parents"] == [ORIGINAL.id]


def test_candidate_is_stored_once(tmp_path):
    """The outcome of a candidate is written once, even if it is reported again."""
    path = tmp_path / "search.jsonl"
    filled(path).close()
    again = lineage(path)
    again.add_tried(EvaluatedCandidate(CHILD, "kept", 0.75))
    again.close()
    assert path.read_text("utf-8").count('"tried"') == 1


def test_incomplete_last_line_is_overwritten(tmp_path):
    """An incomplete last line is ignored and overwritten."""
    path = tmp_path / "search.jsonl"
    filled(path).close()
    content = path.read_bytes()
    path.write_bytes(content[:-20])
    parent = lineage(path)
    assert parent.tried == {}
    parent.add_tried(EvaluatedCandidate(CHILD, "kept", 0.75))
    parent.close()
    assert path.read_bytes() == content


def test_search_belongs_to_its_agent_and_suite(tmp_path):
    """A search cannot be continued with another agent, suite or seed."""
    path = tmp_path / "search.jsonl"
    filled(path).close()
    with pytest.raises(SessionError, match="belongs to another search"):
        lineage(path, key="other")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("notes\n", "is not a search that this version"),
        ("notes without an end", "is not a search that this version"),
        (
            '{"agentkit_search": 1, "key": "k"}\n{"charged": {"input_tokens": -5}}\n',
            "the cost is negative or not finite",
        ),
        ('{"agentkit_search": 1, "key": "k"}\n{"charged": {"dollars": [NaN]}}\n', "the cost is negative or not finite"),
        ('{"agentkit_search": 1, "key": "k"}\n{"charged": []}\n', "line 2 is not a valid entry"),
        ('{"agentkit_search": 2, "key": "k"}\n', "is not a search that this version"),
        ('{"agentkit_search": 1, "key": "k"}\n\n', "line 2 is not a valid entry"),
        (
            '{"agentkit_search": 1, "key": "k"}\n{"measured": {"half": "train"}}\n',
            "line 2 is not a valid entry",
        ),
        ('{"agentkit_search": 1, "key": "k"}\n{"proposal": 3}\n', "line 2 is not a valid entry"),
    ],
)
def test_foreign_file_is_rejected(tmp_path, text, complaint):
    """A file of another kind or a damaged one is rejected and left unchanged."""
    path = tmp_path / "search.jsonl"
    path.write_text(text, "utf-8")
    with pytest.raises(SessionError, match=complaint):
        lineage(path)
    assert path.read_text("utf-8") == text


def test_lines_of_unknown_kinds_are_skipped(tmp_path):
    """Lines of unknown kinds are skipped."""
    path = tmp_path / "search.jsonl"
    filled(path).close()
    with path.open("a", encoding="utf-8") as file:
        file.write('{"thought": "hm"}\n')
    parent = lineage(path)
    assert len(parent.measured) == 1
    parent.close()


def test_only_one_process_can_continue_a_search(tmp_path):
    """Only one process or thread at a time can continue a search."""
    parent = lineage(tmp_path / "search.jsonl")
    with pytest.raises(SessionError, match="Another run writes to"):
        lineage(tmp_path / "search.jsonl")
    parent.close()
    lineage(tmp_path / "search.jsonl").close()


def test_unwritable_path_is_rejected(tmp_path):
    """A path that cannot be written raises a SessionError when the log is opened."""
    with pytest.raises(SessionError, match="cannot be written: No such file"):
        lineage(tmp_path / "nowhere" / "search.jsonl")
    with pytest.raises(SessionError, match="cannot be written: Is a directory"):
        lineage(tmp_path)


def test_failed_write_ends_the_search(tmp_path):
    """A full disk raises a SessionError immediately, because the answer could not be reused."""
    path = tmp_path / "search.jsonl"
    parent = lineage(path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 10, limits[1]))
    try:
        with pytest.raises(SessionError, match="cannot be written: File too large"):
            parent.add_tried(EvaluatedCandidate(CHILD, "kept", 0.75))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        parent.close()
    lineage(path).close()


def test_device_is_rejected():
    """Only regular files are accepted."""
    with pytest.raises(SessionError, match="is not a file in which a search can be stored"):
        lineage("/dev/zero")
