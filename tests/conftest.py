"""What all tests share: a state folder of their own, and no test that fails because of how or where it is started."""

import signal

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a job in the background, whose children cannot be stopped
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def own_state(monkeypatch, tmp_path_factory):
    """Every test has a state folder of its own."""
    monkeypatch.setenv("AGENTKIT_STATE", str(tmp_path_factory.mktemp("state")))
