"""Does `agentkit doctor` say what is there and what to do about the rest?"""

import json

from agentkit.testing import FakeServer


def test_findings_come_with_what_mends_them(command):
    """Without a provider the doctor says so and how to have one; what is optional is no failure."""
    out, err, code = command("doctor")
    assert (code, err) == (0, "")
    provider = next(line for line in out.splitlines() if " provider " in line)
    assert provider.startswith("-")
    assert "OPENAI_API_KEY" in out
    for name in ("run_python", "run_shell", "openai", "pydantic"):
        assert f" {name} " in out


def test_findings_come_as_json(command):
    """With --json the findings are one document; the sandbox was tried, not guessed."""
    with FakeServer() as server:
        out, _, code = command("doctor", "--json", server=server)
        document = json.loads(out)
        findings = {each["name"]: each for each in document["findings"]}
        assert (code, document["ok"]) == (0, True)
        assert findings["provider"]["state"] == "ok"
        assert server.base_url in findings["model"]["found"]
        assert server.requests == []
    assert findings["run_python"]["state"] in {"ok", "missing"}
    assert findings["run_python"]["found"].startswith("runs")
