"""Damage to a file before the program reads it."""
import os
import random
import shutil


def damaged(content, how, at, r):
    """Returns the damaged content; `at`, from 0 to 1, is the relative position of the damage."""
    place = min(int(at * len(content)), max(len(content) - 1, 0))
    if how == "bit":
        return content[:place] + bytes([content[place] ^ (1 << r.randrange(8))]) + content[place + 1:] if content else b"\x01"
    if how == "bits":
        for _ in range(10):
            content = damaged(content, "bit", r.random(), r)
        return content
    if how == "cut":
        return content[:place]
    if how == "bytes":
        return content[:place] + r.randbytes(16) + content[place + 16:]
    if how == "empty":
        return b""
    if how == "insert":
        return content[:place] + r.randbytes(1 + r.randrange(8)) + content[place:]
    if how == "number":
        huge = r.choice([b"99999999999999999999", b"-1", b"1e308", b"nan", b"0", b"18446744073709551615"])
        digits = [i for i, c in enumerate(content) if chr(c).isdigit()]
        place = r.choice(digits) if digits else 0
        return content[:place] + huge + content[place + 1:]
    return content[:place] + bytes(min(64, len(content) - place)) + content[place + 64:]  # zeros


def files_below(path):
    return sorted(os.path.join(parent, f) for parent, _, files in os.walk(path) for f in files)


def damage(folder, what):
    """Damages one file and returns its path relative to the folder; returns None if there is no file to damage. (A machine that is
    busy with other work makes no file of measured choices.)"""
    r, path = random.Random(what["random"]), os.path.join(folder, what["file"])
    if os.path.isdir(path):
        files = files_below(path)
        if not files:
            return None
        path = r.choice(files)
    if not os.path.exists(path):
        return None
    how = what["how"]
    if how in ("folder", "missing", "unreadable_link"):
        os.remove(path)
        if how == "folder":
            os.mkdir(path)
        elif how == "unreadable_link":
            os.symlink("nowhere/" + os.path.basename(path), path)
        return os.path.relpath(path, folder)
    with open(path, "rb") as file:
        content = file.read()
    with open(path, "wb") as file:
        file.write(damaged(content, how, what["at"], r))
    return os.path.relpath(path, folder)


def spoil_rendezvous(folder, how, r):
    """Removes or replaces some or all files of a rendezvous. Returns their number."""
    files = [f for f in files_below(folder) if os.path.basename(f).startswith("rt-store.")]
    hit = 0
    for path in files:
        if r.random() < 0.5 and len(files) > 1:
            continue
        try:
            spoil_file(path, how, r)
            hit += 1
        except OSError:
            pass  # a rank has replaced the file at the same time
    return hit


def spoil_file(path, how, r):
    if how == "remove":
        os.remove(path)
    elif how == "folder":
        os.remove(path)
        os.mkdir(path)
    elif how == "link":
        os.remove(path)
        os.symlink("/dev/zero", path)
    else:
        content = {"garbage": r.randbytes(40), "empty": b"", "large": bytes(8 << 20)}[how]
        with open(path, "wb") as file:
            file.write(content)


def remove(folder):
    """Removes a file or folder, even without permission to read or write it."""
    shutil.rmtree(folder, ignore_errors=True)
