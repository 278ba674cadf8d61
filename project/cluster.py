"""The demo as several processes, on this machine only: PostgreSQL, Redis, two web processes behind nginx, two workers.

    python -m project.cluster --port 8000

Everything is new and temporary; Ctrl-C ends it all. Kill any of the processes it names and see that nothing is lost.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

from project import services

ROOT = Path(__file__).resolve().parents[1]
WEB, WORKERS = 2, 2
WORKER = ["manage.py", "procrastinate", "worker", "--concurrency", "100", "--shutdown-graceful-timeout", "5"]
NGINX = "nginx is not installed: apt-get install nginx-light"
NGINX_CONF = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log warn;
events {{ worker_connections 2048; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}
    upstream web {{ {servers} }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://web;
            proxy_http_version 1.1;
            proxy_buffering off;
            proxy_read_timeout 1h;
            proxy_set_header Host $http_host;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection $connection_upgrade;
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
        }}
    }}
}}
"""


def main() -> int:
    """Start all, say where it is, end it all at Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--port", type=int, default=8000, help="where nginx listens")
    port = parser.parse_args().port
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="allm-cluster-")))
            database, redis = stack.enter_context(services.postgres()), stack.enter_context(services.redis())
            environment = os.environ | surroundings(folder, database, redis)
            prepare(environment)
            processes = stack.enter_context(running(commands(folder, port), environment))
            until_served(port)
            print(words(port, processes), flush=True)
            signal.pause()
    except services.AbsentError as absent:
        sys.stderr.write(f"{absent}\n")
        return 1
    except KeyboardInterrupt:
        print("Stopped.")
    return 0


def surroundings(folder: Path, database: str, redis: str) -> dict[str, str]:
    """What the processes are told by their environment."""
    return {
        "ALLM_VAR": str(folder),
        "ALLM_DATABASE": database,
        "ALLM_REDIS": redis,
        "ALLM_DISPATCH": "allm_django.runtime.dispatch.procrastinate.Procrastinate",
    }


def prepare(environment: dict[str, str]) -> None:
    """Tables, tools, data."""
    for command in ("migrate", "sync_tools", "demo_data"):
        subprocess.run([sys.executable, "manage.py", command, "-v", "0"], check=True, cwd=ROOT, env=environment)


def commands(folder: Path, port: int) -> list[tuple[str, list[str]]]:
    """Each process's name and command."""
    nginx = services.find(["nginx"], [Path("/usr/sbin")], NGINX)
    ports = [services.free_port() for _ in range(WEB)]
    conf = folder / "nginx.conf"
    servers = " ".join(f"server 127.0.0.1:{web} max_fails=1 fail_timeout=2s;" for web in ports)
    conf.write_text(NGINX_CONF.format(folder=folder, port=port, servers=servers))
    uvicorn = [sys.executable, "-m", "uvicorn", "project.asgi:application", "--log-level", "warning"]
    return [
        *((f"web {web}", [*uvicorn, "--ws-per-message-deflate", "false", "--port", str(web)]) for web in ports),
        *((f"worker {number + 1}", [sys.executable, *WORKER]) for number in range(WORKERS)),
        ("nginx", [str(nginx), "-c", str(conf), "-e", str(folder / "nginx.log")]),
    ]


@contextlib.contextmanager
def running(
    commands: Sequence[tuple[str, list[str]]], environment: dict[str, str]
) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """The processes by name; told to end, and waited for, at the block's end."""
    processes: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name, command in commands:
            processes[name] = subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True)
        yield processes
    finally:
        for process in processes.values():
            process.terminate()
        for process in processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=15)
            process.kill()


def until_served(port: int) -> None:
    """Return when a page comes through nginx."""
    while True:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/accounts/login/"):
            return
        time.sleep(0.2)


def words(port: int, processes: dict[str, subprocess.Popen[bytes]]) -> str:
    """What to read on the terminal."""
    listed = "\n".join(f"    {process.pid:>8}  {name}" for name, process in processes.items())
    return (
        f"\n  allm_django cluster   http://127.0.0.1:{port}/   (logins: agent, approver, admin; password demo, as in "
        f"make demo)\n\n  Processes, to be killed at will:\n{listed}\n\n  Ctrl-C ends all of them.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
