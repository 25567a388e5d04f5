"""Tests for the loading of the guard's engine."""

import subprocess
import sys

from agentkit.sandbox.guard import load_engine


def test_engine_is_loaded_without_its_package():
    """In a new process, the visitor is loaded without leaving a partial package behind."""
    program = (
        "import sys; from agentkit.sandbox.guard import run; print(run('1 + 1', print).value);"
        "print('RestrictedPython.Guards' in sys.modules, 'RestrictedPython' in sys.modules);"
        "import RestrictedPython; print(RestrictedPython.safe_builtins['len'] is len)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["2", "False", "False", "True"]


def test_loaded_package_is_used():
    """If the whole package is already loaded, it is used."""
    import RestrictedPython

    assert load_engine() is RestrictedPython.RestrictingNodeTransformer
    assert sys.modules["RestrictedPython"] is RestrictedPython
