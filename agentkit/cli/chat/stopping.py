"""What does Ctrl-C do while an answer is written?"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stoppable() -> Iterator[None]:
    """The first Ctrl-C stops the run; a second one does not keep from writing down what was said, a third does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    presses = 0

    def stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal presses
        presses += 1
        if presses != 2:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
