"""The tasks: files, a prompt, the actions of the model in each response, and a command that passes afterwards.

An action is a tuple: ("read", path), ("search", pattern), ("edit", path, old, new), ("write", path, content),
("run", command) or ("plan", (step, status), ...). The adapter of a library turns it into a call of its tools.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TESTS = "python3 -B -m unittest -q"  # without .pyc files, which look current if a file changes twice in a second

Action = tuple[Any, ...]


@dataclass(frozen=True)
class Task:
    """A task in a small repository; before the actions `check` fails."""

    name: str
    prompt: str
    files: Mapping[str, str]
    responses: Sequence[Sequence[Action]]
    check: str = TESTS


def _test(module: str, *lines: str) -> str:
    body = "\n".join(f"        {line}" for line in lines)
    return f"import unittest\n\nimport {module}\n\n\nclass Test(unittest.TestCase):\n    def test(self):\n{body}\n"


def _plan(*steps: str, done: int) -> Action:
    return (
        "plan",
        *(
            (step, "done" if place < done else "active" if place == done else "pending")
            for place, step in enumerate(steps)
        ),
    )


_OPTION = (
    "import argparse\n\n\ndef main(arguments=None):\n    parser = argparse.ArgumentParser()\n"
    '    parser.add_argument("name")\n    chosen = parser.parse_args(arguments)\n    return f"Hello, {chosen.name}."\n'
)
_PAGES = "def page(items, number, size=10):\n    start = number * size\n    return items[start : start + size]\n"
_REPORT = (
    "def invoice(rows):\n    total = sum(price * count for price, count in rows)\n"
    '    return f"Invoice: {total:.2f} EUR"\n\n\n'
    "def offer(rows):\n    total = sum(price * count for price, count in rows)\n"
    '    return f"Offer: {total:.2f} EUR"\n'
)
_DEAD = "def upper(text):\n    return text.upper()\n\n\ndef old_upper(text):\n    return text.swapcase()\n"
_STEPS = ("find the uses", "change them", "run the tests")

TASKS = (
    Task(
        "fix a failing test",
        "A test fails. Find out why, and fix the code.",
        {
            "calc.py": "def add(a, b):\n    return a - b\n",
            "test_calc.py": _test("calc", "self.assertEqual(calc.add(2, 3), 5)"),
        },
        (
            [("run", TESTS)],
            [("read", "calc.py")],
            [("edit", "calc.py", "a - b", "a + b")],
            [("run", TESTS)],
        ),
    ),
    Task(
        "rename a function",
        "Rename fetch to load everywhere.",
        {
            "store.py": "def fetch(key):\n    return key.upper()\n",
            "one.py": "from store import fetch\n\n\ndef first():\n    return fetch('a')\n",
            "two.py": "import store\n\n\ndef second():\n    return store.fetch('b')\n",
            "test_store.py": _test(
                "store",
                "import one",
                "import two",
                "self.assertEqual(store.load('x'), 'X')",
                "self.assertEqual(one.first() + two.second(), 'AB')",
            ),
        },
        (
            [_plan(*_STEPS, done=0)],
            [("search", "fetch")],
            [_plan(*_STEPS, done=1)],
            [
                ("edit", "store.py", "def fetch", "def load"),
                ("edit", "one.py", "import fetch", "import load"),
                ("edit", "one.py", "return fetch", "return load"),
                ("edit", "two.py", "store.fetch", "store.load"),
            ],
            [("run", TESTS)],
            [_plan(*_STEPS, done=3)],
        ),
    ),
    Task(
        "add an option with a test",
        "Add an option --shout to greet.py that makes the greeting upper case, with a test.",
        {"greet.py": _OPTION, "test_greet.py": _test("greet", "self.assertEqual(greet.main(['An']), 'Hello, An.')")},
        (
            [("read", "greet.py"), ("read", "test_greet.py")],
            [
                (
                    "edit",
                    "greet.py",
                    '("name")\n',
                    '("name")\n    parser.add_argument("--shout", action="store_true")\n',
                ),
                (
                    "edit",
                    "greet.py",
                    'return f"Hello, {chosen.name}."',
                    'greeting = f"Hello, {chosen.name}."\n    return greeting.upper() if chosen.shout else greeting',
                ),
                (
                    "edit",
                    "test_greet.py",
                    "'Hello, An.')",
                    "'Hello, An.')\n        self.assertEqual(greet.main(['--shout', 'An']), 'HELLO, AN.')",
                ),
            ],
            [("run", TESTS)],
        ),
        f"{TESTS} && grep -q shout test_greet.py",
    ),
    Task(
        "move a constant",
        "Move RATE from both modules into a new module rates.py.",
        {
            "buy.py": "RATE = 0.19\n\n\ndef price(net):\n    return net * (1 + RATE)\n",
            "sell.py": "RATE = 0.19\n\n\ndef tax(net):\n    return net * RATE\n",
            "test_rates.py": _test(
                "rates", "import buy", "self.assertEqual((rates.RATE, buy.price(100)), (0.19, 119))"
            ),
        },
        (
            [("search", "RATE")],
            [
                ("write", "rates.py", "RATE = 0.19\n"),
                ("edit", "buy.py", "RATE = 0.19\n", "from rates import RATE\n"),
                ("edit", "sell.py", "RATE = 0.19\n", "from rates import RATE\n"),
            ],
            [("run", TESTS)],
        ),
    ),
    Task(
        "fix an import",
        "The tests cannot be imported. Fix that.",
        {
            "app/__init__.py": "",
            "app/core.py": "from app.util import clean\n\n\ndef run(text):\n    return clean(text)\n",
            "app/utils.py": "def clean(text):\n    return ' '.join(text.split())\n",
            "test_app.py": _test("app.core", "self.assertEqual(app.core.run(' a  b '), 'a b')"),
        },
        (
            [("run", TESTS)],
            [("search", "def clean")],
            [("edit", "app/core.py", "app.util ", "app.utils ")],
            [("run", TESTS)],
        ),
    ),
    Task(
        "remove a dead function",
        "Remove the function that nothing uses, with its test.",
        {
            "text.py": _DEAD,
            "main.py": "from text import upper\n\nNAME = upper('an')\n",
            "test_text.py": _test(
                "text", "self.assertEqual(text.upper('a'), 'A')", "self.assertEqual(text.old_upper('a'), 'A')"
            ),
        },
        (
            [("search", "upper")],
            [
                ("edit", "text.py", "\n\ndef old_upper(text):\n    return text.swapcase()\n", ""),
                ("edit", "test_text.py", "        self.assertEqual(text.old_upper('a'), 'A')\n", ""),
            ],
            [("run", TESTS)],
        ),
        f"{TESTS} && ! grep -rq --include=*.py old_upper .",
    ),
    Task(
        "fix an off-by-one error",
        "page(items, 1) should be the first page. Fix it, and run the tests.",
        {
            "pages.py": _PAGES,
            "test_pages.py": _test("pages", "self.assertEqual(pages.page(list(range(30)), 2), list(range(10, 20)))"),
        },
        (
            [("read", "pages.py")],
            [("edit", "pages.py", "number * size", "(number - 1) * size")],
            [("run", TESTS)],
        ),
    ),
    Task(
        "add a function with a test",
        "Add to_json to rows.py: a list of rows as JSON, sorted by name. Write a test.",
        {"rows.py": "def names(rows):\n    return sorted(row['name'] for row in rows)\n", "README.md": "# Rows\n"},
        (
            [("read", "rows.py")],
            [
                (
                    "write",
                    "rows.py",
                    "import json\n\n\ndef names(rows):\n    return sorted(row['name'] for row in rows)\n\n\n"
                    "def to_json(rows):\n    return json.dumps(sorted(rows, key=lambda row: row['name']))\n",
                ),
                (
                    "write",
                    "test_rows.py",
                    _test(
                        "rows",
                        "self.assertEqual(rows.to_json([{'name': 'b'}, {'name': 'a'}]), "
                        '\'[{"name": "a"}, {"name": "b"}]\')',
                    ),
                ),
            ],
            [("run", TESTS)],
        ),
        f"test -f test_rows.py && {TESTS}",
    ),
    Task(
        "remove a duplicate",
        "invoice and offer compute the total twice. Move that into one function.",
        {
            "report.py": _REPORT,
            "test_report.py": _test(
                "report",
                "self.assertEqual(report.total([(2, 3)]), 6)",
                "self.assertEqual(report.offer([(2, 3)]), 'Offer: 6.00 EUR')",
            ),
        },
        (
            [("read", "report.py")],
            [
                (
                    "write",
                    "report.py",
                    "def total(rows):\n    return sum(price * count for price, count in rows)\n\n\n"
                    'def invoice(rows):\n    return f"Invoice: {total(rows):.2f} EUR"\n\n\n'
                    'def offer(rows):\n    return f"Offer: {total(rows):.2f} EUR"\n',
                )
            ],
            [("run", TESTS)],
        ),
    ),
    Task(
        "raise a version",
        "Raise the version to 1.3.0 everywhere.",
        {
            "pyproject.toml": '[project]\nname = "thing"\nversion = "1.2.9"\n',
            "thing.py": '__version__ = "1.2.9"\n',
            "README.md": "# Thing 1.2.9\n\nUnchanged: 11.2.90.\n",
        },
        (
            [("search", "1\\.2\\.9")],
            [
                ("edit", "pyproject.toml", '"1.2.9"', '"1.3.0"'),
                ("edit", "thing.py", '"1.2.9"', '"1.3.0"'),
                ("edit", "README.md", "Thing 1.2.9", "Thing 1.3.0"),
            ],
        ),
        "grep -q 1.3.0 pyproject.toml && grep -q 1.3.0 thing.py && grep -q 'Thing 1.3.0' *.md && grep -q 11.2.90 *.md",
    ),
)

ANSWER = "Done."


def write_files(task: Task, folder: Path) -> None:
    """Write the files of a task to a folder."""
    for name, text in task.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
