"""The other side of a `Pool`: a template process that has loaded what the work needs and forks workers, each of which
answers requests from a socket of its own, one line of JSON for each. So a new worker is there in milliseconds.

The template does nothing else, so it always hears when its parent ends, and ends its workers, whatever they hang in.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import struct
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

FORK, END = b"f", b"e"
REQUEST, REPLY = struct.Struct("!cq"), struct.Struct("!q")
"""To the template: what to do, and the worker's process id to END. From it: the worker's process id; 0 once, as a
sign that it is ready."""
PR_SET_PDEATHSIG: Final = 1

Answers = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def serve(answer: Answers) -> NoReturn:
    """Be the template, until the parent's end of the socket closes; its number is the only argument."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    control, workers = socket.socket(fileno=int(sys.argv[1])), set[int]()
    _reply(control, 0)
    while True:
        message, given, _, _ = socket.recv_fds(control, REQUEST.size, 1)
        if not message:
            for pid in workers:
                _end(pid)
            sys.exit(0)
        what, pid = REQUEST.unpack(message)
        if what == END:
            _end(pid)
            workers.discard(pid)
        else:
            pid = _fork(control, socket.socket(fileno=given[0]), answer)
            workers.add(pid)
        _reply(control, pid)


def _reply(control: socket.socket, pid: int) -> None:
    try:
        control.sendall(REPLY.pack(pid))
    except OSError:
        """The parent has ended: the next message says so too."""


def _end(pid: int) -> None:
    """Until now the worker could not be replaced by a stranger of the same id: nobody else waits for it."""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _fork(control: socket.socket, requests: socket.socket, answer: Answers) -> int:
    template, pid = os.getpid(), os.fork()
    if pid:
        requests.close()
        return pid
    try:
        control.close()
        if sys.platform == "linux":  # should the template be killed
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == template:
            _work(requests, answer)
    finally:
        os._exit(0)


def _work(requests: socket.socket, answer: Answers) -> None:
    with requests.makefile("rb") as lines:
        for line in lines:
            requests.sendall(json.dumps(_safely(answer, json.loads(line))).encode() + b"\n")


def _safely(answer: Answers, request: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return answer(request)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:500]}
