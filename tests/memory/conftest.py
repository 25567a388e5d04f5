"""The stores that sessions are kept in, each of them real: a PostgreSQL server is started where there is one."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from agentkit.memory.stores.opening import store_at

SERVER_PROGRAMS = ("initdb", "pg_ctl")


@pytest.fixture(scope="session")
def postgres_server():
    """The URL of a PostgreSQL server of our own, on a socket in a folder of its own."""
    pytest.importorskip("psycopg", reason="the extra agentkit-tools[postgres] is not installed")
    missing = [name for name in SERVER_PROGRAMS if shutil.which(name) is None]
    if missing:
        pytest.skip(f"a PostgreSQL server is needed: {', '.join(missing)} not found")
    folder = Path(tempfile.mkdtemp(prefix="agentkit-pg-"))
    user = None
    if os.geteuid() == 0:  # the server refuses to run as root
        user = "nobody"
        shutil.chown(folder, user)

    def run(*command):
        subprocess.run(command, user=user, cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=120)

    try:
        run("initdb", "-D", f"{folder}/data", "-U", "agentkit", "--auth=trust", "-E", "UTF8", "--no-sync")
        options = f"-k {folder} -c listen_addresses='' -c fsync=off"
        run("pg_ctl", "-D", f"{folder}/data", "-o", options, "-l", f"{folder}/log", "-w", "start")
        try:
            yield f"postgresql://agentkit@/postgres?host={folder}"
        finally:
            run("pg_ctl", "-D", f"{folder}/data", "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def postgres_url(postgres_server):
    """The URL of a server that holds no sessions."""
    import psycopg

    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute("DROP SCHEMA IF EXISTS agentkit CASCADE")
    return postgres_server


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def place(request, tmp_path):
    """What `Session.open` takes, for each kind of store."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return ":memory:" if request.param == "memory" else str(tmp_path / "sessions.db")


@pytest.fixture(params=["sqlite", "postgres"])
def shared_place(request, tmp_path):
    """What `Session.open` takes, for each kind of store that several processes share."""
    return request.getfixturevalue("postgres_url") if request.param == "postgres" else str(tmp_path / "sessions.db")


@pytest.fixture
def store(place):
    """Each kind of store, empty."""
    store = store_at(place)
    yield store
    store.close()
