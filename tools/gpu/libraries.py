#!/usr/bin/env python3
"""Finds the libraries that a machine with a GPU supplies: that of the driver, and those of CUDA from a toolkit or from
Python packages.

  tools/gpu/libraries.py FOLDER...   prints one LD_LIBRARY_PATH: the given folders, the present value of
                                     LD_LIBRARY_PATH, and the folders in which libraries were found; prints to
                                     standard error which libraries were found where
"""

import glob
import os
import shutil
import site
import subprocess
import sys

# File name of each library, its use, and what happens without it.
WANTED = (("libcuda.so.1", "the driver: without it no device"),
          ("libcublasLt.so.13", "matmul: without it the own kernels"),
          ("libcudnn.so.9", "convolutions and attention: without it the own kernels"),
          ("libnvrtc.so.13", "what cuDNN compiles for attention: without it the own kernels"),
          ("libnccl.so.2", "collectives on the device: without it no plugin nccl"))


def inherited():
    """The folders of LD_LIBRARY_PATH. Empty entries are dropped, because they would mean the working folder."""
    return [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]


def python_folders():
    """The folders of the packages nvidia-*, first of this Python, then of others on the machine. CUDA 12's packages
    have one folder each (nvidia/cudnn/lib); CUDA 13's share one (nvidia/cu13/lib), beside those of cuDNN and NCCL.
    """
    roots = list(sys.path) + site.getsitepackages() + [site.getusersitepackages()]
    for pattern in ("/opt/*/lib/python3*/site-packages", "/opt/*/.venv/lib/python3*/site-packages",
                    "/opt/venv/lib/python3*/site-packages", "/usr/local/lib/python3*/*-packages",
                    "/usr/lib/python3/dist-packages"):
        roots += sorted(glob.glob(pattern))
    return [folder for root in dict.fromkeys(roots) if root
            for folder in sorted(glob.glob(os.path.join(glob.escape(root), "nvidia", "*", "lib*")))]


def library_folders(homes):
    """The library folders of CUDA toolkits."""
    return [os.path.join(home, part) for home in dict.fromkeys(filter(None, homes))
            for part in ("lib64", "lib", "targets/x86_64-linux/lib")]


def named_toolkits():
    """Those that the environment names, which go before whatever else the machine has."""
    return library_folders([os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")])


def other_toolkits():
    """That of the compiler, then those in /usr/local, the newest first."""
    nvcc = shutil.which("nvcc")
    return library_folders([os.path.dirname(os.path.dirname(os.path.realpath(nvcc))) if nvcc else None, "/usr/local/cuda",
                            *sorted(glob.glob("/usr/local/cuda-*"), key=version_of, reverse=True)])


def version_of(folder):
    """/usr/local/cuda-13.0 -> [13, 0]"""
    return [int(n) for n in os.path.basename(folder)[len("cuda-"):].split(".") if n.isdigit()]


def loader_folders():
    """The folders that the loader searches anyway."""
    folders = ["/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib64", "/lib64"]
    program = shutil.which("ldconfig") or "/sbin/ldconfig"
    try:
        listed = subprocess.run([program, "-p"], capture_output=True, text=True, timeout=30, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        listed = ""
    for line in listed.splitlines():
        path = line.partition(" => ")[2]
        if path and any(path.endswith("/" + name) for name, _ in WANTED):
            folders.append(os.path.dirname(path))
    return folders


# The folders into which containers and virtual machines put a driver.
DRIVER_FOLDERS = ("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/wsl/lib")


def find(first=()):
    """Returns [(file name, its path or None)]: the path where the loader will find each library, or can be made to find
    it.
    """
    folders = list(dict.fromkeys([*first, *inherited(), *named_toolkits(), *python_folders(), *other_toolkits(),
                                  *loader_folders(), *DRIVER_FOLDERS]))
    found = []
    for name, _ in WANTED:
        paths = [os.path.join(folder, name) for folder in folders]
        found.append((name, next((path for path in paths if os.path.exists(path)), None)))
    return found


def search_path(first=()):
    """The value for LD_LIBRARY_PATH. Its present entries stay in front of the folders that were found, because
    container images name the driver's folder there.
    """
    searched = loader_folders()
    found = [os.path.dirname(path) for _, path in find(first) if path]
    return ":".join(dict.fromkeys([*first, *inherited(), *(folder for folder in found if folder not in searched)]))


def report(first=()):
    """One line of text for each library."""
    uses = dict(WANTED)
    return [f"{name}: {path}" if path else f"{name}: not found ({uses[name]})" for name, path in find(first)]


if __name__ == "__main__":
    print("\n".join(report(sys.argv[1:])), file=sys.stderr)
    print(search_path(sys.argv[1:]))
