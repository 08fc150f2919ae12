"""The walls around student code: what stops what, alone and together, as root and as an ordinary user."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from autograder.walls.inside import walls
from autograder.walls.inside.walls import LANDLOCK, LIMITS, NAMESPACES, SCRATCH, SECCOMP

pytestmark = [
    pytest.mark.programs,
    pytest.mark.skipif(sys.platform != "linux", reason="there are walls on Linux alone"),
]

MB = 1024 * 1024
NOBODY = 65534
SYSTEM_PYTHON = "/usr/bin/python3"

# A warm process, as small as can be: for each line it forks a runner, which confines itself and runs a student's code.
# It finds walls.py beside itself, and nothing else of the course.
SERVER = """
import json, os, sys
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from pathlib import Path
# Before any wall, since it is quicker, and since another user may not be able to read this Python's own folder.
import asyncio, ctypes, encodings.idna, fcntl, mmap, multiprocessing.popen_fork, resource, shutil, socket, stat
import subprocess, tempfile, threading
import walls

def draw():
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots(figsize=(2, 2))
    axes.plot([0, 1], label=r"$\\sqrt{d_k}$")
    axes.legend()
    figure.savefig("plot.png")
    plt.close(figure)

if "torch" in sys.argv:
    import torch
    torch.set_num_threads(1)
    torch.ones(2, 2) @ torch.ones(2, 2)
    os.chdir(tempfile.mkdtemp())
    draw()
walls.hide_memory()

def run(job, writer):
    if job["user"] is not None:
        os.setgroups([])
        os.setgid(job["user"])
        os.setuid(job["user"])
    folders = {name: [Path(path) for path in job[name]] for name in ("readable", "hidden")}
    keep = (1, 2, writer)
    answer = {"standing": None, "value": None, "error": None, "errno": None, "message": ""}
    scope = {"draw": draw, "writer": writer}
    try:
        answer["standing"] = walls.confine(walls.Limits(**job["limits"]), scratch=Path(job["scratch"]), keep=keep,
                                           walls=job["walls"], **folders)
        exec(job["code"], scope)
        answer["value"] = scope.get("answer")
    except Exception as error:
        answer |= error_of(error)
    os.write(writer, json.dumps(answer).encode())

def error_of(error):
    return {"error": type(error).__name__, "errno": getattr(error, "errno", None), "message": str(error)}

for number, line in enumerate(sys.stdin):
    job = json.loads(line)
    scratch = Path(job["scratch"] or f"/tmp/scratch{number}")
    job["scratch"] = str(scratch)
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    if job["user"] is not None:
        os.chown(scratch, job["user"], job["user"])
    reader, writer = os.pipe()
    runner = os.fork()
    if runner == 0:
        try:
            run(job, writer)
        finally:
            os._exit(0)
    os.close(writer)
    if job["kill"]:
        os.read(reader, 1)
        os.kill(runner, 9)
    with open(reader, encoding="utf-8") as pipe:
        said = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(runner, 0)[1])
    print(json.dumps({"status": status, "left": sorted(os.listdir(scratch)), **json.loads(said or "{}")}), flush=True)
"""


class Warm:
    """A running server, bare or wrapped."""

    def __init__(self, command: list[str], folder: Path, is_wrapped: bool, user: int | None = None) -> None:
        self.folder = folder
        self.is_wrapped = is_wrapped
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, user=user)

    def run(self, code: str, *, walls: tuple[str, ...] = walls.ALL_WALLS, **job: Any) -> dict[str, Any]:
        """What became of student code behind these walls."""
        scratch = "" if self.is_wrapped else str(self.folder / "scratch")
        order = {"user": None, "limits": {}, "readable": [], "hidden": [], "scratch": scratch, "kill": False, **job}
        assert self.process.stdin and self.process.stdout
        print(json.dumps({"code": code, "walls": walls, **order}), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def stop(self) -> None:
        self.process.communicate(timeout=600)


def has(wall: str) -> bool:
    return next(each.works for each in walls.probe() if each.name == wall)


def why_not(wall: str) -> str:
    return next(each.why for each in walls.probe() if each.name == wall)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Open to everybody, unlike pytest's own: walls.py, the server, a secret and a folder that all may overwrite."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield furnished(folder)


def furnished(folder: Path) -> Path:
    (folder / "grader").mkdir()
    shutil.copy(walls.__file__, folder / "grader" / "walls.py")
    (folder / "grader" / "server.py").write_text(SERVER)
    (folder / "secret.txt").write_text("the hidden cases")
    (folder / "secret.txt").chmod(0o666)
    (folder / "outside").mkdir()
    (folder / "outside").chmod(0o777)
    return folder


def start(folder: Path, is_wrapped: bool, *words: str) -> Warm:
    command = [sys.executable, str(folder / "grader" / "server.py"), *words]
    if is_wrapped:
        command = walls.wrapped(command, visible=[folder / "grader"])
    return Warm(command, folder, is_wrapped)


@pytest.fixture(scope="module")
def bare(folder: Path) -> Iterator[Warm]:
    warm = start(folder, False)
    yield warm
    warm.stop()


@pytest.fixture(scope="module")
def inside(folder: Path) -> Iterator[Warm]:
    if not has(NAMESPACES):
        pytest.skip(why_not(NAMESPACES))
    warm = start(folder, True)
    yield warm
    warm.stop()


def landlock(version: int) -> set[str]:
    """Landlock, if this kernel's is at least of this version."""
    return {LANDLOCK} if sys.platform == "linux" and walls.landlock_version() >= version else set()


# Each attack, the walls any one of which stops it, and the errors it may then meet.
# It is written so that it succeeds where there are no walls: see test_without_walls_the_attacks_succeed.
ATTACKS: dict[str, tuple[str, set[str], set[str]]] = {
    "read a system file": (
        "open('/etc/passwd').read()",
        {NAMESPACES, LANDLOCK},
        {"PermissionError", "FileNotFoundError"},
    ),
    "read the grader's files": (
        "open(SECRET).read()",
        {NAMESPACES, LANDLOCK},
        {"PermissionError", "FileNotFoundError"},
    ),
    "list a folder": ("os.listdir(OUTSIDE)", {NAMESPACES, LANDLOCK}, {"PermissionError", "FileNotFoundError"}),
    "write elsewhere": (
        "open(OUTSIDE + '/mine', 'w').write('x')",
        {NAMESPACES, LANDLOCK},
        {"PermissionError", "FileNotFoundError"},
    ),
    "empty a file by its path": (
        "os.truncate(OUTSIDE + '/emptied', 0)",
        {NAMESPACES, SECCOMP} | landlock(3),
        {"PermissionError", "FileNotFoundError"},
    ),
    "empty a file while reading it": (
        "os.open(OUTSIDE + '/emptied', os.O_RDONLY | os.O_TRUNC)",
        {NAMESPACES, SECCOMP} | landlock(3),
        {"PermissionError", "FileNotFoundError"},
    ),
    "make a device": ("os.mknod('pipe', 0o600 | stat.S_IFIFO)", {SECCOMP}, {"PermissionError"}),
    "change an owner": ("os.chown('.', os.getuid(), os.getgid())", {SECCOMP}, {"PermissionError"}),
    "fork": ("os.fork() or os._exit(0)", {SECCOMP}, {"PermissionError"}),
    "start a program": ("subprocess.run(['/bin/true'], check=True)", {SECCOMP, LANDLOCK}, {"PermissionError"}),
    "use a process pool": (
        "multiprocessing.get_context('fork').Process(target=int).start()",
        {SECCOMP},
        {"PermissionError"},
    ),
    "open a socket": ("socket.socket()", {SECCOMP}, {"PermissionError"}),
    "open a local socket": ("socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)", {SECCOMP}, {"PermissionError"}),
    "make datagram sockets": ("socket.socketpair(type=socket.SOCK_DGRAM)", {SECCOMP}, {"PermissionError"}),
    "connect": (
        "socket.create_connection(('127.0.0.1', PORT), timeout=5)",
        {NAMESPACES, SECCOMP} | landlock(4),
        {"PermissionError", "ConnectionRefusedError", "OSError"},
    ),
    "signal the warm process": ("os.kill(os.getppid(), 0)", {SECCOMP} | landlock(6), {"PermissionError"}),
    "signal the group": ("os.kill(0, 0)", {SECCOMP}, {"PermissionError"}),
    "signal the grader": (
        "os.kill(GRADER, 0)",
        {NAMESPACES, SECCOMP} | landlock(6),
        {"PermissionError", "ProcessLookupError"},
    ),
    "own a file for others": ("fcntl.fcntl(1, fcntl.F_SETOWN, os.getppid())", {SECCOMP}, {"PermissionError"}),
    "get a handle on a process": ("os.pidfd_open(os.getppid())", {SECCOMP}, {"PermissionError"}),
    "limit the warm process": (
        "resource.prlimit(os.getppid(), resource.RLIMIT_CORE, (0, 0))",
        {SECCOMP},
        {"PermissionError"},
    ),
    "slow down others": ("os.setpriority(os.PRIO_PROCESS, os.getppid(), 0)", {SECCOMP}, {"PermissionError"}),
    "move others to one core": ("os.sched_setaffinity(os.getppid(), {0})", {SECCOMP}, {"PermissionError"}),
    "make a namespace": ("call('unshare', 0x10000000)", {SECCOMP}, {"PermissionError"}),
    "outlive the grader": ("call('prctl', 1, 0)", {SECCOMP}, {"PermissionError"}),
    "become another user": ("os.setuid(os.getuid())", {SECCOMP}, {"PermissionError"}),
    "keep memory in a nameless file": ("os.memfd_create('x')", {SECCOMP}, {"PermissionError"}),
    "take memory": ("bytearray(1 << 30)", {LIMITS}, {"MemoryError"}),
    "take shared memory": ("mmap.mmap(-1, 1 << 30)", {LIMITS}, {"OSError"}),
    "write a long file": ("open('long', 'wb').write(bytes(3 << 20))", {LIMITS}, {"OSError"}),
    "open many files": ("[open('/dev/null') for _ in range(100)]", {LIMITS}, {"OSError"}),
    "fill the disk": ("[open(f'part{n}', 'wb').write(bytes(1 << 20)) for n in range(9)]", {SCRATCH}, {"OSError"}),
}
SMALL = {"memory": 512 * MB, "file_size": 2 * MB, "disk": 8 * MB, "open_files": 64}

PRELUDE = """
import ctypes, fcntl, mmap, multiprocessing, os, resource, socket, stat, subprocess
def call(name, *arguments):
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) == -1:
        raise OSError(ctypes.get_errno(), name)
"""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def attack(name: str, folder: Path, port: int) -> str:
    (folder / "outside" / "mine").unlink(missing_ok=True)
    (folder / "outside" / "emptied").write_text("not yet")
    (folder / "outside" / "emptied").chmod(0o666)
    outside = {"SECRET": str(folder / "secret.txt"), "OUTSIDE": str(folder / "outside")}
    places = {**outside, "PORT": port, "GRADER": os.getpid()}
    return "".join(f"{key} = {value!r}\n" for key, value in places.items()) + PRELUDE + ATTACKS[name][0]


def stopped_by(standing: Collection[str]) -> list[str]:
    return [name for name, (_, stopping, _) in ATTACKS.items() if stopping & set(standing)]


def users() -> list[int | None]:
    """Whoever runs the tests and, if that is root, an ordinary user as well."""
    return [None, NOBODY] if os.geteuid() == 0 else [None]


# Which walls are asked for: all, each alone, and all but one, as on a machine that does not have it.
SELECTIONS = {
    "all": walls.ALL_WALLS,
    **{f"only {wall}": (wall,) for wall in walls.ALL_WALLS},
    **{f"all but {wall}": tuple(set(walls.ALL_WALLS) - {wall}) for wall in walls.ALL_WALLS},
}


@pytest.mark.parametrize("user", users())
@pytest.mark.parametrize("selection", SELECTIONS)
def test_every_wall_stops_its_attacks(bare: Warm, folder: Path, port: int, selection: str, user: int | None) -> None:
    wanted = [wall for wall in SELECTIONS[selection] if wall != NAMESPACES and has(wall)]
    for name in stopped_by(wanted):
        result = bare.run(attack(name, folder, port), walls=tuple(wanted), limits=SMALL, user=user)
        assert set(result["standing"] or ()) == set(wanted), (name, result)
        assert result["error"] in ATTACKS[name][2], (name, result)


@pytest.mark.parametrize("selection", SELECTIONS)
def test_every_wall_stops_its_attacks_in_namespaces(inside: Warm, folder: Path, port: int, selection: str) -> None:
    wanted = {NAMESPACES, *(wall for wall in SELECTIONS[selection] if has(wall))}
    for name in stopped_by(wanted):
        result = inside.run(attack(name, folder, port), walls=tuple(wanted), limits=SMALL)
        assert set(result["standing"] or ()) == wanted, (name, result)
        assert result["error"] in ATTACKS[name][2], (name, result)


@pytest.mark.parametrize("user", users())
def test_without_walls_the_attacks_succeed(bare: Warm, folder: Path, port: int, user: int | None) -> None:
    """Otherwise the tests above would prove nothing."""
    on_others = {name for name, (code, _, _) in ATTACKS.items() if "getppid" in code or "GRADER" in code}
    # An ordinary user has no power over root's processes, nor has root without its capabilities over some of theirs.
    kept_off = on_others if user else {"slow down others", "move others to one core"} if os.geteuid() == 0 else set()
    for name in ATTACKS.keys() - kept_off:
        result = bare.run(attack(name, folder, port), walls=(), limits=SMALL, user=user)
        assert result["error"] is None, (name, result)


@pytest.fixture(scope="module")
def everywhere(bare: Warm, request: pytest.FixtureRequest) -> list[Warm]:
    """Bare and, where there are namespaces, in them."""
    return [bare, request.getfixturevalue("inside")] if has(NAMESPACES) else [bare]


def test_the_warm_process_can_end_its_runners(everywhere: list[Warm]) -> None:
    """Even if they have become another user."""
    for warm in everywhere:
        result = warm.run("import os, time; os.write(writer, b'x'); time.sleep(60)", kill=True)
        assert result["status"] == -signal.SIGKILL


def test_the_memory_of_the_warm_process_is_closed_even_without_walls(everywhere: list[Warm]) -> None:
    for warm in everywhere:
        assert warm.run("import os; open(f'/proc/{os.getppid()}/mem', 'rb')", walls=())["error"] == "PermissionError"


@pytest.mark.parametrize("user", users())
def test_files_keep_their_modes(bare: Warm, folder: Path, user: int | None) -> None:
    """Landlock does not know chmod, and shutil.copy should not fail for it: it only seems to be done."""
    if not has(SECCOMP):
        pytest.skip(why_not(SECCOMP))
    result = bare.run(f"import os; os.chmod({str(folder / 'secret.txt')!r}, 0)", walls=(SECCOMP,), user=user)
    assert result["error"] is None
    assert (folder / "secret.txt").stat().st_mode & 0o777 == 0o666


def test_cpu_time_ends_by_its_signal(bare: Warm) -> None:
    result = bare.run(
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass", limits={"cpu_seconds": 1}
    )
    assert result["status"] == -signal.SIGXCPU


def test_cpu_time_ends_even_if_the_signal_is_ignored(bare: Warm) -> None:
    code = "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"
    assert bare.run(code, limits={"cpu_seconds": 1})["status"] == -signal.SIGKILL


def test_limits_cannot_be_raised_again(bare: Warm) -> None:
    code = "import resource; resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)"
    assert bare.run(code, walls=(LIMITS,))["error"] == "ValueError"


THREADS = """
import threading
threading.stack_size(64 * 1024)
done = threading.Event()
try:
    for _ in range(20_000):
        threading.Thread(target=done.wait, daemon=True).start()
finally:
    done.set()
"""


@pytest.mark.parametrize("kind", ["bare", "inside"])
def test_a_bomb_of_threads_goes_off_in_its_own_process(kind: str, request: pytest.FixtureRequest) -> None:
    """The kernel exempts root from this limit, so a runner of root becomes somebody else where it can."""
    if kind == "inside" and os.geteuid() == 0 and not walls._may_mount():
        pytest.skip("a container's root is root to the kernel, and cannot become anybody else in its user namespace")
    user = NOBODY if kind == "bare" and os.geteuid() == 0 else None
    limits = {"threads": 8, "memory": 4096 * MB}
    result = request.getfixturevalue(kind).run(THREADS, walls=(LIMITS, NAMESPACES), limits=limits, user=user)
    assert (result["error"], result["message"]) == ("RuntimeError", "can't start new thread")


HONEST = """
import asyncio, os, shutil, tempfile, threading
with tempfile.NamedTemporaryFile() as file, tempfile.TemporaryDirectory() as folder:
    file.write(b"x")
    open(os.path.join(folder, "y"), "w").write("y")
open("notes.txt", "w").write("mine")
shutil.copy("notes.txt", "copy.txt")
os.rename("copy.txt", "renamed.txt")
threads = [threading.Thread(target=asyncio.run, args=(asyncio.sleep(0),)) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
os.kill(os.getpid(), 0)
open("/dev/null", "w").write("x")
answer = [open("renamed.txt").read(), os.getcwd() == os.environ["HOME"] == tempfile.gettempdir(), len(os.urandom(3))]
"""


@pytest.mark.parametrize("selection", SELECTIONS)
def test_honest_code_works_behind_every_selection(everywhere: list[Warm], selection: str) -> None:
    ordinary = [everywhere[0].run(HONEST, walls=SELECTIONS[selection], user=user) for user in users() if user]
    for result in (*ordinary, *(warm.run(HONEST, walls=SELECTIONS[selection]) for warm in everywhere)):
        assert result["error"] is None, result
        assert result["value"] == ["mine", True, 3]


def test_what_a_submission_leaves_is_gone_with_it(everywhere: list[Warm]) -> None:
    if not has(SCRATCH):
        pytest.skip(why_not(SCRATCH))
    for warm in everywhere:
        assert warm.run("open('left', 'w')")["left"] == []
        assert warm.run("open('left', 'w')", walls=(LIMITS,))["left"] == ["left"]


def test_runners_leave_no_notes_for_each_other(inside: Warm) -> None:
    """They share the private root's /tmp: each sees it read-only."""
    for walls_ in ((NAMESPACES, SCRATCH), (NAMESPACES, LANDLOCK)):
        if all(map(has, walls_)):
            assert inside.run("open('/tmp/note', 'w')", walls=walls_)["error"] in ("OSError", "PermissionError")


def test_runners_of_root_are_not_root(inside: Warm) -> None:
    code = "import os; answer = os.getuid()"
    assert inside.run(code)["value"] != 0


def test_hidden_paths_in_a_readable_folder(bare: Warm, folder: Path) -> None:
    package = folder / "packages"
    for name in ("shown/a.py", "course/hidden/cases.py", "course/lib.py"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("x = 1")
    code = """
import os
def opens(name):
    try:
        return bool(open(name).read())
    except PermissionError:
        return False
answer = [opens(f"{package}/{name}") for name in ("shown/a.py", "course/lib.py", "course/hidden/cases.py")]
"""
    places = {"readable": [str(package)], "hidden": [str(package / "course" / "hidden")]}
    if not has(LANDLOCK):
        pytest.skip(why_not(LANDLOCK))
    result = bare.run(f"package = {str(package)!r}" + code, walls=(LANDLOCK,), **places)
    assert result["value"] == [True, True, False]


def test_mounts_and_hidden_paths_in_namespaces(inside: Warm, folder: Path) -> None:
    (folder / "library" / "secrets").mkdir(parents=True)
    (folder / "library" / "secrets" / "cases.py").write_text("x = 1")
    (folder / "library" / "answers.py").write_text("x = 1")
    (folder / "library" / "open.py").write_text("x = 1")
    code = """
import os, sys
from pathlib import Path
print(sorted(os.listdir("/course")), os.listdir("/course/secrets"), Path("/course/open.py").read_text())
try:
    open("/course/answers.py")
except PermissionError:
    print("closed")
for folder in ("/", "/dev/shm", "/course", "/course/secrets", "/usr", sys.prefix + "/lib"):
    try:
        open(folder + "/mine", "w")
        print("wrote to", folder)
    except OSError:
        pass
print(sorted(os.environ.keys() & {"HOME", "PATH", "SECRET_TOKEN", "COURSE"}))
"""
    hidden = [Path("/course/secrets"), Path("/course/answers.py")]
    mounts = {Path("/course"): folder / "library"}
    command = walls.wrapped([sys.executable, "-c", code], mounts=mounts, hidden=hidden, environment={"COURSE": "x"})
    environment = {**os.environ, "SECRET_TOKEN": "x"}
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert result.stdout.splitlines() == [
        "['answers.py', 'open.py', 'secrets'] [] x = 1",
        "closed",
        "['COURSE', 'HOME', 'PATH']",
    ]


def test_an_open_socket_crosses_into_the_namespaces(inside: Warm) -> None:
    ours, theirs = socket.socketpair()
    code = f"import socket; socket.socket(fileno={theirs.fileno()}).send(b'hello')"
    with ours, theirs:
        subprocess.run(walls.wrapped([sys.executable, "-I", "-c", code]), check=True, pass_fds=[theirs.fileno()])
        assert ours.recv(5) == b"hello"


AS_SOMEBODY = """
import os, sys
sys.path.insert(0, sys.argv[1])
import walls
command = walls.wrapped([sys.executable, sys.argv[1] + "/server.py"], visible=[walls.Path(sys.argv[1])])
os.execvp(command[0], command)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests are run by an ordinary user already")
def test_namespaces_of_an_ordinary_user(inside: Warm, folder: Path, port: int) -> None:
    if not os.access(SYSTEM_PYTHON, os.X_OK):
        pytest.skip(f"no {SYSTEM_PYTHON} that another user could run")
    warm = Warm([SYSTEM_PYTHON, "-I", "-c", AS_SOMEBODY, str(folder / "grader")], folder, True, user=NOBODY)
    standing = {wall for wall in walls.ALL_WALLS if has(wall)}
    for name in stopped_by(standing):
        result = warm.run(attack(name, folder, port), limits=SMALL)
        assert set(result["standing"] or ()) == standing, (name, result)
        assert result["error"] in ATTACKS[name][2], (name, result)
    assert warm.run(HONEST)["value"] == ["mine", True, 3]
    warm.stop()


LEARNING = """
import torch
torch.set_num_threads(2)
a = torch.randn(600, 600)
loss = (a.requires_grad_() @ a).tanh().sum()
loss.backward()
torch.save({"a": a}, "weights.pt")
loaded = torch.load("weights.pt")["a"]
draw()
import os
answer = [bool(torch.isfinite(a.grad).all()), bool((loaded == a).all()), os.path.getsize("plot.png") > 1000]
"""


@pytest.mark.parametrize("is_wrapped", [False, True], ids=["bare", "namespaces"])
def test_torch_and_matplotlib_work_behind_all_walls(folder: Path, is_wrapped: bool) -> None:
    if is_wrapped and not has(NAMESPACES):
        pytest.skip(why_not(NAMESPACES))
    warm = start(folder, is_wrapped, "torch")
    for user in [None] if is_wrapped else users():
        result = warm.run(LEARNING, user=user)
        assert result["error"] is None, result
        assert result["value"] == [True, True, True]
        assert warm.run("import torch; torch.ones(1 << 30)", user=user)["error"] == "RuntimeError"
    warm.stop()


def test_a_process_with_threads_is_not_confined(bare: Warm) -> None:
    code = """
import threading, walls
threading.Thread(target=threading.Event().wait, daemon=True).start()
walls.confine(walls.Limits(), scratch=walls.Path("."))
"""
    assert bare.run(code, walls=())["error"] == "WallError"


HEADERS = {"x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "aarch64": "/usr/include/asm-generic/unistd.h"}


@pytest.mark.parametrize("machine", HEADERS)
def test_system_calls_have_the_numbers_of_the_kernel(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    header = Path(HEADERS[machine])
    if not header.exists():
        pytest.skip("no kernel headers: apt-get install linux-libc-dev")
    numbers = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text()))
    monkeypatch.setattr(walls.platform, "machine", lambda: machine)
    for table in (walls.REFUSED, walls.UNKNOWN, walls.PRETENDED, walls.CONDITIONAL):
        for name, number in walls._numbers(table).items():
            assert int(numbers.get(name, number)) == number, name


def test_doctor_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walls.shutil, "which", lambda name: None)
    assert "apt-get install bubblewrap" in walls._why_no_namespaces()


def test_other_systems_have_no_walls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walls.sys, "platform", "darwin")
    monkeypatch.setattr(walls.platform, "system", lambda: "Darwin")
    found = walls.probe.__wrapped__()
    assert [wall.name for wall in found] == list(walls.ALL_WALLS)
    assert not any(wall.works for wall in found)
    assert all("grade on Linux" in wall.why for wall in found)
