"""PostgreSQL, Redis and nginx for as long as a block lasts, in temporary folders: for the cluster and the tests."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

POSTGRES = "PostgreSQL is not installed: apt-get install postgresql"
REDIS = "Redis is not installed: apt-get install redis-server"
AS_ROOT = os.geteuid() == 0


class AbsentError(Exception):
    """A program is not there; the text says what to install."""


def free_port() -> int:
    """A port that is free right now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def find(names: list[str], folders: list[Path], absent: str) -> Path:
    """The first program of ``names`` on PATH or in ``folders``. Raises AbsentError."""
    for name in names:
        for path in [shutil.which(name), *(folder / name for folder in folders)]:
            if path and os.access(path, os.X_OK):
                return Path(path)
    raise AbsentError(absent)


def run(*command: object, user: str = "", cwd: Path | None = None) -> None:
    """Run a program to its end; its words are shown only if it fails. ``user``: as that user, when we are root."""
    words = [str(part) for part in command]
    if user and AS_ROOT:
        words = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--", *words]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=cwd)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    """A new cluster on a free port, without a password, for as long as the block lasts; its URL.

    PostgreSQL refuses to run as root; then it runs as the user postgres. Raises AbsentError.
    """
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    binaries = find(["initdb"], versions, POSTGRES).resolve().parent
    folder, port = Path(tempfile.mkdtemp(prefix="allm-pg-")), free_port()
    data = folder / "data"
    try:
        if AS_ROOT:
            shutil.chown(folder, "postgres")
        run(binaries / "initdb", "-D", data, "-U", "allm", "-A", "trust", "-E", "UTF8", "--locale=C", "-N",
            user="postgres", cwd=folder)  # fmt: skip
        # the tests kill our processes, never the server, so it need not wait for the disk
        options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c max_connections=200 -c fsync=off"
        run(binaries / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", options, "start",
            user="postgres", cwd=folder)  # fmt: skip
        yield f"postgresql://allm@127.0.0.1:{port}/postgres"
    finally:
        with contextlib.suppress(RuntimeError):
            run(binaries / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop", user="postgres", cwd=folder)
        shutil.rmtree(folder, ignore_errors=True)


class Redis:
    """A Redis on a port of its own, nothing written to disk; it can be ended and started again. Raises AbsentError."""

    def __init__(self) -> None:
        program = find(["redis-server"], [], REDIS)
        self._port = free_port()
        self._command = [
            str(program),
            "--port",
            str(self._port),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
        ]
        self.url = f"redis://127.0.0.1:{self._port}/0"
        self.start()

    def start(self) -> None:
        """Start the server; returns when it answers."""
        self._server = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        assert self._server.stdout is not None
        if not any("Ready to accept connections" in line for line in iter(self._server.stdout.readline, "")):
            raise RuntimeError("redis-server ended before it was ready.")

    def stop(self) -> None:
        """End it; harmless when it has ended."""
        self._server.terminate()
        self._server.communicate(timeout=10)


@contextlib.contextmanager
def redis() -> Iterator[str]:
    """A new Redis for as long as the block lasts; its URL. Raises AbsentError."""
    server = Redis()
    try:
        yield server.url
    finally:
        server.stop()
