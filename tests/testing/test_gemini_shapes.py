"""Tests for Gemini responses of the fake server."""

import pytest

from agentkit.testing import RecordedRequest, call, filtered, say
from agentkit.testing.fake_responses import gemini_body, gemini_chunks, is_gemini_delta, to_reply
from agentkit.usage import Usage

LINES = {
    "STOP": say("Hello there, you", call("look", place="Hanoi"), reasoning="Let me think"),
    "MAX_TOKENS": say("Once upon", finish_reason="length"),
    "SAFETY": filtered("Once upon"),
}


@pytest.mark.for_each(("reason", "line"), LINES.items())
def test_stream_has_the_parts_of_the_whole_answer(reason, line):
    """The parts of all chunks are those of the complete answer, and only the last one has the finish reason."""
    answer, request = to_reply(line).content, RecordedRequest("POST", "/models/gemini:generateContent")
    (full_text,) = gemini_body(answer, request, 1)["candidates"]
    *deltas, last = gemini_chunks(answer, request, 1)
    parts = [part for chunk in deltas for part in chunk["candidates"][0]["content"]["parts"]]
    for kind in (False, True):
        texts = [
            "".join(part["text"] for part in of if "text" in part and part.get("thought", False) is kind)
            for of in (parts, full_text["content"]["parts"])
        ]
        assert texts[0] == texts[1]
    assert [part for part in parts if "text" not in part] == [
        part for part in full_text["content"]["parts"] if "text" not in part
    ]
    thoughts = [part["text"] for part in full_text["content"]["parts"] if part.get("thought") is True]
    assert thoughts == ["Let me think"] * (reason == "STOP")
    assert full_text["finishReason"] == last["candidates"][0]["finishReason"] == reason
    assert (all(map(is_gemini_delta, deltas)), is_gemini_delta(last)) == (True, False)


def test_usage_counts_thoughts_separately():
    """Thinking tokens are not counted as candidate tokens, and missing usage is omitted."""
    request = RecordedRequest("POST", "/models/gemini:generateContent")
    counted = gemini_body(to_reply(say("Hi", usage=Usage(100, 50, 80, 20, requests=1))).content, request, 1)
    assert counted["usageMetadata"] == {
        "promptTokenCount": 100,
        "candidatesTokenCount": 30,
        "thoughtsTokenCount": 20,
        "cachedContentTokenCount": 80,
        "totalTokenCount": 150,
    }
    assert "usageMetadata" not in gemini_body(to_reply(say("Hi", usage=None)).content, request, 1)
