"""Processes that are forked from one that has imported their modules.

An interpreter and the imports of a node take a tenth of a second of processor time, and the tests start more
than a thousand nodes. A child leaves by the end of its main function, as any program does.
"""

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

START_SECONDS = 20.0
MESSAGE = 65536


def serve(control):
    """Fork a process per message, which has its folder and three descriptors; return in each of them.

    The answers are ``[pid]`` when a process has been started and ``[pid, status]`` when it has ended.
    """
    # The collector of a child would visit, and copy, all objects of the imported modules.
    gc.freeze()
    running = {}
    while True:
        ready = select.select([control, *running], [], [])[0]
        for ended in set(ready) - {control}:
            pid = running.pop(ended)
            os.close(ended)
            control.send(json.dumps([pid, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])]).encode())
        if control not in ready:
            continue
        message, descriptors, _, _ = socket.recv_fds(control, MESSAGE, 3)
        if not message:
            sys.exit()
        pid = os.fork()
        if pid == 0:
            control.close()
            for each in running:
                os.close(each)
            for number, descriptor in enumerate(descriptors):
                os.dup2(descriptor, number)
                os.close(descriptor)
            os.chdir(json.loads(message))
            return
        for descriptor in descriptors:
            os.close(descriptor)
        running[os.pidfd_open(pid)] = pid
        control.send(json.dumps([pid]).encode())


class Starter:
    """A process that forks nodes.

    Args:
        command: of the process, which calls :func:`serve` with the descriptor that is its last argument.
        environment: of it and of all nodes.
    """

    def __init__(self, command, environment):
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = subprocess.Popen(
                [*command, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=environment,
            )
        self.changed = threading.Condition()
        self.statuses = {}
        self.started = []
        self.one_start = threading.Lock()
        atexit.register(self.close)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        while answer := self.control.recv(MESSAGE):
            with self.changed:
                match json.loads(answer):
                    case [pid]:
                        self.statuses[pid] = None
                        self.started.append(pid)
                    case [pid, status]:
                        self.statuses[pid] = status
                self.changed.notify_all()

    def close(self):
        self.control.shutdown(socket.SHUT_RDWR)
        self.process.wait(START_SECONDS)

    def start(self, stderr):
        """Fork a process with pipes for its input and output."""
        theirs_in, stdin = os.pipe()
        stdout, theirs_out = os.pipe()
        message = json.dumps(str(Path.cwd())).encode()
        with self.one_start:
            socket.send_fds(self.control, [message], [theirs_in, theirs_out, stderr.fileno()])
            os.close(theirs_in)
            os.close(theirs_out)
            with self.changed:
                if not self.changed.wait_for(lambda: self.started, START_SECONDS):
                    raise TimeoutError(f"{self.process.args} has forked nothing ({self.process.poll()})")
                pid = self.started.pop()
        return Forked(self, pid, os.fdopen(stdin, "w"), os.fdopen(stdout))


class Forked:
    """A forked process, with the methods of :class:`subprocess.Popen` that the tests use."""

    def __init__(self, starter, pid, stdin, stdout):
        self.starter, self.pid, self.stdin, self.stdout = starter, pid, stdin, stdout

    @property
    def returncode(self):
        return self.starter.statuses[self.pid]

    def poll(self):
        return self.returncode

    def wait(self, timeout):
        changed = self.starter.changed
        with changed:
            if not changed.wait_for(lambda: self.returncode is not None, timeout):
                raise subprocess.TimeoutExpired(f"forked process {self.pid}", timeout)
        return self.returncode

    def send_signal(self, number):
        """Send a signal; one to a process that has just ended has no effect."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)
