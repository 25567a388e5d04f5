"""How is a large package loaded fast? Nobody looks for garbage in it meanwhile, as all of it is kept."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading(package: str) -> Iterator[None]:
    """Load a package in the block, for the first time, with the collector of cyclic garbage at rest.

    It looks through everything that there is, again and again, while a package grows by a hundred thousand objects.
    That is a switch of the whole process: it is touched only where no other thread runs that could notice, and only
    when it is as Python sets it. Then all that was loaded counts as old, as it would have in the end.
    """
    is_ours = gc.isenabled() and not gc.get_freeze_count() and threading.active_count() == 1
    if package in sys.modules or not is_ours:
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.unfreeze()
        gc.enable()
