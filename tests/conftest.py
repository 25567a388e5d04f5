"""What all tests share: nothing that they do is kept in the state folder of whoever runs them."""

import pytest


@pytest.fixture(autouse=True)
def own_state(monkeypatch, tmp_path_factory):
    """Every test has a state folder of its own."""
    monkeypatch.setenv("AGENTKIT_STATE", str(tmp_path_factory.mktemp("state")))
