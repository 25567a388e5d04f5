"""Tests for the API of the chat page, over a real connection."""

import pytest

from agentkit import system_tools
from agentkit.testing import call
from agentkit.tools.human import ask_user_tool

WRITE = call("write_file", path="a.txt", content="new\n")


def test_signing_in_gives_cookie_and_key(serve):
    """Signing in with the token returns a cookie and a key that together give access to the page's paths."""
    served = serve("unused")
    signed = served.ask("POST", "/sign-in", {"token": served.token}, token=False)
    cookie = signed.headers["set-cookie"].partition(";")[0]
    headers = {"Cookie": cookie, "X-Agentkit-Key": signed.body["key"]}
    assert served.ask("GET", "/page/about", headers=headers, token=False).status == 200
    assert served.ask("GET", "/v1/models", headers=headers, token=False).status == 401
    assert served.ask("POST", "/sign-in", {"token": "x" * 43}, token=False).status == 401
    assert served.ask("POST", "/sign-in", {"token": "x" * 5_000}, token=False).status == 413


def test_about_describes_the_agent(serve, tmp_path):
    """`/page/about` returns the agent's name, model, tools, level and folder, and the session to open."""
    about = serve("unused", app_options={"session": "trip"}).ask("GET", "/page/about").body
    assert (about["agent"], about["model"], about["safety"], about["session"]) == (
        "helper",
        "scripted",
        "network",
        "trip",
    )
    assert about["folder"] == str(tmp_path)
    assert about["tools"][0].keys() == {"name", "level", "description"}


def test_prompt_starts_a_run_in_a_new_conversation(serve):
    """A prompt without a session starts a run in a new conversation, which is then listed."""
    served = serve("Hello.")
    started = served.ask("POST", "/page/run", {"prompt": "Good morning"})
    assert started.status == 202
    name = started.body["session"]
    assert name.startswith("good-morning-")
    assert served.events(name, started.body["serial"])[-1]["status"] == "done"
    assert [each["name"] for each in served.ask("GET", "/page/sessions").body["sessions"]] == [name]
    body = served.ask("GET", f"/page/session?name={name}").body
    assert [event["kind"] for event in body["events"]] == ["started", "message", "ended"]


def test_question_is_answered_and_the_run_undone(serve, tmp_path):
    """Answering a question resumes the run, and the changes of the run can be undone once."""
    served = serve(WRITE, "Done.", tools=system_tools)
    started = served.ask("POST", "/page/run", {"session": "talk", "prompt": "Write"}).body
    question = served.question("talk", started["serial"])
    answer = {"session": "talk", "question": question["question"], "answer": "once"}
    assert served.ask("POST", "/page/answer", answer).status == 200
    ended = served.events("talk", started["serial"])[-1]
    assert (tmp_path / "a.txt").exists()
    undone = served.ask("POST", "/page/undo", {"session": "talk", "record": ended["record"]})
    assert undone.body["done"].startswith("Removed")
    assert not (tmp_path / "a.txt").exists()
    assert served.ask("POST", "/page/undo", {"session": "talk"}).status == 409


def test_run_is_stopped_and_unknown_runs_are_not_resumed(serve):
    """A run can be stopped, and answers for a run that is not waiting fail."""
    served = serve(WRITE, "Hello.", tools=system_tools)
    started = served.ask("POST", "/page/run", {"session": "talk", "prompt": "Write"}).body
    assert served.ask("POST", "/page/stop", {"session": "talk"}).status == 200
    assert served.events("talk", started["serial"])[-1]["kind"] == "stopped"
    document = {"session": "talk", "run": "0" * 32, "answers": {"c1": {"answer": "once"}}}
    started = served.ask("POST", "/page/run", document).body
    assert served.events("talk", started["serial"])[-1]["kind"] == "failed"


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
def test_invalid_requests_are_rejected(serve, method, path, document, status):
    """An invalid prompt, answer, name or number returns a JSON error."""
    refused = serve("unused").ask(method, path, document)
    assert (refused.status, refused.body["error"].keys()) == (status, {"message", "type", "param", "code"})


def test_stale_answers_are_not_applied_to_another_run(serve):
    """Answers for an earlier paused run are not applied to a later run whose call has the same id."""
    served = serve(
        call("ask_user", question="Blue?"),
        "Then red.",
        WRITE,
        "Done.",
        tools=[ask_user_tool(), *system_tools],
    )
    old = served.run("Paint")[-1]
    (waits,) = old["pending"]
    answers = {waits["id"]: {"answer": "text", "text": "red"}}
    gone_on = served.ask("POST", "/page/run", {"session": "talk", "run": old["run"], "answers": answers}).body
    assert served.events("talk", gone_on["serial"])[-1]["status"] == "done"
    started = served.ask("POST", "/page/run", {"session": "talk", "prompt": "Write"}).body
    mark = served.question("talk", started["serial"])["question"]
    later = {"session": "talk", "question": mark, "answer": "later"}
    assert served.ask("POST", "/page/answer", later).status == 200
    (pending,) = served.events("talk", started["serial"])[-1]["pending"]
    stale = {"session": "talk", "run": old["run"], "answers": {pending["id"]: {"answer": "once"}}}
    refused = served.ask("POST", "/page/run", stale).body
    assert served.events("talk", refused["serial"])[-1]["kind"] == "failed"
    assert served.ask("POST", "/page/answer", {**later, "answer": "once"}).status == 409


def test_name_is_not_used_as_a_path(serve, tmp_path):
    """A conversation whose name looks like a path is stored without touching a file."""
    served = serve("Hello.")
    name = "../../etc/passwd"
    started = served.ask("POST", "/page/run", {"session": name, "prompt": "Hi"}).body
    assert started["session"] == name
    served.events("..%2F..%2Fetc%2Fpasswd", started["serial"])
    assert [each["name"] for each in served.ask("GET", "/page/sessions").body["sessions"]] == [name]
    assert list(tmp_path.iterdir()) == []
