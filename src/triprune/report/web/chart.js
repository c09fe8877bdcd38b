/* Axes, lines and dots in SVG, redrawn whenever the page changes its width or its colours. */
const NS = "http://www.w3.org/2000/svg";
const data = JSON.parse(document.getElementById("data").textContent);
const AXES = ["depth", "width", "resolution"];
const colour = (name) => `var(--${["joint", ...AXES].includes(name) ? name : "original"})`;
const percent = (v, digits = 0) => `${(100 * v).toFixed(digits)} %`;
const score = (v) => (data.percent ? percent(v, 2) : v.toPrecision(4));
/* Return how many digits tell the multiples of a step apart. */
function digitsOf(step) {
  let digits = 0;
  while (digits < 6 && Math.abs(step * 10 ** digits - Math.round(step * 10 ** digits)) > 1e-6 * step * 10 ** digits) digits++;
  return digits;
}
const tickPercent = (v, step) => percent(v, digitsOf(100 * step));
const tickPlain = (v, step) => v.toFixed(digitsOf(step));
const tickScore = (v, step) => (data.percent ? tickPercent : tickPlain)(v, step);
const tickKept = (v, step) => v.toFixed(Math.max(2, digitsOf(step)));
function tickGap(v, step) {
  const size = data.percent ? 100 : 1;
  return `${v > 0 ? "+" : v < 0 ? "−" : ""}${tickPlain(size * Math.abs(v), size * step)}`;
}

function count(value) {
  for (const [size, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (value >= size) return `${(value / size).toFixed(2)} ${letter}`;
  return value.toFixed(0);
}

const amount = (value) => data.spending.timed ? `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)} ms` : count(value);

function make(tag, attributes = {}, parent = null, text = null) {
  const node = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== null) node.textContent = text;
  if (parent) parent.append(node);
  return node;
}

/* Return a round step that leaves about ``wanted`` ticks in a range, and three (or two, if wanted) in any. */
function stepOf(low, high, wanted) {
  const rough = (high - low) / wanted, power = 10 ** Math.floor(Math.log10(rough));
  const steps = [10, 5, 2.5, 2, 1, 0.5, 0.25, 0.2].map((m) => m * power);
  const fitting = steps.findLastIndex((step) => step >= rough - 1e-12 * power);
  return steps.slice(fitting).find((step) => ticks(low, high, step).length >= Math.min(3, wanted));
}

function ticks(low, high, step) {
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(k * step);
  return found;
}

/* Return the range widened to its next ticks: no value lies beyond the first or the last label. */
function toTicks([low, high], step) {
  return [step * Math.floor(low / step + 1e-9), step * Math.ceil(high / step - 1e-9)];
}

/* Return the range of finite values with some air around it. */
function around(values, air = 0.06) {
  const known = values.filter((v) => v !== null && Number.isFinite(v));
  let low = Math.min(...known), high = Math.max(...known);
  if (!(high > low)) { low -= 0.01 * (Math.abs(low) || 1); high += 0.01 * (Math.abs(high) || 1); }
  return [low - air * (high - low), high + air * (high - low)];
}

/* Return a range that holds ``values``, and as much of ``more`` as leaves them room. */
function roomFor(values, more, air) {
  const inner = around(values, air), room = 1.2 * (inner[1] - inner[0]);
  const wide = around([...values, ...more], air / 2);
  return [Math.max(wide[0], inner[0] - room), Math.min(wide[1], inner[1] + room)];
}

/* Draw the frame of a chart into its host and return the scales and what draws inside it. */
function frame(host, { height, x, y, xLabel = "", xTicks = 6, yTicks = 5, yStep, xFormat, yFormat, left = 56, bottom = 38, right = 10, top = 10, rules = true }) {
  host.replaceChildren();
  const width = Math.max(200, host.clientWidth);
  const svg = make("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, host);
  const inner = { left, right: width - right, top, bottom: height - bottom };
  const px = (v) => inner.left + (inner.right - inner.left) * (v - x[0]) / (x[1] - x[0]);
  const py = (v) => inner.bottom - (inner.bottom - inner.top) * (v - y[0]) / (y[1] - y[0]);
  const fitting = Math.max(2, Math.min(xTicks, Math.floor((inner.right - inner.left) / 62)));
  if (yFormat !== null) {
    const step = yStep || stepOf(y[0], y[1], yTicks);
    for (const v of ticks(y[0], y[1], step)) {
      const told = (yFormat || tickScore)(v, step);
      if (!told) continue;
      if (rules) make("line", { class: "rule", x1: inner.left, x2: inner.right, y1: py(v), y2: py(v) }, svg);
      make("text", { x: inner.left - 8, y: py(v) + 4, "text-anchor": "end" }, svg, told);
    }
  }
  if (xFormat !== null) {
    const step = stepOf(x[0], x[1], fitting);
    for (const v of ticks(x[0], x[1], step)) {
      const told = (xFormat || tickPlain)(v, step);
      if (!told) continue;
      make("line", { class: "axis", x1: px(v), x2: px(v), y1: inner.bottom, y2: inner.bottom + 4 }, svg);
      make("text", { x: px(v), y: inner.bottom + 17, "text-anchor": "middle" }, svg, told);
    }
  }
  make("line", { class: "axis", x1: inner.left, x2: inner.right, y1: inner.bottom, y2: inner.bottom }, svg);
  if (xLabel) make("text", { x: (inner.left + inner.right) / 2, y: height - 3, "text-anchor": "middle" }, svg, xLabel);
  const path = (points) => points.map(([a, b], i) => `${i ? "L" : "M"}${px(a).toFixed(2)},${py(b).toFixed(2)}`).join("");
  return {
    svg, inner, px, py,
    line: (points, stroke, kind = "") => make("path", { class: `curve ${kind}`, d: path(points), style: `stroke:${stroke}` }, svg),
    band: (upper, lower, fill) => make("path", { class: "band", d: `${path(upper)}${path(lower.reverse()).replace("M", "L")}Z`, style: `fill:${fill}` }, svg),
    dot: (a, b, fill, r = 4.5) => make("circle", { class: "dot", cx: px(a), cy: py(b), r, style: `fill:${fill}` }, svg),
    diamond: (a, b, stroke, r = 5) => make("path", { class: "hollow", d: `M${px(a) - r},${py(b)}L${px(a)},${py(b) - r}L${px(a) + r},${py(b)}L${px(a)},${py(b) + r}Z`, style: `stroke:${stroke}` }, svg),
    upright: (v) => make("line", { class: "here", x1: px(v), x2: px(v), y1: inner.top, y2: inner.bottom }, svg),
  };
}

const tip = document.createElement("div");
tip.className = "tip"; tip.hidden = true; document.body.append(tip);

/* Show the text of the nearest of ``points`` ({x, y, text}, in pixels) under the pointer. */
function hover(svg, points, reach = 36) {
  const show = (event) => {
    const box = svg.getBoundingClientRect(), mx = event.clientX - box.left, my = event.clientY - box.top;
    let best = null, near = reach ** 2;
    for (const p of points) {
      const d = (p.x - mx) ** 2 + (p.y - my) ** 2;
      if (d < near) { near = d; best = p; }
    }
    tip.hidden = best === null;
    if (best === null) return;
    tip.textContent = best.text;
    const wide = tip.offsetWidth, high = tip.offsetHeight;
    tip.style.left = `${Math.max(6, Math.min(innerWidth - wide - 6, box.left + best.x + 12))}px`;
    tip.style.top = `${Math.max(6, box.top + best.y - high - 10)}px`;
  };
  svg.addEventListener("pointermove", show);
  svg.addEventListener("pointerdown", show);
  svg.addEventListener("pointerleave", () => { tip.hidden = true; });
}

const drawings = [];
/* Register a drawing for every host of a kind; ``draw(host)`` is called again when it must. */
function chart(kind, draw) {
  for (const host of document.querySelectorAll(`[data-chart="${kind}"]`)) drawings.push(() => draw(host));
}
function drawAll() { for (const draw of drawings) draw(); }
