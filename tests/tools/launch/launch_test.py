"""Starts jobs with runtime launch on "machines" that are processes here, and disturbs them.

Environment: RUNTIME, the program; CONFIG and DATA, a configuration and its data set.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

RUNTIME = os.environ["RUNTIME"]
AGENT = "env LAUNCH_TEST_HOST={host}"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def losses(text):
    return [json.loads(line)["loss"] for line in text.splitlines() if line.startswith('{"step"')]


class Launch(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def command(self, hosts, *options, train=(), agent=AGENT):
        return [RUNTIME, "launch", "--hosts", hosts, "--agent", agent, "--rendezvous", f"localhost:{free_port()}",
                *options, "train", os.environ["CONFIG"], "--set", "dataset.path=" + os.environ["DATA"],
                "--set", "device.threads=1", "--set", "comm.backend=gloo", "--set", "metrics.progress=lines",
                "--set", "metrics.log_every_steps=1", "--set", "comm.init_timeout_s=60", "--set", "job.dump_folder=run",
                "--set", "job.overwrite=true",
                *train]

    def start(self, *args, **kwargs):
        process = subprocess.Popen(self.command(*args, **kwargs), cwd=self.folder.name, text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   start_new_session=True)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    def run_to_end(self, *args, **kwargs):
        process = self.start(*args, **kwargs)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def started(self, hosts, *options, train=("--max-steps", "100000000", "--set", "training.epochs=100000000"), **kwargs):
        """A long run that has made some steps."""
        process = self.start(hosts, *options, train=train, **kwargs)
        for line in process.stdout:
            if '"step":20,' in line:
                return process
        self.fail(process.stderr.read())

    def rank(self, number):
        """The process of a rank of this test's job."""
        for entry in os.listdir("/proc"):
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    variables = file.read().split(b"\0")
                inside = os.path.realpath(f"/proc/{entry}/cwd") == os.path.realpath(self.folder.name)
            except OSError:
                continue
            if inside and b"RUNTIME_RANK=%d" % number in variables:
                return int(entry)
        return self.fail(f"there is no rank {number}")

    def left(self):
        """Waits until no process of this test is left, and returns how many are after 20 s."""
        for _ in range(200):
            count = 0
            for entry in os.listdir("/proc"):
                try:
                    count += os.path.realpath(f"/proc/{entry}/cwd") == os.path.realpath(self.folder.name)
                except OSError:
                    continue
            if count == 0:
                return 0
            time.sleep(0.1)
        return count

    def test_computes_what_one_rank_computes(self):
        code, out, err = self.run_to_end("a,b:2", train=("--max-steps", "20"))
        self.assertEqual(code, 0, err)
        self.assertIn("[a] [rank 0] 3 ranks over gloo", err)
        alone = subprocess.run([RUNTIME, *self.command("a", train=("--max-steps", "20", "--set", "job.dump_folder=one"))[8:]],
                               cwd=self.folder.name, text=True, capture_output=True, check=True)
        self.assertEqual(len(losses(out)), 20)
        for here, there in zip(losses(alone.stdout), losses(out)):
            self.assertAlmostEqual(here, there, delta=1e-5 * max(1, abs(here)))

    def test_a_signal_lets_the_ranks_save(self):
        process = self.started("a,b")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, err)
        self.assertIn("weights saved", err)
        self.assertEqual(self.left(), 0)

    def test_a_rank_that_is_killed_is_named_with_its_host(self):
        process = self.started("a,b")
        os.kill(self.rank(1), signal.SIGKILL)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 4, err)
        self.assertRegex(err, r"\[b\] error: rank 1 \(pid \d+\) was killed by signal 9")
        self.assertEqual(self.left(), 0)

    def test_all_ranks_are_started_again(self):
        process = self.started("a,b", "--max-restarts", "1",
                               train=("--max-steps", "20000", "--set", "training.epochs=100000000", "--resume", "auto"))
        os.kill(self.rank(1), signal.SIGKILL)
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, err)
        self.assertIn("restart 1 of 1", err)
        self.assertIn("done: 20000 steps", err)

    def agent_without(self, host, code, message):
        """An agent that ends with this code on the host, as ssh does."""
        script = os.path.join(self.folder.name, "agent.sh")
        with open(script, "w") as file:
            file.write(f'[ "$1" != {host} ] || {{ echo "{message}" >&2; exit {code}; }}\nshift\nexec "$@"\n')
        return f"bash {script}"

    def ends_again(self, *args, **kwargs):
        process = self.started(*args, train=("--max-steps", "300", "--set", "training.epochs=100000", "--resume", "auto"),
                               **kwargs)
        os.kill(self.rank(1), signal.SIGKILL)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def test_a_machine_is_left_out(self):
        code, out, err = self.ends_again("a,b,c", "--min-hosts", "2")
        self.assertEqual(code, 0, err)
        self.assertRegex(err, r"error: the agent for b \(pid \d+\) has lost one of its ranks")
        self.assertIn("b is left out: 2 of 3 machines go on", err)
        self.assertIn("[a] [rank 0] 2 ranks over gloo", err)
        self.assertIn('"step":300,', out)
        self.assertEqual(self.left(), 0)

    def said_until(self, process, found, *texts):
        """Reads what the job says until a line has all the texts; the lines are added to `found`."""
        for line in process.stderr:
            found.append(line)
            if all(text in line for text in texts):
                return
        self.fail("".join(found))

    def elastic(self, min_hosts, interval_steps):
        """A long run on a, b and c that asks machines which were left out; without end it is killed."""
        steps = ("--max-steps", "100000000", "--set", "training.epochs=100000000", "--resume", "auto",
                 "--set", f"checkpoint.interval_steps={interval_steps}", "--set", "checkpoint.interval_minutes=0")
        process = self.started("a,b,c", "--min-hosts", min_hosts, "--rejoin-minutes", "0.05", train=steps)
        timer = threading.Timer(100, process.kill)
        timer.start()
        self.addCleanup(timer.cancel)
        reader = threading.Thread(target=process.stdout.read)
        reader.start()
        self.addCleanup(reader.join)
        self.addCleanup(self.end, process)
        return process

    def test_a_machine_that_is_back_is_taken_in(self):
        process, found = self.elastic("2", 500), []
        os.kill(self.rank(1), signal.SIGKILL)
        for texts in (("b is left out: 2 of 3 machines go on",), ("[a] [rank 0] 2 ranks over gloo",), ("b can be used again",),
                      ("b is taken in: 3 machines go on",), ("[a] [rank 0] 3 ranks over gloo",), ("[a] [rank 0] resumed from",)):
            self.said_until(process, found, *texts)
        process.send_signal(signal.SIGINT)
        err = process.stderr.read()
        self.assertEqual(process.wait(timeout=60), 130, "".join(found) + err)
        self.assertEqual(self.left(), 0)

    def test_a_machine_that_is_lost_before_the_next_checkpoint_is_left_out(self):
        process, found = self.elastic("1", 1000000000), []
        os.kill(self.rank(1), signal.SIGKILL)
        self.said_until(process, found, "b can be used again")
        os.kill(self.rank(1), signal.SIGKILL)  # of c, in the place of b
        for text in ("c is left out: 1 of 2 machines go on", "b is taken in: 2 machines go on", "[a] [rank 0] 2 ranks over gloo"):
            self.said_until(process, found, text)
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
        self.assertEqual(process.wait(timeout=60), 143, "".join(found))

    def test_a_spare_takes_the_place(self):
        code, out, err = self.ends_again("a,b", "--spares", "d")
        self.assertEqual(code, 0, err)
        self.assertIn("d takes the place of b, which is lost", err)
        self.assertEqual(err.count("[a] [rank 0] 2 ranks over gloo"), 2)
        self.assertIn('"step":300,', out)

    def test_a_spare_that_cannot_run_is_passed_over(self):
        for failure, message in ((127, "runtime: not found"), (5, "there are no data")):
            shutil.rmtree(os.path.join(self.folder.name, "run"), ignore_errors=True)
            agent = self.agent_without("d", failure, message)
            code, out, err = self.ends_again("a,b", "--spares", "d,e", agent=agent)
            self.assertEqual(code, 0, err)
            self.assertIn("[d] " + message, err)
            self.assertIn("e takes the place of d, which is lost", err)
            self.assertIn('"step":300,', out)

    def test_without_another_spare_the_failure_is_that_of_the_job(self):
        code, _, err = self.ends_again("a,b", "--spares", "d", agent=self.agent_without("d", 5, "there are no data"))
        self.assertEqual(code, 5, err)

    def test_a_machine_without_the_program_is_an_error(self):
        code, _, err = self.run_to_end("a,b", "--spares", "d", agent=self.agent_without("b", 127, "runtime: not found"))
        self.assertEqual(code, 2, err)
        self.assertNotIn("takes the place", err)

    def test_too_few_machines_are_left(self):
        code, _, err = self.ends_again("a,b", "--min-hosts", "2")
        self.assertEqual(code, 4, err)
        self.assertIn("error: without b too few machines are left (1, and no spare), because --min-hosts is 2", err)

    def test_the_first_machine_stays(self):
        process = self.started("a,b", "--min-hosts", "1")
        os.kill(self.rank(0), signal.SIGKILL)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 4, err)
        self.assertIn("a is the machine of rank 0", err)

    def test_ranks_end_with_the_launcher(self):
        process = self.started("a,b")
        process.kill()
        process.communicate()
        self.assertEqual(self.left(), 0)
        self.assertTrue(os.path.exists(os.path.join(self.folder.name, "run", "weights.safetensors")), "nothing was saved")

    def test_a_host_that_cannot_be_reached(self):
        # The agent of b ends at once, as ssh does; the ranks of a wait for those of b.
        begin = time.monotonic()
        code, _, err = self.run_to_end("a,b", agent=self.agent_without("b", 255, "no route to b"))
        self.assertEqual(code, 4, err)
        self.assertIn("no route to b", err)
        self.assertRegex(err, r"the agent for b \(pid \d+\) ended with exit code 255")
        self.assertLess(time.monotonic() - begin, 50, "the ranks of a have waited for comm.init_timeout_s")
        self.assertEqual(self.left(), 0)

    def agent_of(self, hosts):
        """The agent of host a, without a launcher: a process that reads orders from the test."""
        script = os.path.join(self.folder.name, "agent.sh")
        with open(script, "w") as file:
            file.write('head -n 1 >"order.$1"\n')
        train = ("--max-steps", "100000000", "--set", "training.epochs=100000000")
        code, _, err = self.run_to_end(hosts, agent=f"bash {script}", train=train)
        self.assertEqual(code, 0, err)
        process = subprocess.Popen([RUNTIME, "launch", "--serve"], cwd="/", text=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        self.addCleanup(self.end, process)
        with open(os.path.join(self.folder.name, "order.a")) as file:
            process.stdin.write(file.read())
        process.stdin.flush()
        return process

    def running_agent(self):
        process = self.agent_of("a")
        for line in process.stdout:
            if '"step":20,' in line:
                return process
        return self.fail(process.stderr.read())

    def test_the_ranks_save_when_the_orders_end(self):
        process = self.running_agent()
        _, err = process.communicate(timeout=60)  # closes its input
        self.assertEqual(process.returncode, 129, err)
        self.assertIn("weights saved", err)
        self.assertEqual(self.left(), 0)

    def test_orders(self):
        for order, code, expected in (("signal 15", 143, "weights saved"), ("signal 9", 143, "")):
            with self.subTest(order=order):
                process = self.running_agent()
                for text in ("", "nonsense", "signal", "signal x", "signal 12345678901234567890", "lost", order):
                    process.stdin.write(text + "\n")
                    process.stdin.flush()
                _, err = process.communicate(timeout=60)
                self.assertEqual(process.returncode, code, err)
                self.assertIn(expected, err)
                self.assertEqual(self.left(), 0)

    def test_a_rank_elsewhere_that_is_lost_ends_those_that_wait_for_it(self):
        process = self.agent_of("a,b:2")
        time.sleep(1)  # it may wait for the others by now; it learns of the loss before or after alike
        process.stdin.write("lost 2 the agent for b ended with exit code 255\n")
        process.stdin.flush()
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 4, err)
        self.assertIn("rank 2 of 3 is lost: the agent for b ended with exit code 255", err)
        self.assertEqual(self.left(), 0)

    def test_wrong_input(self):
        for arguments, expected in (
                (["train", "x"], "--hosts a,b"),
                (["--hosts", "a", "--host-file", "f", "train"], "either"),
                (["--hosts", "a"], "give the command"),
                (["--hosts", "a,,b", "train"], "expected a host"),
                (["--hosts", "a", "--agent", "", "train"], "--agent"),
                (["--hosts", "a", "--agent", "/no/such/agent", "train"], "/no/such/agent"),
                (["--hosts", "a", "--folder", "/no/such/folder", "--agent", AGENT, "train"], "/no/such/folder"),
                (["--max-restart", "3", "train"], "--max-restart"),
                (["--hosts", "a", "--serves", "train"], "--serves"),
                (["--hosts", "localhost,b", "train"], "--rendezvous"),
                (["--hosts", "a,b", "--rendezvous", "a", "train"], "HOST:PORT"),
                (["--hosts", "a", "--ranks-per-host", "5000", "train"], "4096"),
                (["--serve"], "runtime launch --hosts")):
            with self.subTest(arguments=arguments):
                result = subprocess.run([RUNTIME, "launch", *arguments], cwd=self.folder.name, text=True,
                                        stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(expected, result.stderr)
                self.assertRegex(result.stderr, "^(\\[a\\] )?error: |^--ranks-per-host: ")


if __name__ == "__main__":
    unittest.main()
