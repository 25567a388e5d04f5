"""Questions generated from docstrings of the standard library, with the lines that answer them.

A question is the first sentence of a function's docstring, which is removed from the document. The answer must be found
by the code and the rest of the docstring, which can use other words. Sentences that occur in several places are
skipped. The questions are the same for the same version of Python.
"""

from __future__ import annotations

import ast
import re
import sysconfig
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

MODULES = (
    *(
        "argparse",
        "ast",
        "base64",
        "bisect",
        "calendar",
        "cmd",
        "codecs",
        "collections/__init__",
        "colorsys",
        "configparser",
    ),
    *("contextlib", "copy", "csv", "dataclasses", "datetime", "decimal", "_pydecimal", "_pydatetime", "difflib", "dis"),
    *("email/message", "email/utils", "email/header", "enum", "filecmp", "fileinput", "fnmatch", "fractions", "ftplib"),
    *(
        "functools",
        "getopt",
        "getpass",
        "gettext",
        "glob",
        "graphlib",
        "gzip",
        "hashlib",
        "heapq",
        "hmac",
        "html/parser",
    ),
    *(
        "http/client",
        "http/cookiejar",
        "http/server",
        "imaplib",
        "inspect",
        "ipaddress",
        "json/decoder",
        "json/encoder",
    ),
    *(
        "linecache",
        "locale",
        "logging/__init__",
        "logging/handlers",
        "mailbox",
        "mimetypes",
        "operator",
        "optparse",
        "os",
    ),
    *("pathlib", "pickle", "pickletools", "platform", "plistlib", "poplib", "posixpath", "pprint", "profile", "pstats"),
    *("queue", "quopri", "random", "reprlib", "sched", "secrets", "selectors", "shelve", "shlex", "shutil", "smtplib"),
    *(
        "socket",
        "socketserver",
        "ssl",
        "statistics",
        "string",
        "subprocess",
        "tarfile",
        "tempfile",
        "textwrap",
        "threading",
    ),
    *(
        "timeit",
        "tokenize",
        "trace",
        "traceback",
        "types",
        "typing",
        "urllib/parse",
        "urllib/request",
        "uuid",
        "warnings",
    ),
    *(
        "wave",
        "weakref",
        "webbrowser",
        "xmlrpc/client",
        "xmlrpc/server",
        "zipapp",
        "zipfile",
        "zipimport",
        "unittest/case",
    ),
)
PER_MODULE = 8
FEWEST_CHARS, MOST_CHARS, FEWEST_LINES = 40, 300, 4
_SENTENCE = re.compile(r"\s*(.+?(?:\.(?=\s|$)|(?=\n\s*\n)|$))", re.DOTALL)


@dataclass(frozen=True)
class Question:
    """A question, and the lines of the document that answer it; `held_out` questions are not used for tuning."""

    text: str
    document: str
    first_line: int
    last_line: int
    held_out: bool


def make(folder: Path) -> list[Question]:
    """Write the documents to a folder, and return the questions."""
    home = Path(sysconfig.get_paths()["stdlib"])
    sources = {name: (home / f"{name}.py").read_text("utf-8") for name in MODULES if (home / f"{name}.py").is_file()}
    counts = Counter(sentence for source in sources.values() for _, sentence, _ in _candidates(source))
    questions = []
    for name, source in sources.items():
        single = [each for each in _candidates(source) if counts[each[1]] == 1]
        chosen = sorted(single, key=lambda each: _mark(name, each[1]))[:PER_MODULE]
        text = source
        document = f"{name.replace('/', '_')}.py"
        for node, sentence, raw in chosen:
            text = _without(text, raw)
            held_out = int(_mark(name, sentence)[-1], 16) % 2 == 1
            questions.append(Question(sentence, document, node.lineno, node.end_lineno or node.lineno, held_out))
        (folder / document).write_text(text, "utf-8")
    return questions


def _candidates(source: str) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, str, str]]:
    """The functions with a question: the sentence as text, and as it occurs in the source."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found = _SENTENCE.match(ast.get_docstring(node, clean=False) or "")
            raw = found[1] if found else ""
            sentence = " ".join(raw.split())
            long_enough = len(node.body) > 1 and (node.end_lineno or 0) - node.lineno >= FEWEST_LINES + raw.count("\n")
            if FEWEST_CHARS <= len(sentence) <= MOST_CHARS and long_enough and source.count(raw) == 1:
                yield node, sentence, raw


def _without(source: str, raw: str) -> str:
    """Remove a sentence from the source without changing line numbers."""
    return source.replace(raw, "\n" * raw.count("\n"), 1)


def _mark(name: str, sentence: str) -> str:
    return sha256(f"{name}:{sentence}".encode()).hexdigest()
