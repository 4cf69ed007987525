"""Checks what the shim has seen of a run (shim_watch.h) against rules that hold whatever the fault was."""
import os
import signal
from collections import namedtuple

Event = namedtuple("Event", "what rank process words")
STOPS = {128 + n for n in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)}
LOST_RANK = 4
LAST_CODE = 6


def events_of(text):
    found = []
    for line in text.splitlines():
        words = line.split(" ", 5)
        if len(words) == 6 and words[1] == "rank" and words[3] == "pid":
            found.append(Event(words[0], words[2], int(words[4]), words[5]))
    return found


def place(folder, path):
    """The absolute path. Paths that the program passes are relative to its folder; those of descriptors are absolute."""
    return os.path.normpath(os.path.join(os.path.realpath(folder), path))


def unsafe_renames(events, folder, is_result):
    """A list of results that were renamed before their content was fsynced: a power failure could lose what was not fsynced."""
    wrong, written, synced = [], set(), set()
    for event in events:
        if event.what == "write":
            written.add((event.process, place(folder, event.words)))
        elif event.what == "fsync":
            one = (event.process, place(folder, event.words))
            written.discard(one)
            synced.add(one)
        elif event.what == "rename":
            source, target = (place(folder, path) for path in event.words.split("\t"))
            name, one = os.path.relpath(target, os.path.realpath(folder)), (event.process, source)
            if is_result(name) and (one in written or one not in synced):
                wrong.append(f"{name} was renamed to its name before it was fsynced")
    return wrong


def unsynced_folders(events, folder, is_result):
    """Renamed results whose folder was not fsynced afterwards: after a power failure they may have their old content."""
    waiting = {}
    for event in events:
        if event.what == "rename":
            target = place(folder, event.words.split("\t")[1])
            waiting.setdefault((event.process, os.path.dirname(target)), []).append(target)
        elif event.what == "fsync":
            waiting.pop((event.process, place(folder, event.words)), None)
    names = {os.path.relpath(target, os.path.realpath(folder)) for targets in waiting.values() for target in targets}
    return [f"the folder of {name} was not fsynced after the rename" for name in sorted(names) if is_result(name)]


class Ranks:
    """How the ranks of one launcher ended, in the order in which the launcher learned of it."""

    def __init__(self, events, asked):
        self.asked = asked  # the signals that the user sent to the launcher
        self.first = None  # the exit code of the first failure that is not "another rank is gone"
        self.seen, self.gave_up, self.stops, self.ended_by_launcher = 0, False, set(), False
        ranks = {e.process for e in events if e.what == "begin" and e.rank != "-"} | self._passed_on_to(events)
        told, ended = set(), set()
        for event in events:
            if event.rank != "-" or event.what not in ("kill", "ended"):
                continue
            process, number = (int(word) for word in event.words.split())
            if process not in ranks:
                continue
            if event.what == "ended":
                self._ended(number, process in ended)
            elif number == signal.SIGKILL or number not in asked or process in told:
                ended.add(process)  # the launcher itself has killed this process
            else:
                told.add(process)

    def _passed_on_to(self, events):
        """The processes that the launcher passed a signal of the user on to. One that is killed by it before its libraries are
        loaded has not said that it began."""
        kills = [[int(word) for word in e.words.split()] for e in events if e.what == "kill" and e.rank == "-"]
        return {process for process, number in kills if process > 0 and number in self.asked}

    def _ended(self, status, by_launcher):
        self.seen += 1
        killed = os.WIFSIGNALED(status)
        value = os.WTERMSIG(status) if killed else os.WEXITSTATUS(status)
        if by_launcher:
            self.ended_by_launcher = True
        elif killed and value in self.asked or not killed and value in STOPS:
            self.stops.add(128 + value if killed else value)
        elif not killed and value == LOST_RANK:
            self.gave_up = True
        elif (killed or value != 0) and self.first is None:
            self.first = LOST_RANK if killed or value > LAST_CODE else value

    def codes(self):
        """The exit codes that the launcher may return (runtime/launch/README.md, "Failure"): only those that a rank has
        reported."""
        second = {128 + self.asked[0]} if len(self.asked) > 1 else set()  # it ends the ranks, whose exit codes no longer count
        if self.first is not None:
            return {self.first} | ({LOST_RANK} if self.gave_up or self.ended_by_launcher else set()) | second
        if self.gave_up or self.ended_by_launcher:
            return {LOST_RANK} | self.stops | second
        return (self.stops or {0}) | second
