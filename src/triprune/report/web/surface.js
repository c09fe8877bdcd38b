/* The predictor over two axes; the third is what the chosen budget keeps of it. */

/* Return the predicted accuracy at places in the three tables: exact, nothing is interpolated. */
function predicted(places) {
  const { link, adds, start, axes } = data.tables;
  const parts = places.map((place, i) => axes[i].part[place]);
  const value = adds ? parts.reduce((sum, p) => sum + p, start) : parts.reduce((product, p) => product * p, start);
  if (link === "identity") return value;
  if (link === "logit") return 0.5 * (1 + Math.tanh(0.5 * value));
  return Math.min(1, Math.max(0, 1 - Math.min(value, 0) ** 2));
}

/* Return the relative compute of a scale by the fitted cost. */
function costOf(scale) {
  const u = scale.map(Math.log), { slopes, bends, crossings } = data.cost;
  let value = 0;
  for (let i = 0; i < 3; i++) value += slopes[i] * u[i] + bends[i] * u[i] ** 2;
  [[0, 1], [0, 2], [1, 2]].forEach(([i, j], k) => { value += crossings[k] * u[i] * u[j]; });
  return Math.exp(value);
}

function nearest(values, wanted) {
  let best = 0;
  values.forEach((v, i) => { if (Math.abs(v - wanted) < Math.abs(values[best] - wanted)) best = i; });
  return best;
}

function mixed(t, stops) {
  const place = Math.min(0.999999, Math.max(0, t)) * (stops.length - 1), k = Math.floor(place), f = place - k;
  return stops[k].map((c, i) => Math.round(c + f * (stops[k + 1][i] - c)));
}

function rampStops() {
  const style = getComputedStyle(document.documentElement);
  return ["--low", "--middle", "--high"].map((name) => {
    const hex = style.getPropertyValue(name).trim();
    return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  });
}

/* Return where a cell begins and ends: half way to its neighbours. */
function edges(values) {
  const middles = values.slice(1).map((v, i) => (v + values[i]) / 2), n = values.length;
  return [values[0] - (middles[0] - values[0]), ...middles, values[n - 1] + (values[n - 1] - middles[n - 2])];
}

function drawSurface(host) {
  const [i, j] = host.pair, third = 3 - i - j, { axes } = data.tables;
  const xs = axes[i].kept, ys = axes[j].kept, xEdges = edges(xs), yEdges = edges(ys);
  const box = frame(host, { height: Math.min(380, Math.max(300, host.clientWidth * 0.8)), rules: false,
    x: [xEdges[0], xEdges[xs.length]], y: [yEdges[0], yEdges[ys.length]], left: 44, top: 26,
    xLabel: `${AXES[i]} kept`, xFormat: tickKept, yFormat: tickKept });
  make("text", { x: 0, y: 14 }, box.svg, `${AXES[j]} kept`);
  const canvas = document.createElement("canvas"), { inner } = box, sharp = window.devicePixelRatio || 1;
  canvas.style.left = `${inner.left}px`; canvas.style.top = `${inner.top}px`;
  canvas.style.width = `${inner.right - inner.left}px`; canvas.style.height = `${inner.bottom - inner.top}px`;
  canvas.width = (inner.right - inner.left) * sharp; canvas.height = (inner.bottom - inner.top) * sharp;
  host.prepend(canvas); box.svg.style.position = "relative";
  const overlay = make("g", {}, box.svg), paint = canvas.getContext("2d");
  const follow = () => {
    const quote = quotes[current], places = [0, 0, 0];
    places[third] = nearest(axes[third].kept, quote.s[third]);
    const held = axes[third].kept[places[third]], grid = [];
    let low = Infinity, high = -Infinity;
    for (let a = 0; a < xs.length; a++) for (let b = 0; b < ys.length; b++) {
      places[i] = a; places[j] = b;
      const v = predicted(places);
      grid.push(v); low = Math.min(low, v); high = Math.max(high, v);
    }
    const stops = rampStops(), at = (p, e, size) => Math.round(size * (p - e[0]) / (e[e.length - 1] - e[0]));
    for (let a = 0; a < xs.length; a++) for (let b = 0; b < ys.length; b++) {
      const t = high > low ? (grid[a * ys.length + b] - low) / (high - low) : 1;
      const left = at(xEdges[a], xEdges, canvas.width), right = at(xEdges[a + 1], xEdges, canvas.width);
      const bottom = canvas.height - at(yEdges[b], yEdges, canvas.height), top = canvas.height - at(yEdges[b + 1], yEdges, canvas.height);
      paint.fillStyle = `rgb(${mixed(t, stops).join(",")})`;
      paint.fillRect(left, top, right - left, bottom - top);
    }
    overlay.replaceChildren();
    // The run's own choice was made by measured cost: the line goes through it, by the fitted cost.
    const border = budgetBorder([i, j], held, quote.own ? costOf(quote.s) : quote.b, [xEdges[0], Math.min(1, xEdges[xs.length])], [yEdges[0], yEdges[ys.length]]);
    if (border.length > 1) {
      const d = border.map(([a, b], k) => `${k ? "L" : "M"}${box.px(a).toFixed(1)},${box.py(b).toFixed(1)}`).join("");
      make("path", { class: "curve", d, style: "stroke:var(--card);stroke-width:4.5" }, overlay);
      make("path", { class: "curve", d, style: "stroke:var(--mark);stroke-width:2.25" }, overlay);
    }
    make("circle", { class: "ring", cx: box.px(quote.s[i]), cy: box.py(quote.s[j]), r: 7.5 }, overlay);
    const note = document.getElementById("surface-note");
    note.textContent = `${AXES[third]} held where this budget keeps it: ${keptText(AXES[third], held)}`;
    document.getElementById("surface-low").textContent = score(low);
    document.getElementById("surface-high").textContent = score(high);
  };
  follow(); host.follow = follow;
  box.svg.addEventListener("pointermove", (event) => {
    const area = box.svg.getBoundingClientRect(), quote = quotes[current];
    const fx = (event.clientX - area.left - inner.left) / (inner.right - inner.left);
    const fy = (inner.bottom - event.clientY + area.top) / (inner.bottom - inner.top);
    tip.hidden = fx < 0 || fx > 1 || fy < 0 || fy > 1;
    if (tip.hidden) return;
    const places = [0, 0, 0];
    places[i] = nearest(xs, xEdges[0] + fx * (xEdges[xs.length] - xEdges[0]));
    places[j] = nearest(ys, yEdges[0] + fy * (yEdges[ys.length] - yEdges[0]));
    places[third] = nearest(axes[third].kept, quote.s[third]);
    const scale = places.map((place, axis) => axes[axis].kept[place]);
    tip.textContent = `${AXES.map((axis, k) => `${axis} ${scale[k].toFixed(2)}`).join(", ")}\n${score(predicted(places))} at ${percent(costOf(scale), 1)} of the ${data.spending.noun}`;
    tip.style.left = `${Math.max(6, Math.min(innerWidth - tip.offsetWidth - 6, event.clientX + 14))}px`;
    tip.style.top = `${Math.max(6, event.clientY - tip.offsetHeight - 12)}px`;
  });
  box.svg.addEventListener("pointerleave", () => { tip.hidden = true; });
}

/* Return points along which the budget is spent exactly; cost rises along every axis. */
function budgetBorder([i, j], held, spent, xRange, yRange) {
  const third = 3 - i - j, found = [], scale = [1, 1, 1];
  scale[third] = held;
  for (let k = 0; k <= 120; k++) {
    scale[i] = xRange[0] + (xRange[1] - xRange[0]) * k / 120;
    let low = yRange[0], high = Math.min(1, yRange[1]);
    scale[j] = high; if (costOf(scale) < spent) continue;
    scale[j] = low; if (costOf(scale) > spent) continue;
    for (let n = 0; n < 40; n++) {
      scale[j] = (low + high) / 2;
      if (costOf(scale) > spent) high = scale[j]; else low = scale[j];
    }
    found.push([scale[i], low]);
  }
  return found;
}

for (const host of document.querySelectorAll('[data-chart="surface"]')) {
  const choices = [...document.querySelectorAll('input[name="pair"]')];
  const read = () => { host.pair = choices.find((c) => c.checked).value.split(",").map(Number); };
  read();
  for (const choice of choices) choice.addEventListener("change", () => { read(); drawSurface(host); });
  followers.push(() => host.follow && host.follow());
}
chart("surface", drawSurface);
window.triprune = { predicted, costOf, ticks: (low, high, wanted) => ticks(low, high, stepOf(low, high, wanted)) };
