"""What all tests share: a state folder of their own, and no test that fails because the machine is slow."""

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def own_state(monkeypatch, tmp_path_factory):
    """Every test has a state folder of its own."""
    monkeypatch.setenv("AGENTKIT_STATE", str(tmp_path_factory.mktemp("state")))
