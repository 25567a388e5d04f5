"""The example programs run as documented, against a scripted model."""

import csv
import io
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest

from agentkit.testing import FakeServer, call, fail, slow

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PASSED_ON = ("COVERAGE_", "LANG", "LC_")
SECONDS = 120


def environment_of(folder, base_url, **more):
    """Return the environment of a program: that of a new user, with the URL of the model."""
    passed_on = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
    model = {"OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": "a-key"} if base_url else {}
    own = {"PATH": os.environ["PATH"], "HOME": str(folder / "home"), "PYTHONIOENCODING": "utf-8"}
    return {**passed_on, **own, **model, **more}


@pytest.fixture
def here(tmp_path):
    """An empty folder to run a program in."""
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


@pytest.fixture
def start(here, tmp_path):
    """Start an example in the empty folder."""
    processes = []

    def begin(name, *arguments, base_url=None, variables=None, **streams):
        command = [sys.executable, "-u", str(ROOT / "examples" / name), *map(str, arguments)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
        environment = environment_of(tmp_path, base_url, **variables or {})
        process = subprocess.Popen(command, cwd=here, env=environment, encoding="utf-8", **pipes)
        processes.append(process)
        return process

    yield begin
    for process in processes:
        process.kill()
        process.communicate(timeout=SECONDS)


@pytest.fixture
def run(start):
    """Run an example and return its exit code, standard output and standard error."""

    def to_the_end(name, *arguments, server=None, typed="", **more):
        process = start(name, *arguments, base_url=server and server.base_url, **more)
        printed, output = process.communicate(typed, timeout=SECONDS)
        return process.returncode, printed, output

    return to_the_end


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_short_and_says_how_to_run_it(path):
    """An example has at most forty lines, a usage comment at its top, and no model name."""
    text = path.read_text("utf-8")
    assert len(text.splitlines()) <= 40
    assert re.match(rf'""".+\n\n *(python|pytest) {path.name}', text)
    assert not re.search(r"model=|gpt-|provider=|api_key=", text)


def test_there_are_ten_examples_and_all_are_listed():
    """The page on the examples links to each of the ten programs."""
    page = (ROOT / "docs" / "examples.md").read_text("utf-8")
    assert sorted(re.findall(r"\(\.\./examples/(\w+\.py)\)", page)) == [path.name for path in EXAMPLES]
    assert len(EXAMPLES) == 10


@pytest.mark.parametrize(
    "name", [path.name for path in EXAMPLES if not path.name.startswith("test_")], ids=lambda name: name[:-3]
)
def test_without_a_key_a_program_says_what_to_do(name, run, here):
    """Without a model a program exits with 1 and a line that names the variable to set."""
    (here / "note.txt").write_text("A lamp for 3 EUR")
    code, _, output = run(name, typed="name,born\nAn,1990\n")
    assert code == 1
    assert "No API key found. Set OPENAI_API_KEY" in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    "name",
    ["batch.py", "clean_csv.py", "extract_rows.py", "review_team.py", "summarise_folder.py"],
    ids=lambda name: name[:-3],
)
def test_missing_file_is_reported(name, run):
    """A missing file is reported without a traceback before a model is called."""
    with FakeServer() as server:
        code, _, output = run(name, "nowhere", server=server)
    assert (code, "nowhere" in output, "Traceback" in output) == (1, True, False), output
    assert server.requests == []


def sent(request):
    """Return the messages of a request, as text."""
    return json.dumps(request.json, ensure_ascii=False)


def test_summarise_folder_reads_and_changes_nothing(run, tmp_path):
    """The summary is based on the files, reads are reported, and no tool can write."""
    folder = tmp_path / "notes"
    (folder / "old").mkdir(parents=True)
    (folder / "plan.txt").write_text("We sail on Friday.")
    (folder / "old" / "list.txt").write_text("Bread, rope.")
    calls = [call("read_file", path=path) for path in ("plan.txt", "old/list.txt", "no.txt")]
    lines = [call("list_directory"), calls, call("write_file", path="plan.txt", content="x"), "All about a voyage."]
    with FakeServer(*lines) as server:
        code, printed, output = run("summarise_folder.py", folder, server=server)
    assert (code, printed) == (0, "All about a voyage.\n")
    assert "We sail on Friday." in sent(server.requests[2])
    assert "Bread, rope." in sent(server.requests[2])
    assert re.search(r"^read_file .*'no.txt' does not exist", output, re.MULTILINE)
    assert (folder / "plan.txt").read_text() == "We sail on Friday."


class Web(BaseHTTPRequestHandler):
    """A search service and a page, on this machine."""

    def do_GET(self):
        """Return the search results or the page."""
        address = f"http://127.0.0.1:{self.server.server_port}/page"
        found = {"results": [{"title": "Day length", "url": address, "content": "Plants and light"}]}
        is_search = self.path.startswith("/search")
        kind, body = (
            ("application/json", json.dumps(found)) if is_search else ("text/plain", "Plants measure the night.")
        )
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *arguments):
        """Discard the message."""


@pytest.fixture
def web():
    """The host of the search service and its page."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Web) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def test_research_marks_sources_that_were_not_opened(run, web):
    """Each statement has its source, and sources that were not opened are marked."""
    page, invented = f"http://{web}/page", f"http://{web}/other"
    findings = [{"statement": "They measure it.", "source": page}, {"statement": "They guess.", "source": invented}]
    lines = [call("web_search", query="plants flower"), call("fetch_url", url=page), json.dumps({"result": findings})]
    with FakeServer(*lines) as server:
        where = {"AGENTKIT_SEARXNG_URL": f"http://{web}"}
        code, printed, output = run("research.py", "When do plants flower?", web, server=server, variables=where)
    assert (code, output) == (0, "")
    assert "Day length" in sent(server.requests[1])
    assert "Plants measure the night." in sent(server.requests[2])
    assert [line.split() for line in printed.splitlines()[1::2]] == [[page], [invented, "(NEVER", "OPENED)"]]


def test_research_opens_only_the_web_and_hosts_that_were_named(run, web):
    """A page on an internal host is only read if the person named the host."""
    line = json.dumps({"result": [{"statement": "Secrets.", "source": f"http://{web}/page"}]})
    with FakeServer(call("fetch_url", url=f"http://{web}/page"), line) as server:
        code, printed, _ = run("research.py", "What is inside?", server=server)
    assert (code, "(NEVER OPENED)" in printed) == (0, True)
    assert "Plants measure" not in sent(server.requests[1])


MESSY = 'name,born\n an  Nguyen,3.2.1990\nBO TRAN,01.07.1985\n"Tran, Bo","1.7.1985"\nBo Tran,1.7.1985\n,\n'
CLEANING = """
import re
def clean(row):
    name = " ".join(row["name"].split()).title()
    if not name:
        return None
    if "," in name:
        last, first = name.split(", ")
        name = f"{first} {last}"
    day, month, year = map(int, row["born"].split("."))
    return {"name": name, "born": f"{year:04}-{month:02}-{day:02}"}
"""


def test_clean_csv_runs_generated_code(run, tmp_path):
    """Generated code cleans each row, errors are returned to the model, and the file is unchanged."""
    table = tmp_path / "people.csv"
    table.write_text(MESSY, "utf-8")
    wrong = "def clean(row):\n    return {'name': row['nmae'], 'born': ''}"
    lines = [call("clean_table", code=wrong), call("clean_table", code=CLEANING), "Names and dates are alike now."]
    with FakeServer(*lines) as server:
        code, printed, output = run("clean_csv.py", table, server=server)
    assert (code, output) == (0, "Names and dates are alike now.\n")
    assert "KeyError: 'nmae'" in sent(server.requests[1])
    assert "5 rows became 2 without doubles" in sent(server.requests[2])
    assert list(csv.reader(io.StringIO(printed))) == [
        ["name", "born"],
        ["An Nguyen", "1990-02-03"],
        ["Bo Tran", "1985-07-01"],
    ]
    assert table.read_text("utf-8") == MESSY


def test_clean_csv_takes_long_tables_from_standard_input(run):
    """A long table is cleaned in chunks, and duplicate rows are removed."""
    rows = "".join(f'{number % 150},"{"x" * 300}"\n' for number in range(200))
    double = "def clean(row):\n    return {**row, 'number': str(2 * int(row['number']))}"
    with FakeServer(call("clean_table", code=double), "Doubled.") as server:
        code, printed, _ = run("clean_csv.py", server=server, typed=f"number,text\n{rows}")
    cleaned = list(csv.DictReader(io.StringIO(printed)))
    assert code == 0
    assert [int(row["number"]) for row in cleaned] == [2 * number for number in range(150)]


def test_clean_csv_without_rows_prints_nothing(run):
    """A table without rows prints nothing."""
    with FakeServer("There is nothing to clean.") as server:
        code, printed, output = run("clean_csv.py", server=server, typed="name,born\n")
    assert (code, printed, output) == (0, "", "There is nothing to clean.\n")


def test_clean_csv_code_cannot_read_files(run, tmp_path):
    """Generated code cannot read files, and the table is unchanged."""
    secret = tmp_path / "secret.txt"
    secret.write_text("hunter2")
    spying = f"def clean(row):\n    return {{'a': open({str(secret)!r}).read()}}"
    with FakeServer(call("clean_table", code=spying), "I could not.") as server:
        code, printed, _ = run("clean_csv.py", server=server, typed="a\n1\n")
    assert (code, printed.split()) == (0, ["a", "1"])
    assert "hunter2" not in sent(server.requests[1])


def read_until(stream, ending):
    """Return the output of a program up to its next question."""
    text = ""
    while not text.endswith(ending) and (letter := stream.read(1)):
        text += letter
    return text


BUG = "def add(a, b):\n    return a - b\n"
MENDED = BUG.replace("-", "+")
MENDING = (
    call("search_files", pattern="def add"),
    call("edit_file", path="sums.py", old_text="a - b", new_text="a + b"),
    "It subtracted. It adds now.",
)


@pytest.mark.parametrize(
    ("approval", "keeping", "left"),
    [("y\n", "y\n", MENDED), ("y\n", "\n", BUG), ("n\n", None, BUG)],
)
def test_coding_asks_shows_and_undoes(start, tmp_path, approval, keeping, left):
    """Nothing changes without approval; changes are shown, and undone unless they are accepted."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "sums.py").write_text(BUG)
    keyboard, screen = pty.openpty()
    with os.fdopen(keyboard, "wb", buffering=0) as fingers, FakeServer(*MENDING) as server:
        process = start("coding_with_undo.py", "Mend it.", folder, base_url=server.base_url, stdin=screen)
        os.close(screen)
        question = read_until(process.stderr, "Allow it? [N] ")
        fingers.write(approval.encode())
        printed = read_until(process.stdout, "[y/N] ") if keeping else ""
        fingers.write((keeping or "").encode())
        process.stdin = None
        printed += process.communicate(timeout=SECONDS)[0]
    assert process.returncode == 0
    assert "edit_file" in question
    assert "It subtracted." in printed
    assert ("\n+    return a + b" in printed) is (keeping is not None)
    assert ("Restored 'sums.py'" in printed) is (keeping not in (None, "y\n"))
    assert (folder / "sums.py").read_text() == left


def test_coding_without_a_person_changes_nothing(run, here):
    """Without a terminal nothing is changed."""
    (here / "sums.py").write_text(BUG)
    with FakeServer(*MENDING) as server:
        code, _, output = run("coding_with_undo.py", server=server)
    assert (code, (here / "sums.py").read_text()) == (0, BUG)
    assert re.search(r"edit_file .*-> denied", output)


def answer_of(*rows):
    """Return a model's answer with a list of expenses."""
    names = ("day", "what", "amount", "currency")
    return json.dumps({"result": [dict(zip(names, row, strict=True)) for row in rows]})


def test_extract_rows_returns_valid_rows(run, here):
    """Rows of several texts are printed in order, and an invalid one is returned to the model."""
    (here / "a.txt").write_text("taxi, third of March, 18.50 euros")
    (here / "b.txt").write_text("a museum on the fourth for 12 dollars")
    taxi, museum = ("2027-03-03", "taxi", "18.50", "EUR"), ("2027-03-04", "museum", "12.00", "USD")

    def answer(request):
        if "'EUR', 'USD'" in sent(request) or "museum" not in sent(request):
            return answer_of(museum) if "museum" in sent(request) else answer_of(taxi)
        return answer_of((*museum[:3], "dollars"))

    with FakeServer(answer, repeat=True) as server:
        code, printed, output = run("extract_rows.py", "a.txt", "b.txt", server=server)
    assert (code, output) == (0, "")
    assert list(csv.reader(io.StringIO(printed))) == [list(taxi), list(museum)]
    assert len(server.requests) == 3


def test_extract_rows_names_what_failed(run, here):
    """A text without valid rows is reported, the other rows are printed, and the exit code is 1."""
    (here / "a.txt").write_text("taxi")
    (here / "b.txt").write_text("nonsense")
    taxi = ("2027-03-03", "taxi", "18.50", "EUR")
    with FakeServer(lambda request: "Hm." if "nonsense" in sent(request) else answer_of(taxi), repeat=True) as server:
        code, printed, output = run("extract_rows.py", "a.txt", "b.txt", server=server)
    assert (code, printed.split()) == (1, [",".join(taxi)])
    assert output.startswith("b.txt: ")


def test_review_team_combines_three_reviews(run, tmp_path):
    """Three workers read the file, the supervisor receives all reviews, and usage is added up."""
    file = tmp_path / "sums.py"
    file.write_text(BUG)
    workers = ("safety_reviewer", "clarity_reviewer", "correctness_reviewer")

    def answer(request):
        value = request.json["messages"]
        if "Call all reviewers" in value[0]["content"]:
            calls = [call(name, request="Review sums.py.") for name in workers]
            return calls if len(value) == 2 else "# Review\nLine 2 subtracts."
        return "Line 2 is wrong." if value[-1]["role"] == "tool" else call("read_file", path="sums.py")

    with FakeServer(answer, repeat=True) as server:
        code, printed, output = run("review_team.py", file, server=server)
    assert (code, printed) == (0, "# Review\nLine 2 subtracts.\n")
    assert [f"{name}: Line 2 is wrong." in output for name in workers] == [True] * 3
    assert output.splitlines()[-1] == "8 requests, 120 tokens"
    read = [request for request in server.requests if "return a - b" in sent(request)]
    assert len(read) == 3


def test_chat_remembers_across_restarts(run):
    """A second process continues the conversation of the first; another name starts another conversation."""
    with FakeServer("Hello An!", "Your name is An.", "I do not know.") as server:
        first = run("chat_with_memory.py", server=server, typed="I am An.\n")
        second = run("chat_with_memory.py", server=server, typed="Who am I?\n\n")
        other = run("chat_with_memory.py", "work", server=server, typed="Who am I?\n")
    assert [code for code, _, _ in (first, second, other)] == [0, 0, 0]
    assert "Hello An!" in first[1]
    assert "2 messages so far." in second[1]
    assert "Your name is An." in second[1]
    assert "I am An." in sent(server.requests[1])
    assert "I am An." not in sent(server.requests[2])


def test_chat_continues_after_a_failure(run):
    """A model error is reported and the chat continues."""
    with FakeServer(fail(400, "no such model"), "Here I am.") as server:
        code, printed, _ = run("chat_with_memory.py", server=server, typed="Hello?\nHello?\n")
    assert code == 0
    assert "no such model" in printed
    assert "Here I am." in printed


def test_chat_answers_an_interrupted_request(start, run):
    """A chat that was killed during a request answers it after a restart."""
    request_event = threading.Event()

    def begin(request):
        request_event.set()
        return slow("Too late.", before_seconds=SECONDS)

    with FakeServer(begin) as server:
        process = start("chat_with_memory.py", base_url=server.base_url)
        process.stdin.write("How far is the moon?\n")
        process.stdin.flush()
        assert request_event.wait(SECONDS)
        process.kill()
        process.wait(SECONDS)
    with FakeServer("384,400 km.") as server:
        code, printed, _ = run("chat_with_memory.py", server=server)
    assert code == 0
    assert "384,400 km." in printed
    assert "How far is the moon?" in sent(server.requests[0])


def test_batch_only_requests_what_is_missing(run):
    """A restarted batch only requests the topics that failed."""

    def topic(request):
        return json.dumps({"result": "numbers" if "cmath" in sent(request) else "other"})

    def first(request):
        return fail(400, "no") if '"ast"' in sent(request) else topic(request)

    with FakeServer(first, repeat=True) as server:
        code, printed, output = run("batch.py", server=server)
    assert (code, len(server.requests)) == (0, 100)
    rows = dict(reversed(line.split("\t")) for line in printed.splitlines())
    assert (len(rows), rows["cmath"], rows["ast"]) == (100, "numbers", "failed")
    assert "100 of 100" in output
    with FakeServer(topic) as server:
        code, printed, output = run("batch.py", server=server)
    assert (code, "failed" in printed) == (0, False)
    assert "Counter({'other': 99, 'numbers': 1})" in output


def test_batch_takes_other_texts_as_another_batch(run, here):
    """A changed file is sorted again, and blank lines are skipped."""
    for lines, question in (("one\n\ntwo\n", 2), ("one\nthree\n", 2), ("one\ntwo\n", 0)):
        (here / "texts.txt").write_text(lines)
        with FakeServer(*['{"result": "other"}'] * question) as server:
            code, printed, _ = run("batch.py", "texts.txt", server=server)
        assert (code, printed) == (0, "".join(f"other\t{line}\n" for line in lines.split()))


@contextmanager
def service(start, server):
    """A running web service and a function that sends it requests."""
    process = start("service_with_fastapi.py", 0, base_url=server.base_url, stdout=subprocess.DEVNULL)
    port = int(re.search(r":(\d+) ", read_until(process.stderr, "(Press CTRL+C to quit)")).group(1))

    def ask(**question):
        connection = HTTPConnection("127.0.0.1", port, timeout=SECONDS)
        connection.request("POST", "/ask", json.dumps(question), {"Content-Type": "application/json"})
        response = connection.getresponse()
        data = json.loads(response.read())
        connection.close()
        return response.status, data

    ask.process = process
    yield ask
    process.terminate()
    process.communicate(timeout=SECONDS)


def test_service_separates_conversations_across_restarts(start):
    """A conversation continues with its id, also in a new process, and is separate from others."""
    lines = (call("calculator", expression="0.17*2400"), "It is 408.", "Hello.", "Twice that is 816.")
    with FakeServer(*lines) as server:
        with service(start, server) as ask:
            status, output = ask(question="How much is 17% of 2400?")
            assert (status, output["answer"], output["tools"]) == (200, "It is 408.", ["calculator"])
            assert ask(question="Hello?")[1]["answer"] == "Hello."
        with service(start, server) as ask:
            again = ask(question="And twice that?", conversation=output["conversation"])[1]
    assert (again["answer"], again["conversation"]) == ("Twice that is 816.", output["conversation"])
    assert "17% of 2400" not in sent(server.requests[2])
    assert "It is 408." in sent(server.requests[3])


def test_service_serves_two_users_at_the_same_time(start):
    """A thousand requests of two concurrent users are answered separately, and memory does not grow."""
    turns, conversations, sizes = 10, 50, []

    def user(word, ask):
        for number in range(conversations):
            conversation = {}
            for turn in range(turns):
                status, output = ask(question=f"{word} {number} {turn}", **conversation)
                assert (status, output["answer"]) == (200, f"You said {word} {number} {turn}.")
                conversation = {"conversation": output["conversation"]}
            sizes.append(psutil.Process(ask.process.pid).memory_info().rss)

    def answer(request):
        return f"You said {request.json['messages'][-1]['content']}."

    words = ("aubergine", "broccoli")
    with FakeServer(answer, repeat=True) as server, service(start, server) as ask, ThreadPoolExecutor(2) as users:
        list(users.map(user, words, [ask] * 2))
        requests = [sent(request) for request in server.requests]
    assert len(requests) == 2 * turns * conversations
    assert [text for text in requests if all(word in text for word in words)] == []
    for word in words:
        numbers = [set(re.findall(rf"{word} (\d+) ", text)) for text in requests if word in text]
        assert len(numbers) == turns * conversations
        assert all(len(each) == 1 for each in numbers)
    assert max(sizes[-10:]) - min(sizes[10:20]) < 20_000_000


def test_service_returns_a_status_for_failures(start):
    """An invalid question returns 422, and a model error returns 502 with its reason."""
    with FakeServer(fail(400, "no such model")) as server, service(start, server) as ask:
        assert ask(question="x" * 10_001)[0] == ask(question=" ")[0] == 422
        assert ask(question="Hello?", conversation="../other")[0] == 422
        status, output = ask(question="Hello?")
    assert (status, "no such model" in output["detail"]) == (502, True)


@pytest.fixture
def replayed(here, tmp_path):
    """Run the replayed test in an empty folder with its cassette."""
    shutil.copytree(ROOT / "examples" / "cassettes", here / "cassettes")
    shutil.copy(ROOT / "examples" / "test_replayed.py", here)

    def run(*arguments, server=None):
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, "test_replayed.py"]
        variables = environment_of(tmp_path, server and server.base_url)
        return subprocess.run(
            command, cwd=here, env=variables, capture_output=True, encoding="utf-8", timeout=SECONDS, check=False
        )

    return run


def test_replayed_needs_no_model(replayed):
    """The recorded test passes without a key or network."""
    done = replayed()
    assert (done.returncode, "2 passed" in done.stdout) == (0, True), done.stdout + done.stderr


def test_replayed_notices_a_change(replayed, here):
    """If the agent receives different input than recorded, the test fails and shows the difference."""
    program = here / "test_replayed.py"
    program.write_text(program.read_text().replace("You plan journeys.", "You plan voyages."))
    done = replayed()
    assert done.returncode == 1
    assert "You plan voyages." in done.stdout
    assert "1 failed, 1 passed" in done.stdout


def test_replayed_can_be_recorded_again(replayed, here):
    """`--record=all` calls the model and replaces the recorded answers."""
    cassette = here / "cassettes" / "planner.cassette"
    cassette.unlink()
    line = call("days_between", start="2026-11-22", end="2026-12-24")
    with FakeServer(line, "Christmas Eve is in 32 days.") as server:
        done = replayed("--record=all", server=server)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "32 days" in cassette.read_text("utf-8")
    assert replayed().returncode == 0
