"""The endpoint of a model in a GGUF file, and the check of its path."""

from __future__ import annotations

import os
from pathlib import Path

from agentkit.errors import ConfigError
from agentkit.llm.endpoint import Endpoint
from agentkit.llm.setting_sources import Sources

_MAGIC = b"GGUF"


def local_endpoint(sources: Sources) -> Endpoint:
    """The endpoint of a model file, which is not opened. Raises ConfigError if no file is named."""
    name = sources.value("model=", "AGENTKIT_MODEL")
    if not name:
        raise ConfigError("local needs the path of a GGUF file: pass model='model.gguf' or set AGENTKIT_MODEL.")
    return Endpoint(provider="local", model=name)


def model_path(name: str) -> Path:
    """The absolute path of a model file."""
    return Path(os.path.expanduser(name)).absolute()  # noqa: PTH111 Path.expanduser raises without a home


def check_model_file(path: Path) -> None:
    """Raise ConfigError unless the file can be read and begins as GGUF files do."""
    try:
        with path.open("rb") as file:
            start = file.read(len(_MAGIC))
    except OSError as error:
        raise ConfigError(
            f"The model file {str(path)!r} cannot be read: {error.strerror}. Pass the path of a GGUF file, as in "
            "LLM('local', model='model.gguf')."
        ) from error
    if start != _MAGIC:
        raise ConfigError(
            f"{str(path)!r} is not a GGUF file: it begins with {start!r}. Download the model as a .gguf file, or "
            "convert it with llama.cpp's convert_hf_to_gguf.py."
        )
