"""Tests for saving and loading reports."""

import json
import stat

import pytest

from agentkit import Agent, core_tools
from agentkit.errors import SessionError
from agentkit.evals import Case, Report, Suite, contains, exact
from agentkit.testing import ScriptedLLM, call

SECRET = "sk-proj-" + "aB3" * 16


def test_report_is_saved_and_read(tmp_path, mixed):
    """A saved report is read with its metrics, cases and runs."""
    mixed.save(tmp_path / "x.json")
    again = Report.read(tmp_path / "x.json")
    assert [figures.to_data() for figures in again.figures] == [figures.to_data() for figures in mixed.figures]
    assert [trial.outcome for trial in again.trials] == [trial.outcome for trial in mixed.trials]
    assert (again.cases, again.agents, str(again)) == (mixed.cases, mixed.agents, str(mixed))
    assert again.trials[0].result.tool_calls == mixed.trials[0].result.tool_calls


def test_saved_report_is_redacted_and_private(tmp_path, always):
    """Saved reports, as JSON, HTML or JUnit XML, contain no secrets and have mode 0600."""
    report = Suite("x", [Case(f"Say {SECRET}", "no")], contains()).run(always(f"yes {SECRET}"))
    for name in ("x.json", "x.html", "x.xml"):
        report.save(tmp_path / name)
        assert SECRET not in (tmp_path / name).read_text()
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_form_follows_the_suffix(tmp_path, mixed):
    """The suffix of the file selects the format of a report."""
    for name, start in (("a.json", '{"agentkit_report":1'), ("a.html", "<!doctype html>"), ("a.xml", "<?xml")):
        mixed.save(tmp_path / name)
        assert (tmp_path / name).read_text("utf-8").startswith(start)
    with pytest.raises(SessionError, match="cannot be written"):
        mixed.save(tmp_path / "a.json" / "b.json")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"agentkit_report": 99}',
        '{"agentkit_report": 1, "cases": []}',
        '{"agentkit_report": 1, "suite": "x", "began": "", "cases": [{}], "trials": []}',
        '{"agentkit_report": 1, "suite": "x", "began": "", "cases": 3, "trials": []}',
    ],
)
def test_file_that_is_not_a_report_is_rejected(tmp_path, text):
    """A file that is not a report raises a SessionError."""
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(SessionError, match=r"was not written by Report\.save"):
        Report.read(tmp_path / "x.json")


def test_missing_report_is_an_error(tmp_path):
    """A missing report raises an error."""
    with pytest.raises(SessionError, match="cannot be read"):
        Report.read(tmp_path / "x.json")


def test_parts_of_a_report(mixed, hostile):
    """A report can be filtered by agent and by tag."""
    assert mixed.only(agent="one").agents == ["one"]
    assert {trial.case.id for trial in mixed.only(tag="a").trials} == {"fails", "breaks"}
    assert len(mixed.only(agent="one", tag=hostile).trials) == 4
    assert len(mixed.failures) == 16
    assert (mixed.is_complete, Report("x", ()).success_rate) == (True, 0.0)
    assert mixed.success_rate == pytest.approx(1 / 3)


def test_data_of_a_report(mixed):
    """The data of a report contains the metrics as well as the trials."""
    data = json.loads(mixed.to_json())
    figures = data["figures"][0]
    assert (figures["agent"], figures["trials"], figures["outcomes"]["passed"]) == ("one", 12, 4)
    assert figures["interval"][0] < figures["success_rate"] < figures["interval"][1]
    assert figures["decisions"] == [{"verdict": "allow", "rule": "safety-level", "times": 8}]


def test_no_report_format_contains_a_secret(tmp_path, monkeypatch):
    """No format of a report contains a secret, however it is escaped or truncated."""
    key, token = "sk-proj-" + "aB3" * 16, "hush-4711-value-of-the-environment"
    monkeypatch.setenv("X_API_TOKEN", token)
    spelled = "".join(f"\\u{ord(letter):04x}" for letter in "tulip9")
    lines = [call("calculator", f'{{"expression": "1", "pass\\u0077ord": "{spelled}"}}'), f"{'x' * 55} {token} {key}"]
    agents = {f"one {key}": Agent("one", core_tools, llm=ScriptedLLM(*lines))}
    case = Case(f"Log in at https://me:tulip9@example.org with {key}", f"{'y' * 70} {token}", tags=[key], id="login")
    where = tmp_path / "report"
    report = Suite(f"suite {key}", [case], [exact(), contains()]).run(agents)
    forms = [str(report), str(report.compare(report))]
    for suffix in (".json", ".html", ".xml"):
        report.save(where.with_suffix(suffix))
        forms.append(where.with_suffix(suffix).read_text())
    for form in forms:
        for secret in (key[:20], token[:12], "tulip9", spelled):
            assert secret not in form


def test_truncated_secret_is_redacted():
    """A secret that is cut by truncation is still redacted."""
    case = Case("x", "no", id="x")
    agent = Agent("one", llm=ScriptedLLM(f"{'x' * 60} sk-proj-{'aB3' * 16}"))
    report = Suite("s", [case], exact()).run(agent)
    assert "sk-proj" not in report.trials[0].scores[0].reason
