// Values under the pointer, other axes, smoothing, and tables that sort. The page is complete without it.
"use strict";
(() => {
  const SIDE = 1000;
  const view = { over: "step", smoothing: 0 };
  const tip = document.getElementById("tip");

  // ---- numbers, written as units.cpp writes them

  const digits = (v, n) => {
    const size = Math.abs(v);
    if (size >= 1e15 || (size > 0 && size < 1e-4)) return Number(v.toPrecision(n)).toExponential();
    if (size >= 1000) return Math.round(v).toLocaleString("en-US");
    return String(Number(v.toPrecision(n)));
  };
  const bytes = (v) => {
    const names = ["B", "KiB", "MiB", "GiB", "TiB"];
    let i = 0;
    for (; Math.abs(v) >= 1024 && i + 1 < names.length; ++i) v /= 1024;
    return digits(v, 3) + " " + names[i];
  };
  const two = (v) => String(v).padStart(2, "0");
  const seconds = (v) => {
    const size = Math.abs(v), whole = Math.round(v);
    if (size === 0) return "0 s";
    if (size < 1e-6) return digits(v * 1e9, 3) + " ns";
    if (size < 1e-3) return digits(v * 1e6, 3) + " us";
    if (size < 1) return digits(v * 1e3, 3) + " ms";
    if (size < 120) return digits(v, 3) + " s";
    if (size < 7200) return Math.floor(whole / 60) + " min " + two(whole % 60) + " s";
    return Math.floor(whole / 3600) + " h " + two(Math.floor(whole / 60) % 60) + " min";
  };
  const text = (v, unit) => {
    if (v === null || !Number.isFinite(v)) return "-";
    if (unit === "bytes") return bytes(v);
    if (unit === "seconds") return seconds(v);
    if (unit === "fraction") return digits(v * 100, 3) + " %";
    return digits(v, 4);
  };
  const short = (v, step) => {
    const size = Math.abs(v);
    for (const [factor, name] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]])
      if (size >= factor && size < 1e15) return short(v / factor, step / factor) + name;
    if (v === 0) return "0";
    if (size < 1e-4 || size >= 1e15) return Number(v.toPrecision(3)).toExponential();
    const places = step > 0 ? Math.min(8, Math.max(0, Math.ceil(-Math.log10(step) - 1e-9))) : 2;
    return String(Number(v.toFixed(places)));
  };
  const label = (v, unit, step) => {
    if (v === 0 && unit !== "fraction") return "0";
    if (unit === "seconds" && step >= 60)
      return step >= 3600 ? short(v / 3600, step / 3600) + " h" : short(v / 60, step / 60) + " min";
    if (unit === "bytes" || unit === "seconds") return text(v, unit);
    return unit === "fraction" ? short(v * 100, step * 100) + " %" : short(v, step);
  };

  // ---- axes, as axis.cpp makes them

  const niceStep = (least) => {
    const power = 10 ** Math.floor(Math.log10(least));
    for (const factor of [1, 2, 5]) if (factor * power >= least * (1 - 1e-9)) return factor * power;
    return 10 * power;
  };
  // What the labels of values up to `high` count in.
  const factorOf = (unit, high) => {
    if (unit === "seconds" && high >= 120) return high >= 7200 ? 3600 : 60;
    let factor = 1;
    while (unit === "bytes" && high / factor >= 1024) factor *= 1024;
    return factor;
  };
  const linear = (low, high, count, unit, round) => {
    if (!(high - low > Math.max(Math.abs(low), Math.abs(high)) * 1e-9)) {
      const by = Math.max(Math.abs(low), Math.abs(high)) * 0.1 || 1;
      low -= by;
      high += by;
    }
    const factor = factorOf(unit, high);
    let step = niceStep((high - low) / count / factor) * factor;
    if (unit === "count") step = Math.max(step, 1);
    if (round) {
      low = Math.floor(low / step + 1e-9) * step;
      high = Math.ceil(high / step - 1e-9) * step;
    }
    const ticks = [];
    for (let i = Math.ceil(low / step - 1e-9); i <= Math.floor(high / step + 1e-9); ++i) ticks.push(i * step);
    return { low, high, ticks, step, place: (v) => (v - low) / (high - low) };
  };
  const logarithmic = (low, high) => {
    if (high < low * 1.01) { low /= 2; high *= 2; }
    const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
    const each = Math.max(1, Math.ceil((last - first) / 6)), ticks = [];
    for (let power = first; power <= last; power += each)
      for (const factor of last - first > 2 ? [1] : [1, 2, 5]) {
        const tick = factor * 10 ** power;
        if (tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9)) ticks.push(tick);
      }
    if (!ticks.length) ticks.push(low, high);
    const extent = Math.log10(high) - Math.log10(low);
    return { low, high, ticks, step: ticks[0] / 10, place: (v) => (Math.log10(v) - Math.log10(low)) / extent };
  };

  // The exponential moving average of TensorBoard, without the pull towards 0 at its beginning.
  const smoothed = (values, weight) => {
    let sum = 0, share = 0;
    return values.map((v) => {
      sum = sum * weight + v * (1 - weight);
      share = share * weight + (1 - weight);
      return sum / share;
    });
  };

  // The place `at` of the label of each end of a curve, as end_labels.cpp finds it.
  const placeLabels = (ends) => {
    const wide = 0.07, sorted = [...ends].sort((a, b) => a.x - b.x);
    for (let begin = 0, end; begin < sorted.length; begin = end) {
      for (end = begin + 1; end < sorted.length && sorted[end].x < sorted[end - 1].x + wide;) ++end;
      const near = sorted.slice(begin, end).sort((a, b) => a.y - b.y), count = near.length;
      const apart = count > 1 ? Math.min(0.075, 1 / (count - 1)) : 0.075, blocks = [];
      near.forEach((label, k) => {
        blocks.push({ sum: label.y - k * apart, count: 1 });
        const first = (block) => block.sum / block.count;
        while (blocks.length > 1 && first(blocks[blocks.length - 1]) <= first(blocks[blocks.length - 2])) {
          const last = blocks.pop();
          blocks[blocks.length - 1].sum += last.sum;
          blocks[blocks.length - 1].count += last.count;
        }
      });
      let k = 0;
      for (const block of blocks)
        for (let n = 0; n < block.count; ++n, ++k)
          near[k].at = Math.min(Math.max(block.sum / block.count, 0), 1 - (count - 1) * apart) + k * apart;
    }
  };

  // ---- charts

  const element = (name, classes, content) => {
    const e = document.createElement(name);
    if (classes) e.className = classes;
    if (content !== undefined) e.textContent = content;
    return e;
  };
  const path = (d, classes) => {
    const e = document.createElementNS("http://www.w3.org/2000/svg", "path");
    e.setAttribute("class", classes);
    e.setAttribute("d", d);
    return e;
  };

  class Chart {
    constructor(figure) {
      this.figure = figure;
      this.plot = figure.querySelector(".plot");
      this.data = JSON.parse(figure.querySelector("script").textContent);
      this.groups = [...figure.querySelectorAll("g[data-line]")];
      this.classes = this.groups.map((g) => g.querySelector("path").getAttribute("class").match(/c\d/)[0]);
      this.dashed = this.groups.map((g) => g.querySelector(".dashed") !== null);
      this.hidden = new Set();
      this.log = false;
      this.cursor = element("div", "cursor");
      this.cursor.hidden = true;
      this.plot.append(this.cursor);
      this.listen();
      this.prepare();
    }

    listen() {
      const button = this.figure.querySelector(".log");
      if (button) button.addEventListener("click", () => { this.log = !this.log; press(button, this.log); this.draw(); });
      for (const b of this.figure.querySelectorAll(".legend button"))
        b.addEventListener("click", () => {
          const line = Number(b.dataset.line);
          if (!this.hidden.delete(line)) this.hidden.add(line);
          press(b, !this.hidden.has(line));
          this.draw();
        });
      this.plot.addEventListener("pointermove", (e) => this.point(e));
      this.plot.addEventListener("pointerdown", (e) => this.point(e));
      this.plot.addEventListener("pointerleave", () => { this.cursor.hidden = true; tip.hidden = true; });
    }

    // The points that are shown, by the chosen axis.
    prepare() {
      const over = this.data.over_steps ? view.over : "step";
      const known = this.data.lines.some((line) => (line[over] || []).some((v) => v !== null));
      this.over = known ? over : "step";
      this.unit = this.over === "time" ? "seconds" : this.over === "epoch" ? "number" : this.data.x;
      this.lines = this.data.lines.map((line, i) => {
        const x = [], y = [], mean = [];
        line.value.forEach((v, k) => {
          const at = line[this.over][k];
          if (at === null || v === null || (this.log && v <= 0)) return;
          x.push(at);
          y.push(v);
          if (line.mean) mean.push(line.mean[k]);
        });
        const base = line.mean ? mean : y;
        const smooth = this.data.over_steps && view.smoothing > 0 && y.length > 2;
        return { name: line.name, key: line.key, x, raw: y, y: smooth ? smoothed(base, view.smoothing) : base, faint: smooth || line.mean,
                 shown: !this.hidden.has(i) && y.length > 0, dots: line.dots, connected: line.connected };
      });
      const shown = this.lines.filter((line) => line.shown);
      const range = (of) => {
        let low = Infinity, high = -Infinity;
        for (const line of shown) for (const v of of(line)) { low = Math.min(low, v); high = Math.max(high, v); }
        return low <= high ? [low, high] : this.log ? [1, 10] : [0, 1];
      };
      this.xAxis = linear(...range((line) => line.x), 5, this.unit, false);
      let [low, high] = range((line) => line.raw);
      if (this.data.from_zero && !this.log) { low = Math.min(low, 0); high = Math.max(high, 0); }
      this.yAxis = this.log ? logarithmic(low, high) : linear(low, high, 5, this.data.y, true);
    }

    at(x, y) {
      return (this.xAxis.place(x) * SIDE).toFixed(2) + " " + ((1 - this.yAxis.place(y)) * SIDE).toFixed(2);
    }

    curve(line, values) {
      let d = "";
      values.forEach((v, k) => {
        if (this.data.stepped && k > 0) d += "L" + this.at(line.x[k], values[k - 1]);
        d += (k ? "L" : "M") + this.at(line.x[k], v);
      });
      return d;
    }

    draw() {
      this.prepare();
      this.lines.forEach((line, i) => {
        const group = this.groups[i], classes = this.classes[i];
        group.replaceChildren();
        if (!line.shown) return;
        if (line.faint && line.connected) group.append(path(this.curve(line, line.raw), "line raw " + classes));
        if (line.connected) group.append(path(this.curve(line, line.y), "line " + classes + (this.dashed[i] ? " dashed" : "")));
        if (line.dots) group.append(path(line.raw.map((v, k) => "M" + this.at(line.x[k], v) + "h0").join(""), "dots " + classes));
      });
      this.figure.querySelector(".grid").setAttribute(
        "d", this.yAxis.ticks.map((t) => "M0 " + ((1 - this.yAxis.place(t)) * SIDE).toFixed(2) + "H" + SIDE).join(""));
      this.label(".y-labels", this.yAxis, this.data.y, "bottom");
      this.label(".x-labels", this.xAxis, this.unit, "left");
      if (this.data.over_steps)
        this.figure.querySelector(".x-title").textContent = this.over === "time" ? "time of training, without validation" : this.over;
      this.ends();
    }

    label(place, axis, unit, side) {
      this.figure.querySelector(place).replaceChildren(...axis.ticks.map((t) => {
        const span = element("span", "", label(t, unit, axis.step));
        span.style[side] = axis.place(t) * 100 + "%";
        return span;
      }));
    }

    ends() {
      const ends = this.lines.map((line, i) => ({ line, i })).filter(({ line }) => line.shown && line.key)
        .map(({ line, i }) => ({ x: this.xAxis.place(line.x[line.x.length - 1]), y: this.yAxis.place(line.y[line.y.length - 1]), key: line.key, i }));
      placeLabels(ends);
      this.figure.querySelector(".ends").replaceChildren(...ends.map((end) => {
        const span = element("span", this.classes[end.i], end.key);
        span.style.bottom = end.at * 100 + "%";
        span.style.left = end.x * 100 + "%";
        return span;
      }));
      const place = (x, y) => (x * SIDE).toFixed(2) + " " + ((1 - y) * SIDE).toFixed(2);
      this.figure.querySelector(".leaders").replaceChildren(...ends.filter((end) => Math.abs(end.at - end.y) > 0.02)
        .map((end) => path("M" + place(end.x, end.y) + "L" + place(end.x + 0.012, end.at), "leader " + this.classes[end.i])));
    }

    // The values that are nearest to the pointer.
    point(event) {
      const box = this.plot.getBoundingClientRect();
      const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
      const x = this.xAxis.low + share * (this.xAxis.high - this.xAxis.low);
      const rows = [];
      let nearest = null;
      this.lines.forEach((line, i) => {
        if (!line.shown) return;
        let low = 0, high = line.x.length - 1;
        while (high - low > 1) { const middle = (low + high) >> 1; if (line.x[middle] < x) low = middle; else high = middle; }
        const k = Math.abs(line.x[low] - x) <= Math.abs(line.x[high] - x) ? low : high;
        if (nearest === null || Math.abs(line.x[k] - x) < Math.abs(nearest - x)) nearest = line.x[k];
        rows.push({ i, k, line });
      });
      if (nearest === null) return;
      this.cursor.hidden = false;
      this.cursor.style.left = this.xAxis.place(nearest) * 100 + "%";
      const title = this.over === "step" ? this.figure.querySelector(".x-title").textContent : this.over;
      tip.replaceChildren(element("b", "", title + " " + text(nearest, this.unit)), ...rows.map(({ i, k, line }) => {
        const row = element("div");
        const where = line.x[k] === nearest ? "" : " (" + text(line.x[k], this.unit) + ")";
        row.append(element("i", this.classes[i]), element("span", "", (line.key ? line.key + " " : "") + line.name + where),
                   element("span", "", text(line.y[k], this.data.y)));
        return row;
      }));
      show(event);
    }
  }

  const press = (button, on) => button.setAttribute("aria-pressed", String(on));

  const show = (event) => {
    tip.hidden = false;
    const box = tip.getBoundingClientRect(), room = document.documentElement.clientWidth;
    const right = event.clientX + 16 + box.width <= room;
    tip.style.left = Math.max(4, Math.min(right ? event.clientX + 16 : event.clientX - 16 - box.width, room - box.width - 4)) + "px";
    tip.style.top = Math.max(4, Math.min(event.clientY + 16, window.innerHeight - box.height - 4)) + "px";
  };

  const charts = [...document.querySelectorAll("figure.chart")].map((figure) => new Chart(figure));
  const draw = () => { for (const chart of charts) if (chart.data.over_steps) chart.draw(); };

  // ---- controls of all charts

  for (const e of document.querySelectorAll(".needs-script")) e.hidden = false;
  const choices = [...document.querySelectorAll("[data-over]")];
  for (const choice of choices)
    choice.addEventListener("click", () => {
      view.over = choice.dataset.over;
      for (const other of choices) press(other, other.dataset.over === view.over);
      draw();
    });
  const sliders = [...document.querySelectorAll(".controls input")];
  for (const slider of sliders)
    slider.addEventListener("input", () => {
      view.smoothing = Number(slider.value);
      for (const other of sliders) { other.value = slider.value; other.parentElement.querySelector("output").textContent = slider.value; }
      draw();
    });

  // ---- texts of single marks, and the trial that a mark or a row is of

  const mark = (trial, on) => {
    for (const e of document.querySelectorAll(`[data-trial="${trial}"]`)) e.classList.toggle("marked", on);
  };
  for (const e of document.querySelectorAll("[data-tip]")) {
    const title = e.querySelector("title");
    if (title) title.remove();
    e.removeAttribute("title");
    const enter = (event) => { tip.textContent = e.dataset.tip; show(event); if (e.dataset.trial) mark(e.dataset.trial, true); };
    e.addEventListener("pointerenter", enter);
    e.addEventListener("pointermove", show);
    e.addEventListener("pointerdown", enter);
    e.addEventListener("pointerleave", () => { tip.hidden = true; if (e.dataset.trial) mark(e.dataset.trial, false); });
  }

  // ---- tables that sort

  const order = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.order !== undefined ? Number(cell.dataset.order) : cell.textContent;
  };
  const compare = (a, b) => {
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true });
  };
  const sort = (table, column, head) => {
    const descending = head.getAttribute("aria-sort") === "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => compare(order(a, column), order(b, column)) * (descending ? -1 : 1));
    table.tBodies[0].append(...rows);
  };
  for (const table of document.querySelectorAll("table.sortable"))
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = element("button", "", head.textContent);
      button.type = "button";
      button.title = "sort";
      head.replaceChildren(button);
      head.addEventListener("click", () => sort(table, column, head));
    });
})();
