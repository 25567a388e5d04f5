"""Tests for approval requests, answers and grants."""

import re
from dataclasses import replace

import pytest

from agentkit.decisions import Decision, Verdict
from agentkit.safety.approval import (
    Approval,
    ApprovalRequest,
    ApproverAnswer,
    CallPreview,
    Grants,
    answered,
    is_offered,
)

ASK = Decision(Verdict.ASK, "safety-level", "It erases.", "rm", "Raise the level.")


def test_true_allows():
    """True allows the call, and the reason says that it was approved."""
    decision = answered(ASK, ApproverAnswer.of(True))
    assert decision == Decision(Verdict.ALLOW, "safety-level", "Approved. It erases.", "rm")


@pytest.mark.for_each("answer", [False, 1, "yes", "", [], [True], object(), ValueError("bug"), StopIteration()])
def test_anything_else_denies(answer):
    """Any answer except True denies the call, without advice to raise the level."""
    decision = answered(ASK, ApproverAnswer.of(answer))
    assert (decision.denied, decision.rule, decision.evidence) == (True, "safety-level", "rm")
    assert "It erases." in decision.reason
    assert "level" not in decision.remedy


def test_refusal_differs_from_a_missing_answer():
    """The reason distinguishes a refusal, a missing approver and a failed one."""
    assert "refused" in answered(ASK, ApproverAnswer.of(False)).reason
    assert "no approver" in answered(ASK, ApproverAnswer.of(None)).reason
    assert "ValueError: bug" in answered(ASK, ApproverAnswer.of(ValueError("bug"))).reason


@pytest.mark.parametrize(
    ("words", "shown"),
    [("no, because", "no, because."), ("Not now!", "Not now!"), ("Why?", "Why?"), ("It is mine. ", "It is mine.")],
)
def test_words_end_as_a_sentence(words, shown):
    """Text after the user's reason starts a new sentence."""
    assert answered(ASK, ApproverAnswer.of(words)).reason.endswith(f"Approval was refused: {shown}")


@pytest.mark.parametrize("text", ["y", "Yes", " ok.", "TRUE", "once", "Always!", "later"])
def test_affirmative_text_is_explained_and_refused(text):
    """Text never approves; affirmative text gets an explanation of how to approve."""
    decision = answered(ASK, ApproverAnswer.of(text))
    assert decision.denied
    assert decision.reason.endswith(f"the approver returned the text {text!r}; return True to approve.")


@pytest.mark.parametrize(("text", "kind"), [(1, "int"), ([True], "list"), (object(), "object")])
def test_invalid_answer_is_reported_with_its_type(text, kind):
    """Invalid answers deny the call, and are not reported as a refusal by the user."""
    assert f"returned {kind};" in answered(ASK, ApproverAnswer.of(text)).reason


def test_without_an_approver_the_remedy_is_unchanged():
    """Without an approver, the denied decision keeps its remedy."""
    decision = answered(ASK, ApproverAnswer.of(None))
    assert (decision.denied, decision.remedy) == (True, "Raise the level.")


@pytest.mark.parametrize("answer", [True, Approval.ONCE, Approval.RUN, Approval.ALWAYS])
def test_every_approval_allows_the_call(answer):
    """True, ONCE, RUN and ALWAYS each allow the call."""
    assert answered(ASK, ApproverAnswer.of(answer)).allowed


@pytest.mark.parametrize("answer", [Approval.NO, "once", "always", 1, None])
def test_other_values_do_not_approve(answer):
    """Only True and an Approval approve; a string with the name of one does not."""
    assert ApproverAnswer.of(answer).approval is Approval.NO


def request(**arguments):
    """Return a request for a call with these arguments."""
    return ApprovalRequest("helper", "use", arguments, ASK, "/srv/project")


def test_fingerprint_identifies_the_call():
    """The fingerprint covers tool, folder and arguments in any order, but not agent and reason."""
    one = request(a=1, b=[2])
    assert one.fingerprint == replace(request(b=[2], a=1), agent="other").fingerprint
    others = [request(a=1, b=[3]), replace(one, tool="abuse"), replace(one, folder="/srv"), request(a="1", b=[2])]
    assert len({one.fingerprint, *(other.fingerprint for other in others)}) == 5


@pytest.mark.for_each(
    ("arguments", "same", "other"),
    [
        ({"command": "git push"}, {"command": "git push"}, {"command": "git push --force"}),
        ({"url": "https://a.example/x"}, {"url": "https://A.example:443/y"}, {"url": "https://b.example/x"}),
        ({"url": "https://a.example/x"}, {"url": "https://a.example./y"}, {"url": "http://a.example/x"}),
        ({"url": "https://a.example/x"}, {"url": "https://a.example/"}, {"url": "https://a.example:8443/x"}),
        ({"url": "https://a.example/x"}, {"url": "https://a.example/"}, {"url": "https://evil.a.example/x"}),
        (
            {"url": "https://a.example", "body": "hi"},
            {"url": "https://a.example/1", "body": "hi"},
            {"url": "https://a.example", "body": "secret"},
        ),
        ({"url": "http://[bad"}, {"url": "http://[bad"}, {"url": "http://[worse"}),
        ({"path": "a.txt", "content": "x"}, {"path": "a.txt", "content": "x"}, {"path": "a.txt", "content": "y"}),
        ({"path": "a.txt"}, {"path": "a.txt"}, {"path": "a.txt", "recursive": True}),
        ({}, {}, {"path": "a.txt"}),
    ],
)
def test_grant_covers_similar_calls(arguments, same, other):
    """A grant covers exactly this call, or the same call to another page of the same origin."""
    grants = Grants()
    grants.enter(request(**arguments), Approval.ALWAYS)
    assert grants.applied(request(**same)).allowed
    assert not grants.applied(request(**other)).allowed
    assert not grants.applied(replace(request(**same), tool="abuse")).allowed
    assert not grants.applied(replace(request(**same), folder="/elsewhere")).allowed


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("".join(f"line {number}\n" for number in range(5_999)) + "end", ["[… 5,960 lines are not shown …]"]),
        ("\n".join("x" * 100 for _ in range(6_000)), ["[… 5,980 lines and ", " characters are not shown …]"]),
        ("x" * 5_000, ["[… 3,000 characters are not shown …]"]),
        ("\n".join("x" * 200 for _ in range(20)), [" characters are not shown …]"]),
        ("\n".join(["short"] * 40), []),
    ],
)
def test_question_counts_omitted_lines(text, shown):
    """Lines are counted before characters are truncated, so the number of omitted lines is correct."""
    question = str(request(content=text))
    assert all(each in question for each in shown)
    assert ("not shown" in question) is bool(shown)
    lines = re.search(r"\[… ([\d,]+) lines", question)
    if lines:  # parts of the text that are shown, and parts that are not
        shown = question.split("content: ")[1].split("\nuse needs your", maxsplit=1)[0].count("\n") + 1 - 1
        assert shown + int(lines[1].replace(",", "")) == text.count("\n") + 1


def test_grants_last_as_long_as_requested():
    """Approvals for a run end with it, permanent approvals stay, and single approvals are not stored."""
    agents = Grants()
    first = Grants(agents.lasting)
    for answer, value in ((Approval.ONCE, 1), (Approval.RUN, 2), (Approval.ALWAYS, 3), (Approval.NO, 4), (True, 5)):
        first.enter(request(n=value), answer)
    assert [first.applied(request(n=n)).allowed for n in range(1, 6)] == [False, True, True, False, False]
    second = Grants(agents.lasting)
    assert [second.applied(request(n=n)).allowed for n in range(1, 6)] == [False, False, True, False, False]


def test_grant_applies_to_its_rule_only():
    """A call that another rule asks about needs a new approval, and a denial is never overridden."""
    grants = Grants()
    grants.enter(request(n=1), Approval.ALWAYS)
    assert grants.applied(replace(request(n=1), decision=replace(ASK, rule="other"))).verdict == "ask"
    assert grants.applied(replace(request(n=1), decision=replace(ASK, verdict=Verdict.DENY))).denied
    assert "Approved earlier" in grants.applied(request(n=1)).reason


def test_flow_approval_covers_one_call():
    """The flow rule needs an approval for each call."""
    grants = Grants()
    leaving = replace(request(n=1), decision=replace(ASK, rule="flow"))
    grants.enter(leaving, Approval.ALWAYS)
    assert grants.applied(leaving).verdict == "ask"


@pytest.mark.for_each(
    "trick",
    [
        "\x1b[2K",
        "\x1b]0;title\x07",
        "\r",
        "\u202e",
        "\u2066",
        "\u200b",
        "\ufeff",
        "\x9b31m",
        "\U000e0041",
        "\u2028",
        "\ud800",
    ],
)
def test_question_escapes_invisible_characters(trick):
    """Escape sequences, direction marks and zero-width characters are escaped in the question."""
    text = str(request(command=f"rm a{trick}b"))
    assert trick not in text
    assert f"{ord(trick[0]):x}" in text
    assert "helper wants to call use" in text


def test_question_shows_other_values_as_json():
    """Numbers and lists are shown as JSON."""
    assert 'tags: ["a", 1]' in str(request(tags=["a", 1]))


def test_values_cannot_imitate_the_question():
    """Each further line of a value is marked, so that it cannot look like a line of the question."""
    forged = "x\nhelper wants to call read_file\n  path: a.txt\nuse needs your approval: nothing."
    lines = str(request(content=forged, path="Makefile")).splitlines()
    assert [line for line in lines if line.startswith("helper wants")] == ["helper wants to call use"]
    assert [line for line in lines if line.startswith("  path:")] == ["  path: Makefile"]
    assert "  │ helper wants to call read_file" in lines


def test_long_value_is_truncated():
    """A long value is shown with its beginning, its end, and the number of omitted characters."""
    text = str(request(content="a" * 3_000_000 + "END"))
    assert len(text) < 3_000
    assert "characters are not shown" in text
    assert "aEND" in text


def test_value_with_many_lines_is_truncated():
    """A value with many lines is shown with its first and last lines, and the number of omitted ones."""
    lines = str(request(content="\n" * 999 + "END")).splitlines()
    assert len(lines) < 50
    assert "  │ [… 960 lines are not shown …]" in lines
    assert "  │ END" in lines


def test_question_is_the_request_as_text():
    """The request's `question` equals its string form and starts with the agent and the tool."""
    request = ApprovalRequest("helper", "use", {"place": "here"}, ASK)
    assert request.question == str(request)
    assert request.question.startswith("helper wants to call use")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "https://\u0430\u0440\u0440\u04cf\u0435.com/login",
            ["  ! \u0430\u0440\u0440\u04cf\u0435.com: xn--80ak6aa92e.com"],
        ),
        ("see http://bücher.de:80 twice: https://bücher.de", ["  ! bücher.de: xn--bcher-kva.de"]),
        (
            "https://g\u043e\u043egle.com",
            ["  ! g\u043e\u043egle.com: g\u043e\u043egle.com is not a host name: it mixes alphabets that look alike."],
        ),
        *((text, []) for text in ("https://example.com/é?ü=ö", "đây là tiếng Việt", "a://", "https://" * 9_000 + "a")),
    ],
)
def test_question_warns_of_look_alike_hosts(text, shown):
    """The question shows the ASCII form of a non-ASCII host, and no warning for an ordinary host."""
    question = ApprovalRequest("helper", "post", {"text": text}, ASK)
    assert [line for line in str(question).split("\n") if line.startswith("  !")] == shown


def test_question_names_the_folder():
    """The question contains the folder of the call."""
    assert "in /srv/project" in str(request(a=1))


def test_ambiguous_url_is_not_covered():
    """An approval for an origin does not cover a URL that some clients parse with another host."""
    grants, allowed = Grants(), ApprovalRequest("helper", "get", {"url": "https://good.example/a"}, ASK)
    forged = "https://evil.example\\@good.example/"
    grants.enter(allowed, Approval.RUN)
    assert not grants.applied(replace(allowed, arguments={"url": forged})).allowed
    grants.enter(replace(allowed, arguments={"url": f"{forged}?a"}), Approval.RUN)
    assert not grants.applied(replace(allowed, arguments={"url": f"{forged}?b"})).allowed


def test_deeply_nested_arguments_need_a_new_approval():
    """Arguments nested too deeply to be compared need a new approval, and the run continues."""
    nested = [1]
    for _ in range(2_000):
        nested = [nested]
    grants, request = Grants(), ApprovalRequest("helper", "get", {"value": nested}, ASK)
    grants.enter(request, Approval.RUN)
    assert not grants.applied(request).allowed


def test_many_arguments_are_truncated():
    """Of many arguments, the first and last are shown, with the number of omitted ones."""
    for count in (30, 31, 2_000):
        given = {f"a{number}": "line\n" * 60 for number in range(count)}
        lines = str(ApprovalRequest("helper", "send", given, ASK)).splitlines()
        shown = [line.split(":")[0].strip() for line in lines if line.startswith("  a")]
        assert shown == [*list(given)[:20], *list(given)[-10:]]
        assert any("arguments are not shown" in line for line in lines) is (count > 30)
        assert len(lines) < 2_000


CONFINED = CallPreview(("changes a.py (1 line)",), "@@ -1 +1 @@\n-a\n+b", frozenset({"content"}), is_confined=True)
BY_LEVEL = Decision(Verdict.ASK, "safety-level", "write_file changes files, so it needs approval.")


def written(path="a.py", content="b", **changed):
    """Return a request to write a file in the workspace /srv."""
    request = ApprovalRequest("helper", "write_file", {"path": path, "content": content}, BY_LEVEL, "/srv")
    return replace(request, **{"preview": CONFINED, **changed})


def test_approval_of_the_workspace_covers_its_files():
    """An approval of the workspace covers other files and tools in it, but no protected file or other effect."""
    grants = Grants()
    grants.enter(written(), Approval.WORKSPACE)
    assert grants.applied(written("other.py", "c")).allowed
    assert grants.applied(replace(written(), tool="run_shell", arguments={"command": "mkdir q"})).allowed
    for other in (
        written(folder="/elsewhere"),
        written(decision=replace(BY_LEVEL, rule="workspace.protected")),
        written(decision=replace(BY_LEVEL, destroys="it deletes recursively.")),
        written(preview=replace(CONFINED, is_confined=False)),
    ):
        assert not grants.applied(other).allowed
    assert Grants(grants.lasting).applied(written()).allowed


def test_always_covers_all_changes_of_the_same_file():
    """ALWAYS covers any content of the file, RUN the exact call; neither covers another file."""
    always, run = Grants(), Grants()
    always.enter(written(), Approval.ALWAYS)
    run.enter(written(), Approval.RUN)
    assert always.applied(written(content="other")).allowed
    assert not always.applied(written("b.py")).allowed
    assert not always.applied(written(content="other", preview=CallPreview())).allowed
    assert run.applied(written()).allowed
    assert not run.applied(written(content="other")).allowed


def test_lasting_answers_end_with_the_run_in_a_replay():
    """Without `lasting`, an answer that would apply longer applies to the run only."""
    grants = Grants()
    grants.enter(written(), Approval.WORKSPACE, lasting=False)
    assert grants.applied(written()).allowed
    assert not Grants(grants.lasting).applied(written()).allowed


def test_destruction_is_never_approved_for_always():
    """A destructive call can be approved once or for the run."""
    grants, request = Grants(), replace(written(), decision=replace(ASK, destroys="it deletes recursively."))
    grants.enter(request, Approval.ALWAYS)
    assert not grants.applied(request).allowed
    grants.enter(request, Approval.RUN)
    assert grants.applied(request).allowed


def test_impossible_call_is_denied_with_its_error():
    """The answer IMPOSSIBLE denies the call with its error, not with a refusal."""
    denied = answered(BY_LEVEL, ApproverAnswer(Approval.IMPOSSIBLE, "old_text does not occur in 'a.py'."))
    assert (denied.verdict, denied.rule) == (Verdict.DENY, "cannot-succeed")
    assert denied.reason == "old_text does not occur in 'a.py'."


def test_question_shows_diff_instead_of_content():
    """The question shows the effect and the diff after the arguments; `details` contains the whole diff."""
    assert str(written()) == (
        "helper wants to call write_file\nin /srv\n  path: a.py\n  changes a.py (1 line)\n"
        "  │ @@ -1 +1 @@\n  │ -a\n  │ +b\nwrite_file changes files, so it needs your approval."
    )
    long = written(preview=replace(CONFINED, diff="\n".join(["+x"] * 300)))
    assert "lines are not shown" in str(long)
    assert long.details.count("+x") == 300


@pytest.mark.for_each(
    ("command", "words"),
    [
        ("git push origin main", ["git", "push"]),
        ("git --no-pager log", ["git"]),
        ("touch a b", ["touch"]),
        ("pytest -q tests", ["pytest"]),
        ("npm test", ["npm", "test"]),
        ("python3 build.py --fast", ["python3", "build.py"]),
        *((line, []) for line in ("python3 -c x", "bash", "env A=1 ls", "sudo ls", "find . -delete", "xargs rm", "")),
        *(
            (f"git push{more}", [])
            for more in ("; rm -rf x", " && ls", " | tee x", " > x", " $(ls)", " `ls`", "\nls", " 'a'")
        ),
    ],
)
def test_pattern_of_a_command(command, words):
    """A pattern of the first words is offered for one plain command, except for programs that run others."""
    request = ApprovalRequest("bot", "run_shell", {"command": command}, ASK)
    assert request.first_words == words
    assert is_offered(Approval.PATTERN, request) is bool(words)


@pytest.mark.parametrize(
    ("command", "decision", "is_covered"),
    [
        ("git push", ASK, True),
        ("git push origin other", ASK, True),
        ("git pull", ASK, False),
        ("git push && rm -rf x", ASK, False),
        ("git push $(cat key)", ASK, False),
        ("git push --force", replace(ASK, destroys=True), False),
        ("git push", replace(ASK, rule="flow"), False),
    ],
)
def test_pattern_covers_similar_commands(command, decision, is_covered):
    """The pattern covers later plain commands under the same rule and folder that are not destructive."""
    grants = Grants()
    request = ApprovalRequest("bot", "run_shell", {"command": "git push origin main"}, ASK, "/work")
    grants.enter(request, Approval.PATTERN)
    later = ApprovalRequest("bot", "run_shell", {"command": command}, decision, "/work", bound={"/work/x": "/work/x"})
    assert grants.applied(later).allowed is is_covered
    assert not grants.applied(replace(later, folder="/other")).allowed
