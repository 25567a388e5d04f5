"""Tests for recording a program once, and replaying it without model, network and key."""

import asyncio
from contextlib import contextmanager, suppress

import pytest

from agentkit import LLM
from agentkit.errors import NoProvider, RateLimited, ReplayError, SessionError
from agentkit.events import ResponseReceived, TextDelta
from agentkit.testing import FakeServer, ScriptedLLM, fail, record, record_or_replay, replay

VARIABLES = (
    *("OPENAI_API_KEY", "OPENAI_BASE_URL", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT", "AGENTKIT_PROVIDER"),
    "ANTHROPIC_API_KEY",
)


@pytest.fixture(autouse=True)
def _no_key(monkeypatch):
    """Remove all provider variables."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def path(tmp_path):
    """The path of a cassette."""
    return tmp_path / "trip.cassette"


@contextmanager
def hide_behind(error):
    """Raise the error instead of any exception raised in the block."""
    try:
        yield
    finally:
        raise error


def divide_by(number):
    """Return one divided by the number."""
    return 1 / number


def ask_in_every_way(llm):
    """Return the texts of a sync and an async request and stream."""

    async def ask():
        text = await llm.achat("two")
        return text, [event async for event in llm.astream("four")]

    first = llm.chat("one")
    second, fourth = asyncio.run(ask())
    third = list(llm.stream("three"))
    return [
        first,
        second,
        *("".join(event.text for event in each if isinstance(event, TextDelta)) for each in (third, fourth)),
    ]


def test_every_request_is_replayed_without_a_key(path):
    """Sync and async requests and streams are answered from the cassette, without a provider."""
    with FakeServer("One.", "Two.", "Four.", "Three.") as server, record(path):
        recorded = ask_in_every_way(LLM(base_url=server.base_url))
    with replay(path):
        llm = LLM()
        assert ask_in_every_way(llm) == recorded == ["One.", "Two.", "Three.", "Four."]
    assert (llm.provider, llm.model, llm.describe().decided_by) == ("replay", "replay", "the replay")


def test_usage_and_model_are_replayed(path):
    """The usage and model of a replayed request are the recorded ones."""
    with FakeServer("One.") as server, record(path):
        recorded = LLM(base_url=server.base_url).complete("one")
    with replay(path):
        replayed = LLM(model="another").complete("one")
    assert (replayed.usage, replayed.model, replayed.raw) == (recorded.usage, recorded.model, {})


def test_failures_are_replayed(path):
    """A recorded provider error is raised again with the same class."""
    with FakeServer(fail(429, "slow down")) as server, record(path), pytest.raises(RateLimited):
        LLM(base_url=server.base_url, max_retries=0).chat("one")
    with replay(path), pytest.raises(RateLimited, match="slow down"):
        LLM().chat("one")


def test_llm_without_a_provider_works_in_replays_only(path):
    """An LLM created in a replay without a provider raises NoProvider when it is used outside of it."""
    with record(path), ScriptedLLM("One.") as llm:
        llm.chat("one")
    with replay(path):
        lone = LLM(model="mine")
        assert lone.chat("one") == "One."
    assert lone.model == "mine"
    with pytest.raises(NoProvider, match="No API key"):
        lone.chat("one")
    with pytest.raises(NoProvider):
        asyncio.run(lone.achat("one"))
    with pytest.raises(NoProvider):
        lone.stream("one")
    with pytest.raises(NoProvider):
        lone.astream("one")
    with pytest.raises(NoProvider):
        LLM()


def test_closed_stream_is_replayed(path):
    """A stream that was closed early is recorded up to that point, and can be closed early again."""
    with record(path):
        stream = ScriptedLLM("One two three.").stream("one")
        first = next(stream)
        stream.close()
    with replay(path):
        stream = LLM().stream("one")
        assert next(stream) == first
        assert next(stream).response.finish_reason == "length"
    assert not isinstance(first, ResponseReceived)


def test_unrecorded_request_fails_the_block(path):
    """A request that was not recorded raises ReplayError, also at the end if the error was caught."""
    with record(path):
        ScriptedLLM("One.").chat("one")
    with pytest.raises(ReplayError, match=r"\+user: two"), replay(path):
        LLM().chat("two")
    with pytest.raises(ReplayError, match=r"\+user: two"), replay(path), pytest.raises(AssertionError):
        LLM().chat("two")
    with pytest.raises(KeyError) as caught, replay(path), suppress(AssertionError), hide_behind(KeyError("other")):
        LLM().chat("two")
    assert "+user: two" in caught.value.__notes__[0]


def test_unused_answers_fail_the_block(path):
    """Unused answers are an error at the end, unless the replay is partial or has already failed."""
    with record(path):
        ScriptedLLM("One.").chat("one")
    with pytest.raises(ReplayError, match="not used"), replay(path):
        pass
    with replay(path, partial=True):
        pass
    with pytest.raises(KeyError) as caught, replay(path):
        {}["by itself"]
    assert not hasattr(caught.value, "__notes__")


def test_failed_recording_keeps_the_older_cassette(path):
    """If a recorded block raises, the older cassette is kept, and the new one is saved as `.part`."""
    with record(path):
        ScriptedLLM("One.").chat("one")
    with pytest.raises(ZeroDivisionError), record(path):
        divide_by(len(ScriptedLLM("Two.").chat("two")) - 4)
    with replay(path):
        assert LLM().chat("one") == "One."
    with replay(f"{path}.part"):
        assert LLM().chat("two") == "Two."


def test_secrets_are_not_recorded(path):
    """A key in a request is redacted in the cassette, and the request still matches."""
    question = f"My key is sk-{'a1b2' * 8}, is it good?"
    with record(path):
        ScriptedLLM("No.").chat(question)
    assert "a1b2" not in path.read_text()
    with replay(path):
        assert LLM().chat(question) == "No."


def test_concurrent_blocks_are_separate(tmp_path):
    """Concurrent tasks record to separate cassettes; requests outside of the blocks are not recorded."""

    async def ask(name):
        with record(tmp_path / name):
            return await ScriptedLLM(name).achat(name)

    async def main():
        return await asyncio.gather(ask("one"), ask("two"), ScriptedLLM("three").achat("three"))

    assert asyncio.run(main()) == ["one", "two", "three"]
    for name in ("one", "two"):
        with replay(tmp_path / name):
            assert LLM().chat(name) == name


@pytest.mark.parametrize(("mode", "expected"), [("once", ["One.", "One."]), ("all", ["One.", "Two."])])
def test_record_or_replay(path, mode, expected):
    """The mode `once` records only if the cassette is missing, and `all` records always."""
    answers = []
    for line in ("One.", "Two."):
        with record_or_replay(path, mode):
            answers.append(ScriptedLLM(line).chat("one"))
    assert answers == expected


def test_mode_none_records_nothing(path):
    """The mode `none` never records; without a cassette the error says how to record one."""
    with pytest.raises(SessionError, match="Record it first"), record_or_replay(path, "none"):
        pass
