"""Opens pages of runtime-report in headless Chromium: no message on the console, nothing wider than the screen, and the script
does what it should.

Environment: RUNTIME_REPORT, the program. Exit code 77: Chromium is not on this machine.
"""

import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import support

CHROMIUM = next((path for path in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if path), None)

# What is done in the page, whose window and document these are. The result is printed as JSON.
ACTIONS = """
const texts = (selector) => [...document.querySelectorAll(selector)].map((e) => e.textContent);
const click = (selector) => document.querySelector(selector).click();
const point = (selector, share) => {
  const e = document.querySelector(selector), box = e.getBoundingClientRect();
  const at = { bubbles: true, clientX: box.left + share * box.width, clientY: box.top + box.height / 2 };
  e.dispatchEvent(new window.PointerEvent("pointerenter", at));
  e.dispatchEvent(new window.PointerEvent("pointermove", at));
  return document.getElementById("tip").textContent;
};
"""


def console(stderr):
    """What pages have written to the console, errors of scripts among it."""
    return [line for line in stderr.splitlines() if "CONSOLE" in line]


class Browser(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name

    def dump(self, page):
        """The document after its scripts have run, and what is on the console."""
        path = support.write(self.folder, "frame.html", page)
        done = subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                               f"--user-data-dir={self.folder}/profile", "--enable-logging=stderr", "--window-size=1700,1200",
                               "--dump-dom", "file://" + path],
                              capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, console(done.stderr)

    def open(self, page, actions, width=1200):
        """Opens a page in a frame of this width; returns what the actions return. Nothing may be on the console."""
        script = f"""const frame = document.querySelector("iframe");
          frame.onload = () => {{
            let result;
            try {{ result = ((window, document) => {{ {ACTIONS} {actions} }})(frame.contentWindow, frame.contentDocument); }}
            catch (error) {{ result = "error: " + error; }}
            document.querySelector("pre").textContent = JSON.stringify(result);
          }};"""
        dom, messages = self.dump(f'<!DOCTYPE html><meta charset="utf-8"><pre></pre><iframe style="width:{width}px;height:900px;border:0" '
                                  f'srcdoc="{html.escape(page)}"></iframe><script>{script}</script>')
        self.assertEqual(messages, [])
        result = json.loads(html.unescape(re.search(r"<pre>(.*?)</pre>", dom, re.S).group(1)))
        self.assertFalse(isinstance(result, str) and result.startswith("error"), result)
        return result

    def runs_page(self):
        support.write_run(os.path.join(self.folder, "a"))
        support.write(os.path.join(self.folder, "a"), "profile.json", json.dumps(support.profile(2)))
        support.write_run(os.path.join(self.folder, "a-run-with-a-rather-long-name-of-its-folder"), rate=0.02)
        return support.page_of(["a", "a-run-with-a-rather-long-name-of-its-folder"], self.folder)

    def sweep_page(self):
        return support.page_of([support.write_sweep(os.path.join(self.folder, "sweep"))], self.folder)

    def test_the_check_of_the_console_can_fail(self):
        _, messages = self.dump("<!DOCTYPE html><script>undefinedFunction()</script>")
        self.assertTrue(messages)

    def test_nothing_is_wider_than_the_screen(self):
        for page in (self.runs_page(), self.sweep_page()):
            for width in (360, 768, 1600):
                widest = self.open(page, "for (const d of document.querySelectorAll('details')) d.open = true;"
                                         "return document.documentElement.scrollWidth;", width)
                self.assertLessEqual(widest, width)

    def test_no_column_is_cut_on_a_usual_screen(self):
        for page in (self.runs_page(), self.sweep_page()):
            cut = self.open(page, """for (const d of document.querySelectorAll('details')) d.open = true;
              return [...document.querySelectorAll('.scroll')].filter((e) => e.scrollWidth > e.clientWidth)
                .map((e) => e.getAttribute('aria-label') + ': ' + e.scrollWidth + ' of ' + e.clientWidth);""", 1280)
            self.assertEqual(cut, [])

    def test_keys_stand_beside_the_ends_of_their_curves(self):
        names = []
        for i, (rate, steps) in enumerate([(0.01, 400), (0.0101, 400), (0.0102, 400), (0.02, 200), (0.0201, 100)]):
            names.append(os.path.basename(support.write_run(os.path.join(self.folder, f"run{i}"), rate=rate, steps=steps)))
        labels, leaders = self.open(support.page_of(names, self.folder), """
          const plot = document.querySelector('#curves-chart-loss .plot'), box = plot.getBoundingClientRect();
          const ends = [...plot.querySelectorAll('.curves g')].map((g) => {
            const at = g.querySelector('path').getAttribute('d').match(/([-0-9.]+) ([-0-9.]+)$/);
            return [box.left + at[1] / 1000 * box.width, box.top + at[2] / 1000 * box.height];
          });
          const labels = [...plot.querySelectorAll('.ends span')].map((e, i) => {
            const b = e.getBoundingClientRect();
            return { off: (b.top + b.bottom) / 2 - ends[i][1], left: b.left - ends[i][0], box: [b.left, b.right, b.top, b.bottom] };
          });
          return [labels, plot.querySelectorAll('.leader').length];""")
        for label in labels:
            self.assertLess(abs(label["off"]), 25, "not further than three curves that end together need")
            self.assertLess(abs(label["left"]), 2)
        for label in labels[3:]:
            self.assertLess(abs(label["off"]), 1, "nothing else ends there")
        for i, (left, right, top, bottom) in enumerate(label["box"] for label in labels):
            for other in (label["box"] for label in labels[:i]):
                self.assertTrue(right <= other[0] or left >= other[1] or bottom <= other[2] + 1 or top >= other[3] - 1, "they overlap")
        self.assertEqual(leaders, 2, "the middle one of three has not moved")

    def test_the_page_of_a_sweep_has_configuration_and_device(self):
        texts = self.open(self.sweep_page(), "return ['search', 'configuration', 'facts'].map((name) => "
                                             "document.getElementById('sweep-' + name).textContent);")
        self.assertIn("log_uniform [0.0001, 1.0]", texts[0])
        self.assertIn('["sgd", "adamw"]', texts[0])
        self.assertIn('method"random"', texts[0])
        self.assertIn("optimizer.lr0.01", texts[1])
        self.assertIn("trial-", texts[2])

    def test_the_pointer_shows_values(self):
        tip = self.open(self.runs_page(), "return point('#curves-chart-loss .plot', 1);")
        self.assertIn("step 400", tip)
        self.assertIn(f"{support.loss(400, 0.01):.4g}", tip)
        self.assertIn(f"{support.loss(400, 0.02):.4g}", tip)

    def test_axes_change(self):
        result = self.open(self.runs_page(), """
          const labels = () => texts('#curves-chart-loss .x-labels span');
          const steps = labels();
          click('[data-over=epoch]');
          const epochs = labels(), tip = point('#curves-chart-loss .plot', 1);
          click('[data-over=time]');
          const times = labels();
          click('[data-over=step]');
          const linear = texts('#curves-chart-loss .y-labels span');
          click('#curves-chart-loss .log');
          const log = texts('#curves-chart-loss .y-labels span');
          return { steps, again: labels(), epochs, tip, times, linear, log };""")
        self.assertEqual(result["steps"], ["100", "200", "300", "400"])
        self.assertEqual(result["again"], result["steps"])
        self.assertEqual(result["epochs"], ["1", "2", "3", "4"])
        self.assertIn("epoch 4", result["tip"])
        self.assertEqual(result["times"], ["1 s", "2 s", "3 s", "4 s"])
        self.assertEqual(result["linear"], ["0", "0.5", "1", "1.5", "2", "2.5"])
        self.assertEqual(result["log"], ["0.5", "1", "2"])

    def test_the_script_draws_what_the_program_has_drawn(self):
        support.write_run(os.path.join(self.folder, "long"), rate=0.0001, steps=60000, per_epoch=20000)
        self.same_drawing(self.runs_page(), 7)
        self.same_drawing(support.page_of(["long"], self.folder), 4)

    def same_drawing(self, page, charts):
        before, after = self.open(page, """
          const state = () => [...document.querySelectorAll('figure.chart')].map((figure) => [
            [...figure.querySelectorAll('.y-labels span, .x-labels span, .ends span')].map((e) => e.textContent),
            [...figure.querySelectorAll('g[data-line] path, .leaders path')].map((e) => e.getAttribute('d'))]);
          const before = state();
          for (const b of document.querySelectorAll('figure.chart .log')) { b.click(); b.click(); }
          return [before, state()];""")
        self.assertGreaterEqual(len(before), charts)
        for (labels, paths), (new_labels, new_paths) in zip(before, after, strict=True):
            self.assertEqual(labels, new_labels)
            for path, new_path in zip(paths, new_paths, strict=True):
                number = r"-?[0-9.]+"
                self.assertEqual(re.sub(number, "0", path), re.sub(number, "0", new_path))
                for a, b in zip(re.findall(number, path), re.findall(number, new_path), strict=True):
                    self.assertAlmostEqual(float(a), float(b), delta=0.02)

    def test_smoothing_follows_the_definition(self):
        tip = self.open(self.runs_page(), """
          const slider = document.querySelector('.controls input');
          slider.value = 0.9;
          slider.dispatchEvent(new window.Event('input'));
          return point('#curves-chart-loss .plot', 1);""")
        total = share = 0.0
        for step in range(10, 401, 10):
            total = 0.9 * total + 0.1 * support.loss(step, 0.01)
            share = 0.9 * share + 0.1
        self.assertIn(f"{total / share:.4g}", tip)

    def test_a_run_can_be_hidden(self):
        hidden, shown = self.open(self.runs_page(), """
          const lines = () => document.querySelectorAll('#curves-chart-loss path.line').length;
          click('#curves-chart-loss .legend button[data-line="1"]');
          const hidden = lines();
          click('#curves-chart-loss .legend button[data-line="1"]');
          return [hidden, lines()];""")
        self.assertEqual((hidden, shown), (1, 2))

    def test_trials_are_marked_and_sorted(self):
        result = self.open(self.sweep_page(), """
          const first = () => document.querySelector('#sweep table.sortable:last-of-type tbody th').textContent;
          const best = first();
          const tip = point('.scatter .best-trial', 0.5);
          const marked = document.querySelectorAll('.marked').length;
          click('#sweep table.sortable thead button');
          const ascending = first();
          click('#sweep table.sortable thead button');
          return { best, tip, marked, ascending, descending: first() };""")
        self.assertIn(result["best"], ("9", "10"), "the learning rates that are nearest to 0.01")
        self.assertIn(f"trial {result['best']}: validation_loss", result["tip"])
        self.assertGreaterEqual(result["marked"], 3)
        self.assertEqual((result["ascending"], result["descending"]), ("0", "19"))

    def test_a_forged_name_does_not_run(self):
        name = "<img src=x onerror=document.title='forged'>"
        support.write_run(os.path.join(self.folder, name))
        support.write(os.path.join(self.folder, name), "profile.json",
                      json.dumps(support.profile(1)).replace("conv2d", "</script><script>document.title='forged'</script>"))
        title = self.open(support.page_of([name], self.folder),
                          "click('.log'); point('.plot', 0.5); point('.stack span', 0.5); return document.title;")
        self.assertEqual(title, name + " - runtime report")

    def test_a_screenshot_is_made_in_light_and_dark(self):
        path = support.write(self.folder, "page.html", self.runs_page())
        pictures = []
        for scheme in (0, 1):
            picture = os.path.join(self.folder, f"{scheme}.png")
            subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                            f"--user-data-dir={self.folder}/profile", f"--blink-settings=preferredColorScheme={scheme}",
                            "--window-size=900,700", f"--screenshot={picture}", "file://" + path],
                           capture_output=True, timeout=100, check=True)
            with open(picture, "rb") as file:
                pictures.append(file.read())
        self.assertGreater(min(map(len, pictures)), 5000)
        self.assertNotEqual(pictures[0], pictures[1])


if __name__ == "__main__":
    if CHROMIUM is None:
        print("skipped: chromium is not installed")
        sys.exit(77)
    unittest.main()
