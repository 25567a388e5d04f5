"""What stands on the pages of a PDF, and how long may a hostile one be read?"""

import subprocess
import sys
from pathlib import Path

import pytest

from agentkit.errors import MissingExtra, ToolError
from agentkit.reading.pdf import MAX_PDF_BYTES, pages_of_pdf

WITHOUT_PYPDF = """
import sys
sys.modules["pypdf"] = None
from agentkit.reading import pdf
pdf.main()
"""


def test_title_and_text_of_each_page(pdf):
    """A PDF gives its title and the text of each page, an empty one too."""
    assert pages_of_pdf(pdf("Thirty days of leave.", "", "Call before nine.")) == (
        "The handbook",
        ["Thirty days of leave.", "", "Call before nine."],
    )


def test_a_damaged_pdf_is_told():
    """A PDF that cannot be read is refused in a sentence, whatever the parser thinks of it."""
    with pytest.raises(ToolError, match="damaged"):
        pages_of_pdf(b"%PDF-1.4\nnothing more")


def test_a_pdf_without_text_is_told(pdf):
    """A PDF of pictures is refused, because pictures are not read."""
    with pytest.raises(ToolError, match="no text"):
        pages_of_pdf(pdf(""))


def test_a_huge_pdf_is_refused():
    """A PDF that is too large is not even begun."""
    with pytest.raises(ToolError, match="at most"):
        pages_of_pdf(b"%PDF-" + bytes(MAX_PDF_BYTES))


def test_a_pdf_that_takes_too_long_is_given_up(pdf):
    """A file that keeps the parser busy is given up; its process is killed."""
    with pytest.raises(ToolError, match="could not be read in"):
        pages_of_pdf(pdf("words"), read_seconds=0.001)


def test_the_process_knows_no_key(pdf, tmp_path, monkeypatch):
    """What parses a stranger's file has no variable of its host."""
    monkeypatch.setenv("OPENAI_API_KEY", "planted")
    program = tmp_path / "program"
    program.write_text(
        '#!/bin/sh\ncat >/dev/null\necho "{\\"title\\": \\"<$OPENAI_API_KEY>\\", \\"pages\\": [\\"words\\"]}"\n'
    )
    program.chmod(0o700)
    assert pages_of_pdf(pdf("words"), executable=str(program))[0] == "<>"


def test_without_the_package_the_process_says_so(pdf):
    """Without pypdf the process ends with a code of its own, of which MissingExtra is made."""
    command = [sys.executable, "-c", WITHOUT_PYPDF]
    done = subprocess.run(command, input=pdf("words"), cwd=Path(__file__).parents[2], timeout=60, check=False)
    assert done.returncode == 3


def test_without_the_package_the_error_says_what_to_install(pdf, tmp_path):
    """An interpreter that lacks pypdf is an error that names the extra."""
    (tmp_path / "python").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "python").chmod(0o755)
    with pytest.raises(MissingExtra, match=r"agentkit-tools\[pdf\]"):
        pages_of_pdf(pdf("words"), executable=f"{tmp_path}/python")
