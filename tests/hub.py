"""A real JupyterHub for tests: it starts a server for everybody who logs in, under that person's Unix account."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import requests
import websocket
from accounts import Person, seen_by_all
from jupyterhub.proxy import Proxy
from lab import HANGS, free_port, kernel_environment

TESTS = Path(__file__).resolve().parent
PASSWORD = secrets.token_hex(8)


class PlainProxy(Proxy):
    """In place of the hub's usual proxy, which is a program for Node. It looks at the first request of a connection and
    hands the connection on as it is, so our clients use each for one request."""

    async def start(self) -> None:
        self.routes: dict[str, dict[str, object]] = {}
        address = urlsplit(self.public_url)
        self.server = await asyncio.start_server(self.hand_on, address.hostname, address.port)

    def stop(self) -> None:
        self.server.close()

    async def add_route(self, routespec: str, target: str, data: dict[str, object]) -> None:
        self.routes[routespec] = {"routespec": routespec, "target": target, "data": {**data, "hub": True}}

    async def delete_route(self, routespec: str) -> None:
        self.routes.pop(routespec, None)

    async def get_all_routes(self) -> dict[str, dict[str, object]]:
        return self.routes

    async def hand_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split(b" ")[1].decode()
            route = max((route for route in self.routes if path.startswith(route)), key=len)
            target = urlsplit(str(self.routes[route]["target"]))
            their_reader, their_writer = await asyncio.open_connection(target.hostname, target.port)
            their_writer.write(head)
            await asyncio.gather(pour(reader, their_writer), pour(their_reader, writer))


async def pour(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Hand on everything until one of the two closes its end."""
    with contextlib.suppress(OSError):
        while data := await source.read(1 << 16):
            target.write(data)
            await target.drain()
    target.close()


@contextlib.contextmanager
def jupyterhub(people: list[Person], folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """A hub on which these people may log in. Their servers get this environment. Yields its address."""
    address = f"http://127.0.0.1:{free_port()}"
    settings = {
        "JupyterHub.bind_url": address,
        "JupyterHub.hub_port": free_port(),
        "JupyterHub.db_url": "sqlite://",
        "JupyterHub.cookie_secret_file": str(folder / "cookie_secret"),
        "JupyterHub.authenticator_class": "shared-password",
        "SharedPasswordAuthenticator.user_password": PASSWORD,
        "Authenticator.allowed_users": {person.name for person in people},
        "JupyterHub.spawner_class": "localprocess",
        "Spawner.cmd": [sys.executable, "-m", "jupyterhub.singleuser"],
        "Spawner.environment": environment,
        "Spawner.start_timeout": HANGS,
        "Spawner.http_timeout": HANGS,
    }
    lines = [f"c.{name} = {value!r}" for name, value in settings.items()]
    lines += [f"import sys; sys.path.insert(0, {str(TESTS)!r})", "from hub import PlainProxy"]
    lines += ["c.JupyterHub.proxy_class = PlainProxy"]
    (folder / "jupyterhub_config.py").write_text("\n".join(lines))
    command = [*seen_by_all("ALL"), sys.executable, "-m", "jupyterhub", "-f", str(folder / "jupyterhub_config.py")]
    log = folder / "hub.log"
    with log.open("w") as out:
        hub = subprocess.Popen(command, cwd=folder, env=kernel_environment(), stdout=out, stderr=out)
    try:
        wait_for(f"{address}/hub/api", hub, log)
        yield address
    except BaseException as error:
        error.add_note(log.read_text())
        raise
    finally:
        end(hub)


def end(hub: subprocess.Popen[bytes]) -> None:
    """The hub stops the servers before it ends. If bubblewrap is between it and us, it ends with the hub."""
    if hub.poll() is None:
        started = psutil.Process(hub.pid)
        family = [started, *started.children(recursive=True)]
        next(process for process in family if process.cmdline()[:1] == [sys.executable]).terminate()
    hub.wait(HANGS)


def wait_for(address: str, hub: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(5 * HANGS):
        assert hub.poll() is None, f"JupyterHub ended:\n{log.read_text()}"
        with contextlib.suppress(requests.ConnectionError):
            requests.get(address, headers={"Connection": "close"}, timeout=HANGS).raise_for_status()
            return
        time.sleep(0.2)
    raise AssertionError(f"JupyterHub does not answer:\n{log.read_text()}")


class OnTheHub:
    """What somebody who has logged in does: the requests of their browser."""

    def __init__(self, hub: str, person: Person):
        self.person = person
        self.hub = hub
        self.session = requests.Session()
        self.session.headers["Connection"] = "close"
        self.own = f"{hub}/user/{person.name}"
        self.log_in()

    def log_in(self) -> None:
        """The hub begins to start a server."""
        self.call("GET", f"{self.hub}/hub/login")
        form = {"username": self.person.name, "password": PASSWORD, "_xsrf": self.session.cookies["_xsrf"]}
        self.call("POST", f"{self.hub}/hub/login", data=form, allow_redirects=False)
        self.session.headers["X-XSRFToken"] = self.hub_cookie("_xsrf")
        api = f"{self.hub}/hub/api/users/{self.person.name}"
        token = self.call("POST", f"{api}/tokens", json={"note": "a test"}).json()["token"]
        self.session.headers["Authorization"] = f"token {token}"
        self.call("POST", f"{api}/server")

    def wait_for_server(self) -> None:
        progress = f"{self.hub}/hub/api/users/{self.person.name}/server/progress"
        for line in self.call("GET", progress, stream=True).iter_lines():
            told = json.loads(line.removeprefix(b"data:")) if line else {}
            assert not told.get("failed"), told
            if told.get("ready"):
                return
        raise AssertionError(f"no server was started for {self.person.name}")

    def hub_cookie(self, name: str) -> str:
        return next(cookie.value or "" for cookie in self.session.cookies if cookie.name == name)

    def call(self, method: str, address: str, **details: object) -> requests.Response:
        answer = self.session.request(method, address, timeout=HANGS, **details)  # type: ignore[arg-type]
        assert answer.ok, f"{self.person.name}: {method} {address}: {answer.status_code}\n{answer.text}"
        return answer

    def ask(self, method: str, path: str, **details: object) -> requests.Response:
        """A request to this person's own server."""
        return self.call(method, f"{self.own}/{path}", **details)

    def run(self, command: str) -> str:
        """Give a command in a new terminal, and wait until it has ended."""
        name = self.ask("POST", "api/terminals").json()["name"]
        address = f"{self.own.replace('http', 'ws', 1)}/terminals/websocket/{name}"
        header = [f"Authorization: {self.session.headers['Authorization']}"]
        terminal = websocket.create_connection(address, timeout=HANGS, header=header)
        terminal.send(json.dumps(["stdin", f"{command}; echo ended:''$?\r"]))
        said = ""
        while not (end := re.search(r"ended:(\d+)", said)):
            kind, *text = json.loads(terminal.recv())
            said += text[0] if kind == "stdout" else ""
        terminal.close()
        self.ask("DELETE", f"api/terminals/{name}")
        assert end[1] == "0", f"{self.person.name}: {command}\n{said}"
        return said
