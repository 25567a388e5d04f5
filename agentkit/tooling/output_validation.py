"""Schemas and validation of output types, based on pydantic."""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_origin

from agentkit.errors import ConfigError
from agentkit.tooling import arguments as reading
from agentkit.tooling.annotations import AnnotationContext, readable
from agentkit.tooling.coercion import first_sentence, reason, untold
from agentkit.tooling.output_errors import OutputError, OutputMismatch, placed
from agentkit.tooling.schema import adapter_of, json_schema_of, refuse_lazy
from agentkit.tooling.schema_references import Schema
from agentkit.tooling.strict_schema import tidied
from agentkit.tooling.unions import TAGGED

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

_WHOLE = ""
"""The key that wraps a value during validation, so that every path in it has a container."""

_NULL = {"none_required": "should be null"}


class Validator:
    """A pydantic validator for a Python type. Raises ConfigError if it is not a type or has no JSON form."""

    def __init__(self, kind: Any) -> None:
        _refuse_what_is_no_type(kind)
        try:
            self._adapter, self.schema = _built(kind)
        except Exception as error:
            raise ConfigError(f"{kind!r} cannot be the type of an answer ({first_sentence(error)}); {_USE}") from error

    def check(self, value: Any) -> Any:
        """Validate a JSON value into a Python value. Raises OutputMismatch with all errors.

        A null for an optional field counts as omitted; an object or list encoded as text is parsed.
        """
        faults: Sequence[OutputError] = ()
        meant: dict[str, Any] | None = {_WHOLE: value}
        while meant is not None:
            try:
                return self._value(meant[_WHOLE])
            except OutputMismatch as error:
                faults = error.faults
                places = [((_WHOLE, *fault.path), fault.what, fault.value) for fault in faults]
                meant = reading.repaired(meant, places, ())
        raise OutputMismatch(faults)

    def encode(self, value: Any, *, is_tagged: bool = True) -> Any:
        """Convert a Python value to JSON data that `check` reads back, if the members of unions are tagged."""
        how: dict[str, Any] = {"mode": "json", "by_alias": True, "round_trip": True, "warnings": False}
        return self._adapter.dump_python(value, context=TAGGED if is_tagged else None, **how)

    def _value(self, value: Any) -> Any:
        from pydantic import ValidationError

        # Some models write half of a surrogate pair for an emoji, which pydantic rejects.
        text = json.dumps(value, ensure_ascii=False).encode(errors="replace")
        try:
            return self._adapter.validate_json(text)
        except ValidationError as error:
            raise OutputMismatch(_faults(error, value)) from None
        except Exception as error:
            what = f"could not be checked ({type(error).__name__}: {error})"
            raise OutputMismatch([OutputError((), what, value)]) from error


_USE = (
    "use pydantic models, dataclasses, TypedDicts, NamedTuples, enums, Literal, plain types, "
    "and lists, dictionaries, tuples and unions of them."
)


def _refuse_what_is_no_type(kind: Any) -> None:
    """Raise ConfigError for values and functions, some of which pydantic would accept."""
    is_named = hasattr(kind, "__value__") or hasattr(kind, "__supertype__")  # type aliases and NewType
    if isinstance(kind, type) or get_origin(kind) is not None or is_named or kind in (None, typing.Any):
        return
    if isinstance(kind, str):
        why = "it is a text; give the type itself, without quotes"
    elif isinstance(kind, dict):
        why = "it is a dictionary; a JSON schema goes to LLM.complete(output_schema=...)"
    elif inspect.isroutine(kind):
        why = "it is a function; give the type of what it returns"
    else:
        why = f"it is an object of the class {type(kind).__name__}, not a type"
    raise ConfigError(f"{kind!r:.100} cannot be the type of an answer ({why}); {_USE}")


def _built(kind: Any) -> tuple[TypeAdapter[Any], Schema]:
    from pydantic import Field

    annotations = AnnotationContext({}, lambda text: Field(description=text), {})
    adapter = adapter_of(readable(kind, annotations))
    schema = tidied(json_schema_of(adapter))
    refuse_lazy(adapter.core_schema)
    return adapter, _open_at_the_top(schema)


def _open_at_the_top(schema: Schema) -> Schema:
    """Inline the definition that the whole schema refers to, as in recursive types."""
    definitions: Schema = schema.get("$defs", {})
    target = definitions.get(str(schema.get("$ref", "")).removeprefix("#/$defs/"))
    return schema if target is None else {**target, "$defs": definitions}


def _faults(error: ValidationError, value: Any) -> list[OutputError]:
    faults = []
    for each in error.errors(include_url=False):
        path, branches = placed(value, each["loc"], is_missing=each["type"] == "missing")
        about_type = untold(each.get("ctx", {}), each["input"])
        if about_type is not None:
            name, what, given = about_type
            faults.append(OutputError((*path, name), what, given, branches))
        else:
            what = _NULL.get(each["type"]) or reason(each["type"], each["msg"])
            faults.append(OutputError(path, what, each["input"], branches))
    return faults
