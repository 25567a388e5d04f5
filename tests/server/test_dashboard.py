"""Tests for the dashboard: runs, costs, decisions and pending approvals, with filters."""

import pytest

from agentkit import Agent, core_tools
from agentkit.errors import ModelError
from agentkit.testing import ScriptedLLM, call
from agentkit.tools.files import file_tools

SECRET = "sk-abcdefghij0123456789ABCDEFG"


def broken(_request):
    """Raise a model error."""
    raise ModelError("There is no such model.")


@pytest.fixture
def served(serve, tmp_path):
    """Serve three stored runs: one with a calculation, one that failed, one that waits for approval."""
    lines = [call("calculator", expression="6*7"), f"It is 42, {SECRET}.", broken]
    lines += [call("write_file", path="a.txt", content="new\n")]
    agent = Agent("helper", core_tools + file_tools, llm=ScriptedLLM(*lines), workspace=tmp_path)
    served = serve(agent=agent, app_options={"sessions": str(tmp_path / "sessions.db")})
    for prompt in ("How much is 6*7?", "Say <b>hello</b>."):
        run = served.ask("POST", "/page/run", {"prompt": prompt}).body
        served.events(run["session"], run["serial"])
    run = served.ask("POST", "/page/run", {"prompt": "Write a file."}).body
    served.question(run["session"], run["serial"])
    return served


def runs(served, query=""):
    """Return the answer of the dashboard to a query."""
    return served.ask("GET", f"/page/runs?{query}").body


def test_runs_with_totals(served):
    """Runs are listed with status, tokens and decisions, newest first, with the pending question."""
    board = runs(served)
    assert [run["prompt"] for run in board["runs"]] == ["Write a file.", "Say <b>hello</b>.", "How much is 6*7?"]
    assert [run["status"] for run in board["runs"]] == ["unfinished", "failed", "done"]
    assert board["runs"][2]["decisions"] == [{"verdict": "allow", "rule": "safety-level", "times": 1}]
    assert board["totals"]["runs"] == 3
    assert board["totals"]["tokens"] == sum(run["tokens"] for run in board["runs"]) > 0
    assert "helper wants to call write_file" in board["waiting"][0]["question"]
    assert "+new" in board["waiting"][0]["question"]


def test_filters(served, subtests):
    """Filters are combined, and empty ones match everything."""
    rows = {
        "status=done": 1,
        "status=failed": 1,
        "verdict=allow": 1,
        "verdict=deny": 0,
        "tool=calculator": 1,
        "tool=calculator&status=failed": 0,
        "text=HELLO+say": 1,
        "text=hello+calculator": 0,
        "days=1": 3,
        "days=0": 0,
        "run=nosuch": 0,
        "status=&tool=&text=": 3,
    }
    for query, count in rows.items():
        with subtests.test(query=query):
            assert len(runs(served, query)["runs"]) == count


def test_recording_of_a_run(served):
    """The recording of a run is returned with secrets redacted."""
    (run,) = runs(served, "status=done")["runs"]
    assert [each["run"] for each in runs(served, f"run={run['run']}")["runs"]] == [run["run"]]
    text = served.ask("GET", f"/page/recording?session={run['session']}&run={run['run']}").body["text"]
    assert "How much is 6*7?" in text
    assert "calculator" in text
    assert SECRET not in text
    for query in ("session=nosuch&run=x", f"session={run['session']}&run=nosuch", ""):
        assert served.ask("GET", f"/page/recording?{query}").status == 404


def test_dashboard_data_requires_the_token(served):
    """The dashboard page is public, but its data requires the token and a valid number of days."""
    assert served.ask("GET", "/dashboard", token=False).status == 200
    for path in ("/page/runs", "/page/recording?session=a&run=b"):
        assert served.ask("GET", path, token=False).status == 401
    assert served.ask("GET", "/page/runs?days=x").status == 400


@pytest.mark.slow
def test_dashboard_in_a_browser(served, browser):
    """The page shows the runs, filters them in its address, unfolds a recording, and renders prompts as text."""
    browser.open(f"{served.origin}/#token={served.token}").until("!!document.querySelector('.example')")
    browser.open(f"{served.origin}/dashboard?status=failed")
    browser.until("document.querySelectorAll('.run-row').length === 1")
    assert browser.js("document.querySelector('.run-row h3').textContent") == "Say <b>hello</b>."
    browser.js("document.forms[0].elements.status.value = ''")
    browser.js("document.forms[0].dispatchEvent(new Event('input'))")
    browser.until("document.querySelectorAll('.run-row').length === 3")
    assert browser.js("location.search") == ""
    browser.js("document.querySelectorAll('.run-row summary')[2].click()")
    browser.until("document.querySelector('.run-row .recording pre')?.textContent.includes('calculator')")
    assert browser.js("document.documentElement.scrollWidth <= innerWidth")
