"""How does an OpenAI server shape an answer of vectors, or refuse one? Pure."""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from agentkit.testing.recorded import RecordedRequest
from agentkit.testing.replies import Raw, Reply, fail
from agentkit.testing.spelling import LENGTH, vector_of, words_in

PATH = "/embeddings"
_MOST_TEXTS = 2_048


def reply_with_vectors(request: RecordedRequest) -> Reply:
    """The vectors of the texts in a request, or what is wrong with it."""
    import json

    texts = request.json.get("input")
    texts = [texts] if isinstance(texts, str) else texts
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text for text in texts):
        return fail(400, "'$.input' is invalid. Please check the API reference.", parameter="input")
    if len(texts) > _MOST_TEXTS:
        said = f"Invalid 'input': array too long. Expected at most {_MOST_TEXTS} entries, but got {len(texts)} instead."
        return fail(400, said, code="array_above_max_length", parameter="input")
    length = request.json.get("dimensions", LENGTH)
    if not isinstance(length, int) or length < 1:
        return fail(400, f"Invalid value for 'dimensions' = {length}. Must be 1 or more.", parameter="dimensions")
    body = json.dumps(_answer(texts, length, request)).encode()
    return Reply(Raw((body,), 200, {"Content-Type": "application/json"}))


def _answer(texts: list[str], length: int, request: RecordedRequest) -> Mapping[str, Any]:
    is_packed = request.json.get("encoding_format") == "base64"
    vectors = [vector_of(text, length) for text in texts]
    data = [
        {"object": "embedding", "index": index, "embedding": _packed(vector) if is_packed else vector}
        for index, vector in enumerate(vectors)
    ]
    tokens = sum(map(words_in, texts))
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": request.model, "usage": usage}


def _packed(vector: list[float]) -> str:
    return b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
