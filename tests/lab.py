"""A real JupyterLab in a real browser, for tests. Requests that would leave the machine are refused and recorded."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, Route, TimeoutError, expect, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
STUDENT_LAB = ROOT / "autograder" / "student_lab"
TOKEN = "testing"
HANGS = 600  # seconds after which something must be hanging, however busy the machine is
expect.set_options(timeout=HANGS * 1000)
# All cells in the page at once, not only those in view; no news.
SETTINGS = {
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"},
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
}


def find_chromium() -> str | None:
    """The browser that the system has: CHROMIUM, or one of the usual names."""
    names = [os.environ.get("CHROMIUM"), "chromium", "chromium-browser", "google-chrome"]
    return next((path for path in map(shutil.which, filter(None, names)) if path), None)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def kernel_environment() -> dict[str, str]:
    """The environment of a user's kernel: without the tests' own settings of matplotlib and Jupyter."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER", "IPYTHON", "MPLBACKEND"))}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**kept, "PATH": path, "PYTHONPATH": str(ROOT)}


@contextlib.contextmanager
def jupyterlab(folder: Path, home: Path) -> Iterator[str]:
    """JupyterLab on `folder`, with a home of its own; yields its address."""
    for plugin, values in SETTINGS.items():
        name, _, part = plugin.partition(":")
        target = home / ".jupyter/lab/user-settings" / name / f"{part}.jupyterlab-settings"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(values))
    port = free_port()
    environment = {**kernel_environment(), "HOME": str(home)}
    command = [sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root", f"--port={port}"]
    command += [f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={folder}", "--ServerApp.port_retries=0"]
    command += [f"--LabApp.extra_labextensions_path={STUDENT_LAB / 'labextensions'}"]  # as `make lab` does
    with (home / "lab.log").open("w") as log:
        server = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        wait_until_it_answers(f"http://127.0.0.1:{port}/api?token={TOKEN}", server, home / "lab.log")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(HANGS)


def wait_until_it_answers(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(5 * HANGS):
        if server.poll() is not None:
            raise RuntimeError(f"JupyterLab ended:\n{log.read_text()}")
        try:
            urllib.request.urlopen(address, timeout=5)
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise RuntimeError(f"JupyterLab does not answer:\n{log.read_text()}")


@contextlib.contextmanager
def browser_page(chromium: str, files: Path | None = None) -> Iterator[tuple[Page, list[str]]]:
    """A page of a headless browser, and the list of addresses elsewhere that it asked for. It may read `files`."""
    elsewhere: list[str] = []
    here = ("http://127.0.0.1:", "data:", "blob:", *([files.as_uri()] if files else []))

    def keep_inside(route: Route) -> None:
        if route.request.url.startswith(here):
            route.continue_()
        else:
            elsewhere.append(route.request.url)
            route.abort()

    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        page = browser.new_page(viewport={"width": 1200, "height": 1000})
        page.set_default_timeout(HANGS * 1000)
        page.route("**/*", keep_inside)
        yield page, elsewhere
        browser.close()


def wcag_problems(page: Page, within: str = "html") -> list[tuple[str, list[str]]]:
    """What axe-core finds against WCAG AA (contrast, names, alt texts, …): the rule, and the elements that break it."""
    rules = {"runOnly": ["wcag2a", "wcag2aa"], "resultTypes": ["violations"]}
    found = Axe().run(page, context=within, options=rules)
    return [(each["id"], [node["html"][:200] for node in each["nodes"]]) for each in found.response["violations"]]


def open_notebook(page: Page, address: str, name: str) -> None:
    """Open a notebook in a fresh workspace and wait until its kernel is idle."""
    workspace = re.sub(r"\W", "", Path(name).stem)  # JupyterLab takes letters and digits only
    page.goto(f"{address}/lab/workspaces/{workspace}/tree/{quote(name)}?reset&token={TOKEN}")
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    page.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status='idle']")


def run(page: Page, cell: Locator) -> None:
    """Run a cell and wait until it has run. While JupyterLab is still settling, a click may be lost, or meet a dialog
    about a slow server: try again."""
    prompt, dialog = cell.locator(".jp-InputPrompt").first, page.locator(".jp-Dialog")
    before, dialogs = prompt.inner_text(), []
    for _ in range(HANGS // 20):
        if dialog.count():
            dialogs.append(dialog.first.inner_text())
            page.keyboard.press("Escape")
        with contextlib.suppress(AssertionError, TimeoutError):
            cell.locator(".cm-content").click(timeout=20_000)
            page.keyboard.press("Control+Enter")
            expect(prompt).to_have_text(re.compile(rf"^(?!{re.escape(before)})\[\d+\]:"), timeout=20_000)
            return
    raise AssertionError(f"the cell did not run: {cell.inner_text()[:200]}\nDialogs: {dialogs}")


def relative_luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    """Of two colours like #1d2329, as WCAG computes it. Text needs 4.5."""
    dark, light = sorted(map(relative_luminance, (first, second)))
    return (light + 0.05) / (dark + 0.05)
