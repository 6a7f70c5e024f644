"""The process of a candidate: opens its trial, checks it, and takes samples when told to.

Messages are pickles with their length before them, on the standard input and output that the process began with; what
a kernel or a library prints goes to the standard error. When the input ends, the parent is gone, and the process ends
as well, whatever it is doing: a thread watches the input.

    in    a trial, then counts of samples, then perhaps the next trial
    out   ("open", "") or ("wrong" | "refused" | "crashed", reason), then tuples of seconds
"""

from __future__ import annotations

import os
import pickle
import queue
import sys
import threading
import traceback
from typing import IO, Any

from lego_mlir.errors import LaunchError, LegoError
from lego_mlir.tuning.measuring import FailureKind, Sampler, Trial


def send(stream: IO[bytes], message: object) -> None:
    """Write one message."""
    body = pickle.dumps(message)
    stream.write(len(body).to_bytes(8, "little") + body)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Read one message. Raises EOFError where the stream ends."""
    head = stream.read(8)
    body = stream.read(int.from_bytes(head, "little")) if len(head) == 8 else b""
    if len(head) < 8 or len(body) < int.from_bytes(head, "little"):
        raise EOFError
    return pickle.loads(body)


def main() -> None:
    """Serve one parent until its end of the pipe is closed."""
    source, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_watch, args=(source, requests), daemon=True).start()
    request = requests.get()
    while True:
        opened = attempt(request)
        if isinstance(opened, tuple):
            send(answers, opened)
            return
        send(answers, ("open", ""))
        while isinstance(request := requests.get(), int):
            send(answers, sampled(opened, request))
        if close := getattr(opened, "close", None):
            close()


def _watch(source: IO[bytes], requests: queue.SimpleQueue[Any]) -> None:
    while True:
        try:
            requests.put(receive(source))
        except EOFError:
            os._exit(1)
        except Exception as error:  # a trial of a module that this process cannot import
            requests.put(error)


def attempt(trial: Trial | Exception) -> Sampler | tuple[FailureKind, str]:
    """The opened and checked trial, or why there is none."""
    try:
        if isinstance(trial, Exception):
            raise trial
        sampler = trial.open()
        wrong = sampler.check()
        return ("wrong", wrong) if wrong else sampler
    except LaunchError as error:  # an access outside memory ends the context
        return "crashed", str(error)
    except LegoError as error:
        return "refused", str(error)
    except Exception as error:  # the process lives on to give the reason
        return "crashed", _last_line(error)


def sampled(sampler: Sampler, count: int) -> tuple[float, ...] | tuple[FailureKind, str]:
    """Samples of one turn, or why there are none."""
    try:
        return tuple(sampler.sample(count))
    except LegoError as error:
        return "crashed", str(error)
    except Exception as error:
        return "crashed", _last_line(error)


def _last_line(error: Exception) -> str:
    return "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
