"""Pages of the reference, which are generated from the code."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.rule

ROOT = Path(__file__).parents[2]
EXCERPTS = {
    "api.md": ["### agentkit.Agent", "max_iterations: int = 10", "#### .resume()"],
    "command-line.md": ["## agentkit tools run", "`--limit NAME=NUMBER`", "| 130 |"],
    "environment.md": ["`AGENTKIT_MODEL`", "`GROQ_API_KEY`", "`OLLAMA_BASE_URL`"],
    "errors.md": ["├── ModelError", "| `RateLimited` |", "`retry_after_seconds`"],
    "events.md": ["### ToolCallStarted", "| `decision` | `Decision` | required |"],
    "tools.md": ["## run_python", "10 s and 512 MB", '"expression": {', "| level | SYSTEM |"],
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Return the text of each page, as the script writes it."""
    folder = tmp_path_factory.mktemp("reference")
    command = [sys.executable, str(ROOT / "docs" / "site" / "reference"), "--folder", str(folder)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return {path.name: path.read_text("utf-8") for path in folder.iterdir()}


def test_every_page_is_written(pages):
    """The script writes all pages and every public name, command, variable, error, event and tool."""
    assert sorted(pages) == sorted(EXCERPTS)


@pytest.mark.parametrize("page", EXCERPTS)
def test_page_has_its_facts(page, pages):
    """Pages contain signatures, options, variables, error attributes, event fields and schemas."""
    assert [excerpt for excerpt in EXCERPTS[page] if excerpt not in pages[page]] == []


def test_index_lists_every_page(pages):
    """The front page of the documentation links to every page of the reference."""
    index = (ROOT / "docs" / "index.md").read_text("utf-8")
    assert sorted(re.findall(r"\(reference/([\w-]+\.md)\)", index)) == sorted(pages)
