"""A time limit for the student's code in a notebook: an endless loop ends with a sentence, in Colab too."""

from __future__ import annotations

import _thread
import contextlib
import signal
import threading
import time
from collections.abc import Iterator

MOST_WAITING = 6  # times the limit, for code that waits and does not compute


class TimeIsUp(Exception):
    """The code ran longer than it may."""


@contextlib.contextmanager
def at_most(seconds: float | None) -> Iterator[None]:
    """Raise TimeIsUp in the main thread after this many seconds of computing. None: no limit.

    CPU time counts, not wall-clock time: a busy machine does not make anybody's code too slow.
    """
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    alarm = Alarm(seconds)
    try:
        yield
        alarm.stop()
    except KeyboardInterrupt:
        if alarm.rang:
            raise TimeIsUp from None
        raise
    finally:
        alarm.stop()


def interrupt() -> None:
    """As Ctrl-C: a signal, which also ends a wait, where the system has signals for a thread."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        _thread.interrupt_main()


class Alarm:
    """Interrupts the main thread once, unless it is stopped before."""

    def __init__(self, seconds: float):
        self.seconds = seconds
        self.computed = time.process_time()
        self.begun = time.monotonic()
        self.rang = False
        self.lock = threading.Lock()
        self.stopped = threading.Event()
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self) -> None:
        while not self.stopped.wait(max(self.left, 0.05)):
            with self.lock:
                if self.left <= 0 and not self.stopped.is_set():
                    self.rang = True
                    interrupt()
                    return

    @property
    def left(self) -> float:
        """Seconds until it rings, if all of them are spent computing."""
        computed = time.process_time() - self.computed
        waited = time.monotonic() - self.begun
        return min(self.seconds - computed, MOST_WAITING * self.seconds - waited)

    def stop(self) -> None:
        with self.lock:
            already_stopped = self.stopped.is_set()
            self.stopped.set()
        if self.rang and not already_stopped:
            time.sleep(0.05)  # the interrupt is on its way: it has to arrive here and not somewhere later
