"""Prints the commands that compile files by themselves, without making code, each ended by a zero byte.

Usage: alone.py COMPILE_COMMANDS < names of files, one a line
"""

import json
import os
import re
import shlex
import sys

# Headers that no source of the host reads alone: code for GPUs, C, and what the macros of a test's target complete.
OTHERS = ("backends/cuda/", "backends/gpu/", "backends/rocm/", "plugins/examples/", "tests/")


def includes(entry):
    """How many folders a command searches for headers."""
    return len(re.findall(r" -(?:I|isystem)", entry["command"]))


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        entries = [entry for entry in json.load(file) if entry["file"].endswith((".cpp", ".c"))]
    root = os.getcwd()
    commands, folders = {}, {}
    for entry in entries:
        name = os.path.relpath(entry["file"], root)
        commands[name] = entry
        folder = os.path.dirname(name)
        if folder not in folders or includes(folders[folder]) < includes(entry):
            folders[folder] = entry
    for name in sys.stdin.read().split():
        entry, alone = commands.get(name), name
        if entry is None and name.endswith(".h"):
            if name.startswith(OTHERS):
                continue
            folder = os.path.dirname(name)
            while folder and folder not in folders:
                folder = os.path.dirname(folder)
            entry = folders.get(folder)
        if entry is None:
            continue
        command = re.sub(r" -o \S+", "", entry["command"])
        command = command.replace(entry["file"], shlex.quote(os.path.join(root, alone)))
        language = " -x c++" if name.endswith(".h") and " -x " not in command else ""
        command = re.sub(r" -c (?=\S+$)", f" -fsyntax-only{language} ", command.strip())
        command = re.sub(r" -include \S*cmake_pch\.hxx| -Winvalid-pch", "", command)
        sys.stdout.write(f"cd {shlex.quote(entry['directory'])} && {command}\0")


if __name__ == "__main__":
    main()
