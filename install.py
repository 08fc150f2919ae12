"""Makes the course's environment in .venv, and says what it is doing. Without `make`, run `python install.py`.

`make` runs this file too. It needs only the standard library, and leaves alone any .venv that it did not make.
After an interruption or a failure, run the same command again: pip keeps what it has downloaded.

    python install.py                 everything that students and instructors need
    python install.py --book          also what `python -m book` needs
    python install.py --tests         also what the test suite needs
    python install.py --cpu           PyTorch's smaller build, for Linux without a GPU
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
LOG = VENV / "pip.log"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"  # the address that PyTorch's own installation page gives
NO_NETWORK = (
    "NewConnectionError",
    "NameResolutionError",
    "Temporary failure in name resolution",
    "ConnectTimeoutError",
)
ADVICE = {
    NO_NETWORK: "The package index cannot be reached: the first installation needs a network connection. "
    "If you need a mirror or a proxy, set it in pip's own settings.",
    ("No space left on device",): "The disk is full: PyTorch needs 2 GB with --cpu, up to 8 GB without it on Linux.",
    (
        "Permission denied",
        "Read-only file system",
    ): "This folder, or the one for temporary files, cannot be written to.",
}
UNKNOWN = "Is there a network, and space on the disk? If pip uses a mirror, does it have every package? pip says:"


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the course's environment in .venv.")
    parser.add_argument("--book", action="store_true", help="also install what builds the book")
    parser.add_argument("--tests", action="store_true", help="also install the tools of the test suite")
    parser.add_argument("--cpu", action="store_true", help="install PyTorch's smaller build, for Linux without a GPU")
    options = parser.parse_args()
    try:
        return install("test" if options.tests else "book" if options.book else "lab", options.cpu)
    except KeyboardInterrupt:
        print("Stopped. Run the same command again: pip keeps what it has downloaded.", file=sys.stderr)
        return 130


# What is installed for each purpose: extras of the project, and what they contain. Each includes those before it.
PURPOSES = {
    "lab": ("lab,grader", "PyTorch, JupyterLab, nbgrader"),
    "book": ("lab,grader,book", "PyTorch, JupyterLab, nbgrader and Sphinx"),
    "test": ("lab,grader,book,test", "PyTorch, JupyterLab, nbgrader, Sphinx and the test tools"),
}


def install(purpose: str, cpu: bool) -> int:
    extras, content = PURPOSES[purpose]
    steps = [
        ("pip itself", ["pip", "setuptools"]),
        (content, ["--no-build-isolation", "-e", f".[{extras}]"]),
    ]
    if cpu:  # only this one package comes from that index; what it needs comes with the rest
        steps.insert(1, ("PyTorch's build for CPUs", ["--index-url", CPU_INDEX, "--no-deps", "torch"]))
    print(f"Step 1 of {1 + len(steps)}: the environment in .venv, with Python {sys.version.split()[0]}", flush=True)
    complaint = make_environment()
    if complaint:
        print(complaint, file=sys.stderr)
        return 1
    for stamp in map(stamp_of, PURPOSES):
        stamp.unlink(missing_ok=True)
    for number, (what, arguments) in enumerate(steps, start=2):
        print(f"Step {number} of {1 + len(steps)}: {what}", flush=True)
        if not pip(*arguments):
            return 1
    # No "Jupyter news" question and no search for updates: the course needs no network.
    news = ["labextension", "disable", "--level=sys_prefix", "@jupyterlab/apputils-extension:announcements"]
    subprocess.run([str(python_of(VENV)), "-m", "jupyter", *news], capture_output=True)
    for included in PURPOSES:
        stamp_of(included).touch()
        if included == purpose:
            break
    print("The environment is ready.", flush=True)
    return 0


def stamp_of(purpose: str) -> Path:
    """The file by which `make` recognises a complete installation for this purpose."""
    return VENV / f"{purpose}.ready"


def make_environment() -> str:
    """Make .venv if there is none. Returns what is wrong, or an empty text."""
    mark = VENV / "folder"  # by this file, `make` and this script recognise an environment that they have made
    if VENV.exists() and not mark.exists():
        return "There is a .venv that the course did not make. Rename it or remove it yourself, then try again."
    try:
        VENV.mkdir(exist_ok=True)
        mark.write_text(f"{ROOT}\n", encoding="utf-8")
    except OSError as error:
        return f"The folder of the course cannot be written to ({error.strerror}). Copy it to a folder of your own."
    if python_of(VENV).exists():
        return ""
    made = subprocess.run([sys.executable, "-m", "venv", str(VENV)], capture_output=True, text=True)
    return f"{made.stdout}{made.stderr}" if made.returncode else ""


def python_of(venv: Path) -> Path:
    return venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def pip(*arguments: str) -> bool:
    """Install the pinned versions. Prints one line per large download; all of pip's output goes to a file."""
    options = ["--disable-pip-version-check", "--no-input"]
    pinned = ["install", "--progress-bar", "off", "-c", "constraints.txt", *arguments]
    command = [str(python_of(VENV)), "-m", "pip", *options, *pinned]
    begun = time.monotonic()
    with (
        LOG.open("w", encoding="utf-8") as log,
        subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as running,
    ):
        for line in running.stdout or ():
            log.write(line)
            if news := told(line):
                print(f"  [{time.monotonic() - begun:4.0f} s] {news}", flush=True)
    if running.returncode:
        print(reason(LOG.read_text(encoding="utf-8")), file=sys.stderr)
    return running.returncode == 0


def told(line: str) -> str:
    """What to tell a waiting person about a line that pip prints: large downloads, and the unpacking after them."""
    download = re.match(r" *Downloading (\S+?)(?:-[^-/\s]+)*? \(([\d.]+ [MG]B)\)", line)
    if download:
        name = download[1].rpartition("/")[2].split("-")[0]
        return f"downloading {name}, {download[2]}"
    if line.startswith("Installing collected packages:"):
        number = line.count(",") + 1
        return f"unpacking {number} packages: the last part of this step, a minute or more" if number > 9 else ""
    return ""


def reason(log: str) -> str:
    """Why pip failed and what to do about it. pip's own errors are shown where the cause is not known.

    Where it is known they would mislead: without a network, pip speaks of versions that are in conflict.
    """
    known = [advice for signs, advice in ADVICE.items() if any(sign in log for sign in signs)]
    errors = re.search(r"^ERROR.*", log, re.MULTILINE | re.DOTALL)
    said = errors[0] if errors else "\n".join(log.splitlines()[-20:])
    what_to_do = known[0] if known else f"{UNKNOWN}\n\n{said.rstrip()}\n"
    return (
        f"pip could not install the course. {what_to_do}\n"
        f"Then run the same command again: pip keeps what it has downloaded. Its whole output is in {LOG}"
    )


if __name__ == "__main__":
    sys.exit(main())
