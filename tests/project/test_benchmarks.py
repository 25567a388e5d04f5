"""Each benchmark is run once against a local server; no test depends on timing."""

import json
import subprocess
import sys
from argparse import Namespace
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from benchmarks import own
from benchmarks.catalog import LIBRARIES, SCENARIOS
from benchmarks.comparing import Bench, invalid_reason
from benchmarks.figures import Spread, ratios, shown
from benchmarks.processes import Server
from benchmarks.reporting import BEGIN, END, markdown, merge, replace_tables

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FLOORS = [library for library in LIBRARIES if library.kind != "peer"]
NAMED = {scenario.name: scenario for scenario in SCENARIOS}


@pytest.fixture(scope="module")
def bench():
    """A benchmark runner that runs everything once."""
    with Server() as server:
        yield Bench(server, {library.name: Path(sys.executable) for library in FLOORS}, quick=True)


def floors(*names):
    """Some of the libraries that need no separate environment."""
    return [library for library in FLOORS if library.name in names]


def test_command_writes_figures_and_tables(tmp_path):
    """`python -m benchmarks --quick` writes the figures as JSON and Markdown."""
    figures, page = tmp_path / "figures.json", tmp_path / "page.md"
    page.write_text(f"# A page\n\n{BEGIN}\nold figures\n{END}\n\nThe rest.\n", "utf-8")
    words = ("--quick", "--no-floors", "--scenarios", "chat", "direct", "--json", figures, "--markdown", page)
    command = [sys.executable, "-m", "benchmarks", *map(str, words)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    report = json.loads(figures.read_text("utf-8"))
    assert report["scenarios"]["chat"].keys() == {"openai", "agentkit"}
    assert report["scenarios"]["chat"]["agentkit"]["ratio"][0] > 0
    text = page.read_text("utf-8")
    assert "old figures" not in text
    assert text.startswith("# A page\n")
    assert text.endswith("The rest.\n")
    assert f"| {NAMED['direct'].title} | - |" in text


@pytest.mark.parametrize("name", ["chat-tls", "loop"])
def test_floors_and_agentkit_do_the_work(bench, name):
    """Floors and agentkit send exactly the requests of a scenario, over TLS as well."""
    outcomes = bench.compare(NAMED[name], floors("agentkit", "http.client", "raw socket"))
    assert {outcome.library.name: outcome.refusal for outcome in outcomes if outcome.refusal} == {}
    assert [len(outcome.rounds) for outcome in outcomes] == [1] * 3


def test_responses_are_served(bench):
    """The server also speaks the Responses protocol."""
    (outcome,) = bench.compare(NAMED["responses"], floors("agentkit"))
    assert outcome.refusal == ""


def test_deltas_are_counted(bench):
    """A streaming library must have received every delta."""
    outcomes = bench.compare(NAMED["stream"], floors("http.client", "raw socket"))
    assert [outcome.refusal for outcome in outcomes] == ["", ""]


def test_missing_feature_is_listed(bench):
    """A library without a feature is listed with the reason."""
    (outcome,) = bench.compare(NAMED["concurrent"], floors("http.client"))
    assert (outcome.rounds, outcome.refusal) == ([], "http.client is synchronous")


def test_missing_tool_result_is_rejected(bench):
    """The server rejects and records a request without the results of its tool calls."""
    parts = urlsplit(bench.server.url("turns-2.width-2"))
    bench.server.tally()
    connection = HTTPConnection(parts.netloc)
    statuses = []
    for results in ("", "result-0000 result-0001", "result-0001", "result-0006 result-0007"):
        connection.request("POST", f"{parts.path}/chat/completions", json.dumps({"messages": results}))
        response = connection.getresponse()
        statuses.append((response.status, json.loads(response.read()).keys() & {"choices", "error"}))
    assert statuses == [(200, {"choices"}), (200, {"choices"}), (422, {"error"}), (422, {"error"})]
    tally = bench.server.tally()
    assert (tally["requests"], len(tally["refusals"])) == (2, 2)
    connection.request("GET", "/v1/models")
    response = connection.getresponse()
    assert (response.status, b"No script in the path" in response.read()) == (404, True)
    connection.close()


def test_library_that_did_less_has_no_figure():
    """A library that sent fewer requests or messages than the scenario needs has no figure."""
    result, scenario = {"values": [200]}, NAMED["concurrent"]
    assert invalid_reason(result, {"refusals": [], "requests": 600, "most_messages": 5}, scenario, 1) == ""
    assert "3 requests instead of 600" in invalid_reason(
        result, {"refusals": [], "requests": 3, "most_messages": 5}, scenario, 1
    )
    assert "refused: why" in invalid_reason(result, {"refusals": ["why"], "most_messages": 5}, scenario, 1)
    few = {"refusals": [], "requests": 1, "most_messages": 7}
    assert "sent 7 messages" in invalid_reason({"values": ["hi"]}, few, NAMED["history"], 1)
    wrong = {"refusals": [], "requests": 1, "most_messages": 2}
    assert "gave 3 instead of 2000" in invalid_reason({"values": [3]}, wrong, NAMED["stream"], 1)


def test_mcp_is_compared_with_its_own_client():
    """MCP calls are measured with the client of the `mcp` package and with agentkit."""
    *_, reference, actual = own.tables("mcp", Namespace(quick=True))
    assert reference.startswith("| `Client` of the mcp package | ")
    assert reference.endswith(" | 1.00 |")
    assert actual.startswith("| agentkit, async | ")


def test_ratios_are_of_the_same_round():
    """A ratio compares measurements of the same round, so a slow round affects both."""
    assert ratios([1.0, 10.0, 3.0], [2.0, 20.0, 6.0]) == Spread(0.5, 0.5, 0.5)
    assert ratios([], []) is None


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (2_500_000, "ns", "2.50 ms"),
        (950, "ns", "950 ns"),
        (0, "ns", "0.000 ns"),
        (0.0004, "ms", "< 0.001 ms"),
        (3_700, "bytes", "3.70 KB"),
        (7, "ms", "7.00 ms"),
    ],
)
def test_figures_are_shown_in_the_unit_that_fits(value, unit, text):
    """Times and sizes are formatted in a suitable unit with about three digits."""
    assert shown(value, unit) == text


def test_figures_are_added_to_a_file(tmp_path):
    """Figures are merged into an existing file by scenario."""
    path = tmp_path / "figures.json"
    merge(path, {"scenarios": {"chat": 1, "loop": 2}})
    assert merge(path, {"scenarios": {"chat": 3}}) == {"scenarios": {"chat": 3, "loop": 2}}


def test_tables_name_where_a_peer_is_better(tmp_path):
    """Tables list where a peer is better than agentkit, and why a figure is missing."""
    spread = {"rounds": 3, "peak": 1, "connections": 0.0, "cpu": [1.0] * 3}
    own, peer = {**spread, "value": [2e6] * 3, "ratio": [0.7] * 3}, {**spread, "value": [1e6] * 3, "ratio": [0.3] * 3}
    chat = {"agentkit": own, "agno": peer, "langchain": {"refusal": "it failed"}}
    page = tmp_path / "page.md"
    replace_tables(page, markdown({"scenarios": {"chat": chat}}))
    text = page.read_text("utf-8")
    assert "- one chat, warm: agno (1.00 ms); agentkit 2.00 ms." in text
    assert "- langchain, one chat, warm: it failed." in text


def test_every_aim_has_a_scenario():
    """Names of scenarios and libraries are unique, and each library has an adapter."""
    assert len(NAMED) == len(SCENARIOS)
    adapters = [ROOT / "benchmarks/workers" / f"{library.adapter.replace('.', '/')}.py" for library in LIBRARIES]
    assert [path for path in adapters if not path.is_file()] == []


@pytest.mark.parametrize("name", ["growth", "overheads"])
def test_cost_tables_have_complete_rows(name):
    """The cost tables have the same columns in every row."""
    rows = [line for line in own.tables(name, Namespace(quick=True)) if line.startswith("| ")]
    assert len(rows) > 6
    assert {len(row.split("|")) for row in rows} == {rows[0].count("|") + 1}
