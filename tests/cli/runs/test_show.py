"""Does `agentkit show` show what was recorded?"""


def test_a_cassette_is_shown(command, cassette):
    """The runs are printed, and nothing goes wrong."""
    out, err, code = command("show", str(cassette))
    assert (err, code) == ("", 0)
    assert "> How much is 6*7?" in out


def test_a_page_is_written(command, cassette, tmp_path):
    """`--html` writes one page, and says where."""
    out, err, code = command("show", str(cassette), "--html", str(tmp_path / "page.html"))
    assert (out, code) == ("", 0)
    assert "page.html" in err
    assert (tmp_path / "page.html").read_text("utf-8").startswith("<!doctype html>")
    assert (tmp_path / "page.html").stat().st_mode & 0o777 == 0o600


def test_what_is_no_cassette_is_told(command, tmp_path):
    """A file that is none is told on the error stream, with what to do where there is none."""
    _, err, code = command("show", str(tmp_path / "none"))
    assert (code, "There is no cassette" in err, "Record it first" in err) == (1, True, True)
    (tmp_path / "other").write_text("hello\n")
    assert "no cassette" in command("show", str(tmp_path / "other"))[1]


def test_a_page_that_cannot_be_written_is_told(command, cassette, tmp_path):
    """A folder that is not there is an error, no traceback."""
    _, err, code = command("show", str(cassette), "--html", str(tmp_path / "none" / "page.html"))
    assert code == 1
    assert err.startswith("Error: ")
