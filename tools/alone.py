"""Prints the commands that compile files by themselves, without making code, each ended by a zero byte.

Usage: alone.py COMPILE_COMMANDS < names of files, one a line
"""

import json
import os
import re
import shlex
import sys

# Code for the compilers of GPUs: no host compiler reads it.
DEVICE = re.compile(r"__global__|__device__|<<<|cuda_fp16|hip_runtime")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        entries = [entry for entry in json.load(file) if entry["file"].endswith((".cpp", ".c"))]
    root = os.getcwd()
    commands, folders = {}, {}
    for entry in entries:
        name = os.path.relpath(entry["file"], root)
        commands[name] = entry
        folders.setdefault(os.path.dirname(name), entry)
    for name in sys.stdin.read().split():
        entry, alone = commands.get(name), name
        if entry is None and name.endswith(".h"):
            with open(name, encoding="utf-8") as file:
                if DEVICE.search(file.read()):
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
        sys.stdout.write(f"cd {shlex.quote(entry['directory'])} && {command} -Wno-pragma-once-outside-header\0")


if __name__ == "__main__":
    main()
