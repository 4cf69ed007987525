"""Foreign clients on the ports of a job, which behave in every way in which a client other than a rank can."""
import os
import random
import socket
import struct
import threading
import time

from chaos_run import processes_of


def sockets_of(process):
    found = set()
    try:
        for name in os.listdir(f"/proc/{process}/fd"):
            target = os.readlink(f"/proc/{process}/fd/{name}")
            if target.startswith("socket:["):
                found.add(target[8:-1])
    except OSError:
        pass
    return found


def listening_ports(processes):
    wanted, ports = set(), set()
    for process in processes:
        wanted |= sockets_of(process)
    for table in ("tcp", "tcp6"):
        try:
            with open(f"/proc/net/{table}", encoding="ascii") as file:
                lines = file.read().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            words = line.split()
            if words[3] == "0A" and words[9] in wanted:
                ports.add(int(words[1].rsplit(":", 1)[1], 16))
    return ports


class Strangers:
    """Connects to every port of every process of the job, in the given way or in all of them in turn, until it is stopped."""

    WAYS = ("reset", "garbage", "silent", "slow", "many", "hello")

    def __init__(self, folder, way, seed):
        self.folder, self.way, self.random = folder, way, random.Random(seed)
        self.connections, self.open, self.ended = 0, [], threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def end(self):
        self.ended.set()
        self.thread.join()
        for one in self.open:
            one.close()
        return self.connections

    def _run(self):
        known, looked = {}, 0.0
        while not self.ended.is_set():
            if time.monotonic() - looked > 0.02:
                known, looked = processes_of(self.folder), time.monotonic()
            for port in listening_ports(known):
                way = self.WAYS[self.connections % len(self.WAYS)] if self.way == "all" else self.way
                for _ in range(50 if way == "many" else 1):
                    self._visit(port, way)
            while len(self.open) > 300:
                self.open.pop(0).close()

    def _visit(self, port, way):
        one = socket.socket()
        one.settimeout(0.2)
        try:
            one.connect(("127.0.0.1", port))
            self.connections += 1
            if way == "garbage":
                one.sendall(self.random.randbytes(300))
            elif way == "slow":
                one.sendall(b"\x01")
            elif way == "hello":  # begins as a rank would: sends a length, then nothing
                one.sendall(struct.pack("<QQ", 8, 1))
            elif way == "reset":
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                one.close()
                return
            for old in self.open[-3:] if way == "slow" else []:
                old.sendall(b"\x00")
        except OSError:
            pass
        self.open.append(one)


class NoRedis:
    """A server that gives the same answer to every request."""

    def __init__(self, words):
        self.words, self.server = words, socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.server.getsockname()[1]}"
        self.open = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                one, _ = self.server.accept()
                if self.words == "close":
                    one.close()
                    continue
                one.sendall(self.words.encode())
            except OSError:
                return
            self.open.append(one)

    def end(self):
        self.server.close()
        for one in self.open:
            one.close()
