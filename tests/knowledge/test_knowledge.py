"""Tests for Knowledge: adding, searching, refreshing and removing documents."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentkit.errors import ConfigError
from agentkit.knowledge import Between, Knowledge, Memory, rerank_with, rewrite_with
from agentkit.testing import ScriptedLLM
from agentkit.tools.web.connection import WebConnection

ROOT = Path(__file__).parents[2]


def test_results_have_a_citation(knowledge, folder):
    """A folder is indexed, and a result has a citation with its position."""
    report = knowledge.add(folder)
    assert str(report) == "4 added, 0 updated, 0 unchanged, 0 removed, 0 skipped; 4 passages made"
    (passage, *_) = knowledge.search("How many days of leave are there?")
    assert passage.citation == f"{folder}/leave.md:1-9"
    assert (passage.section, passage.kind, passage.position) == ("Handbook", "markdown", "lines 1-9")
    assert "thirty days" in passage.text
    assert passage.score > 0


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("what is the capital of viet nam: thu do", "vn.txt"),
        ("duong pho", "vn.txt"),
        ("Đường", "vn.txt"),
        ("price of tickets", "page.html"),
        ("undo", "tool.py"),
    ],
)
def test_words_are_found_in_their_forms(knowledge, folder, question, name):
    """Search ignores diacritics, case and English word endings."""
    knowledge.add(folder)
    assert Path(knowledge.search(question)[0].source).name == name


def test_passages_with_matching_neighbours_come_first(place):
    """Among passages with the same words, those with a matching neighbour come first."""
    text = "Green tea is drunk in the morning by nearly everybody in the old town, as they say there."
    with Knowledge(place, passage_chars=100, overlap_chars=0) as knowledge:
        knowledge.add_text(text, "alone", kind="text")
        knowledge.add_text(f"{text} {text}", "together", kind="text")
        found = knowledge.search("tea in the morning")
    assert [passage.source for passage in found] == ["together", "together", "alone"]
    assert found[0].score == found[1].score > found[2].score


def test_unchanged_files_are_not_read_again(knowledge, folder):
    """Only changed files are read again, and removed files are deleted."""
    knowledge.add(folder)
    (folder / "leave.md").write_text("# Handbook\n\nForty days.", "utf-8")
    (folder / "vn.txt").unlink()
    (folder / "new.md").write_text("New words.", "utf-8")
    report = knowledge.add(folder)
    assert [[Path(name).name for name in names] for names in (report.added, report.updated, report.removed)] == [
        ["new.md"],
        ["leave.md"],
        ["vn.txt"],
    ]
    assert len(report.unchanged) == 2
    assert report.passages == 2
    assert knowledge.search("thirty") == []
    assert len(knowledge.documents) == 4


def test_refresh_updates_everything(knowledge, folder):
    """`refresh` updates all added sources and removes files and folders that no longer exist."""
    knowledge.add(folder / "leave.md", folder / "deep", metadata={"by": "us"})
    (folder / "leave.md").unlink()
    (folder / "deep" / "tool.py").unlink()
    (folder / "deep").rmdir()
    assert len(knowledge.refresh().removed) == 2
    assert knowledge.documents == []


def test_refresh_reports_outside_places(tmp_path, folder, monkeypatch):
    """`refresh` reports places outside the current folder and the store's folder unless allowed."""
    private = tmp_path / "private"
    private.mkdir()
    (private / "diary.md").write_text("Dear diary.")
    (folder / "link.md").symlink_to(private / "diary.md")
    project = tmp_path / "project"
    project.mkdir()
    (project / "readme.md").write_text("Read me.")
    place = project / "notes.db"
    reference = Knowledge(place)
    reference.add(project / "readme.md", private, private / "diary.md")
    reference.store.add_place("knowledge/default", f"{project}/../private/diary.md", {})
    reference.store.add_place("knowledge/default", f"{folder}/link.md", {})
    reference.remove(private, private / "diary.md")
    reference.store.add_place("knowledge/default", str(private), {})
    reference.close()
    monkeypatch.chdir(folder)  # whose link leads outside
    actual = Knowledge(place)
    outside = (f"{folder}/link.md", f"{project}/../private/diary.md", str(private))
    assert set(actual.outside) == set(outside)
    report = actual.refresh()
    assert (set(report.outside), report.unchanged) == (set(outside), (str(project / "readme.md"),))
    assert f"outside {private}: not read" in str(report)
    assert actual.search("diary") == []
    assert actual.refresh(outside=[str(private)]).added == (str(private / "diary.md"),)
    assert Knowledge(place, folder=tmp_path).refresh().outside == ()
    assert actual.refresh(outside=True).outside == ()


def test_folder_added_here_is_refreshed(tmp_path, folder, monkeypatch):
    """`refresh` updates a folder added by this instance and reports one added by another as outside."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    actual = Knowledge(tmp_path / "notes.db")
    actual.add(folder)
    assert actual.refresh().outside == ()
    assert Knowledge(tmp_path / "notes.db").refresh().outside == (str(folder),)


def test_documents_are_removed(knowledge, folder):
    """Documents are removed by source or folder and not restored by `refresh`."""
    knowledge.add(folder)
    knowledge.add_text("A remark.", "remark")
    assert knowledge.remove("remark", "nothing") == ["remark"]
    assert len(knowledge.remove(folder)) == 4
    assert knowledge.refresh().passages == 0
    assert knowledge.documents == []


def test_texts_are_stored_under_a_name(knowledge):
    """A text is stored under a name and replaced when it has changed."""
    assert knowledge.add_text("One thing.", "remark", title="Remark").added == ("remark",)
    assert knowledge.add_text("One thing.", "remark", title="Remark").unchanged == ("remark",)
    assert knowledge.add_text("Another thing.", "remark").updated == ("remark",)
    assert [(each.text, each.title) for each in knowledge.search("thing")] == [("Another thing.", "")]


@pytest.mark.parametrize("arguments", [("x", ""), ("x", "http://a.b"), ("x", "a", "", "pdf"), ("x", "a", "", "odd")])
def test_invalid_texts_are_rejected(knowledge, arguments):
    """A text with an invalid name or kind raises a ConfigError."""
    text, source, *rest = arguments
    with pytest.raises(ConfigError):
        knowledge.add_text(text, source, **dict(zip(("title", "kind"), rest, strict=False)))


@pytest.mark.parametrize("wrong", ["", 5, b"x", "a\0b", "\udc80"])
def test_invalid_sources_are_rejected(knowledge, wrong):
    """Anything but a file, folder or web address raises a ConfigError."""
    with pytest.raises(ConfigError):
        knowledge.add(wrong)


def test_missing_file_is_rejected(knowledge, tmp_path):
    """A file that does not exist raises a ConfigError."""
    with pytest.raises(ConfigError, match=r"does not exist.* To add text, use add_text\(\)\."):
        knowledge.add(tmp_path / "nothing.md")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"where": "year"}, "where= takes a dictionary"),
        ({"where": [("year", 2024)]}, "where= takes a dictionary"),
        ({"kind": "markdwn"}, "kind= takes one of markdown, text, html"),
    ],
)
def test_invalid_search_options_are_rejected(knowledge, options, message):
    """An invalid search option raises a ConfigError."""
    with pytest.raises(ConfigError, match=message):
        knowledge.search("leave", **options)


def test_name_must_be_a_single_line(knowledge):
    """A name of several lines raises a ConfigError."""
    with pytest.raises(ConfigError, match="a name of one line for the text"):
        knowledge.add_text("leave.md", "# Leave\n\nThirty days.")


async def awaited(*_given):
    """Return a vector asynchronously."""
    return [[1.0]]


@pytest.mark.parametrize("argument", ["embed", "embed_question", "rewrite", "rerank"])
def test_async_functions_are_rejected(argument):
    """An async function is rejected when it is passed."""
    given = {"embed": lambda texts: [[1.0]] * len(texts), argument: awaited}
    with pytest.raises(ConfigError, match=f"{argument}= takes a plain function; awaited is async"):
        Knowledge(":memory:", **given)


def test_score_of_a_single_passage_is_positive(knowledge):
    """The score of the only passage is greater than 0."""
    knowledge.add_text("Apples are red.", "fruit")
    (found,) = knowledge.as_tool()(query="apples")["passages"]
    assert found["score"] > 0


def test_unreadable_files_are_reported(knowledge, folder, place):
    """Files that cannot be read are reported with the reason, and hidden files and links are ignored."""
    (folder / "secrets.json").write_text("{}", "utf-8")
    (folder / "picture.png").write_bytes(b"\x89PNG\0")
    (folder / ".hidden.md").write_text("hidden", "utf-8")
    (folder / "link.md").symlink_to(folder / "leave.md")
    os.mkfifo(folder / "pipe")
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.md")).write_text("name", "utf-8")
    with Knowledge(folder / "own.db") as own:
        report = own.add(folder)
    skipped = {Path(name).name.strip("'"): reason for name, reason in report.skipped.items()}
    assert "service credentials" in skipped["secrets.json"]
    assert "it is not text" in skipped["picture.png"]
    assert skipped["pipe"] == "it is not a regular file"
    assert skipped["own.db"] == "it is the file of this knowledge store"
    assert skipped["\\udcff.md"] == "its name is not valid text"
    assert len(report.added) == 4


def test_operating_system_error_is_reported(knowledge, folder):
    """An error of the operating system is reported with its message."""
    (folder / "long").symlink_to(folder / "long")
    assert list(knowledge.add(folder / "long").skipped.values()) == ["Too many levels of symbolic links"]


def test_file_that_is_no_longer_text_is_removed(knowledge, folder):
    """A file that can no longer be read is removed from the index."""
    knowledge.add(folder)
    (folder / "leave.md").write_bytes(b"\x89PNG\0")
    report = knowledge.add(folder / "leave.md")
    assert (len(report.removed), len(report.skipped)) == (1, 1)
    assert knowledge.search("thirty days") == []


def test_result_from_a_pdf_contains_the_page(knowledge, folder, pdf):
    """A result from a PDF contains the page number."""
    (folder / "report.pdf").write_bytes(pdf("Nothing here.", "The turnover was nine millions."))
    knowledge.add(folder)
    (found,) = knowledge.search("turnover")
    assert (found.citation, found.position, found.title) == (
        f"{folder}/report.pdf, page 2",
        "page 2",
        "The handbook",
    )


def test_result_from_a_word_document_contains_the_section(knowledge, folder, docx):
    """A result from a Word document contains the section but no lines, and a damaged file is skipped."""
    (folder / "plan.docx").write_bytes(docx("Turnover", "It was nine millions."))
    (folder / "broken.docx").write_bytes(docx("Turnover", "It was lost.")[:60])
    report = knowledge.add(folder)
    found, *_ = knowledge.search("nine millions")
    assert (found.position, found.section, found.kind) == ("", "Turnover", "office")
    assert "damaged" in report.skipped[f"{folder}/broken.docx"]


def test_search_is_filtered_by_metadata(knowledge):
    """A search can be filtered by metadata values, alternatives and ranges, where true is not 1."""
    for number in range(5):
        metadata = {"year": 2020 + number, "team": "ab"[number % 2], "open": number == 1, "note": None}
        knowledge.add_text(f"words {number}", f"text{number}", metadata=metadata)

    def found(**where):
        return sorted(passage.source[-1] for passage in knowledge.search("words", 9, where=where))

    assert found() == ["0", "1", "2", "3", "4"]
    assert found(year=2021) == ["1"]
    assert found(year=2021.0, team="b") == ["1"]
    assert found(team=["a", "c"]) == ["0", "2", "4"]
    assert found(year=Between(2022)) == ["2", "3", "4"]
    assert found(year=Between(2021, 2022)) == ["1", "2"]
    assert found(team=Between("b", "z")) == ["1", "3"]
    assert found(open=True) == ["1"]
    assert found(open=1) == []
    assert found(note=None, year=[2020, 10**30]) == ["0"]
    assert found(team=[]) == []
    assert found(**{"a\"'] OR 1=1": 1}) == []
    assert [passage.metadata["year"] for passage in knowledge.search("words", 1, where={"year": 2023})] == [2023]


@pytest.mark.parametrize("where", [{"a": "\0"}, {"a": "\ud800"}, {"a": {"b": 1}}, {"a": [[1]]}, {1: "a"}])
def test_invalid_metadata_filters_are_rejected(knowledge, where):
    """An invalid metadata filter raises a ConfigError."""
    with pytest.raises(ConfigError):
        knowledge.search("words", where=where)


@pytest.mark.parametrize("ends", [(), (1, "a")])
def test_invalid_ranges_are_rejected(ends):
    """A range without ends or with ends of different types raises a ConfigError."""
    with pytest.raises(ConfigError):
        Between(*ends)


@pytest.mark.parametrize("metadata", [{"a": object()}, {"a": float("nan")}, 5])
def test_metadata_is_json(knowledge, metadata):
    """Metadata must be a dictionary of JSON values."""
    with pytest.raises(ConfigError):
        knowledge.add_text("x", "x", metadata=metadata)


def test_search_is_filtered_by_source_and_kind(knowledge, folder):
    """A search can be filtered by source patterns and by kind."""
    knowledge.add(folder)
    knowledge.add_text("leave me alone", "odd[1]?")
    assert [Path(each.source).name for each in knowledge.search("leave", source="*/leave.md")] == ["leave.md"]
    assert [each.source for each in knowledge.search("leave", source="odd[1]?")] == ["odd[1]?"]
    assert knowledge.search("leave", source="odd[12]*") == []
    assert [Path(each.source).name for each in knowledge.search("undo leave", kind="python")] == ["tool.py"]


@pytest.mark.parametrize(
    "question",
    [
        '"',
        "AND OR NOT NEAR( ^ * : {heading}",
        "heading : x",
        "a\0b",
        "\ud800",
        "x" * 200_000,
        "'; DROP TABLE documents; --",
        "",
        "🙂",
    ],
)
def test_hostile_questions_are_harmless(knowledge, question):
    """A question is never parsed as a query and never raises a syntax error."""
    knowledge.add_text("Some words.", "text")
    assert knowledge.search(question) == []
    assert len(knowledge.search(f"{question} words")) == (1 if len(question) < 1_000 else 0)


@pytest.mark.parametrize("question", [None, 5, b"words", ["words"]])
def test_question_must_be_a_string(knowledge, question):
    """A question that is not a string raises a ConfigError."""
    with pytest.raises(ConfigError, match="A question must be a string"):
        knowledge.search(question)
    with pytest.raises(ConfigError, match="A question must be a string"):
        Memory(":memory:").recall(question)


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "5"])
def test_limit_must_be_positive(knowledge, limit):
    """A `limit` that is not a positive integer raises a ConfigError."""
    with pytest.raises(ConfigError):
        knowledge.search("words", limit)


def test_collections_of_one_file_are_separate(place):
    """Collections in one file are separate."""
    with Knowledge(place, name="a") as one, Knowledge(place, name="b") as other:
        one.add_text("Some words.", "text")
        assert (len(one.search("words")), other.search("words"), other.documents) == (1, [], [])


def test_passages_are_found_by_meaning_and_by_words(place, embed):
    """With vectors, passages are found by meaning as well as by words."""
    with Knowledge(place, embed=embed) as knowledge:
        knowledge.add_text("My automobile is red.", "one")
        knowledge.add_text("The garden is green.", "two")
        assert knowledge.search("car", 1)[0].source == "one"
        assert knowledge.search("garden car", 2)[0].score <= 1


def test_vectors_can_be_added_later(place, embed, folder):
    """Documents without vectors are embedded by the next `add`, and again by `embed_again`."""
    with Knowledge(place) as words:
        words.add(folder)
        words.add_text("My automobile is red.", "one")
        with pytest.raises(ConfigError, match="needs embed"):
            words.embed_again()
    with Knowledge(place, embed=embed) as knowledge:
        knowledge.add(folder / "leave.md")
        assert knowledge.search("car", 1)[0].source == "one"
    with Knowledge(place, embed=lambda texts: [vector[:512] for vector in embed(texts)]) as shorter:
        with pytest.raises(ConfigError, match=r"embed_again\(\)"):
            shorter.search("car")
        assert shorter.embed_again() == 5
        assert len(shorter.search("leave", 9)) == 5


def test_questions_can_have_another_function(place, embed):
    """A separate embedding function can be used for questions."""
    with Knowledge(place, embed=embed, embed_question=lambda texts: embed(["automobile"] * len(texts))) as knowledge:
        knowledge.add_text("My car is red.", "one")
        knowledge.add_text("The garden is green.", "two")
        assert knowledge.search("nonsense", 1)[0].source == "one"


def test_question_is_reworded(place):
    """A function provides other wordings, and the passages of all of them are merged."""
    with Knowledge(place, rewrite=lambda question: ["holidays"] if "leave" in question else "x") as knowledge:
        knowledge.add_text("About holidays.", "one")
        assert [each.source for each in knowledge.search("leave")] == ["one"]
        assert knowledge.search("unknown") == []
    with Knowledge(place, rewrite=lambda _: [5]) as knowledge, pytest.raises(ConfigError):
        knowledge.search("words")


def test_model_rewords_and_judges(place):
    """A model rewords the question and then selects passages, and invalid numbers are ignored."""
    llm = ScriptedLLM('{"queries": ["holidays", "vacation"]}', '{"numbers": [2, 9, 2, 0]}')
    with llm, Knowledge(place, rewrite=rewrite_with(llm), rerank=rerank_with(llm)) as knowledge:
        knowledge.add_text("Holidays, holidays.", "one")
        knowledge.add_text("A vacation and holidays.", "two")
        found = knowledge.search("leave", 1)
    first = llm.requests[1].messages[0].content
    judged = [passage for passage in ("one", "two") if passage != found[0].source]
    assert len(found) == 1
    assert len(judged) == 1
    assert "Question: leave" in str(first)
    assert "Holidays, holidays." in str(first)


def test_reranking_cannot_add_passages(knowledge, place):
    """A reranker can reorder or drop passages but not add any."""
    for name in ("one", "two", "three"):
        knowledge.add_text(f"Words of {name}.", name)
    with Knowledge(place, rerank=lambda _, passages: passages[::-1][:1]) as reversed_knowledge:
        before = [each.source for each in knowledge.search("words")]
        after = [each.source for each in reversed_knowledge.search("words")]
        assert after == [before[2], before[0], before[1]]
        assert len(reversed_knowledge.search("one", 2)) == 1


MANY = """
import sys
from agentkit.knowledge import Knowledge
knowledge = Knowledge(sys.argv[1])
for number in range(5):
    knowledge.add_text(f"Text {number} of process {sys.argv[2]}.", f"{sys.argv[2]}-{number}")
    assert knowledge.search("text")
print(len(knowledge.add(sys.argv[3]).skipped))
"""


def test_processes_share_a_file(place, folder):
    """Several processes can add and search concurrently, also when the file does not exist yet."""
    commands = [[sys.executable, "-c", MANY, str(place), str(number), str(folder)] for number in range(2)]
    running = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for command in commands]
    assert [process.communicate(timeout=120)[0] for process in running] == ["0\n"] * 2
    with Knowledge(place) as knowledge:
        assert len(knowledge.documents) == 14
        assert len(knowledge.search("text", 100)) == 10


FORKING = """
import os, sys
from agentkit.knowledge import Knowledge
knowledge = Knowledge(sys.argv[1])
idle = Knowledge(sys.argv[1])
for each in (knowledge, idle):
    each.add_text("words of the parent", "parent")
gone = Knowledge(sys.argv[1])
assert gone.documents
gone.close()
child = os.fork()
if child == 0:
    knowledge.add_text("words of the child", "child")
    idle.close()
    print(len(knowledge.search("words")), flush=True)
else:
    assert os.waitpid(child, 0)[1] == 0
    print(len(knowledge.search("words")), len(idle.search("words")))
"""


def test_forked_process_opens_a_separate_connection(place):
    """A forked child opens a separate connection and does not affect the parent's."""
    command = [sys.executable, "-c", FORKING, str(place)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("2\n2 2\n", "")


class Site:
    """A page that can change."""

    body = b"<title>News</title><p>The bridge was opened today.</p>"
    status = 200


@pytest.fixture
def site():
    """Start a local web server and return its URL and the page it serves."""
    import threading
    from http.server import BaseHTTPRequestHandler, HTTPServer

    site = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(site.status)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(site.body)

        def log_message(self, *words):
            """Discard the message."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/news", site
        server.shutdown()
        thread.join()


def test_web_pages_are_added(place, site):
    """A web page is fetched and refreshed, and the stored version remains if fetching fails."""
    from agentkit.safety.urls import AddressRules

    url, served = site
    connection = WebConnection(AddressRules(["127.0.0.1/32"], [int(url.split(":")[2].split("/")[0])]))
    with Knowledge(place, connection=connection) as knowledge:
        assert knowledge.add(url).added == (url,)
        assert knowledge.search("bridge")[0].citation == url
        assert knowledge.refresh().unchanged == (url,)
        served.status = 500
        assert "500" in knowledge.refresh().skipped[url]
        assert knowledge.search("bridge") != []


def test_blocked_urls_are_not_added(knowledge):
    """A URL that `fetch_url` would block cannot be added."""
    report = knowledge.add("http://127.0.0.1/x", "http://169.254.169.254/latest")
    assert report.added == ()
    assert len(report.skipped) == 2


def test_names_are_imported_when_used():
    """`agentkit.knowledge` exports exactly its public names and imports them on first use."""
    import agentkit.knowledge as wing

    assert all(getattr(wing, name) for name in wing.__all__)
    with pytest.raises(AttributeError):
        _ = wing.Nothing
    assert repr(Knowledge(":memory:", name="a")) == "Knowledge(SqliteStore(':memory:'), name='a')"
