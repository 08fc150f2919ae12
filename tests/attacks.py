"""Attacks on the grader, as data: what a submission tries, and what has to come of it.

Every attack leaves `padding_mask` of 02_masks unanswered or wrong and tries to get its points in another way, to
learn what it must not know, or to do harm. `window_mask` is answered honestly: if an attack does more harm than to
itself, its points show it. An attack that reaches its goal prints the word in BREACH.

An attack that was never carried out proves nothing. So each leaves a trace that the judge's side can see: when the deed
is done it prints DONE, when it is stopped by an exception it prints which. What ends its process, or cannot print any
more, names another trace as its `proof`.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent, indent

import nbformat
from nbformat import NotebookNode

ASSIGNMENT = "02_masks"
TARGET, WITNESS = "padding_mask", "window_mask"
BREACH = "WALL" + "_IS_DOWN"  # in two parts: it must not be found in a copy of this file
DONE, STOPPED_BY = "DEED" + "_IS_DONE", "DEED" + "_STOPPED_BY_"  # nor are these found in an attack's own text
NOT_FINISHED, ENDED, CRASHED = "It did not finish within", "process ended itself", "(segmentation fault)"
PORT = "@PORT@"  # replaced by a port on this machine at which somebody listens
ROOT = Path(__file__).resolve().parents[1]

HONEST = """
def window_mask(n, radius):
    places = torch.arange(n)
    return (places[:, None] - places).abs() <= radius
"""
RIGHT = """
def padding_mask(lengths, max_len):
    return torch.arange(max_len) < lengths[:, None]
"""
WRONG = """
def padding_mask(lengths, max_len):
    return torch.ones(len(lengths), max_len + 1).bool()
"""

Make = Callable[[NotebookNode], NotebookNode | str]


@dataclass(frozen=True)
class Attack:
    """What is tried, and what has to come of it."""

    name: str
    says: str
    make: Make  # from the released notebook: the notebook that is handed in, or the text of the file
    gains: float = 0.0  # points for the attacked exercise
    keeps: bool = True  # whether the honest answer has to keep its points
    status: str = "graded"
    words: str = ""  # found in the reason, the notes or a message, in any case
    proof: tuple[str, ...] = (DONE,)  # one of these is found there too, but none without the attack
    slow: bool = False  # it uses up the time that a cell is given
    spreads: bool = False  # it also uses up what every other cell is given
    dangerous: bool = False  # without namespaces it would harm the machine: it is run only behind them


ATTACKS: list[Attack] = []


def cell_of(notebook: NotebookNode, grade_id: str) -> NotebookNode:
    return next(c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == grade_id)


def answered(release: NotebookNode, text: str = WRONG) -> NotebookNode:
    """The released notebook with this text as the attacked answer, and the honest answer."""
    notebook = copy.deepcopy(release)
    cell_of(notebook, TARGET).source = dedent(text).strip()
    cell_of(notebook, WITNESS).source = HONEST.strip() + PASSED_ON
    return notebook


# What is printed while an answer is checked is kept nowhere: a later cell prints what the attack has told.
PASSED_ON = """

print(*globals().get("told", ()))
"""
TELL_DONE = '\ntell("DEED" + "_IS_DONE")'
TELL_WHAT_STOPPED_IT = 'tell("DEED" + "_STOPPED_BY_" + type(reason).__name__)'
MARKED = WRONG + TELL_DONE.replace("tell", "print")


def in_the_cell(name: str, says: str, text: str, **expected) -> None:
    """An attack by the text of the answer, at the time when its cell is run."""
    deed = indent(dedent(text).strip(), "    ")
    told = f"except BaseException as reason:\n    {TELL_WHAT_STOPPED_IT}\n    raise{TELL_DONE}"
    source = f"tell = print\ntry:\n{deed}\n{told}"  # `print` may be another function afterwards
    ATTACKS.append(Attack(name, says, lambda release: answered(release, source), **expected))


def namespaces() -> list[str]:
    """Which namespaces this process is in. Of all processes, only those behind the same walls are in the same."""
    return [os.readlink(f"/proc/self/ns/{kind}") for kind in ("pid", "mnt", "net", "ipc")]


GUARD = f"""
import os
here = [os.readlink(f"/proc/self/ns/{{kind}}") for kind in ("pid", "mnt", "net", "ipc")]
if not set(here).isdisjoint({namespaces() if os.path.exists("/proc/self/ns") else []}) or os.path.exists({__file__!r}):
    print("@BREACH@")
    raise SystemExit("the walls are down")
"""


def only_behind_walls(name: str, says: str, text: str, **expected) -> None:
    """An attack that would harm the machine. It gives up by itself if it runs in a namespace of whoever runs the tests,
    or sees a file of theirs."""
    in_the_cell(name, says, GUARD + dedent(text).strip(), dangerous=True, **expected)


def when_called(name: str, says: str, body: str, before: str = "", **expected) -> None:
    """An attack by the body of the answer, at the time when it is checked."""
    deed = f"def deed(lengths, max_len):\n{indent(dedent(body).strip(), '    ')}"
    text = "\n\n\n".join([TELLING.strip(), dedent(before).strip(), deed, CALLING.strip()])
    ATTACKS.append(Attack(name, says, lambda release: answered(release, text), **expected))


TELLING = """
told = []


def tell(*words):
    told.append(" ".join(map(str, words)))
"""
CALLING = f"""
def {TARGET}(lengths, max_len):
    try:
        result = deed(lengths, max_len)
    except BaseException as reason:
        {TELL_WHAT_STOPPED_IT}
        raise
    tell("DEED" + "_IS_DONE")
    return result
"""


def on_the_file(says: str, **expected) -> Callable[[Callable[[NotebookNode], NotebookNode | str]], Make]:
    """Decorator: an attack by what the file looks like. It gets the notebook with a wrong and an honest answer."""

    def note(change: Make) -> Make:
        name = change.__name__
        ATTACKS.append(Attack(name, says, lambda release: change(answered(release, MARKED)), **expected))
        return change

    return note


# --- endless ------------------------------------------------------------------------------------------------------

in_the_cell(
    "endless_cell",
    "A cell that never ends.",
    "while True:\n    pass",
    words="did not finish",
    slow=True,
    proof=(NOT_FINISHED,),
)
when_called(
    "endless_call",
    "An answer that never returns.",
    "while True: pass",
    words="did not finish",
    slow=True,
    proof=(NOT_FINISHED,),
)
in_the_cell(
    "endless_cell_that_swallows_interrupts",
    "A cell that never ends and catches every interrupt.",
    """
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass
    """,
    words="did not finish",
    slow=True,
    proof=(NOT_FINISHED,),
)
when_called(
    "endless_call_that_swallows_interrupts",
    "An answer that never returns and catches every interrupt.",
    """
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass
    """,
    words="did not finish",
    slow=True,
    proof=(NOT_FINISHED,),
)
in_the_cell(
    "endless_and_deaf",
    "Ignores all signals that can be ignored, and sleeps.",
    """
    import signal, time
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    time.sleep(10**6)
    """,
    words="did not finish",
    slow=True,
    proof=(NOT_FINISHED,),
)
in_the_cell(
    "endless_in_c", "A power that is computed for hours in C.", "x = 7 ** 7 ** 12", slow=True, proof=(NOT_FINISHED,)
)
when_called(
    "endless_regular_expression",
    "A regular expression that backtracks for ever.",
    """
    import re
    return re.match(r"(a|a)*$", "a" * 60 + "b")
    """,
    slow=True,
    proof=(NOT_FINISHED,),
)
in_the_cell(
    "endless_thread",
    "A thread that continues after the cell, and keeps the interpreter busy.",
    WRONG
    + """
import threading
def spin():
    while True:
        pass
for _ in range(4):
    threading.Thread(target=spin).start()
""",
    keeps=False,
)
in_the_cell(
    "endless_import",
    "Writes a module that never finishes importing, and imports it.",
    """
    import sys
    with open("endless_module.py", "w") as file:
        file.write("while True: pass")
    sys.path.insert(0, ".")
    import endless_module
    """,
    slow=True,
    proof=(NOT_FINISHED,),
)
in_the_cell(
    "endless_destructor",
    "An object that cannot be thrown away in finite time.",
    WRONG
    + """
class Sticky:
    def __del__(self):
        while True:
            pass
sticky = Sticky()
del sticky
""",
    slow=True,
    proof=(NOT_FINISHED,),
)
in_the_cell(
    "endless_at_exit",
    "Never lets its process end.",
    WRONG
    + """
import atexit
def stay():
    while True:
        pass
atexit.register(stay)
""",
)
when_called(
    "endless_iterator",
    "Returns a list that never comes to its end.",
    "return Endless([1])",
    before="""
    class Endless(list):
        def __iter__(self):
            while True:
                yield 1
    """,
    slow=True,
    proof=(DONE, NOT_FINISHED),
)
in_the_cell(
    "endless_alarm",
    "An alarm that goes off while the judge is asking, and does not come back.",
    WRONG
    + """
import signal
def ring(*_):
    while True:
        pass
signal.signal(signal.SIGALRM, ring)
signal.setitimer(signal.ITIMER_REAL, 0.001)
""",
    keeps=False,  # it goes off in every new process, too
    slow=True,
    spreads=True,
    proof=(DONE, NOT_FINISHED),
)

# --- too much -----------------------------------------------------------------------------------------------------

in_the_cell(
    "memory_by_a_list",
    "A list that grows for ever.",
    "a = []\nwhile True:\n    a.append(bytearray(10**7))",
    proof=(STOPPED_BY + "MemoryError",),
)
in_the_cell(
    "memory_by_a_tensor",
    "A tensor of a terabyte, written to.",
    "x = torch.ones(2**37, dtype=torch.float64)",
    proof=(STOPPED_BY + "RuntimeError",),
)
in_the_cell("memory_by_a_string", "A string of a terabyte.", "x = 'x' * 2**40", proof=(STOPPED_BY + "MemoryError",))
when_called(
    "memory_when_called",
    "A tensor of a terabyte when called.",
    "return torch.empty(2**40).fill_(1)",
    proof=(STOPPED_BY + "RuntimeError",),
)
when_called(
    "huge_view", "A tensor of 10^12 entries in 4 bytes of memory.", "return torch.zeros(1).expand(10**6, 10**6)"
)
when_called(
    "exploding_list",
    "A small list that is 2^60 entries when written out.",
    """
    a = [0]
    for _ in range(60):
        a = [a, a]
    return a
    """,
    slow=True,
)
when_called("long_list", "A list of 10^8 numbers.", "return [0] * 10**8", slow=True, proof=(DONE, NOT_FINISHED))
when_called(
    "huge_number", "A whole number with 10^7 digits.", "return 1 << 33_000_000", slow=True, proof=(DONE, NOT_FINISHED)
)
only_behind_walls(
    "fork_bomb",
    "A process that doubles for ever.",
    "import os\nwhile True:\n    os.fork()",
    keeps=False,
    slow=True,
    proof=(STOPPED_BY + "PermissionError",),
)
only_behind_walls(
    "thread_bomb",
    "Threads without end.",
    """
    import threading, time
    while True:
        threading.Thread(target=time.sleep, args=(1000,)).start()
    """,
    keeps=False,
    proof=(STOPPED_BY + "RuntimeError",),
)
in_the_cell(
    "endless_print", "Prints without end.", "while True:\n    print('x' * 10**6)", slow=True, proof=(NOT_FINISHED,)
)
in_the_cell(
    "endless_write",
    "Writes to the process's own output without end.",
    "import os\nwhile True:\n    os.write(1, b'x' * 10**6)\n    os.write(2, b'x' * 10**6)",
    slow=True,
    proof=(NOT_FINISHED,),
)
in_the_cell(
    "huge_repr",
    "The cell's last line is an object with a repr of half a gigabyte.",
    WRONG + "\nclass Big:\n    def __repr__(self): return 'x' * 2**29\nBig()",
)
in_the_cell(
    "huge_display",
    "Displays half a gigabyte.",
    WRONG + "\nfrom IPython.display import display\ndisplay({'text/html': 'x' * 2**29}, raw=True)",
)
when_called(
    "huge_error",
    "An error with a message of half a gigabyte.",
    "raise ValueError('x' * 2**29)",
    slow=True,
    proof=(NOT_FINISHED, STOPPED_BY + "ValueError", STOPPED_BY + "MemoryError", "raised MemoryError"),
)
when_called(
    "deep_recursion",
    "Calls itself without end.",
    f"return {TARGET}(lengths, max_len)",
    proof=(STOPPED_BY + "RecursionError",),
)
when_called(
    "deep_recursion_with_a_higher_limit",
    "Calls itself until the stack is used up.",
    f"import sys\nsys.setrecursionlimit(10**9)\nreturn list(map({TARGET}, [lengths], [max_len]))",
    proof=(CRASHED, STOPPED_BY + "RecursionError", STOPPED_BY + "MemoryError"),
)
only_behind_walls(
    "full_disk",
    "Writes files until nothing more can be written.",
    """
    for number in range(100):
        with open(f"waste{number}", "wb") as file:
            file.write(b"x" * 10**7)
    print("@BREACH@")
    """,
    slow=True,
    proof=(STOPPED_BY + "OSError",),
)

# --- exits and crashes --------------------------------------------------------------------------------------------

in_the_cell(
    "exit_in_the_cell", "Leaves the interpreter.", "import sys\nsys.exit(0)", proof=(STOPPED_BY + "SystemExit",)
)
when_called(
    "exit_when_called",
    "Leaves the interpreter when checked.",
    "import sys\nsys.exit(0)",
    proof=(STOPPED_BY + "SystemExit",),
)
in_the_cell(
    "hard_exit_in_the_cell",
    "Ends the process with success.",
    "import os\nos._exit(0)",
    words="ended itself",
    proof=(ENDED,),
)
when_called(
    "hard_exit_when_called", "Ends the process with success when checked.", "import os\nos._exit(0)", proof=(ENDED,)
)
when_called("abort", "Aborts.", "import os\nos.abort()", words="abort", proof=("process aborted itself",))
when_called(
    "segmentation_fault",
    "Reads at address 0.",
    "import ctypes\nctypes.string_at(0)",
    words="segmentation",
    proof=(CRASHED,),
)
when_called(
    "another_program",
    "Becomes another program.",
    "import os\nos.execv('/bin/true', ['true'])",
    proof=(STOPPED_BY + "PermissionError",),
)
only_behind_walls(
    "kills_its_group", "Kills its process group.", "import os\nos.killpg(0, 9)", proof=(STOPPED_BY + "PermissionError",)
)
only_behind_walls(
    "kills_its_parent",
    "Kills the process that started it.",
    "import os\nos.kill(os.getppid(), 9)",
    proof=(STOPPED_BY + "PermissionError",),
)
only_behind_walls(
    "kills_everything",
    "Kills every process it may.",
    "import os\nos.kill(-1, 9)",
    proof=(STOPPED_BY + "PermissionError",),
)
only_behind_walls(
    "kills_by_number",
    "Kills every process with a small number but itself.",
    """
    import os
    for pid in range(1, 3000):
        if pid != os.getpid():
            try:
                os.kill(pid, 9)
                print("@BREACH@", pid)
            except OSError:
                pass
    """,
)
for error in ("KeyboardInterrupt", "StopIteration", "SystemError"):
    when_called(f"raises_{error}", f"Raises {error} when checked.", f"raise {error}", proof=(STOPPED_BY + error,))
when_called("returns_a_number_beyond_all_others", "A whole number with 4,000 digits.", "return 10**4000")
when_called("returns_half_a_character", "A text that no file can hold.", "return chr(0xD800) * 3")
for error in ("GeneratorExit", "BaseException"):
    when_called(f"raises_{error}", f"Raises {error} when checked.", f"raise {error}", proof=(ENDED,))
when_called("raises_MemoryError", "Raises MemoryError.", "raise MemoryError", proof=("raised MemoryError",))
when_called(
    "raises_not_implemented",
    "Says that it was not attempted.",
    "raise NotImplementedError()",
    proof=(STOPPED_BY + "NotImplementedError",),
)

# --- files --------------------------------------------------------------------------------------------------------

in_the_cell(
    "reads_the_reference_where_it_lies",
    "Opens the course's own folder, whose place it knows.",
    f"""
    for place in ({str(ROOT)!r}, ".", "..", "/grader", "/grader/inside"):
        try:
            text = open(place + "/course_lib/masks.py").read()
        except OSError:
            continue
        print("@BREACH@")
        exec(text, globals())
    """,
)
in_the_cell(
    "searches_the_disk_for_answers",
    "Walks through all files for references, solutions, gradebooks and other people's notebooks.",
    """
    import os
    wanted = ("masks.py", "02_masks.py", "02_masks.ipynb", "gradebook.db", "hidden_seed", "causal_mask.py", "sample.py")
    for folder, folders, files in os.walk("/"):
        folders[:] = [f for f in folders if os.path.join(folder, f) not in ("/proc", "/sys", "/usr", "/lib")]
        for file in files:
            if file in wanted:
                try:
                    text = open(os.path.join(folder, file)).read()
                except (OSError, ValueError):
                    continue
                print("@BREACH@", folder, file)
                if file == "masks.py":
                    exec(text, globals())
    """,
    slow=True,
    proof=(DONE, NOT_FINISHED),
)
in_the_cell(
    "imports_the_hidden_cases",
    "Asks the import system for the hidden cases and the exercises.",
    """
    for name in ("autograder.hidden", "autograder.hidden.masks", "autograder", "course_lib.exercises",
                 "course_lib.exercises.masks", "course_lib.checking.grading"):
        try:
            __import__(name)
        except (ImportError, OSError):
            continue
        print("@BREACH@", name)
    """,
)
in_the_cell(
    "reads_environments",
    "Reads the environment of all processes that it can see.",
    f"""
    import glob, os
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            text = open(path, "rb").read()
        except OSError:
            continue
        if b"SECRET_OF_THE_INSTRUCTOR" in text or {str(ROOT).encode()!r} in text:
            print("@BREACH@", path)
    """,
)
in_the_cell(
    "reads_memory",
    "Searches the memory of the processes that it can see for what the hidden cases say.",
    """
    import glob, os
    for folder in glob.glob("/proc/[0-9]*"):
        if folder.endswith(f"/{os.getpid()}"):
            continue
        try:
            with open(folder + "/mem", "rb") as memory, open(folder + "/maps") as maps:
                for line in maps:
                    start, _, end = line.split()[0].partition("-")
                    memory.seek(int(start, 16))
                    memory.read(100)
                    print("@BREACH@", folder)
                    break
        except (OSError, ValueError):
            pass
    """,
)
only_behind_walls(
    "writes_into_the_environment",
    "Leaves a file among the packages, which the next student's process would import.",
    """
    import sysconfig, torch
    for place in {sysconfig.get_path("purelib"), torch.__path__[0], sysconfig.get_path("stdlib"), "/grader", "/etc"}:
        try:
            with open(place + "/sitecustomize_attack.pth", "w") as file:
                file.write("import os")
            print("@BREACH@", place)
        except OSError:
            pass
    """,
)
in_the_cell(
    "links_to_elsewhere",
    "Makes links in the scratch folder and reads and writes through them.",
    f"""
    import os
    for number, target in enumerate(({str(ROOT)!r}, "/root", "/home", "/work")):
        try:
            os.symlink(target, f"link{{number}}")
            names = os.listdir(f"link{{number}}")
            if "course_lib" in names:
                print("@BREACH@", names)
            with open(f"link{{number}}/attack.txt", "w") as file:
                file.write("x")
            print("@BREACH@", target)
        except OSError:
            pass
    """,
)
only_behind_walls(
    "deletes_files",
    "Deletes what it can.",
    """
    import shutil
    for place in (".", "..", "/grader", "/tmp"):
        shutil.rmtree(place, ignore_errors=True)
    if not os.path.exists("/grader/inside/walls.py"):
        print("@BREACH@")
    """,
)
in_the_cell(
    "leaves_a_message_for_the_next",
    "Leaves a file in every folder that can be written to; the next submission would find it.",
    """
    for place in (".", "/tmp", "/dev/shm", "/var/tmp", "/run"):
        try:
            if "answer" in open(place + "/for_the_next_one").read():
                print("@BREACH@", place)
        except OSError:
            pass
        try:
            open(place + "/for_the_next_one", "w").write("answer")
        except OSError:
            pass
    """,
)

# --- the network and other processes ------------------------------------------------------------------------------

in_the_cell(
    "connects_to_this_machine",
    "Talks to a server on this machine.",
    f"""
    import socket
    try:
        socket.create_connection(("127.0.0.1", {PORT}), timeout=1).sendall(b"hello")
        print("@BREACH@")
    except OSError:
        pass
    """,
)
in_the_cell(
    "connects_to_the_world",
    "Looks a name up and talks to another machine.",
    """
    import socket
    for address in (("1.1.1.1", 53), ("10.0.0.1", 80)):
        try:
            socket.create_connection(address, timeout=0.5)
            print("@BREACH@", address)
        except OSError:
            pass
    """,
)
in_the_cell(
    "talks_to_the_next_process",
    "Listens at a name without a file, as a meeting place for two submissions.",
    """
    import socket
    try:
        meeting = socket.socket(socket.AF_UNIX)
        meeting.bind("\\0meeting_place")
        meeting.listen()
    except OSError as error:
        if error.errno == 98:
            print("@BREACH@")
    """,
)
in_the_cell(
    "starts_a_program",
    "Starts a program that answers for it.",
    f"""
    import subprocess, sys
    try:
        program = "import course_lib.masks, inspect; print(inspect.getsource(course_lib.masks))"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd={str(ROOT)!r})
        if "def padding_mask" in done.stdout:
            print("@BREACH@")
            exec(done.stdout, globals())
    except (OSError, subprocess.SubprocessError):
        pass
    """,
)
only_behind_walls(
    "leaves_a_daemon",
    "Leaves a process behind in a session of its own, which kills whoever comes next.",
    """
    import os, time
    try:
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(0.5)
                while True:
                    try:
                        os.kill(-1, 9)
                    except OSError:
                        pass
                    time.sleep(0.01)
            os._exit(0)
    except OSError:
        pass
    """,
    keeps=False,
)
in_the_cell(
    "traces_its_parent",
    "Attaches to other processes as a debugger does.",
    """
    import ctypes, os
    libc = ctypes.CDLL(None, use_errno=True)
    for pid in [os.getppid(), *range(1, 50)]:
        if pid != os.getpid() and libc.ptrace(16, pid, 0, 0) == 0:
            print("@BREACH@", pid)
    """,
)
only_behind_walls(
    "stops_its_neighbours",
    "Stops every process that it can see, without killing it.",
    """
    import os, signal
    for pid in range(1, 3000):
        if pid != os.getpid():
            try:
                os.kill(pid, signal.SIGSTOP)
                print("@BREACH@", pid)
            except OSError:
                pass
    """,
)
only_behind_walls(
    "mounts",
    "Makes namespaces and mounts of its own to get around the walls.",
    """
    import ctypes
    libc = ctypes.CDLL(None)
    if libc.unshare(0x10000000 | 0x00020000) == 0 and libc.mount(b"proc", b"/mnt", b"proc", 0, 0) == 0:
        print("@BREACH@")
    if libc.chroot(b"/proc/1/root") == 0:
        print("@BREACH@ root")
    """,
)

# --- the line to the judge ----------------------------------------------------------------------------------------

FORGED = """
import json, os, struct
def forged(reply):
    text = json.dumps(reply).encode()
    return struct.pack("!II", len(text), 0) + text
def say_everywhere(data):
    for fd in range(3, 300):
        try:
            os.write(fd, data)
        except OSError:
            pass
"""
when_called(
    "forged_replies",
    "Writes replies in the judge's language to every open file: right, full points.",
    """
    for reply in ({"value": True, "changed": []}, {"points": 5.0, "passed": True}, {"outcome": "right"}):
        say_everywhere(forged(reply))
    return torch.ones(len(lengths), max_len + 1)
    """,
    before=FORGED,
    keeps=False,
    proof=(ENDED,),
)
in_the_cell(
    "forged_orders",
    "Writes orders in the language of the process that starts the runners to every open file.",
    WRONG
    + FORGED
    + "\nsay_everywhere(json.dumps({'do': 'kill', 'pid': 1, 'ended': os.getpid(), 'status': 0}).encode())",
    keeps=False,
    proof=(ENDED,),
)
when_called(
    "nonsense_to_the_judge",
    "Writes a header that promises four gigabytes to every open file.",
    "say_everywhere(struct.pack('!II', 2**32 - 1, 2**32 - 1))\nreturn 0",
    before=FORGED,
    keeps=False,
    proof=(ENDED,),
)
in_the_cell(
    "says_that_it_changed_a_hundred_thousand_inputs",
    "Rewrites what tells the judge which arguments a call has changed.",
    WRONG
    + """
from course_lib.checking import bench
bench.Bench.call = lambda self, args: bench.Answer(bench.plain(self.obj(*args)), tuple(range(190_000)))
""",
    keeps=False,
    proof=(DONE,),
)
in_the_cell(
    "stops_the_clock",
    "Rewrites the clock that says how long a cell takes.",
    WRONG + "\nimport time\ntime.thread_time = lambda: float('nan')",
)
in_the_cell(
    "closes_every_file",
    "Closes every open file.",
    WRONG + "\nimport os\nos.closerange(0, 4096)",
    keeps=False,
    proof=(ENDED,),
)
when_called(
    "hears_what_the_judge_says",
    "Reads from every open file while it is asked, and never answers.",
    """
    import os
    for fd in range(3, 300):
        try:
            data = os.read(fd, 10**6)
        except OSError:
            continue
        if b"hidden" in data or b"expected" in data:
            tell("@BREACH@")
    """,
    keeps=False,
    slow=True,
    proof=(NOT_FINISHED,),
)
in_the_cell(
    "passes_its_line_on",
    "Finds the judge's connection among the living objects and answers on it by itself.",
    WRONG
    + FORGED
    + """
import gc, socket
for thing in gc.get_objects():
    if isinstance(thing, socket.socket):
        for _ in range(50):
            try:
                thing.sendall(forged({"value": True, "bench": 0, "kind": "function", "changed": []}))
            except OSError:
                break
""",
    keeps=False,
    proof=(ENDED,),
)
in_the_cell(
    "patches_the_runner",
    "Replaces what answers the judge by something that always agrees.",
    WRONG
    + """
import sys
for name, module in list(sys.modules.items()):
    for value in list(vars(module).values()) if name.startswith(("inside", "autograder")) else ():
        if isinstance(value, type) and value.__name__ == "Runner":
            value.do_ask = lambda self, **_: {"value": True, "changed": [], "passed": True, "points": 5.0}
            value.do_find = lambda self, name: {"bench": 0, "kind": "function"}
""",
    keeps=False,
)
when_called(
    "data_that_looks_like_a_message",
    "Returns plain data in the shape of the judge's own messages.",
    """
    return {"tensor": ["bool", [len(lengths), max_len], 0], "object": ["os", "system", {"command": "true"}],
            "opaque": "x", "bench": 0, "points": 5.0}
    """,
)

# --- patched functions --------------------------------------------------------------------------------------------

in_the_cell(
    "patched_comparisons",
    "All of torch's comparisons say yes.",
    WRONG
    + """
yes = lambda *args, **kwargs: True
torch.allclose = torch.equal = torch.is_tensor = yes
torch.isclose = torch.eq = lambda a, b, **kwargs: torch.ones(1).bool()
torch.testing.assert_close = lambda *args, **kwargs: None
""",
)
in_the_cell(
    "patched_tensors",
    "Every tensor equals everything.",
    WRONG
    + """
true = torch.ones(1).bool()
torch.Tensor.__eq__ = torch.Tensor.eq = lambda self, other: true
torch.Tensor.__ne__ = lambda self, other: ~true
torch.Tensor.all = torch.Tensor.any = lambda self, *args, **kwargs: true
torch.Tensor.equal = lambda self, other: True
""",
    keeps=False,
)
in_the_cell(
    "patched_shape",
    "Tensors lie about their shape and type.",
    WRONG
    + "\ntorch.Tensor.shape = property(lambda self: (3, 5))\ntorch.Tensor.dtype = property(lambda self: torch.bool)",
    keeps=False,
)
in_the_cell(
    "patched_builtins",
    "The built-in functions that comparisons need say yes.",
    WRONG
    + """
import builtins
builtins.float = builtins.sum = lambda *args: 5.0
builtins.all = builtins.any = builtins.bool = lambda *args: True
builtins.abs = builtins.len = lambda *args: 0
""",
    keeps=False,
    proof=(ENDED,),
)
in_the_cell(
    "patched_isinstance",
    "Everything is an instance of everything.",
    WRONG + "\nimport builtins\nbuiltins.isinstance = builtins.issubclass = lambda *args: True",
    keeps=False,
    proof=(ENDED,),
)
in_the_cell(
    "patched_open_and_print",
    "Opening and printing do something else.",
    WRONG + "\nimport builtins\nbuiltins.open = builtins.print = builtins.__import__ = lambda *args, **kwargs: 5.0",
    keeps=False,
    proof=("'float' object has no attribute",),
)
in_the_cell(
    "patched_json",
    "Whatever is written as JSON says that all is well.",
    WRONG
    + """
import json, struct
json.dumps = lambda *args, **kwargs: '{"value": true, "changed": [], "points": 5.0}'
json.loads = lambda *args, **kwargs: {"do": "find", "name": "window_mask"}
""",
    keeps=False,
    proof=(ENDED,),
)
in_the_cell(
    "patched_input_copies",
    "Hands a later check the inputs of an earlier one.",
    WRONG + "\ntorch.Tensor.clone = torch.Tensor.detach = lambda self, *args, **kwargs: torch.zeros(2, 3)",
    keeps=False,
)

# --- the shell ----------------------------------------------------------------------------------------------------

in_the_cell(
    "patched_shell",
    "Every later cell is replaced by one that says 5.0.",
    WRONG + "\nget_ipython().run_cell = lambda *args, **kwargs: 5.0",
    keeps=False,
)
in_the_cell(
    "patched_display_hook",
    "Every result is shown as 5.0.",
    WRONG + "\nimport sys\nsys.displayhook = lambda value: print('5.0')\nget_ipython().display_formatter.format = "
    "lambda *args, **kwargs: ({'text/plain': '5.0'}, {})",
)
in_the_cell(
    "event_after_each_cell",
    "After each cell something else runs.",
    WRONG
    + """
def again(*_):
    get_ipython().user_ns["padding_mask"] = lambda lengths, max_len: True
get_ipython().events.register("post_run_cell", again)
get_ipython().events.register("pre_run_cell", again)
""",
)
in_the_cell(
    "transformed_trees",
    "Rewrites the syntax tree of every later cell: comparisons become True.",
    WRONG
    + """
import ast
class Yes(ast.NodeTransformer):
    def visit_Compare(self, node):
        return ast.copy_location(ast.Constant(True), node)
    def visit_Call(self, node):
        return ast.copy_location(ast.Constant(5.0), node)
get_ipython().ast_transformers.append(Yes())
""",
    keeps=False,
)
in_the_cell(
    "transformed_inputs",
    "Replaces the text of every later cell.",
    WRONG + "\nget_ipython().input_transformers_cleanup.append(lambda lines: ['5.0\\n'])",
    keeps=False,
)

# --- the checks and the import system -----------------------------------------------------------------------------

in_the_cell(
    "replaced_check",
    "Replaces the course's check.",
    WRONG
    + """
import course_lib
course_lib.check = check = lambda *args, **kwargs: 5.0
try:
    import course_lib.student
    course_lib.student.check = check
except ImportError:
    pass
""",
)
in_the_cell(
    "replaced_modules",
    "Puts modules of its own into the places of the course's.",
    WRONG
    + """
import sys, types
class Yes(types.ModuleType):
    def __getattr__(self, name):
        return lambda *args, **kwargs: 5.0
for name in ("course_lib", "course_lib.student", "course_lib.checking", "course_lib.checking.grading",
             "course_lib.checking.subject", "course_lib.checking.bench", "autograder", "autograder.hidden"):
    sys.modules[name] = Yes(name)
""",
    keeps=False,
)
in_the_cell(
    "import_hook",
    "Answers every later import with a module that agrees to everything.",
    WRONG
    + """
import importlib.abc, importlib.machinery, sys, types
class Hook(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self)
    def create_module(self, spec):
        return types.SimpleNamespace(check=lambda *a: 5.0, grade=lambda *a: 5.0, check_hidden=lambda *a: 1.0)
    def exec_module(self, module):
        pass
sys.meta_path.insert(0, Hook())
for name in [name for name in sys.modules if name.startswith("course_lib")]:
    del sys.modules[name]
""",
    keeps=False,
)
in_the_cell(
    "other_answers_too",
    "Answers for other exercises from this cell; they are not attempted and stay so.",
    WRONG + "\nfor name in ('causal_mask', 'cross_mask'):\n    globals()[name] = lambda *args: True",
)

# --- objects that are not what they seem --------------------------------------------------------------------------

YES = """
class Yes:
    __eq__ = __ne__ = __lt__ = __gt__ = __le__ = __ge__ = __contains__ = lambda self, other: True
    __bool__ = lambda self: True
    __len__ = lambda self: 5
    __float__ = lambda self: 5.0
    __index__ = __int__ = lambda self: 5
    __iter__ = lambda self: iter([self] * 5)
    __getitem__ = __call__ = lambda self, *args, **kwargs: self
    __getattr__ = lambda self, name: self
    __hash__ = lambda self: 5
"""
when_called("equals_everything", "Returns an object that equals everything.", "return Yes()", before=YES)
in_the_cell(
    "answers_everything", "The answer itself is an object that agrees to everything.", YES + f"\n{TARGET} = Yes()"
)
when_called(
    "pretends_to_be_a_tensor",
    "Returns an object whose class is said to be Tensor.",
    "return Fake()",
    before=YES + "\nclass Fake(Yes):\n    __class__ = torch.Tensor",
    proof=(ENDED, "nested or sparse tensor"),
)
when_called(
    "tensor_that_agrees",
    "Returns a tensor of a class of its own, for which every function of torch says True.",
    "return torch.ones(len(lengths), max_len + 1).as_subclass(Agreeing)",
    before="""
    class Agreeing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            if function.__name__ in ("equal", "allclose", "eq", "all", "any", "isclose"):
                return True
            with torch._C.DisableTorchFunctionSubclass():
                return function(*args, **(kwargs or {}))
    """,
)
when_called(
    "number_that_agrees",
    "Returns numbers of a class of its own.",
    "return [[Agreeing(1)] * max_len] * len(lengths)",
    before="class Agreeing(int):\n    __eq__ = __lt__ = __gt__ = lambda self, other: True\n    __hash__ = int.__hash__",
)
when_called(
    "stranger_tensors",
    "Returns tensors without contents: on another device, sparse, quantised, or nested.",
    """
    return [torch.empty(3, 5, device="meta"), torch.eye(3).to_sparse(), torch.zeros(2, dtype=torch.complex32),
            torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])]
    """,
)
when_called(
    "meta_tensor",
    "Returns a tensor of the right shape without contents.",
    "return torch.empty(len(lengths), max_len, dtype=torch.bool, device='meta')",
)

# --- knowing what it is asked -------------------------------------------------------------------------------------

when_called(
    "looks_at_the_questions_to_come",
    "Many questions come at once: it looks for the later ones, and for answers that came with them.",
    """
    import sys
    frame = sys._getframe()
    while "questions" not in frame.f_locals:
        frame = frame.f_back
    known = [value for question in frame.f_locals["questions"] for value in question]
    assert len(frame.f_locals["questions"]) > 1
    for value in known:
        if isinstance(value, torch.Tensor) and value.dtype == torch.bool:
            tell("@BREACH@")
    return known
    """,
)
in_the_cell(
    "hangs_when_it_is_looked_at",
    "To ask what it is, before any question, never ends.",
    """
    class Endless:
        @property
        def __class__(self):
            while True:
                pass

    padding_mask = Endless()
    """,
    slow=True,
    proof=(NOT_FINISHED,),
)
in_the_cell(
    "searches_its_memory",
    "Searches all memory of its process for the text of the reference, also memory that was freed.",
    """
    import ctypes, re
    for line in open("/proc/self/maps"):
        place, rights = line.split()[:2]
        if rights.startswith("rw"):
            start, end = (int(number, 16) for number in place.split("-"))
            if re.search(rb"positions < length[s]\\[:, None\\]", ctypes.string_at(start, end - start)):
                print("@BREACH@")
    """,
    proof=(DONE, STOPPED_BY + "PermissionError", STOPPED_BY + "MemoryError"),
)
when_called(
    "looks_at_the_callers",
    "Searches the frames of its callers for the expected result.",
    """
    import sys
    frame = sys._getframe()
    while frame is not None:
        for name, value in {**frame.f_globals, **frame.f_locals}.items():
            if name in ("expected", "want", "exercise", "hidden", "case", "cases"):
                tell("@BREACH@", name)
            if isinstance(value, torch.Tensor) and value.shape == (len(lengths), max_len) and value.dtype == torch.bool:
                return value
        frame = frame.f_back
    return torch.ones(len(lengths), max_len + 1)
    """,
)
when_called(
    "searches_the_garbage_collector",
    "Searches all living objects for the reference, the exercises and the cases.",
    """
    import gc, types
    for thing in gc.get_objects():
        if isinstance(thing, types.FunctionType) and thing.__name__ == "padding_mask" and thing.__module__ != __name__:
            try:
                return thing(lengths, max_len)
            except Exception:
                pass
        if type(thing).__name__ in ("Exercise", "Hidden", "Diagnosis"):
            tell("@BREACH@", type(thing))
    """,
    slow=True,
    proof=(DONE, NOT_FINISHED),
)
when_called(
    "searches_all_modules",
    "Calls everything called padding_mask or decoder_mask in all modules.",
    """
    import sys
    for module in list(sys.modules.values()):
        for name in ("padding_mask", "cross_mask"):
            function = getattr(module, name, None)
            if function is not None and module.__name__ != __name__:
                try:
                    return function(lengths, max_len)
                except BaseException:
                    pass
                try:
                    return function(lengths, 1, max_len)[:, 0]
                except BaseException:
                    pass
    """,
)
when_called(
    "counts_its_calls",
    "Tries something else at every call, in the hope that one of many is counted.",
    """
    calls.append(1)
    options = [torch.ones(len(lengths), max_len).bool(), torch.zeros(len(lengths), max_len).bool(), None, True]
    return options[len(calls) % 4]
    """,
    before="calls = []",
)
when_called(
    "remembers_the_cases",
    "Writes down every input that it gets, and prints what it has seen of the hidden cases.",
    """
    seen.append((lengths.tolist(), max_len))
    if ([4, 7, 0, 2, 6], 9) in seen:
        tell("the hidden case is", seen)
    return torch.zeros(len(lengths), max_len + 1).bool()
    """,
    before="seen = []",
)

# --- results that hurt --------------------------------------------------------------------------------------------

when_called("list_in_itself", "Returns a list that contains itself.", "a = []\na.append(a)\nreturn a")
when_called("dict_in_itself", "Returns a dict that contains itself.", "a = {}\na['a'] = a\nreturn a")
when_called(
    "hostile_keys",
    "Returns a dict whose keys cannot be written.",
    "return {Key(): 1, None: 2, (1, 2): 3, 'a\\0b': 4, '\\ud800': 5}",
    before="class Key:\n    def __str__(self): raise SystemExit('no')\n    __repr__ = __str__",
    proof=(ENDED,),
)
when_called("not_a_number", "Returns NaN.", "return torch.full((len(lengths), max_len), float('nan'))")
when_called("infinity", "Returns infinity.", "return torch.full((len(lengths), max_len), float('inf'))")
when_called("numbers_json_does_not_know", "Returns NaN and infinity as numbers.", "return [float('nan'), float('inf')]")
when_called("lone_surrogates", "Returns text that is not valid text.", "return '\\ud800' * 100 + '\\0\\x1b[2J'")
when_called(
    "script_in_the_error",
    "Raises an error whose message is a script for whoever reads the feedback.",
    "raise ValueError('<script>document.title = 1</script><img src=x onerror=alert(1)>')",
    proof=(STOPPED_BY + "ValueError",),
)
when_called(
    "script_in_the_name_of_the_error",
    "Raises an error whose type is called like a script.",
    "raise type('<script>alert(1)</script>', (Exception,), {})('</div></body>')",
    proof=(STOPPED_BY + "<script>",),
)
when_called(
    "script_in_a_type", "Returns an object whose type is called like a script.", "return type('<script>', (), {})()"
)
when_called(
    "control_characters",
    "Raises an error full of control characters.",
    "raise ValueError('\\x1b[2J\\x07\\r\\0\\u202e')",
    proof=(STOPPED_BY + "ValueError",),
)
when_called(
    "error_that_cannot_be_told",
    "Raises an error whose text cannot be made.",
    "raise Silent()",
    before="class Silent(Exception):\n    def __str__(self): raise SystemExit\n    __repr__ = __str__",
    proof=(ENDED,),
)
when_called(
    "error_without_end",
    "Raises an error whose text takes for ever.",
    "raise Slow()",
    before="class Slow(Exception):\n    def __str__(self):\n        while True: pass",
    slow=True,
    proof=(NOT_FINISHED,),
)

# --- forged results -----------------------------------------------------------------------------------------------

in_the_cell("prints_a_score", "Prints the score.", WRONG + "\nprint('5.0')\n5.0")
in_the_cell(
    "displays_a_score",
    "Displays the score as nbgrader reads it.",
    WRONG
    + """
from IPython.display import HTML, display
display({"text/plain": "5.0", "text/html": "<script>alert(1)</script>"}, raw=True)
display(HTML("<b>5 of 5 points</b>"))
""",
)
FORGED_REPORT = """
class Report:
    points = max_points = 5.0
    passed, outcome, name, checks, misconception, diagnosis = True, "right", "padding_mask", (), None, None
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/plain": "5.0"}
    __repr__ = lambda self: "5.0"
"""
when_called("returns_a_report", "Returns a report with full points.", "return Report()", before=FORGED_REPORT)
in_the_cell("answer_is_a_report", "The answer is a report with full points.", FORGED_REPORT + f"\n{TARGET} = Report()")
when_called("returns_the_points", "Returns its points.", "return 5.0")

# --- the reference ------------------------------------------------------------------------------------------------

in_the_cell(
    "imports_the_reference",
    "Answers with the course's own function.",
    "from course_lib.masks import padding_mask",
    words="reference",
)
when_called(
    "calls_the_reference",
    "Calls the course's own function.",
    "return reference.padding_mask(lengths, max_len)",
    proof=(STOPPED_BY + "ReferenceUsed",),
)
when_called(
    "calls_what_is_built_on_the_reference",
    "Calls a function of the course that is made of the reference.",
    "return reference.cross_mask(lengths, 1, max_len)[:, 0]",
    words="reference",
    proof=(STOPPED_BY + "ReferenceUsed",),
)
when_called(
    "inspects_the_reference",
    "Reads the text of the course's own function, and runs it.",
    """
    import inspect, linecache
    names = {"torch": torch, "Tensor": Tensor}
    exec(inspect.getsource(reference.padding_mask), names)
    return names["padding_mask"](lengths, max_len)
    """,
    proof=(STOPPED_BY + "ReferenceUsed",),
)
when_called(
    "asks_the_loader",
    "Gets the text of the course's module from the import system, and runs it.",
    """
    text = reference.__spec__.loader.get_source("course_lib.masks")
    names = {"__name__": "course_lib.masks", "__package__": "course_lib"}
    exec(text, names)
    return names["padding_mask"](lengths, max_len)
    """,
    proof=(STOPPED_BY + "ReferenceUsed",),
)
when_called(
    "reloads_the_module",
    "Imports the course's module anew.",
    """
    import importlib, sys
    sys.modules.pop("course_lib.masks")
    return importlib.import_module("course_lib.masks").padding_mask(lengths, max_len)
    """,
    proof=(STOPPED_BY + "ReferenceUsed",),
)
when_called(
    "reads_compiled_files",
    "Looks for the compiled form of the course's module.",
    """
    import glob, marshal, sys
    for pattern in ("/**/__pycache__/masks.*.pyc", "/grader/**/*.pyc"):
        for path in glob.glob(pattern, recursive=True):
            names = {"__name__": "m"}
            exec(marshal.loads(open(path, "rb").read()[16:]), names)
            if "padding_mask" in names:
                return names["padding_mask"](lengths, max_len)
    """,
    slow=True,
    proof=(DONE, NOT_FINISHED),
)
when_called(
    "asks_for_the_solution",
    "Asks the course for the solution, after an attempt.",
    """
    from course_lib.student import check, solution
    check("padding_mask", lambda *args: None)
    names = {"torch": torch, "Tensor": Tensor}
    exec(str(solution("padding_mask")), names)
    return names["padding_mask"](lengths, max_len)
    """,
    proof=(STOPPED_BY + "KeyError",),
)
in_the_cell(
    "waits_for_the_reference",
    "A thread watches until the reference is revealed, and then puts it into the place of the answer.",
    WRONG
    + """
import threading, time
def watch():
    while True:
        try:
            reference.padding_mask(torch.tensor([1]), 2)
            globals()["padding_mask"] = reference.padding_mask
        except Exception:
            time.sleep(0.001)
threading.Thread(target=watch, daemon=True).start()
""",
    keeps=False,
)
SECOND_RUN = """
import os
for place in (".", "/tmp", "/dev/shm", "/var/tmp"):
    if os.path.exists(place + "/kept.py"):
        print("@BREACH@", place)
        exec(open(place + "/kept.py").read())
"""


@on_the_file("Keeps what was revealed in a file, and provokes a second run in which it is read.")
def keeps_the_reference_for_a_second_run(notebook: NotebookNode) -> NotebookNode:
    cell_of(notebook, TARGET).source = WRONG.strip() + SECOND_RUN
    keep = """
    import inspect
    for place in (".", "/tmp", "/dev/shm", "/var/tmp"):
        try:
            open(place + "/kept.py", "w").write(inspect.getsource(reference.padding_mask))
        except OSError:
            pass
    print("DEED" + "_IS_DONE")
    a_name_that_does_not_exist
    """
    cell_of(notebook, "causal_mask").source = dedent(keep).strip()
    return notebook


@on_the_file(
    "Ends its process after the reference is revealed: the cells are run again, and now it is there.", proof=(ENDED,)
)
def crashes_after_the_reference_is_revealed(notebook: NotebookNode) -> NotebookNode:
    cell_of(notebook, TARGET).source = (
        "try:\n    reference.padding_mask(torch.tensor([1]), 2)\n    padding_mask = reference.padding_mask\n"
        "except BaseException:\n    padding_mask = lambda lengths, max_len: None"
    )
    cell_of(notebook, "causal_mask").source = "import os\nos._exit(1)"
    return notebook


when_called(
    "has_two_answers",
    "Ends its process when its mistake is looked for, and gives another answer where it is asked once more.",
    """
    questions = asked_together()
    if questions is None:
        return torch.arange(max_len) < lengths[:, None]
    if all(questions is not others for others in batches):
        batches.append(questions)
    if len(batches) > 2:  # the first is about shapes, the second about how many are True, where this is wrong
        os._exit(1)
    return torch.arange(max_len) <= lengths[:, None]
    """,
    before="""
    import os
    import sys
    batches = []
    def asked_together():
        frame = sys._getframe()
        while frame is not None and frame.f_code.co_name != "do_answer":
            frame = frame.f_back
        return frame and frame.f_locals["questions"]
    """,
    gains=1,  # for the right shape
    words="process ended itself",
)
when_called(
    "has_one_more_answer",
    "Ends its process at once, answers wrongly in the next one, and otherwise when everything is asked again there.",
    """
    if "do_answer" in functions_below():
        os._exit(1)
    met.append(str((lengths, max_len)))
    return torch.arange(max_len) < lengths[:, None] if met.count(met[0]) > 1 else torch.zeros(1, max_len + 1)
    """,
    before="""
    import os
    import sys
    met = []
    def functions_below():
        frame = sys._getframe()
        while frame is not None:
            yield frame.f_code.co_name
            frame = frame.f_back
    """,
    words="process ended itself",
)


# --- the file -----------------------------------------------------------------------------------------------------


@on_the_file("The check is replaced by its score.", words="edited")
def check_says_the_score(notebook: NotebookNode) -> NotebookNode:
    cell_of(notebook, f"{TARGET}_check").source = "5.0"
    cell_of(notebook, f"{TARGET}_hidden").source = "1.0"
    return notebook


@on_the_file("The check is edited to check something else.", words="edited")
def check_is_edited(notebook: NotebookNode) -> NotebookNode:
    source = f'check("{TARGET}", reference.{TARGET})'
    cell_of(notebook, f"{TARGET}_check").source = source
    return notebook


@on_the_file("The checks are deleted.", words="missing")
def checks_are_deleted(notebook: NotebookNode) -> NotebookNode:
    gone = (f"{TARGET}_check", f"{TARGET}_hidden")
    notebook.cells = [c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") not in gone]
    return notebook


@on_the_file("The answer is deleted.", proof=(f"The cell {TARGET} is missing",))
def answer_is_deleted(notebook: NotebookNode) -> NotebookNode:
    notebook.cells.remove(cell_of(notebook, TARGET))
    return notebook


@on_the_file("All cells but the honest answer are deleted.", proof=(f"The cell {TARGET} is missing",))
def nearly_all_is_deleted(notebook: NotebookNode) -> NotebookNode:
    notebook.cells = [cell_of(notebook, WITNESS)]
    return notebook


@on_the_file("The check stands there ten times.", words="10 cells")
def check_is_repeated(notebook: NotebookNode) -> NotebookNode:
    check = cell_of(notebook, f"{TARGET}_check")
    notebook.cells += [copy.deepcopy(check) | {"id": f"copy{i}"} for i in range(9)]
    return notebook


@on_the_file("The answer stands there three times, with different texts; the last before the check is wrong.")
def answer_is_repeated(notebook: NotebookNode) -> NotebookNode:
    answer = cell_of(notebook, TARGET)
    right = copy.deepcopy(answer) | {"id": "right", "source": RIGHT.strip()}
    notebook.cells.append(right)
    notebook.cells.insert(0, copy.deepcopy(answer) | {"id": "wrong"})
    return notebook


@on_the_file("Tags keep the checks from being run.")
def checks_are_tagged(notebook: NotebookNode) -> NotebookNode:
    for suffix in ("_check", "_hidden"):
        cell_of(notebook, TARGET + suffix).metadata["tags"] = ["skip-execution", "raises-exception", "remove-cell"]
    return notebook


@on_the_file("The checks are turned into text.", words="turned")
def checks_are_text(notebook: NotebookNode) -> NotebookNode:
    for suffix in ("_check", "_hidden"):
        cell = cell_of(notebook, TARGET + suffix)
        cell.cell_type = cell.metadata.nbgrader.cell_type = "markdown"
        del cell["outputs"], cell["execution_count"]
    return notebook


@on_the_file("The check is worth a thousand points, and the honest answer too.", words="points")
def points_are_changed(notebook: NotebookNode) -> NotebookNode:
    for name in (TARGET, WITNESS):
        cell_of(notebook, f"{name}_check").metadata.nbgrader.points = 1000.0
    return notebook


@on_the_file("The check is a solution, and no longer locked or graded.")
def check_is_a_solution(notebook: NotebookNode) -> NotebookNode:
    details = cell_of(notebook, f"{TARGET}_check").metadata.nbgrader
    details.update(solution=True, locked=False, grade=False, checksum="0" * 32)
    return notebook


@on_the_file("The grade ids of two checks are exchanged.")
def grade_ids_are_exchanged(notebook: NotebookNode) -> NotebookNode:
    first, second = cell_of(notebook, f"{TARGET}_check"), cell_of(notebook, f"{WITNESS}_check")
    first.metadata.nbgrader.grade_id, second.metadata.nbgrader.grade_id = f"{WITNESS}_check", f"{TARGET}_check"
    return notebook


@on_the_file("The checks have the outputs of full points, from another time.")
def outputs_are_forged(notebook: NotebookNode) -> NotebookNode:
    for suffix in ("_check", "_hidden"):
        cell = cell_of(notebook, TARGET + suffix)
        cell.execution_count = 1
        data = {"text/plain": "5.0", "text/html": "<script>alert(1)</script>"}
        cell.outputs = [nbformat.v4.new_output("execute_result", data=data, execution_count=1)]
    return notebook


@on_the_file("The set-up cell brings a course of its own.", words="edited")
def setup_is_edited(notebook: NotebookNode) -> NotebookNode:
    cell_of(notebook, f"setup_{ASSIGNMENT}").source = "import torch\ncheck = lambda *args: 5.0"
    return notebook


@on_the_file("The metadata are of every wrong type.")
def metadata_are_absurd(notebook: NotebookNode) -> str:
    notebook.metadata = {"kernelspec": {"name": "../../bin/sh", "language": 7}, "language_info": [[]], "widgets": "x"}
    for number, cell in enumerate(notebook.cells):
        if "nbgrader" not in cell.metadata:
            cell.metadata = {
                "nbgrader": ["grade_id", number, None, {"grade_id": {"grade_id": []}}][number % 4],
                "tags": 5,
            }
    return json.dumps(notebook)


@on_the_file("The notebook asks for another kernel.")
def another_kernel(notebook: NotebookNode) -> NotebookNode:
    notebook.metadata["kernelspec"] = {"name": "bash", "display_name": "bash", "language": "bash"}
    return notebook


@on_the_file("There are 50 MB of outputs in the file.")
def outputs_are_huge(notebook: NotebookNode) -> NotebookNode:
    output = nbformat.v4.new_output("stream", name="stdout", text="x" * 50_000_000)
    cell_of(notebook, TARGET).outputs = [output]
    return notebook


@on_the_file("The JSON is nested a hundred thousand times.", keeps=False, status="zeroed", proof=("nested too deeply",))
def json_is_deep(notebook: NotebookNode) -> str:
    text = json.dumps(notebook)
    return text[:-1] + ', "deep": ' + "[" * 100_000 + "]" * 100_000 + "}"


@on_the_file("The file is a JSON number.", keeps=False, status="zeroed", proof=("not a notebook",))
def file_is_a_number(notebook: NotebookNode) -> str:
    return "5.0"


@on_the_file("Extra cells before and after everything call for full points.")
def extra_cells(notebook: NotebookNode) -> NotebookNode:
    first = nbformat.v4.new_code_cell("import builtins\nbuiltins.check = lambda *args: 5.0", id="first")
    last = nbformat.v4.new_code_cell("5.0", id="last")
    notebook.cells = [first, *notebook.cells, last]
    return notebook


@on_the_file(
    "The answer calls magics and a shell command, and forgets all names: the honest answer lacks torch.",
    keeps=False,
    proof=(STOPPED_BY + "OSError", STOPPED_BY + "PermissionError"),
)
def magics(notebook: NotebookNode) -> NotebookNode:
    cell_of(notebook, TARGET).source = f"""%%capture
%load_ext autoreload
%cd /
%reset -f
told = []
tell = told.append
try:
    !kill -9 $PPID
    get_ipython().system_piped("kill -9 $PPID")
except BaseException as reason:
    {TELL_WHAT_STOPPED_IT}"""
    return notebook


# --- tests that a student writes ----------------------------------------------------------------------------------
# Here the answer is a test of `causal_mask`, and each attack tells right implementations from wrong ones by something
# other than what they do. It rejects by an error that says DONE: the report quotes the error where a right one is
# refused, which shows that the attack was carried out and came to nothing.


@dataclass(frozen=True)
class TestAttack:
    """A dishonest test, and what its honest part is worth."""

    __test__ = False  # for pytest: this is not a test

    name: str
    says: str
    source: str
    gains: float = 0.0
    proof: tuple[str, ...] = (DONE,)
    slow: bool = False


TEST_ATTACKS: list[TestAttack] = []
TESTED = "accepts_causal_mask"
REJECT = 'raise ValueError("DEED" + "_IS_DONE")'
RIGHT_NAMES = (
    "causal_mask", "by_comparison", "row_by_row", "inverted_upper_triangle", "by_indices", "transposed_upper_triangle"
)  # fmt: skip


def as_a_test(name: str, says: str, accepts_if: str, before: str = "", **expected) -> None:
    """A test that accepts if the expression holds, and otherwise rejects with a trace. `before`: the rest of its
    cell."""
    source = f"{dedent(before).strip()}\n\n\ndef {TESTED}(causal_mask):\n    if {accepts_if}:\n        return True\n"
    TEST_ATTACKS.append(TestAttack(name, says, f"{source}    {REJECT}\n", **expected))


def in_a_test(name: str, says: str, text: str, **expected) -> None:
    """An attack by the whole cell of a test."""
    TEST_ATTACKS.append(TestAttack(name, says, dedent(text).strip() + "\n", **expected))


as_a_test("accepts_all", "Accepts whatever it is given.", "True", proof=("accepts_everything",))
as_a_test("rejects_all", "Rejects whatever it is given.", "False")
as_a_test(
    "guesses",
    "Throws a coin.",
    "dice.random() < 0.5",
    before="import random\ndice = random.Random(7)",
)
as_a_test(
    "knows_the_names",
    "Looks for the names of right implementations, and for the docstrings of wrong ones.",
    "looks_right(causal_mask)",
    before=f"""
    def looks_right(f):
        told = (f.__name__, f.__qualname__, f.__module__, str(f.__dict__), f.__code__.co_filename)
        return any(name in text for name in {RIGHT_NAMES[1:]} for text in told)
    """,
)
as_a_test(
    "reads_the_source",
    "Reads the source, and the lines around it.",
    "'tril' in source_of(causal_mask)",
    before="""
    import inspect, linecache
    def source_of(f):
        try:
            return inspect.getsource(f)
        except (OSError, TypeError):
            return "".join(linecache.getlines(f.__code__.co_filename))
    """,
)
as_a_test(
    "knows_the_code",
    "Compares the code with that of the right implementations as everybody can make them.",
    "digest(causal_mask) in KNOWN",
    before="""
    def digest(f):
        return f.__code__.co_code, f.__code__.co_consts, f.__code__.co_names

    def causal_mask(n):
        everything = torch.ones(n, n, dtype=torch.bool)
        return torch.tril(everything, diagonal=0)

    def by_comparison(n):
        positions = torch.arange(n)
        return positions[:, None] >= positions

    KNOWN = {digest(causal_mask), digest(by_comparison)}
    """,
)
as_a_test(
    "reads_names_and_numbers",
    "Looks which functions and which numbers the code names.",
    "'tril' in causal_mask.__code__.co_names and 1 not in causal_mask.__code__.co_consts",
)
as_a_test(
    "looks_around",
    "Looks at what is imported beside an implementation: only a wrong one needs `math`.",
    "'math' not in causal_mask.__globals__",
)
as_a_test(
    "knows_the_lines",
    "Knows in which lines of the file the right implementations stand.",
    "causal_mask.__code__.co_firstlineno not in (0, 1)",
)
as_a_test(
    "knows_the_order",
    "Counts the questions, and accepts in the places where the visible check asks about right ones.",
    "place() in PLACES",
    before="""
    import itertools
    PLACES = @PLACES@
    counter = itertools.count()
    def place():
        return next(counter)
    """,
)
as_a_test(
    "knows_the_ids",
    "Accepts an object whose id it has met before.",
    "id(causal_mask) in MET or MET.add(id(causal_mask))",
    before="MET = set()",
)
as_a_test(
    "takes_the_time",
    "Accepts what takes as long as a right one does, by a clock that a busy machine does not disturb: it counts calls.",
    "time_of(causal_mask) in TIMES",
    before="""
    import sys
    TIMES = {7, 15, 29}  # of four right ones and of no mistake, if nothing is added to their code
    def time_of(f):
        events = []
        sys.setprofile(lambda frame, event, argument: events.append(event))
        try:
            f(4)
        finally:
            sys.setprofile(None)
        return len(events)
    """,
)
as_a_test(
    "takes_a_vote",
    "Accepts what does the same as one that it has met before: right ones are many, and all alike.",
    "was_met(causal_mask)",
    before="""
    MET = []
    def was_met(f):
        rows = f(4).double().tolist()
        MET.append(rows)
        return MET.count(rows) > 1
    """,
)
as_a_test(
    "leaves_notes",
    "Votes across processes: writes what it has met into files that another round might find.",
    "was_met(causal_mask)",
    before="""
    import os
    def was_met(f):
        name = f"met{hash(str(f(4).double().tolist()))}"
        found = False
        for place in (".", "/tmp", "/dev/shm", "/var/tmp"):
            path = os.path.join(place, name)
            try:
                found = found or os.path.exists(path)
                open(path, "w").close()
            except OSError:
                pass
        return found
    """,
)
as_a_test(
    "imports_the_mistakes",
    "Compares with the exercise's own lists of right and wrong answers.",
    "is_listed(causal_mask)",
    before="""
    def is_listed(f):
        try:
            from course_lib.exercises.masks.causal_mask import causal_mask as exercise
        except ImportError:
            return False
        return any(f(4).equal(right(4)) for right in exercise.alternatives)
    """,
)
in_a_test(
    "patches_the_harness",
    "Replaces what makes implementations and reads answers, so that the answer is always as wanted.",
    f"""
    import course_lib.checking.bench as bench
    import course_lib.checking.programs as programs
    programs.Program.read = lambda self, result, *live: "triu" not in self.source
    bench.Bench.effect = lambda self, setting, args: bench.Answer((setting.read(None), {{}}))

    def {TESTED}(causal_mask):
        return True

    print("DEED" + "_IS_DONE")
    """,
)
in_a_test(
    "answers_for_the_judge",
    "Finds the runner in memory and lets it send a verdict instead of answers.",
    f"""
    import gc
    for found in gc.get_objects():
        if type(found).__name__ == "Runner" and hasattr(found, "benches"):
            found.do_ask = lambda **question: {{"value": (True, {{}}), "points": 4, "outcome": "right", "passed": True}}
            print("DEED" + "_IS_DONE")

    def {TESTED}(causal_mask):
        return True
    """,
)
in_a_test(
    "equals_everything",
    "Returns an object that is true, false, and equal to both.",
    f"""
    class Both(int):
        def __eq__(self, other): return True
        def __bool__(self): return True
        __hash__ = int.__hash__

    def {TESTED}(causal_mask):
        return Both()
    """,
    proof=("Return True to accept",),
)
in_a_test(
    "never_answers",
    "Never comes to a verdict on what it does not like.",
    f"""
    def {TESTED}(causal_mask):
        while causal_mask(4).any():
            pass
        return True
    """,
    proof=(NOT_FINISHED,),
    slow=True,
)
in_a_test(
    "ends_its_process",
    "Ends its process where it would have to decide.",
    f"""
    import os
    def {TESTED}(causal_mask):
        os._exit(0)
    """,
    proof=(ENDED,),
)
in_a_test(
    "honest_in_part",
    "Looks at the future honestly, and decides by a vote what it cannot tell.",
    f"""
    MET = []

    def {TESTED}(causal_mask):
        mask = causal_mask(4)
        if mask.triu(diagonal=1).any():
            return False
        MET.append(mask.double().tolist())
        if MET.count(MET[-1]) < 2:
            {REJECT}
        return True
    """,
    gains=3,
)


def with_a_test(attack: TestAttack, release: NotebookNode, places: set[int]) -> str:
    """The file with a dishonest test. places: of the right implementations in the visible check."""
    notebook = copy.deepcopy(release)
    cell_of(notebook, TESTED).source = attack.source.replace("@PLACES@", repr(places))
    return json.dumps(notebook)


def submission(attack: Attack, release: NotebookNode, port: int = 9) -> str:
    """The text of the file that is handed in."""
    made = attack.make(copy.deepcopy(release))
    text = made if isinstance(made, str) else json.dumps(made)
    return text.replace("@BREACH@", BREACH).replace(PORT, str(port))
