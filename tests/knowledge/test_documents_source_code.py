"""Tests for the structure of source code."""

import warnings

from agentkit.knowledge.documents import code_blocks, python_blocks

PROGRAM = '''"""A module."""
import os

# What follows is decorated.
@decorated
def first():
    return 1

class Outer:
    """A class."""

    def method(self):
        return "\\d"

    class Inner:
        class Deep:
            def far(self): ...

value = 1
'''


def test_python_is_split_by_its_syntax():
    """Functions and methods are separate blocks with their decorators and preceding comments."""
    blocks = list(python_blocks(PROGRAM))
    assert [(block.section, block.line, block.text.split("\n")[0].strip()) for block in blocks] == [
        ((), 1, '"""A module."""'),
        (("first",), 4, "# What follows is decorated."),
        (("Outer",), 9, "class Outer:"),
        (("Outer", "method"), 12, "def method(self):"),
        (("Outer", "Inner"), 15, "class Inner:"),
        (("Outer", "Inner", "Deep"), 16, "class Deep:"),
        ((), 19, "value = 1"),
    ]


def test_invalid_escapes_emit_no_warning():
    """An invalid escape sequence in a document does not emit a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [block.section for block in python_blocks("def f():\n    return '\\d\\\\' \"\\'\"\n")] == [("f",)]


def test_invalid_python_is_split_by_its_layout():
    """Python code with a syntax error is split by its layout."""
    assert [block.section for block in python_blocks("print 'old'\n\ndef f(:\n  x\n")] == [(), ("f",)]


def test_huge_program_is_split_by_its_layout():
    """A very large program is split by its layout without parsing it."""
    text = "x = [" + "1," * 5_000_000 + "]\n\ndef f():\n    pass\n"
    assert [block.section for block in python_blocks(text)] == [(), ("f",)]


def test_other_languages_are_split_by_layout():
    """An unindented line after a blank line starts a section named after its definition."""
    text = "package main\n\nfunc (s *Server) Run() {\n\n\treturn\n}\n\npub struct Point {\n}\n\nx = 1\n"
    assert [(block.section, block.line) for block in code_blocks(text)] == [
        (("main",), 1),
        (("Run",), 3),
        (("Point",), 8),
        ((), 11),
    ]
