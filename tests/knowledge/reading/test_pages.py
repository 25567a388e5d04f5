"""What stands on the pages of a PDF?"""

import subprocess
import sys
from pathlib import Path

import pytest

from agentkit.errors import MissingExtra, ToolError
from agentkit.knowledge.reading.pages import MAX_PDF_BYTES, blocks_of_pdf

WITHOUT_PYPDF = """
import sys
sys.modules["pypdf"] = None
from agentkit.knowledge.reading import pages
pages.main()
"""


def test_pages_and_title(pdf):
    """A PDF gives its title, and its paragraphs with their pages."""
    title, blocks = blocks_of_pdf(pdf("Thirty days of leave.", "", "Call before nine."))
    assert title == "The handbook"
    assert [(block.text, block.page, block.line) for block in blocks] == [
        ("Thirty days of leave.", 1, 0),
        ("Call before nine.", 3, 0),
    ]


def test_a_damaged_pdf_is_told():
    """A PDF that cannot be read is refused in a sentence, whatever the parser thinks of it."""
    with pytest.raises(ToolError, match="damaged"):
        blocks_of_pdf(b"%PDF-1.4\nnothing more")


def test_a_pdf_without_text_is_told(pdf):
    """A PDF of pictures is refused, because pictures are not read."""
    with pytest.raises(ToolError, match="no text"):
        blocks_of_pdf(pdf(""))


def test_a_huge_pdf_is_refused():
    """A PDF that is too large is not even begun."""
    with pytest.raises(ToolError, match="at most"):
        blocks_of_pdf(b"%PDF-" + bytes(MAX_PDF_BYTES))


def test_a_pdf_that_takes_too_long_is_given_up(pdf):
    """A file that keeps the parser busy is given up; its process is killed."""
    with pytest.raises(ToolError, match="could not be read in"):
        blocks_of_pdf(pdf("words"), read_seconds=0.001)


def test_the_process_knows_no_key(pdf, tmp_path, monkeypatch):
    """What parses a stranger's file has no variable of its host."""
    monkeypatch.setenv("OPENAI_API_KEY", "planted")
    program = tmp_path / "program"
    program.write_text(
        '#!/bin/sh\ncat >/dev/null\necho "{\\"title\\": \\"<$OPENAI_API_KEY>\\", \\"pages\\": [\\"words\\"]}"\n'
    )
    program.chmod(0o700)
    assert blocks_of_pdf(pdf("words"), executable=str(program))[0] == "<>"


def test_without_the_package_the_process_says_so(pdf):
    """Without pypdf the process ends with a code of its own, of which MissingExtra is made."""
    command = [sys.executable, "-c", WITHOUT_PYPDF]
    done = subprocess.run(command, input=pdf("words"), cwd=Path(__file__).parents[3], timeout=60, check=False)
    assert done.returncode == 3


def test_without_the_package_the_error_says_what_to_install(pdf, tmp_path):
    """An interpreter that lacks pypdf is an error that names the extra."""
    (tmp_path / "python").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "python").chmod(0o755)
    with pytest.raises(MissingExtra, match=r"agentkit-tools\[pdf\]"):
        blocks_of_pdf(pdf("words"), executable=f"{tmp_path}/python")
