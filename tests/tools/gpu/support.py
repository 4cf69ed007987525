"""Shared by the tests beside it: imports the scripts of tools/gpu, and makes programs that stand in for others."""

import os
import stat
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "tools", "gpu"))
sys.dont_write_bytecode = True


def put(path, text="", program=False):
    """Writes a file and its folders; returns its path."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    if program:
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
    return path
