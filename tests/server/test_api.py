"""Does the page get what it asks for, over a real connection?"""

import pytest

from agentkit import system_tools
from agentkit.testing import call
from agentkit.tools.human import ask_user_tool

WRITE = call("write_file", path="a.txt", content="new\n")


def test_signing_in_gives_cookie_and_key(serve):
    """With the token the page gets a cookie and a key, which together open its addresses and no others."""
    served = serve("unused")
    signed = served.ask("POST", "/sign-in", {"token": served.token}, token=False)
    cookie = signed.headers["set-cookie"].partition(";")[0]
    headers = {"Cookie": cookie, "X-Agentkit-Key": signed.body["key"]}
    assert served.ask("GET", "/page/about", headers=headers, token=False).status == 200
    assert served.ask("GET", "/v1/models", headers=headers, token=False).status == 401
    assert served.ask("POST", "/sign-in", {"token": "x" * 43}, token=False).status == 401
    assert served.ask("POST", "/sign-in", {"token": "x" * 5_000}, token=False).status == 413


def test_about_tells_who_answers(serve, tmp_path):
    """The page learns the agent's name, model, tools, level and folder, and the conversation to open."""
    about = serve("unused", app_options={"session": "trip"}).ask("GET", "/page/about").body
    assert (about["agent"], about["model"], about["safety"], about["session"]) == (
        "helper",
        "scripted",
        "network",
        "trip",
    )
    assert about["folder"] == str(tmp_path)
    assert about["tools"][0].keys() == {"name", "level", "description"}


def test_a_run_is_begun_and_heard(serve):
    """A prompt begins a run in a new conversation, which is then among the conversations."""
    served = serve("Hello.")
    begun = served.ask("POST", "/page/run", {"prompt": "Good morning"})
    assert begun.status == 202
    name = begun.body["session"]
    assert name.startswith("good-morning-")
    assert served.events(name, begun.body["serial"])[-1]["status"] == "done"
    assert [each["name"] for each in served.ask("GET", "/page/sessions").body["sessions"]] == [name]
    kept = served.ask("GET", f"/page/session?name={name}").body
    assert [event["kind"] for event in kept["events"]] == ["begun", "said", "ended"]


def test_a_question_is_answered(serve, tmp_path):
    """A question of a run is answered by its mark; the run goes on, and what it changed is undone."""
    served = serve(WRITE, "Done.", tools=system_tools)
    begun = served.ask("POST", "/page/run", {"session": "talk", "prompt": "Write"}).body
    question = served.question("talk", begun["serial"])
    answer = {"session": "talk", "question": question["question"], "answer": "once"}
    assert served.ask("POST", "/page/answer", answer).status == 200
    ended = served.events("talk", begun["serial"])[-1]
    assert (tmp_path / "a.txt").exists()
    undone = served.ask("POST", "/page/undo", {"session": "talk", "record": ended["record"]})
    assert undone.body["done"].startswith("Removed")
    assert not (tmp_path / "a.txt").exists()
    assert served.ask("POST", "/page/undo", {"session": "talk"}).status == 409


def test_a_run_is_stopped_and_gone_on_with(serve):
    """A run is stopped by its conversation; answers go to one that waits, and there is none."""
    served = serve(WRITE, "Hello.", tools=system_tools)
    begun = served.ask("POST", "/page/run", {"session": "talk", "prompt": "Write"}).body
    assert served.ask("POST", "/page/stop", {"session": "talk"}).status == 200
    assert served.events("talk", begun["serial"])[-1]["kind"] == "stopped"
    document = {"session": "talk", "run": "0" * 32, "answers": {"c1": {"answer": "once"}}}
    begun = served.ask("POST", "/page/run", document).body
    assert served.events("talk", begun["serial"])[-1]["kind"] == "failed"


@pytest.mark.parametrize(
    ("method", "path", "document", "status"),
    [
        ("POST", "/page/run", {}, 400),
        ("POST", "/page/run", {"prompt": " "}, 400),
        ("POST", "/page/run", {"prompt": 5}, 400),
        ("POST", "/page/run", {"prompt": "x", "answers": {}}, 400),
        ("POST", "/page/run", {"run": "a1", "answers": {"c1": True}}, 400),
        ("POST", "/page/run", {"run": "a1", "answers": {"c1": {"answer": []}}}, 400),
        ("POST", "/page/run", {"run": "a1", "answers": {"c1": {"answer": {}}}}, 400),
        ("POST", "/page/run", {"run": "a1", "answers": [1]}, 400),
        ("POST", "/page/run", {"answers": {"c1": {"answer": "once"}}}, 400),
        ("POST", "/page/run", {"run": '{"run": "a1"}', "answers": {"c1": {"answer": "once"}}}, 400),
        ("POST", "/page/run", {"run": ["a1"], "answers": {"c1": {"answer": "once"}}}, 400),
        ("POST", "/page/run", {"prompt": "x", "session": {}}, 400),
        ("POST", "/page/run", {"prompt": "x", "session": None}, 400),
        ("POST", "/page/run", {"prompt": "x", "session": "\ud800"}, 409),
        ("POST", "/page/run", b'{"prompt": "x", "session": NaN}', 400),
        ("POST", "/page/run", {"prompt": "x", "session": 5}, 400),
        ("POST", "/page/run", {"prompt": "x", "session": "a\nb"}, 409),
        ("POST", "/page/run", {"prompt": "x", "session": "x" * 201}, 409),
        ("POST", "/page/run", {"prompt": "x" * 30_000_001}, 413),
        ("GET", "/page/session", None, 400),
        ("GET", "/page/events?session=talk&serial=x", None, 400),
        ("GET", "/page/events?session=talk&serial=-1", None, 400),
        ("GET", "/page/events?session=talk&serial=" + "9" * 10, None, 400),
        ("GET", "/page/events?serial=1", None, 400),
        ("POST", "/page/answer", {"session": "talk"}, 400),
        ("POST", "/page/answer", {"session": "talk", "question": 1, "answer": "once"}, 409),
        ("POST", "/page/answer", {"session": "talk", "question": True, "answer": "once"}, 409),
        ("POST", "/page/answer", {"session": "talk", "question": [], "answer": "once"}, 409),
        ("POST", "/page/answer", {"session": "talk", "question": "1", "answer": "once"}, 409),
        ("POST", "/page/answer", {"session": "talk", "question": "1", "answer": []}, 400),
        ("POST", "/page/answer", {"session": "talk", "question": "1", "answer": {"once": 1}}, 400),
        ("POST", "/page/undo", {"session": "talk", "record": "../../x"}, 409),
        ("POST", "/page/undo", {"session": "talk", "record": {"a": 1}}, 409),
    ],
)
def test_what_makes_no_sense_is_refused(serve, method, path, document, status):
    """What is no prompt, no answer, no name or no number is refused, and nothing begins."""
    refused = serve("unused").ask(method, path, document)
    assert (refused.status, refused.body["error"].keys()) == (status, {"message", "type", "param", "code"})


def test_a_page_that_was_left_open_answers_nothing_else(serve):
    """A run that waited once is not taken for the one that waits now, though their calls have the same id."""
    served = serve(
        call("ask_user", question="Blue?"),
        "Then red.",
        WRITE,
        "Done.",
        tools=[ask_user_tool(), *system_tools],
    )
    old = served.run("Paint")[-1]
    (waits,) = old["pending"]
    answers = {waits["id"]: {"answer": "words", "text": "red"}}
    gone_on = served.ask("POST", "/page/run", {"session": "talk", "run": old["run"], "answers": answers}).body
    assert served.events("talk", gone_on["serial"])[-1]["status"] == "done"
    begun = served.ask("POST", "/page/run", {"session": "talk", "prompt": "Write"}).body
    mark = served.question("talk", begun["serial"])["question"]
    later = {"session": "talk", "question": mark, "answer": "later"}
    assert served.ask("POST", "/page/answer", later).status == 200
    (pending,) = served.events("talk", begun["serial"])[-1]["pending"]
    stale = {"session": "talk", "run": old["run"], "answers": {pending["id"]: {"answer": "once"}}}
    refused = served.ask("POST", "/page/run", stale).body
    assert served.events("talk", refused["serial"])[-1]["kind"] == "failed"
    assert served.ask("POST", "/page/answer", {**later, "answer": "once"}).status == 409


def test_no_name_is_a_path(serve, tmp_path):
    """A conversation may be called like a path: it is a name among others, and no file is touched."""
    served = serve("Hello.")
    name = "../../etc/passwd"
    begun = served.ask("POST", "/page/run", {"session": name, "prompt": "Hi"}).body
    assert begun["session"] == name
    served.events("..%2F..%2Fetc%2Fpasswd", begun["serial"])
    assert [each["name"] for each in served.ask("GET", "/page/sessions").body["sessions"]] == [name]
    assert list(tmp_path.iterdir()) == []
