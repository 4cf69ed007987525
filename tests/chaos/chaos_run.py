"""Runs the program once in a folder of its own: starts, observes and ends it, and lists the files that it leaves."""
import ctypes
import hashlib
import os
import resource
import shutil
import signal
import subprocess
import time

C_LIBRARY = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1  # <sys/prctl.h>

# The files and folders of a run that the program may write to.
RESULTS = ("run", "gradients.safetensors", "steps.safetensors")


def is_result(name):
    return name.startswith(RESULTS)


def environment_of(process):
    try:
        with open(f"/proc/{process}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def is_zombie(process):
    try:
        with open(f"/proc/{process}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"
    except (OSError, IndexError):
        return True


def processes_of(folder):
    """All processes that have this folder as HOME: their rank (None without one) by process number."""
    mark, found = b"HOME=" + os.fsencode(folder), {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        variables = environment_of(name)
        if mark not in variables or is_zombie(name):
            continue
        found[int(name)] = None
        for variable in variables:
            if variable.startswith((b"RUNTIME_RANK=", b"OMPI_COMM_WORLD_RANK=")):
                found[int(name)] = int(variable.split(b"=")[1])
    return found


def process_of_rank(folder, rank, limit_s=10):
    """The process of that rank, as soon as it exists; None if it does not appear within the limit."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        for process, of_rank in processes_of(folder).items():
            if of_rank == rank:
                return process
        time.sleep(0.002)
    return None


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def files_of(folder):
    """Relative path -> digest of every file below the folder; links and sockets count by their type."""
    found = {}
    for parent, folders, files in os.walk(folder):
        for name in files + [f for f in folders if os.path.islink(os.path.join(parent, f))]:
            path = os.path.join(parent, name)
            is_file = os.path.isfile(path) and not os.path.islink(path)
            found[os.path.relpath(path, folder)] = digest(path) if is_file else "no file"
    return found


class Run:
    """A run of the program. `limits`: resource name -> bound, for the process; `streams`: 0, 1, 2 -> "closed", a path, or
    "broken".

    `name` is the prefix of the names of the files that hold its output.
    """

    def __init__(self, folder, words, variables=None, limits=None, streams=None, name=""):
        self.folder, self.words, self.limits, self.streams, self.name = folder, words, limits or {}, streams or {}, name
        self.tmp = os.path.join(folder, "tmp")
        os.makedirs(self.tmp, exist_ok=True)
        known = {k: v for k, v in os.environ.items() if not k.startswith(("RUNTIME_", "OMPI_", "PMI", "SLURM_"))}
        self.environment = {**known, "HOME": folder, "XDG_CACHE_HOME": os.path.join(folder, "cache"), "TMPDIR": self.tmp,
                            "OMP_WAIT_POLICY": "PASSIVE", **(variables or {})}
        self.code = self.killed_late = None
        self.begin = self.seconds = 0.0

    def _open_streams(self):
        self.output = {n: open(os.path.join(self.folder, self.name + s), "wb") for n, s in ((1, "stdout"), (2, "stderr"))}

    def _before(self):
        # Some jobs train without an end; they must not outlive this program, however it ends.
        C_LIBRARY.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for name, bound in self.limits.items():
            resource.setrlimit(getattr(resource, "RLIMIT_" + name), (bound, bound))
        for stream, what in self.streams.items():
            if what == "closed":
                os.close(stream)
            elif what == "broken":
                reader, writer = os.pipe()
                os.close(reader)
                os.dup2(writer, stream)
                os.close(writer)
            else:
                os.dup2(os.open(what, os.O_RDWR), stream)
        # Python ignores two of these signals, nohup and shells in the background the others; children inherit ignored signals.
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)

    def start(self):
        self._open_streams()
        self.begin = time.monotonic()
        self.process = subprocess.Popen(self.words, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                                        stdout=self.output[1], stderr=self.output[2], preexec_fn=self._before)
        return self

    def send(self, number, process=None):
        """Sends a signal to `process`, by default to the one that was started. Returns False if it is gone."""
        try:
            os.kill(process or self.process.pid, number)
            return True
        except ProcessLookupError:
            return False

    def wait(self, limit_s):
        """Waits up to the limit, then kills the run with all its processes."""
        try:
            self.code = self.process.wait(max(0.1, self.begin + limit_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.killed_late = True
            for process in list(processes_of(self.folder)) + [self.process.pid]:
                self.send(signal.SIGKILL, process)
            self.code = self.process.wait()
        self.seconds = time.monotonic() - self.begin
        for file in self.output.values():
            file.close()
        return self

    def leftover_processes(self, patience_s=2.0):
        """The processes that still run after the kernel has had time to end them; they are killed here."""
        end = time.monotonic() + patience_s
        while processes_of(self.folder) and time.monotonic() < end:
            time.sleep(0.02)
        left = {}
        for process, rank in processes_of(self.folder).items():
            left[process] = rank
            self.send(signal.SIGKILL, process)
        return left

    def text(self, stream):
        try:
            with open(os.path.join(self.folder, self.name + stream), encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return ""


def copy_folder(source, to):
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(source, to, symlinks=True)


def keep_folder(source, to):
    """Copies the folder for inspection; leaves out files that cannot be copied (a FIFO of mpirun)."""
    try:
        copy_folder(source, to)
    except shutil.Error as error:
        print(f"{to} is not complete: {error}")
