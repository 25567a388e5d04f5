"""Which modules pack, encode or read what a program hands them? They get real bytes and texts only."""

from collections.abc import Callable
from typing import Any

from agentkit.sandbox.guard.ending import RefusedCall


def packed(name: str) -> dict[str, Any]:
    """`compress` and `decompress` of `bz2`, `gzip` or `lzma`, for real bytes."""
    original = _module(name)

    def compress(data: Any, *arguments: Any, **options: Any) -> Any:
        """The bytes, packed."""
        return original.compress(bytes(memoryview(data)), *arguments, **options)

    def decompress(data: Any, *arguments: Any, **options: Any) -> Any:
        """The bytes that were packed."""
        return original.decompress(bytes(memoryview(data)), *arguments, **options)

    return {"compress": compress, "decompress": decompress}


def _module(name: str) -> Any:
    import bz2
    import gzip
    import lzma

    return {"bz2": bz2, "gzip": gzip, "lzma": lzma}[name]


def gzip_names() -> dict[str, Any]:
    """What the module `gzip` hands out under guard."""
    import gzip
    import io

    def packed_file(filename: Any = None, mode: Any = None, compresslevel: int = 9, fileobj: Any = None) -> Any:
        """A packed file in memory."""
        named = filename is not None and not (type(filename) is str and filename == "")
        if named or type(fileobj) is not io.BytesIO:
            raise RefusedCall("GzipFile works in memory here", "give it fileobj=io.BytesIO(data) and no file name")
        return gzip.GzipFile(None, mode and str.__str__(mode), compresslevel, fileobj)

    return {**packed("gzip"), "GzipFile": packed_file}


def codecs_names() -> dict[str, Any]:
    """What the module `codecs` hands out under guard."""
    import codecs

    def plain(value: Any) -> Any:
        return str.__str__(value) if isinstance(value, str) else bytes(memoryview(value))

    def encode(obj: Any, encoding: str = "utf-8", errors: str = "strict") -> Any:
        """The text or the bytes, encoded."""
        return codecs.encode(plain(obj), encoding, errors)

    def decode(obj: Any, encoding: str = "utf-8", errors: str = "strict") -> Any:
        """The text or the bytes that were encoded."""
        return codecs.decode(plain(obj), encoding, errors)

    return {"encode": encode, "decode": decode}


def tomllib_names() -> dict[str, Any]:
    """What the module `tomllib` hands out under guard."""
    import tomllib

    def loads(text: str, /, *, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
        """What a text says."""
        if not isinstance(text, str):
            raise TypeError(f"Expected str object, not {type(text).__qualname__!r}")
        return tomllib.loads(str.__str__(text), parse_float=parse_float)

    return {"loads": loads}
