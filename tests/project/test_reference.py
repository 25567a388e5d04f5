"""Does the reference say what the code says?"""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.rule

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
SCRIPT = ROOT / "docs" / "site" / "reference"
PAGES = sorted(path.name for path in REFERENCE.glob("*.md"))


def run(*words):
    """Run the script that makes the reference."""
    command = [sys.executable, str(SCRIPT), *map(str, words)]
    return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120, check=False)


def test_reference_is_up_to_date():
    """Every page of the reference is what the code says today; a stale one fails with the command that mends it."""
    done = run("--check")
    if done.returncode:
        pytest.fail(f"{done.stderr}{done.stdout[:2_000]}", pytrace=False)


def test_stale_page_is_told(tmp_path):
    """A page that was changed by hand, and one that is missing, are named with the command that brings them back."""
    run("--folder", tmp_path)
    (tmp_path / "events.md").unlink()
    page = tmp_path / "errors.md"
    page.write_text(page.read_text("utf-8").replace("RateLimited", "TooFast"), "utf-8")
    done = run("--check", "--folder", tmp_path)
    assert done.returncode == 1
    assert done.stderr == "Stale: errors.md, events.md. Bring the reference up to date with: make reference\n"
    assert "TooFast" in done.stdout


def test_reference_is_written_where_one_wishes(tmp_path):
    """The script writes all pages into a folder, and nothing else."""
    assert run("--folder", tmp_path).returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == PAGES


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("api.md", ["### agentkit.Agent", "max_iterations: int = 10", "#### .resume()"]),
        ("command-line.md", ["## agentkit tools run", "`--limit NAME=NUMBER`", "| 130 |"]),
        ("environment.md", ["`AGENTKIT_MODEL`", "`GROQ_API_KEY`", "`OLLAMA_BASE_URL`"]),
        ("errors.md", ["├── ModelError", "| `RateLimited` |", "`retry_after_seconds`"]),
        ("events.md", ["### ToolCallStarted", "| `decision` | `Decision` | must be given |"]),
        ("tools.md", ["## run_python", "10 s and 512 MB", '"expression": {', "| level | SYSTEM |"]),
    ],
)
def test_reference_has_what_one_looks_for(page, words):
    """Signatures with defaults, options, variables, error attributes, event fields, tools with schema and limits."""
    text = (REFERENCE / page).read_text("utf-8")
    assert [word for word in words if word not in text] == []
