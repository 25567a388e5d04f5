"""Creates the pictures of web pages: the chat page with an approval, the dashboard, an evaluation and a recorded run.

Run it with `make pictures`; it needs Chromium. With a folder as argument, it writes the chat page and the dashboard
there at 320, 1,200 and 3,840 columns, light and dark, for review.
"""

import base64
import importlib.util
import sys
import tempfile
from pathlib import Path
from typing import Any

from agentkit import Agent, core_tools
from agentkit.cli.export import page
from agentkit.evals import Case, Suite, numeric
from agentkit.sessions.cassettes.file import read_cassette
from agentkit.sessions.transcript import build_transcripts
from agentkit.testing import ScriptedLLM, call, record
from agentkit.tools.files import file_tools

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SCHEMES = ("light", "dark")
PROGRAM = 'def price(net):\n    """The gross price."""\n    return net * 1.19\n'
ROUNDED = call("edit_file", path="price.py", old_text="net * 1.19", new_text="round(net * 1.19, 2)")
ANSWER = "17 % of 1,250 is **212.50**.\n\n| net | rate | result |\n|---|---|---|\n| 1,250 | 17 % | 212.50 |"


def test_support() -> Any:
    """The server and the browser that the tests use."""
    spec = importlib.util.spec_from_file_location("support", ROOT / "tests" / "server" / "conftest.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["support"] = module
    spec.loader.exec_module(module)
    return module


def shoot(browser: Any, path: Path, height: int) -> None:
    """Write a screenshot of the browser, down to a height."""
    clip = {"x": 0, "y": 0, "width": browser.js("innerWidth"), "height": height, "scale": 1}
    found = browser.call("Page.captureScreenshot", format="png", clip=clip)
    path.write_bytes(base64.b64decode(found["data"]))
    sys.stdout.write(f"{path}\n")


def helper(folder: Path) -> Agent[str]:
    """An agent that answers one question, and then requests approval to change a file."""
    (folder / "price.py").write_text(PROGRAM)
    llm = ScriptedLLM(call("calculator", expression="1250 * 0.17"), ANSWER, ROUNDED, "Done.")
    return Agent("helper", core_tools + file_tools, llm=llm, workspace=folder)


def served_pages(browser: Any, support: Any, folder: Path, shots: list[tuple[Path, int, int, str]]) -> None:
    """Take pictures of the chat page and the dashboard; `shots` are name, width, height and colour scheme."""
    with support.Served(helper(folder), sessions=str(folder / "sessions.db")) as served:
        run = served.ask("POST", "/page/run", {"prompt": "How much is 17 % of 1,250?"}).body
        served.events(run["session"], run["serial"])
        served.ask("POST", "/page/run", {"session": run["session"], "prompt": "Round the gross price to two digits."})
        browser.open(f"{served.origin}/#token={served.token}").until("!!document.querySelector('.example')")
        for path, width, height, scheme in shots:
            if path.name.startswith("dashboard"):
                browser.open(f"{served.origin}/dashboard", width, height, scheme)
                browser.until("document.querySelectorAll('.run-row').length === 2")
            else:
                browser.open(f"{served.origin}/#session={run['session']}", width, height, scheme)
                browser.until("!!document.querySelector('.question button.main:enabled')")
                browser.js("document.activeElement.blur()")
            shoot(browser, path, height)


def report() -> str:
    """The page of an evaluation of two agents."""
    cases = [
        Case("17 % of 2,400?", 408),
        Case("2 ** 10?", 1024),
        Case("The sum of 1 to 100?", 5050),
        Case("9 * 7?", 63),
    ]
    right = ("It is 408.", "1024", "5,050", "63")
    wrong = ("It is 408.", "1024", "5,000", "63")
    agents = {name: Agent(name, llm=ScriptedLLM(*answers)) for name, answers in (("careful", right), ("quick", wrong))}
    return Suite("sums", cases, [numeric()]).run(agents, concurrency=1).to_html()


def recorded_run(folder: Path) -> str:
    """The page of a recorded run."""
    agent = helper(folder)
    agent.approve = lambda _: True
    with record(folder / "run.cassette"):
        agent.run("How much is 17 % of 1,250?")
        agent.run("Round the gross price to two digits.")
    header, entries = read_cassette(folder / "run.cassette", hide=True)
    return page("run.cassette", header, build_transcripts(entries))


def main(target: Path | None) -> None:
    """Create the pictures of the documentation or, with a folder, those for review."""
    support = test_support()
    with tempfile.TemporaryDirectory() as name, support.launched(Path(name) / "profile") as browser:
        folder = Path(name) / "shop"
        folder.mkdir()
        if target is not None:
            sizes = ((320, 700), (1_200, 900), (3_840, 2_160))
            shots = [
                (target / f"{what}-{width}-{scheme}.png", width, height, scheme)
                for what in ("chat", "dashboard")
                for width, height in sizes
                for scheme in SCHEMES
            ]
            served_pages(browser, support, folder, shots)
            return
        shots = [(HERE / f"page-{scheme}.png", 1_000, 760, scheme) for scheme in SCHEMES]
        served_pages(browser, support, folder, [*shots, (HERE / "dashboard.png", 1_000, 700, "light")])
        for title, html in (("report", report()), ("recorded-run", recorded_run(folder))):
            (folder / f"{title}.html").write_text(html)
            browser.open((folder / f"{title}.html").as_uri(), 1_000, 800).until("!!document.querySelector('main')")
            shoot(browser, HERE / f"{title}.png", 720)


if __name__ == "__main__":
    given = [Path(each) for each in sys.argv[1:]]
    for each in given:
        each.mkdir(parents=True, exist_ok=True)
    main(given[0] if given else None)
