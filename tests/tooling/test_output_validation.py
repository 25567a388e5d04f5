"""Tests for the validation of JSON as a value of a Python type."""

from __future__ import annotations

import pydantic
import pytest

from agentkit.errors import BadResponse
from agentkit.tooling.output_types import OutputMismatch, OutputType, Validator


class Order(pydantic.BaseModel):
    """A model with an alias and a computed field."""

    size: int = pydantic.Field(3, alias="Size")
    note: str | None = "none"

    @pydantic.computed_field
    @property
    def double(self) -> int:
        """Twice the size."""
        return 2 * self.size


class Careless(pydantic.BaseModel):
    """A model whose validator raises an unexpected exception."""

    size: int

    @pydantic.field_validator("size")
    @classmethod
    def _look_up(cls, value):
        return {1: 1}[value]


def test_null_for_optional_field_uses_the_default():
    """A null is replaced by the default of the field unless the field allows null."""
    assert Validator(Order).check({"Size": None, "note": None}) == Order(Size=3, note=None)


def test_aliases_and_computed_fields_round_trip():
    """Values are encoded under their aliases, and computed fields do not prevent parsing."""
    order = Order(Size=5)
    assert Validator(Order).encode(order) == {"Size": 5, "note": "none"}
    assert Validator(Order).check(Validator(Order).encode(order)) == order


def test_lone_surrogates_are_replaced():
    """A lone surrogate in an answer is replaced."""
    assert OutputType.of(list[str]).parse('["a\\ud83d"]') == ["a?"]


def test_validator_exception_is_reported():
    """Any exception raised by a validator is reported as an error of the answer."""
    with pytest.raises(OutputMismatch) as caught:
        Validator(Careless).check({"size": 7})
    assert [fault.message for fault in caught.value.errors] == ["could not be checked (KeyError: 7)"]
    with pytest.raises(BadResponse, match=r"The answer could not be checked \(KeyError: 7\)"):
        OutputType.of(Careless).parse('{"size": 7}')


def test_schema_is_inlined_where_possible():
    """The schema contains its types inline instead of as references where possible."""
    assert Validator(list[Order]).schema["items"]["properties"].keys() == {"Size", "note"}
    assert Validator(int).schema == {"type": "integer"}
