"""The walls around student code on Linux: no Docker, no root needed, nothing but the standard library.

A trusted grader starts one *warm* process that has imported torch, with `wrapped` around its command: bubblewrap gives
it namespaces and a private root. For each submission the warm process forks a *runner*, which calls `confine` on itself
and only then runs student code. Each wall is used where the machine has it, and any one of Landlock and namespaces,
together with seccomp, closes files, network and other processes. `probe` says which walls this machine has.

| wall       | raised by   | keeps out                                                                                |
|------------|-------------|------------------------------------------------------------------------------------------|
| limits     | `confine`   | memory, CPU, file and thread bombs                                                       |
| namespaces | `wrapped`   | all files but the ones shown, all processes outside, the network                         |
| scratch    | `confine`   | a full disk, and the eyes of other runners: a private file system of limited size        |
| Landlock   | `confine`   | files but the readable ones, writing anywhere but in the scratch folder, TCP, signals    |
| seccomp    | `confine`   | new processes and programs, sockets, signals to others, the kernel's rarer doors         |
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import importlib
import importlib.util
import json
import os
import platform
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LIMITS, NAMESPACES, SCRATCH, LANDLOCK, SECCOMP = "limits", "namespaces", "scratch", "Landlock", "seccomp"
ALL_WALLS = (LIMITS, NAMESPACES, SCRATCH, LANDLOCK, SECCOMP)

PACKAGES = "packages"  # not a wall, but in the same list for `doctor`

MEGABYTE = 1024 * 1024


@dataclass(frozen=True)
class Limits:
    """What one runner may use. The defaults suit a notebook of the course."""

    memory: int = 2048 * MEGABYTE  # bytes of address space beyond what the warm process has mapped
    cpu_seconds: int = 60  # then SIGXCPU, and a second later SIGKILL
    file_size: int = 32 * MEGABYTE  # bytes in one file; a longer write fails with EFBIG
    disk: int = 128 * MEGABYTE  # bytes in the whole scratch folder, where the scratch wall stands
    open_files: int = 256
    threads: int = 64  # beyond the tasks that the machine has now


@dataclass(frozen=True)
class Wall:
    """One wall on this machine."""

    name: str
    works: bool
    keeps_out: str  # what it is for, in one clause
    why: str = ""  # why it does not work here, and how to get it


class WallError(Exception):
    """A wall that this machine has could not be raised: student code must not run."""


# What every Python program needs to see. Symbolic links (/lib -> usr/lib) are kept as such in the private root.
SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SYSTEM_SETTINGS = ("/etc/alternatives", "/etc/fonts", "/etc/ld.so.cache", "/etc/localtime", "/etc/timezone")
MACHINE_FACTS = ("/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu", "/sys/devices/system/node")
RANDOM_DEVICES = ("/dev/random", "/dev/urandom", "/dev/zero")

CAP_SYS_ADMIN = 21

INSIDE_NAMESPACES = "AUTOGRADER_NAMESPACES"  # set by `wrapped`, read by `confine`


# What Python needs of a prefix. Never the whole of it: a virtual environment may be made in a project, or in a home.
PARTS_OF_A_PREFIX = ("lib", "lib32", "lib64", "include", "share", "pyvenv.cfg")


@functools.cache
def interpreter_names() -> tuple[Path, ...]:
    """The paths by which this Python knows itself and its packages. Any of them may contain links."""
    prefixes = dict.fromkeys([sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix])
    names = [sys.executable, *(os.path.join(prefix, part) for prefix in prefixes for part in PARTS_OF_A_PREFIX)]
    site = sys.modules.get("site")
    if site is not None and site.ENABLE_USER_SITE:
        names.append(site.getusersitepackages())
    return tuple(Path(os.path.abspath(name)) for name in names if os.path.exists(name))


@functools.cache
def interpreter_paths() -> tuple[Path, ...]:
    """Where this Python and its packages really lie: the virtual environment, what it is based on, the user's own."""
    return tuple(dict.fromkeys(name.resolve() for name in interpreter_names()))


def needed_paths() -> set[Path]:
    """Everything that Python needs to see, at its real place. None of these can be hidden as a whole."""
    system = [Path(path) for path in (*SYSTEM_FOLDERS, *SYSTEM_SETTINGS) if os.path.exists(path)]
    return {*interpreter_paths(), *(path.resolve() for path in system)}


def links_on_the_way(name: Path) -> Iterator[Path]:
    """Each symbolic link that is followed from a name to what it stands for, at the link's own real place."""
    place, rest = Path("/"), list(reversed(name.parts[1:]))
    while rest:
        step = place / rest.pop()
        if step.name == "..":
            place = place.parent
        elif step.is_symlink():
            yield step
            target = step.readlink()
            place = Path("/") if target.is_absolute() else place
            rest += reversed(target.parts[1:] if target.is_absolute() else target.parts)
        else:
            place = step


# ---------------------------------------------------------------------------------------------------------------------
# Namespaces, by bubblewrap


def wrapped(
    command: Sequence[str],
    *,
    visible: Sequence[Path] = (),
    mounts: Mapping[Path, Path] | None = None,
    hidden: Sequence[Path] = (),
    tmp_size: int = 1024 * MEGABYTE,
    environment: Mapping[str, str] | None = None,
) -> list[str]:
    """The command that runs `command` in a private root, with no way to the network or to processes outside.

    The program sees the system's libraries, this interpreter and its packages, the `visible` folders and files at
    their own paths, and `mounts` (path inside -> path outside), all of it read-only. `hidden` paths inside are empty
    folders and files that cannot be opened. Where these lie in each other, the innermost decides: a hidden project
    shows the virtual environment in it, and that hides the course that is installed among its packages. Of a link,
    only the link is shown. Only /tmp can be written to. The environment is cleared except for a few settings and
    `environment`.

    Open files cross if the caller passes them on (`pass_fds` of subprocess). The program dies with the thread
    that started it: start it from a thread that lives as long as the grader. Use it only if `probe` says it works.
    """
    arguments = ["bwrap", "--die-with-parent", "--new-session", *_privileges()]
    arguments += ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    arguments += ["--hostname", "grader"]
    arguments += ["--proc", "/proc", "--dev", "/dev", *_tmpfs("/tmp", tmp_size)]
    arguments += ["--ro-bind-try", "/sys/devices/system", "/sys/devices/system"]
    # After /tmp, since any of these may lie in it.
    mounts = mounts or {}
    names = [*map(Path, (*SYSTEM_FOLDERS, *SYSTEM_SETTINGS)), *interpreter_names(), *visible]
    names = [name for name in names if name.exists()]
    shown = {name.resolve(): name.resolve() for name in names} | dict(mounts)
    closed = [path for path in hidden if _outside(path, mounts).exists()]
    layers = _layers(shown, closed)
    for path, is_shown in layers.items():
        arguments += _shown(path, shown[path]) if is_shown else _covered(path, _outside(path, mounts).is_dir())
    for link in dict.fromkeys(link for name in names for link in links_on_the_way(name)):
        if not _is_visible(link, layers):
            arguments += [*_way_to(link), "--symlink", str(link.readlink()), str(link)]
    covers = [path for path, is_shown in layers.items() if not is_shown and _outside(path, mounts).is_dir()]
    for place in ("/dev", *map(str, covers), "/"):  # now that everything has its place in them
        arguments += ["--remount-ro", place]
    arguments += ["--chdir", "/tmp", "--clearenv"]
    for name, value in {**clean_environment(), INSIDE_NAMESPACES: "1", **(environment or {})}.items():
        arguments += ["--setenv", name, value]
    return [*arguments, "--", *command]


def _privileges() -> list[str]:
    """None, except that root's warm process must be able to change the user of each runner, end it and clean up."""
    if os.geteuid() != 0 or not _may_mount():
        return ["--unshare-user", "--uid", "1000", "--gid", "1000", "--cap-drop", "ALL"]
    kept = ("CAP_SETUID", "CAP_SETGID", "CAP_CHOWN", "CAP_SETFCAP", "CAP_KILL", "CAP_DAC_OVERRIDE")
    return ["--cap-drop", "ALL", *(word for name in kept for word in ("--cap-add", name))]


def _may_mount() -> bool:
    """Whether this is the real root, and not that of a container, which needs a user namespace like anybody else."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return bool(int(status["CapEff"], 16) & 1 << CAP_SYS_ADMIN)


def _layers(shown: Collection[Path], hidden: Collection[Path]) -> dict[Path, bool]:
    """What to show (True) and to hide, from the outermost to the innermost, without what changes nothing."""
    layers: dict[Path, bool] = {}
    wanted = dict.fromkeys(shown, True) | dict.fromkeys(hidden, False)
    for path in sorted(wanted, key=lambda path: len(path.parts)):
        if _is_visible(path, layers) != wanted[path]:
            layers[path] = wanted[path]
    return layers


def _is_visible(path: Path, layers: Mapping[Path, bool]) -> bool:
    return next((layers[place] for place in (path, *path.parents) if place in layers), False)


def _shown(inside: Path, outside: Path) -> list[str]:
    return [*_way_to(inside), "--ro-bind", str(outside), str(inside)]


def _way_to(path: Path) -> list[str]:
    """Folders on the way to a path are made so that the users that root's runners become can pass."""
    return [word for parent in reversed(path.parents) for word in ("--perms", "0755", "--dir", str(parent))]


def _tmpfs(path: str, size: int) -> list[str]:
    limit = ["--size", str(size)] if "--size" in _bwrap_help() else []  # since bubblewrap 0.7
    return [*limit, "--tmpfs", path]


def _outside(path: Path, mounts: Mapping[Path, Path]) -> Path:
    """The path outside that a path inside stands for."""
    for inside, outside in mounts.items():
        if path.is_relative_to(inside):
            return outside / path.relative_to(inside)
    return path


def _covered(path: Path, is_folder: bool) -> list[str]:
    """An empty folder over a folder; over a file a device, which cannot be opened in such a place."""
    return ["--tmpfs", str(path)] if is_folder else ["--ro-bind", "/dev/null", str(path)]


def clean_environment(home: Path = Path("/tmp")) -> dict[str, str]:
    """What the warm process finds in its environment. Without namespaces, `home` should be a folder of its own."""
    language = {name: os.environ[name] for name in ("LANG", "LC_ALL", "TZ") if name in os.environ}
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "TMPDIR": str(home),
        "MPLCONFIGDIR": str(home / "matplotlib"),
        "IPYTHONDIR": str(home / "ipython"),
        "USER": "student",
        "LOGNAME": "student",
        "MPLBACKEND": "Agg",
        "NBGRADER_EXECUTION": "autograde",  # by which code knows that it is graded
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        **language,
    }


@functools.cache
def _bwrap_help() -> str:
    return subprocess.run(["bwrap", "--help"], capture_output=True, text=True, check=False).stdout


# ---------------------------------------------------------------------------------------------------------------------
# In the runner


def confine(
    limits: Limits,
    *,
    scratch: Path,
    readable: Sequence[Path] = (),
    hidden: Sequence[Path] = (),
    keep: Collection[int] = (0, 1, 2),
    walls: Collection[str] = ALL_WALLS,
) -> list[str]:
    """Raise the walls around this process, for good. To be called in a freshly forked process, before student code.

    Afterwards only `scratch` can be written to: it is the working folder, the home, and where tempfile puts its files.
    It can read the system's libraries, this interpreter's packages, and `readable`, except what `hidden` names in
    them. Every open file but `keep` is closed. Of the walls that this machine has, those named in `walls` are raised.

    Behind the walls threads work; `os.fork`, subprocess and sockets raise PermissionError; too much memory raises
    MemoryError; too much CPU time ends the process by SIGXCPU.

    Returns: the names of the walls that now stand. An error in raising one is a `WallError`.
    """
    if len(os.listdir("/proc/self/task")) > 1:
        raise WallError("Walls stand around one thread: confine a process before it starts any others.")
    parent = os.getppid()
    _close_all_but(keep)
    if LIMITS in walls and os.geteuid() == 0 and _all_can_read((*interpreter_paths(), *readable, scratch.parent)):
        _stop_being_root(scratch)
    standing = [NAMESPACES] if NAMESPACES in walls and os.environ.get(INSIDE_NAMESPACES) else []
    if SCRATCH in walls and _mount_scratch(scratch, limits.disk):
        standing.append(SCRATCH)
    _move_into(scratch)
    _drop_privileges()
    if LIMITS in walls:
        _limit(limits)
        standing.append(LIMITS)
    if LANDLOCK in walls and landlock_version() > 0:
        _raise_landlock(readable, scratch, hidden)
        standing.append(LANDLOCK)
    die_with(parent)
    if SECCOMP in walls and seccomp_works():
        _raise_seccomp()
        standing.append(SECCOMP)
    return [wall for wall in ALL_WALLS if wall in standing]


def get_ready(hidden: Sequence[Path], scratch: Path) -> None:
    """Find out what does not depend on the runner, in the process that will fork it: a fork inherits what is known."""
    _all_can_read((*interpreter_paths(), scratch.parent))
    for tree in _usual_trees():
        _rules_for(tree, tuple(hidden))
    _get_to_know_the_machine()


@functools.cache
def _get_to_know_the_machine() -> None:
    """Do for the first time what each runner does: a module is then imported, a function of libc found."""
    _filter()
    landlock_version()
    seccomp_works()
    _tasks_of_the_machine()
    importlib.import_module("resource")
    for name in ("capset", "mallopt", "mount", "unshare"):
        getattr(_libc(), name, None)


def die_with(parent: int) -> None:
    """End this process when its parent ends, even if that has happened already."""
    _prctl(PR_SET_PDEATHSIG, 9)
    if os.getppid() != parent:
        os._exit(1)


def hide_memory() -> None:
    """Close this process's memory to other processes of the same user, for the warm process and for the grader itself.

    It matters on machines without Landlock, where the file /proc/PID/mem is open to every process of the same user.
    """
    _prctl(PR_SET_DUMPABLE, 0)


def _close_all_but(keep: Collection[int]) -> None:
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor not in keep:
            with contextlib.suppress(OSError):  # the one that listed the folder is closed already
                os.close(descriptor)


@functools.cache
def _all_can_read(paths: tuple[Path, ...]) -> bool:
    """Whether the users that root's runners become can reach and read these."""
    ways = {parent for path in paths for parent in path.resolve().parents}
    return all(os.stat(way).st_mode & 0o001 for way in ways) and all(os.stat(path).st_mode & 0o004 for path in paths)


def _stop_being_root(scratch: Path) -> None:
    """Become a separate user, since the kernel does not limit root's threads. Some containers have no such user."""
    spare = 65000 + os.getpid() % 500  # reserved in Debian, and mapped in containers that map few users
    with contextlib.suppress(OSError):
        os.setgroups([])
        os.setresgid(spare, spare, spare)
        os.chown(scratch, spare, -1)
        try:
            os.setresuid(spare, spare, spare)
        except OSError:
            os.chown(scratch, 0, -1)


def _move_into(scratch: Path) -> None:
    os.chdir(scratch)
    os.environ["HOME"] = os.environ["TMPDIR"] = str(scratch)
    tempfile.tempdir = str(scratch)


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise WallError(f"{what} failed: {os.strerror(number)}")
    return result


PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
PR_SET_MM, PR_SET_PTRACER = 35, 0x59616D61


def _prctl(option: int, argument: int) -> None:
    _checked(_libc().prctl(option, ctypes.c_ulong(argument), 0, 0, 0), f"prctl({option})")


def _drop_privileges() -> None:
    """No capability is left, not even to root, and none can be gained."""
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    header = ctypes.create_string_buffer(struct.pack("=Ii", 0x20080522, 0))  # the third version of capset
    nothing = ctypes.create_string_buffer(struct.pack("=6I", *[0] * 6))
    _checked(_libc().capset(header, nothing), "capset")
    _prctl(PR_SET_DUMPABLE, 0)


CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 32, 4096, 0x4000, 0x40000


def _mount_scratch(scratch: Path, size: int) -> bool:
    """Mount a file system over `scratch`: limited in size, unseen by others, gone with this process."""
    user, group = os.geteuid(), os.getegid()
    _prctl(PR_SET_DUMPABLE, 1)  # otherwise /proc/self belongs to root, and the maps below cannot be written
    if _libc().unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0:
        return False
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    except OSError:
        return False
    harmless = MS_NOSUID | MS_NODEV
    options = f"size={size},nr_inodes=10000,mode=700"
    mounted = _mount("/", MS_REC | MS_PRIVATE) and _mount(str(scratch), harmless, options)
    if mounted and os.environ.get(INSIDE_NAMESPACES):  # where all runners share one /tmp
        mounted = _mount("/tmp", harmless | MS_BIND | MS_REMOUNT | MS_RDONLY)
    return mounted


def _mount(target: str, flags: int, options: str = "") -> bool:
    """Mount a file system in memory, or change a mount, according to the flags."""
    arguments = (b"tmpfs", os.fsencode(target), b"tmpfs", ctypes.c_ulong(flags), options.encode())
    return bool(_libc().mount(*arguments) == 0)


# ---------------------------------------------------------------------------------------------------------------------
# Limits

M_ARENA_MAX = -8


def _limit(limits: Limits) -> None:
    """Memory is counted as address space: unlike RLIMIT_DATA, that includes shared mappings.

    Each thread's malloc would reserve 64 MB of it for an arena of its own, so they share two.
    """
    import resource

    if hasattr(_libc(), "mallopt"):
        _libc().mallopt(M_ARENA_MAX, 2)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    cpu = int(time.process_time()) + limits.cpu_seconds
    both = {
        resource.RLIMIT_AS: pages * resource.getpagesize() + limits.memory,
        resource.RLIMIT_FSIZE: limits.file_size,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_NPROC: _tasks_of_the_machine() + limits.threads,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_MEMLOCK: 0,
    }
    try:
        for kind, value in both.items():
            _lower(kind, value, value)
        _lower(resource.RLIMIT_CPU, cpu, cpu + 1)
    except (OSError, ValueError) as error:
        raise WallError(f"setrlimit failed: {error}") from error


def _lower(kind: int, soft: int, hard: int) -> None:
    import resource

    ceiling = resource.getrlimit(kind)[1]
    if ceiling != resource.RLIM_INFINITY:
        soft, hard = min(soft, ceiling), min(hard, ceiling)
    resource.setrlimit(kind, (soft, hard))


def _tasks_of_the_machine() -> int:
    """RLIMIT_NPROC counts a user's tasks, which only a walk through /proc would tell; these are at least as many."""
    running_of_total = Path("/proc/loadavg").read_text().split()[3]
    return int(running_of_total.split("/")[1])


# ---------------------------------------------------------------------------------------------------------------------
# Landlock: which files may be opened, and how. Numbers from linux/landlock.h; the same on every architecture.

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
MAKE_CHAR, MAKE_SOCK, MAKE_BLOCK = 1 << 6, 1 << 9, 1 << 11
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
READ = READ_FILE | READ_DIR
ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV  # the others have a meaning for folders alone
NOT_IN_SCRATCH = EXECUTE | MAKE_CHAR | MAKE_SOCK | MAKE_BLOCK | IOCTL_DEV
# Known file rights by version: 13 at first, then REFER, TRUNCATE, IOCTL_DEV.
FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
TCP_BIND_AND_CONNECT = 0b11  # since version 4
SCOPE_SOCKETS_AND_SIGNALS = 0b11  # abstract Unix sockets and signals stay within this process, since version 6


def _syscall(number: int, *arguments: object) -> int:
    return int(_libc().syscall(ctypes.c_long(number), *arguments))


def landlock_version() -> int:
    """The version of Landlock's interface in this kernel; 0 or less where there is none."""
    version_please = 1
    return _syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(version_please))


def _raise_landlock(readable: Sequence[Path], scratch: Path, hidden: Sequence[Path]) -> None:
    version = landlock_version()
    rights = FILE_RIGHTS[min(version, max(FILE_RIGHTS))]
    fields = [rights, *[TCP_BIND_AND_CONNECT] * (version >= 4), *[SCOPE_SOCKETS_AND_SIGNALS] * (version >= 6)]
    attributes = ctypes.create_string_buffer(struct.pack(f"={len(fields)}Q", *fields), 8 * len(fields))
    size = ctypes.c_size_t(8 * len(fields))
    ruleset = _checked(_syscall(CREATE_RULESET, attributes, size, ctypes.c_uint32(0)), "Landlock")
    try:
        for path, wanted in _landlock_rules(readable, scratch, hidden):
            _allow(ruleset, path, wanted & rights)
        _checked(_syscall(RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0)), "Landlock")
    finally:
        os.close(ruleset)


def _landlock_rules(readable: Sequence[Path], scratch: Path, hidden: Sequence[Path]) -> Iterator[tuple[Path, int]]:
    for tree in {*_usual_trees(), *(path.resolve() for path in readable)}:  # even inside a secret
        if os.access(tree, os.R_OK):
            yield from _rules_for(tree, tuple(hidden))
    yield Path("/dev/null"), READ_FILE | WRITE_FILE | TRUNCATE
    yield scratch, ~NOT_IN_SCRATCH


@functools.cache
def _usual_trees() -> frozenset[Path]:
    """What every Python program may read, at its real place."""
    given = [Path(path) for path in (*SYSTEM_FOLDERS, *SYSTEM_SETTINGS, *MACHINE_FACTS, *RANDOM_DEVICES)]
    return frozenset(path.resolve() for path in (*given, *interpreter_paths()))


@functools.cache
def _rules_for(tree: Path, hidden: tuple[Path, ...]) -> tuple[tuple[Path, int], ...]:
    secrets = {path.resolve() for path in hidden}
    ways = {parent for secret in secrets for parent in secret.parents}
    return tuple(_all_but(secrets, ways, tree)) if os.access(tree, os.R_OK) else ()


def _all_but(secrets: Collection[Path], ways: Collection[Path], path: Path) -> Iterator[tuple[Path, int]]:
    """Landlock can only allow, and whole trees: on the way to a secret, its neighbours are allowed one by one."""
    if path in secrets:
        return
    if path not in ways:
        yield path, READ
        return
    if path in map(Path, map(os.path.realpath, sys.path)):
        yield path, READ_DIR  # imports list it; elsewhere, this right too would extend to the whole tree
    with os.scandir(path) as neighbours:
        for neighbour in neighbours:
            if not neighbour.is_symlink():
                yield from _all_but(secrets, ways, Path(neighbour.path))


def _allow(ruleset: int, path: Path, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise WallError(f"{path} cannot be made readable behind the walls: {error.strerror}") from error
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= ON_FILES
        rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, descriptor), 12)
        beneath = ctypes.c_int(1)
        result = _syscall(ADD_RULE, ctypes.c_int(ruleset), beneath, rule, ctypes.c_uint32(0))
        _checked(result, f"Landlock's rule for {path}")
    finally:
        os.close(descriptor)


# ---------------------------------------------------------------------------------------------------------------------
# seccomp: which system calls may be made. A small program for the kernel's packet filter decides about each.

# Numbers on x86_64 and on aarch64 (- where it has no such call).
REFUSED = """
accept 43 202 accept4 288 242 acct 163 89 add_key 248 217 adjtimex 159 171 bind 49 200 bpf 321 280 capset 126 91
chown 92 - chroot 161 51 clock_adjtime 305 266 clock_settime 227 112 connect 42 203 delete_module 176 106
execve 59 221 execveat 322 281 fanotify_init 300 262 fchown 93 55 fchownat 260 54 finit_module 313 273 fork 57 -
fremovexattr 199 16 fsconfig 431 431 fsetxattr 190 7 fsmount 432 432 fsopen 430 430 fspick 433 433
init_module 175 105 io_uring_enter 426 426 io_uring_register 427 427 io_uring_setup 425 425 ioperm 173 - iopl 172 -
ioprio_set 251 30 kcmp 312 272 kexec_file_load 320 294 kexec_load 246 104 keyctl 250 219 lchown 94 - listen 50 201
lookup_dcookie 212 18 lremovexattr 198 15 lsetxattr 189 6 memfd_create 319 279 memfd_secret 447 447
migrate_pages 256 238 mknod 133 - mknodat 259 33 modify_ldt 154 - mount 165 40 mount_setattr 442 442
move_mount 429 429 move_pages 279 239 mq_open 240 180 mq_unlink 241 181 msgctl 71 187 msgget 68 186 msgrcv 70 188
msgsnd 69 189 open_by_handle_at 304 265 open_tree 428 428 perf_event_open 298 241 personality 135 92
pidfd_getfd 438 438 pidfd_open 434 434 pidfd_send_signal 424 424 pivot_root 155 41 process_madvise 440 440
process_mrelease 448 448 process_vm_readv 310 270 process_vm_writev 311 271 ptrace 101 117 quotactl 179 60
quotactl_fd 443 443 reboot 169 142 removexattr 197 14 request_key 249 218 semctl 66 191 semget 64 190 semop 65 193
semtimedop 220 192 setdomainname 171 162 setfsgid 123 152 setfsuid 122 151 setgid 106 144 setgroups 116 159
sethostname 170 161 setns 308 268 setregid 114 143 setresgid 119 149 setresuid 117 147 setreuid 113 145
settimeofday 164 170 setuid 105 146 setxattr 188 5 shmat 30 196 shmctl 31 195 shmget 29 194 socket 41 198
swapoff 168 225 swapon 167 224 syslog 103 116 tkill 200 130 truncate 76 45 umount2 166 39 unshare 272 97 uselib 134 -
userfaultfd 323 282 vfork 58 - vhangup 153 58
"""
# Answered as by an older kernel, since their arguments lie in memory that the filter cannot see: glibc then falls back
# to clone and openat, which can be judged.
UNKNOWN = "clone3 435 435 openat2 437 437"
# Not done, yet reported as done: shutil.copy calls them, and Landlock does not know them.
PRETENDED = "chmod 90 - fchmod 91 52 fchmodat 268 53 fchmodat2 452 452"
# Decided by their arguments: see _conditions.
CONDITIONAL = """
clone 56 220 fcntl 72 25 ioctl 16 29 kill 62 129 open 2 - openat 257 56 prctl 157 167 prlimit64 302 261
rt_sigqueueinfo 129 138 rt_tgsigqueueinfo 297 240 sched_setaffinity 203 122 sched_setattr 314 274
sched_setparam 142 118 sched_setscheduler 144 119 setpriority 141 140 socketpair 53 199 tgkill 234 131
"""
NEWEST_KNOWN = 462  # mseal: whatever later kernels add is refused as unknown

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def _numbers(table: str) -> dict[str, int]:
    words = table.split()
    column = list(ARCHITECTURES).index(platform.machine())
    rows = zip(words[::3], words[1 + column :: 3])
    return {name: int(number) for name, number in rows if number != "-"}


@dataclass(frozen=True)
class Condition:
    """A call is refused unless this argument, or these bits of it, has one of the values; or, if `never`, if it has."""

    argument: int
    values: tuple[int, ...]
    bits: int = 0xFFFFFFFF
    never: bool = False


CLONE_THREAD = 0x00010000
CLONE_NAMESPACES = 0x7E020000
AF_UNIX, SOCK_STREAM, SOCK_TYPE = 1, 1, 0xF
O_TRUNC, O_ACCMODE = 0o1000, 3
F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE = 8, 10, 15, 1024
TIOCSCTTY, TIOCSTI, TIOCLINUX, FIOSETOWN, SIOCSPGRP = 0x540E, 0x5412, 0x541C, 0x8901, 0x8902


def _conditions() -> dict[str, list[Condition]]:
    self_only = [Condition(0, (os.getpid(),))]
    self_or_zero = [Condition(0, (0, os.getpid()))]
    return {
        "clone": [Condition(0, (CLONE_THREAD,), bits=CLONE_THREAD | CLONE_NAMESPACES)],
        "kill": self_only,
        "tgkill": self_only,
        "rt_sigqueueinfo": self_only,
        "rt_tgsigqueueinfo": self_only,
        "prlimit64": self_or_zero,
        "sched_setaffinity": self_or_zero,
        "sched_setattr": self_or_zero,
        "sched_setparam": self_or_zero,
        "sched_setscheduler": self_or_zero,
        "setpriority": [Condition(0, (0,)), Condition(1, (0,))],  # one process, oneself
        # asyncio wakes itself through one; a datagram socket could write to any other by its path.
        "socketpair": [Condition(0, (AF_UNIX,)), Condition(1, (SOCK_STREAM,), bits=SOCK_TYPE)],
        "prctl": [Condition(0, (PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_MM, PR_SET_PTRACER), never=True)],
        # A file's owner gets a signal when there is something to read: a way to send signals to others.
        "fcntl": [Condition(1, (F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE), never=True)],
        "ioctl": [Condition(1, (TIOCSCTTY, TIOCSTI, TIOCLINUX, FIOSETOWN, SIOCSPGRP), never=True)],
        # Opening to read, but emptying the file: Landlock before version 3 lets it pass.
        "open": [Condition(1, (O_TRUNC, O_TRUNC | O_ACCMODE), bits=O_TRUNC | O_ACCMODE, never=True)],
        "openat": [Condition(2, (O_TRUNC, O_TRUNC | O_ACCMODE), bits=O_TRUNC | O_ACCMODE, never=True)],
    }


LOAD, AND, RETURN = 0x20, 0x54, 0x06
JUMP_IF_EQUAL, JUMP_IF_GREATER = 0x15, 0x25
ALLOW, KILL, REFUSE_WITH = 0x7FFF0000, 0x80000000, 0x00050000
NUMBER_AT, ARCHITECTURE_AT, ARGUMENTS_AT = 0, 4, 16  # in struct seccomp_data
PR_SECCOMP_FILTER = 2

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, operand
INSTRUCTION = struct.Struct("=HBBI")


def _filter() -> bytes:
    """The program for this process: some of its conditions name the process itself."""
    numbers, refuse, rest = _numbers(CONDITIONAL), _return(REFUSE_WITH | errno.EPERM), []
    for name, conditions in _conditions().items():
        if name in numbers:
            body = [instruction for condition in conditions for instruction in _test(condition, refuse)]
            rest += [(JUMP_IF_EQUAL, 0, len(body) + 1, numbers[name]), *body, _return(ALLOW)]
    return _unconditional() + _code([*rest, _return(ALLOW)])


def _code(program: Sequence[Instruction]) -> bytes:
    return b"".join(INSTRUCTION.pack(*instruction) for instruction in program)


@functools.cache
def _unconditional() -> bytes:
    """The part of the program that is the same in every process."""
    refuse, unknown = _return(REFUSE_WITH | errno.EPERM), _return(REFUSE_WITH | errno.ENOSYS)
    program = [(LOAD, 0, 0, ARCHITECTURE_AT), (JUMP_IF_EQUAL, 1, 0, ARCHITECTURES[platform.machine()]), _return(KILL)]
    # On x86_64 the numbers above 2**30 are the same calls under other names.
    program += [(LOAD, 0, 0, NUMBER_AT), (JUMP_IF_GREATER, 0, 1, NEWEST_KNOWN), unknown]
    for table, answer in ((REFUSED, refuse), (UNKNOWN, unknown), (PRETENDED, _return(REFUSE_WITH))):
        for number in _numbers(table).values():
            program += [(JUMP_IF_EQUAL, 0, 1, number), answer]
    return _code(program)


def _return(value: int) -> Instruction:
    return (RETURN, 0, 0, value)


def _test(condition: Condition, refuse: Instruction) -> list[Instruction]:
    """Refuse, or fall through. Numbers of processes, flags and commands are all in the lower half of an argument."""
    program: list[Instruction] = [(LOAD, 0, 0, ARGUMENTS_AT + 8 * condition.argument), (AND, 0, 0, condition.bits)]
    if condition.never:
        for value in condition.values:
            program += [(JUMP_IF_EQUAL, 0, 1, value), refuse]
        return program
    to_the_end = len(condition.values)
    for position, value in enumerate(condition.values):
        program.append((JUMP_IF_EQUAL, to_the_end - position, 0, value))
    return [*program, refuse]


def seccomp_works() -> bool:
    """Whether this kernel takes filters, on an architecture whose system calls are known here."""
    if platform.machine() not in ARCHITECTURES or sys.maxsize < 2**32:
        return False
    nowhere = ctypes.c_void_p(None)
    _libc().prctl(PR_SET_SECCOMP, ctypes.c_ulong(PR_SECCOMP_FILTER), nowhere, 0, 0)
    return ctypes.get_errno() == errno.EFAULT  # EINVAL where there are no filters


def _raise_seccomp() -> None:
    code = _filter()
    instructions = ctypes.create_string_buffer(code, len(code))
    count = len(code) // INSTRUCTION.size
    header = ctypes.create_string_buffer(struct.pack("HP", count, ctypes.addressof(instructions)))
    filters = ctypes.c_ulong(PR_SECCOMP_FILTER)
    _checked(_libc().prctl(PR_SET_SECCOMP, filters, header, 0, 0), "seccomp")


# ---------------------------------------------------------------------------------------------------------------------
# Which walls this machine has

KEEPS_OUT = {
    LIMITS: "limits memory, CPU time, file sizes and open files of student code",
    NAMESPACES: "gives student code a private root, with no network and no sight of other processes",
    SCRATCH: "gives each submission a scratch folder of limited size that no other submission sees",
    LANDLOCK: "closes every file but the readable ones, and all but the scratch folder to writing",
    SECCOMP: "forbids new processes, other programs, sockets and signals to others",
}


@functools.cache
def probe() -> list[Wall]:
    """Try each wall in a child process. Takes a tenth of a second; the answer is kept."""
    if sys.platform != "linux":
        why = f"{platform.system()} has no such wall: grade on Linux, for example in a virtual machine"
        return [Wall(name, False, KEEPS_OUT[name], why) for name in ALL_WALLS]
    trial = subprocess.run([sys.executable, "-I", "-S", __file__], capture_output=True, text=True, check=False)
    reasons = json.loads(trial.stdout) if trial.returncode == 0 else dict.fromkeys(ALL_WALLS, trial.stderr.strip())
    reasons[NAMESPACES] = _why_no_namespaces()
    return [Wall(name, not reasons[name], KEEPS_OUT[name], reasons[name]) for name in ALL_WALLS]


def describe() -> list[Wall]:
    """For `doctor`: the walls, and what else grading needs, in the same form."""
    missing = [
        name for name in ("torch", "matplotlib", "IPython", "nbgrader") if importlib.util.find_spec(name) is None
    ]
    install = f"not installed: {', '.join(missing)}; run `pip install -e '.[grader]'`" if missing else ""
    packages = Wall(PACKAGES, not missing, "runs the notebooks and keeps the gradebook", install)
    return [*probe(), packages, _ordinary_user()]


def _ordinary_user() -> Wall:
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    in_private_root = is_root and probe()[ALL_WALLS.index(NAMESPACES)].works and _may_mount()
    works = not is_root or in_private_root or _all_can_read(interpreter_paths())
    why = "the kernel does not limit the threads of root, nor of student code run by root: grade as an ordinary user"
    return Wall("ordinary user", works, "limits the threads of student code", "" if works else why)


def _why_no_namespaces() -> str:
    """Empty if bubblewrap works with this interpreter, otherwise what to do."""
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed: `apt-get install bubblewrap` (on Fedora `dnf install bubblewrap`)"
    trial = subprocess.run(
        wrapped([sys.executable, "-I", "-S", "-c", "pass"]), capture_output=True, text=True, check=False
    )
    if trial.returncode == 0:
        return ""
    said = trial.stderr.strip().removeprefix("bwrap: ")
    return f"bubblewrap cannot make namespaces ({said}): {_how_to_allow_namespaces()}"


def _how_to_allow_namespaces() -> str:
    if _setting("kernel/unprivileged_userns_clone") == "0":
        return "`sysctl -w kernel.unprivileged_userns_clone=1` as root allows them"
    if _setting("kernel/apparmor_restrict_unprivileged_userns") == "1":
        return "`sysctl -w kernel.apparmor_restrict_unprivileged_userns=0` as root allows them"
    if _setting("user/max_user_namespaces") == "0":
        return "`sysctl -w user.max_user_namespaces=10000` as root allows them"
    if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
        return "start the container with `--security-opt seccomp=unconfined --security-opt systempaths=unconfined`"
    return "can this user read the Python installation, and does the kernel allow user namespaces?"


def _setting(name: str) -> str:
    try:
        return Path("/proc/sys", name).read_text().strip()
    except OSError:
        return ""


def _why_no_landlock() -> str:
    if landlock_version() > 0:
        return ""
    if ctypes.get_errno() == errno.EOPNOTSUPP:
        return "Landlock is switched off: add `landlock` to the list `lsm=` among the kernel's boot parameters"
    return "this kernel has no Landlock, or a container forbids it: Linux 5.13 or newer has it"


def _why_no_seccomp() -> str:
    if seccomp_works():
        return ""
    if platform.machine() not in ARCHITECTURES:
        return f"the system calls of {platform.machine()} are not known here, only those of {', '.join(ARCHITECTURES)}"
    return "this kernel takes no seccomp filters: Linux with CONFIG_SECCOMP_FILTER does"


def _exceeds_memory() -> None:
    bytearray(512 * MEGABYTE)


def _lists_root() -> None:
    os.listdir("/")


def _forks() -> None:
    if os.fork() == 0:
        os._exit(0)


@dataclass(frozen=True)
class Trial:
    """How a wall is tried: what it must stop, with what exception, and what to say if there is no such wall."""

    attempt: Callable[[], None]
    stopped_by: type[Exception]
    reason: Callable[[], str]


TRIALS = {
    LIMITS: Trial(_exceeds_memory, MemoryError, lambda: ""),
    LANDLOCK: Trial(_lists_root, PermissionError, _why_no_landlock),
    SECCOMP: Trial(_forks, PermissionError, _why_no_seccomp),
}


def _try_in_child(name: str, scratch: Path) -> str:
    """Empty if a wall stands and stops what it should, otherwise why not."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        try:
            answer = _try_wall(name, scratch, writer)
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writer, answer.encode())
        os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as pipe:
        said = pipe.read()
    os.wait()
    return said.removeprefix(STANDS) if said else "the process that tried it died"


STANDS = "stands"


def _try_wall(name: str, scratch: Path, writer: int) -> str:
    limits = Limits(memory=256 * MEGABYTE)
    standing = confine(limits, scratch=scratch, keep=(0, 1, 2, writer), walls=(LIMITS, name))
    if name == SCRATCH:
        return STANDS if name in standing else f"this user may not mount anything: {_how_to_allow_namespaces()}"
    trial = TRIALS[name]
    if name not in standing:
        return trial.reason()
    try:
        trial.attempt()
    except trial.stopped_by:
        return STANDS
    return "it was raised, but does not hold"


def _main() -> None:
    """Try the walls that a process raises around itself, and print why each does not work, or nothing."""
    with tempfile.TemporaryDirectory() as scratch:
        print(json.dumps({name: _try_in_child(name, Path(scratch)) for name in (LIMITS, SCRATCH, LANDLOCK, SECCOMP)}))


if __name__ == "__main__":
    _main()
