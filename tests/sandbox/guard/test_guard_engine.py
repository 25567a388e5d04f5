"""How the guard loads its engine."""

import subprocess
import sys

from agentkit.sandbox.guard import load_engine


def test_the_engine_is_loaded_without_its_package():
    """A fresh process loads the visitor and leaves no half of a package behind."""
    program = (
        "import sys; from agentkit.sandbox.guard import run; print(run('1 + 1', print).value);"
        "print('RestrictedPython.Guards' in sys.modules, 'RestrictedPython' in sys.modules);"
        "import RestrictedPython; print(RestrictedPython.safe_builtins['len'] is len)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["2", "False", "False", "True"]


def test_a_package_that_is_there_is_used():
    """Where the whole package is loaded already, it stays."""
    import RestrictedPython

    assert load_engine() is RestrictedPython.RestrictingNodeTransformer
    assert sys.modules["RestrictedPython"] is RestrictedPython
