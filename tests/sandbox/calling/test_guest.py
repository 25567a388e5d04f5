"""Does code in the sandbox get the answer to its own call, and to no other?"""

import os

import pytest

from agentkit.sandbox import protocol
from agentkit.sandbox.calling.guest import functions_of


@pytest.fixture
def line():
    """The descriptors between code and host: where it asks, what it asked, where it is replied to, its replies."""
    asked, asks = os.pipe()
    replies, replying = os.pipe()
    yield asks, asked, replying, replies
    for descriptor in (asks, asked, replying, replies):
        os.close(descriptor)


def test_after_a_call_that_was_cut_off_there_is_no_other(line):
    """When the answer to a call could not be taken, what comes next may be that answer: no more is asked."""
    asks, asked, replying, replies = line
    add = functions_of('{"add": ["a"]}', asks, replies)["add"]
    protocol.send(replying, protocol.encode(value="[1]"))
    assert add(1) == 1
    protocol.send(replying, b"\xff\xff\xff\xff")
    with pytest.raises(ValueError, match="too long"):
        add(2)
    with pytest.raises(RuntimeError, match="was cut off"):
        add(3)
    assert [frame["arguments"] for frame in protocol.split(os.read(asked, 10_000))] == ['{"a": 1}', '{"a": 2}']
