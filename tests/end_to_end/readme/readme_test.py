#!/usr/bin/env python3
"""Runs the commands of the documents for users in their order, as a reader would, in a copy of the tree's top level.

usage: readme_test.py <source folder> <build folder>

Every block of a document (DOCUMENTS) that is marked as sh is run line by line, in a folder for each document, whose folder `build`
has the programs and plugins of the build folder. Two kinds of lines are left out and printed: lines that set a machine up (SET_UP:
the scripts of tools/, packages, and CMake's configuring and building of the whole tree, which .ci/run and the first build do), and
lines whose plugin was not built. To take seconds only, `runtime train` stops after a few steps and `runtime predict` after a few
tokens.
Exit code 0: every line that was run succeeded; 1: one failed; 77: the data set Fashion-MNIST is not on this machine.
"""
import os
import re
import subprocess
import sys
import tempfile

DOCUMENTS = ("README.md", "runtime/train/checkpoint/README.md", "runtime/parallel/README.md", "runtime/analysis/README.md",
             "tools/packaging/README.md")
FEWEST_COMMANDS = 25  # of all documents; a search that finds fewer has failed
SET_UP = ("tools/", "cmake --preset", "sudo apt-get")
FEW_STEPS = " --max-steps 3"
LINE_LIMIT_S = 120


def lines_of(readme):
    """The commands of the blocks marked as sh, without comments."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", readme, re.M | re.S)
    lines = [re.sub(r"\s+#.*", "", line).strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line]


def shortened(line):
    if " train " in line and "--max-steps" not in line:
        return line + FEW_STEPS
    return re.sub(r"--tokens \d+", "--tokens 5", line)


def make_tree(source, build, folder):
    """Links the source tree into the folder, with a build folder of its own in which the commands may create files."""
    for name in os.listdir(source):
        if not name.startswith(("build", "outputs", ".")):
            os.symlink(os.path.join(source, name), os.path.join(folder, name))
    os.mkdir(os.path.join(folder, "build"))
    for name in ("bin", "lib", "libexec", "share", "cmake_install.cmake", "CMakeCache.txt"):
        os.symlink(os.path.join(build, name), os.path.join(folder, "build", name))


def output_of(folder, *command):
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout


def why_left_out(line, plugins):
    if line.startswith(SET_UP):
        return "it sets the machine up"
    backend = re.search(r"comm\.backend=(\w+)", line)
    if backend and backend.group(1) not in plugins:
        return f"the plugin {backend.group(1)} was not built"
    return None


def run_all(lines, folder):
    """Runs all commands in one shell, so that an export holds for later commands. Returns whether all succeed."""
    plugins = {line.split()[0] for line in output_of(folder, "build/bin/runtime", "plugins", "list").splitlines()}
    script = ["set -e"]
    for line in lines:
        reason = why_left_out(line, plugins)
        if reason:
            script.append(f"printf 'left out, because %s: %s\\n' {quoted(reason)} {quoted(line)}")
            continue
        limit = "" if line.startswith("export ") else f"timeout {LINE_LIMIT_S} "
        script.append(f"printf '$ %s\\n' {quoted(line)}")
        script.append(f"{limit}{shortened(line)} >log 2>&1 || {{ echo FAILED; cat log; exit 1; }}")
    environment = dict(os.environ, XDG_CACHE_HOME=os.path.join(folder, "cache"), HOME=folder)
    environment.pop("RUNTIME_PLUGIN_PATH", None)
    return subprocess.run(["bash", "-c", "\n".join(script)], cwd=folder, env=environment, check=False).returncode == 0


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def has_fashion_mnist(folder):
    """Whether the data set of the commands is on this machine; if not, says what the program says about it."""
    check = ["build/bin/runtime", "plan", "configs/fashion_mnist_lenet.toml"]
    probe = subprocess.run(check, cwd=folder, capture_output=True, text=True, check=False)
    if probe.returncode == 5:
        print("skipped:", probe.stderr)
    return probe.returncode != 5


def run_document(lines, source, build):
    with tempfile.TemporaryDirectory(prefix="readme-") as folder:
        make_tree(source, build, folder)
        if not has_fashion_mnist(folder):
            sys.exit(77)
        return run_all(lines, folder)


def main():
    source, build = map(os.path.abspath, sys.argv[1:])
    commands = {}
    for document in DOCUMENTS:
        with open(os.path.join(source, document), encoding="utf-8") as file:
            commands[document] = lines_of(file.read())
    found = sum(map(len, commands.values()))
    if found < FEWEST_COMMANDS or not all(commands.values()):
        sys.exit(f"{found} commands found, expected at least {FEWEST_COMMANDS}, some in each of {', '.join(DOCUMENTS)}; "
                 "are their blocks marked as sh?")
    for document, lines in commands.items():
        print(f"== {document}", flush=True)
        if not run_document(lines, source, build):
            sys.exit(1)


if __name__ == "__main__":
    main()
