"""How is a large package loaded fast?"""

import subprocess
import sys

import pytest

_PROGRAM = """
import gc, threading
from agentkit.llm.http.loading import loading
{before}
with loading({package!r}):
    during = gc.isenabled()
print(during, gc.isenabled(), gc.get_freeze_count())
"""


def told_of(package, before=""):
    """Whether the collector is on in the block and behind it, and how many objects it skips, in a fresh process."""
    program = _PROGRAM.format(before=before, package=package)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.split()


def test_the_collector_rests_while_a_package_is_loaded():
    """While a package is loaded nobody looks for garbage; afterwards the collector works on, and skips nothing."""
    assert told_of("colorsys") == ["False", "True", "0"]


def test_the_collector_works_on_after_a_failure():
    """A package that cannot be loaded leaves the collector as it was."""
    failing = "try:\n    with loading('colorsys'):\n        raise ImportError\nexcept ImportError:\n    pass"
    assert told_of("sys", failing) == ["True", "True", "0"]


@pytest.mark.parametrize(
    ("package", "before", "told"),
    [
        ("sys", "", ["True", "True", "0"]),
        ("colorsys", "threading.Thread(target=threading.Event().wait, daemon=True).start()", ["True", "True", "0"]),
        ("colorsys", "gc.disable()", ["False", "False", "0"]),
    ],
)
def test_the_collector_is_left_alone(package, before, told):
    """A package that is there already, another thread, or a program that sets it itself: nothing is touched."""
    assert told_of(package, before) == told


def test_what_a_program_has_frozen_stays_frozen():
    """A program that has the collector skip its objects is not undone."""
    during, after, frozen = told_of("colorsys", "gc.freeze()")
    assert (during, after) == ("True", "True")
    assert int(frozen) > 0
