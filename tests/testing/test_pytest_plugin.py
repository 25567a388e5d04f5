"""Tests for the pytest marker that records and replays tests."""

import os
import re

import pytest

from agentkit import LLM

pytest_plugins = ["pytester"]

TESTS = """
import pytest
from agentkit import LLM
from agentkit.testing import ScriptedLLM


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def llm(cassette):
    return LLM() if cassette.is_replaying else ScriptedLLM("One.")


@pytest.mark.cassette("trip")
def test_with_a_name(llm, cassette):
    assert cassette.path.name == "trip.cassette"
    assert llm.chat("one") == "One."


@pytest.mark.cassette
@pytest.mark.parametrize("word", ["one", "t/w o"])
def test_without_a_name(word, llm):
    assert llm.chat(word) == "One."


def test_by_the_fixture_alone(llm, cassette):
    assert llm.chat("one") == "One."


@pytest.mark.anyio
@pytest.mark.cassette
async def test_async(llm):
    assert await llm.achat("one") == "One."


class TestGroup:
    @pytest.mark.cassette
    def test_method(self, llm):
        assert llm.chat("one") == "One."


def test_of_another_kind():
    pass
"""
PASSES = 6


@pytest.fixture
def run(pytester, monkeypatch):
    """Run tests in a separate pytest process without a provider, and return its output."""
    for name in [name for name in os.environ if name.startswith(("OPENAI_", "AZURE_"))]:
        monkeypatch.delenv(name)
    pytester.makeini("[pytest]\naddopts = --strict-markers -p no:cacheprovider\nfilterwarnings = error\n")

    def start(*arguments, tests=TESTS):
        pytester.path.joinpath("test_trip.py").write_text(tests)
        return pytester.runpytest_inprocess("-q", *arguments).stdout.str()

    return start


def test_once_records_and_then_replays(run, pytester):
    """Tests of all kinds are recorded next to their file, and then replayed without a provider."""
    assert f"{PASSES + 1} passed" in run("--record=once")
    assert {re.sub("-[0-9a-f]{10}", "-#", path.name) for path in (pytester.path / "cassettes").iterdir()} == {
        "trip.cassette",
        "test_trip.test_without_a_name_one-#.cassette",
        "test_trip.test_without_a_name_t_w_o-#.cassette",
        "test_trip.test_by_the_fixture_alone.cassette",
        "test_trip.test_async.cassette",
        "test_trip.TestGroup.test_method-#.cassette",
    }
    assert f"{PASSES + 1} passed" in run()


ALIKE = """
import pytest
from agentkit import LLM
from agentkit.testing import ScriptedLLM

WORDS = ["a/b", "a b", "a?b", "a-b", "a_b", "a", "A", "é", "x" * 200, "x" * 201, "a::b", "..", "../b", "con", "a."]
WORDS += ["a "]

@pytest.mark.cassette
@pytest.mark.parametrize("word", WORDS)
def test_word(word, cassette):
    llm = LLM() if cassette.is_replaying else ScriptedLLM(word)
    assert llm.chat("say") == word

@pytest.mark.cassette
def test_word_a_b(cassette):
    llm = LLM() if cassette.is_replaying else ScriptedLLM("none")
    assert llm.chat("say") == "none"

class TestA:
    test_word = staticmethod(test_word_a_b)

class TestB(TestA):
    test_Word = staticmethod(test_word_a_b)
"""


def test_similar_test_names_have_separate_cassettes(run, pytester):
    """Test names that differ only in punctuation, case or length get different, portable file names."""
    assert "20 passed" in run("--record=once", tests=ALIKE)
    names = [path.name for path in (pytester.path / "cassettes").iterdir()]
    assert len(names) == len({name.lower() for name in names}) == 20
    assert all(re.fullmatch(r"test_trip\.[A-Za-z0-9_.-]{1,140}", name) for name in names)
    assert "20 passed" in run(tests=ALIKE)


@pytest.mark.parametrize("name", ["a\\0b", "\\ud800"])
def test_invalid_cassette_name_fails_the_test(run, name):
    """A cassette name with a NUL or a surrogate raises an error that says so."""
    result = run("--record=all", tests=ALIKE.replace("cassette\ndef", f"cassette('{name}')\ndef"))
    assert "contains a NUL character or a lone surrogate" in result


def test_missing_cassette_fails_without_the_option(run):
    """Without the option a test that has no cassette fails and says how to record one."""
    result = run()
    assert f"1 passed, {PASSES} errors" in result
    assert "pytest --record=once" in result


ONE = """
import pytest
from agentkit.testing import ScriptedLLM

@pytest.mark.cassette
def test_one({fixture}):
    for word in {words!r}:
        assert ScriptedLLM(word).chat(word) == word
    {more}
"""


def test_changed_test_fails_with_a_diff(run):
    """A request that was not recorded or is no longer made fails the test; `all` records it again."""
    run("--record=all", tests=ONE.format(words=["one", "two"], more="", fixture=""))
    result = run(tests=ONE.format(words=["one", "three"], more="", fixture=""))
    assert "1 failed" in result
    assert "+user: three" in result
    result = run(tests=ONE.format(words=["one"], more="", fixture=""))
    assert "1 failed" in result
    assert "not used" in result
    assert "1 passed" in run("--record=all", tests=ONE.format(words=["one"], more="", fixture=""))


def test_same_test_names_have_separate_cassettes(run, pytester):
    """Tests with the same name in two files are recorded and replayed separately."""
    pytester.path.joinpath("test_tour.py").write_text(ONE.format(words=["two"], more="", fixture=""))
    assert "2 passed" in run("--record=once", tests=ONE.format(words=["one"], more="", fixture=""))
    names = {path.name for path in (pytester.path / "cassettes").iterdir()}
    assert names == {"test_trip.test_one.cassette", "test_tour.test_one.cassette"}
    assert "2 passed" in run(tests=ONE.format(words=["one"], more="", fixture=""))


def test_failing_test_preserves_its_cassette(run, pytester):
    """A test that fails, or is not begun, while it is recorded keeps the cassette that it had."""
    run("--record=once", tests=ONE.format(words=["one"], more="", fixture=""))
    before = (pytester.path / "cassettes" / "test_trip.test_one.cassette").read_text()
    assert "1 failed" in run("--record=all", tests=ONE.format(words=["two"], more="assert False", fixture=""))
    assert "1 error" in run("--record=all", tests=ONE.format(words=["two"], more="", fixture="no_such_fixture"))
    assert (pytester.path / "cassettes" / "test_trip.test_one.cassette").read_text() == before


@pytest.mark.cassette
def test_marker_works_in_this_test_suite():
    """The marker works in this test suite: a recorded answer is replayed without a model."""
    assert LLM().chat("Say one.") == "One."
