/* The charts that only stand there: comparison, slices, learning curves and layers. */
function drawComparison(host) {
  const models = data.comparison, rowHeight = 40;
  const x = around(models.flatMap((m) => m.accuracies), 0.12), narrow = host.clientWidth < 520;
  const box = frame(host, { height: rowHeight * models.length + 52, x, y: [0, models.length], yFormat: null,
    left: narrow ? 84 : 120, right: 20, xLabel: "test accuracy", xFormat: tickScore, xTicks: 5 });
  const points = [], reference = models[0].mean;
  make("line", { class: "rule", x1: box.px(reference), x2: box.px(reference), y1: box.inner.top, y2: box.inner.bottom, "stroke-dasharray": "4 4", style: "stroke:var(--soft)" }, box.svg);
  models.forEach((m, k) => {
    const y = models.length - k - 0.5, row = box.py(y), paint = colour(m.name);
    make("text", { class: "name", x: box.inner.left - 12, y: row + 4, "text-anchor": "end" }, box.svg, narrow ? m.short : m.label);
    if (m.spread !== null) make("line", { x1: box.px(m.mean - m.spread), x2: box.px(m.mean + m.spread), y1: row, y2: row, style: `stroke:${paint};stroke-width:7;stroke-linecap:round;opacity:.22` }, box.svg);
    make("line", { x1: box.px(m.mean), x2: box.px(m.mean), y1: row - 11, y2: row + 11, style: `stroke:${paint};stroke-width:2.5` }, box.svg);
    for (const a of m.accuracies) { box.dot(a, y, paint, 5); points.push({ x: box.px(a), y: row, text: `${m.label}: ${score(a)}` }); }
  });
  hover(box.svg, points);
}

function drawSlice(host) {
  const slice = data.slices[Number(host.dataset.index)], paint = colour(slice.axis);
  const seen = slice.seen.map((s) => s.accuracy), width = slice.kept[slice.kept.length - 1] - slice.kept[0];
  const x = [slice.kept[0] - 0.03 * width, 1 + 0.02 * width], y = roomFor([...slice.accuracy, ...seen], [...slice.lower, ...slice.upper], 0.1);
  const upper = document.createElement("div"), lower = document.createElement("div");
  host.replaceChildren(upper, lower);
  const top = frame(upper, { height: 210, x, y, bottom: 8, xFormat: null, yTicks: 4 }), points = [];
  if (slice.lower.every((v) => v !== null)) {
    const inside = (v) => Math.min(y[1], Math.max(y[0], v));
    top.band(slice.kept.map((k, n) => [k, inside(slice.upper[n])]), slice.kept.map((k, n) => [k, inside(slice.lower[n])]), paint);
  }
  top.line(slice.kept.map((k, n) => [k, slice.accuracy[n]]), paint, "strong");
  for (const s of slice.seen) {
    top.dot(s.kept, s.accuracy, paint);
    points.push({ x: top.px(s.kept), y: top.py(s.accuracy), text: `${slice.axis} ${s.kept.toFixed(3)}\nobserved ${score(s.accuracy)}, predicted ${score(s.predicted)}` });
  }
  hover(top.svg, points);
  const least = 5e-4 * (data.percent ? 1 : Math.max(...seen.map(Math.abs)) || 1); // less is no residual
  const worst = Math.max(...slice.seen.map((s) => Math.abs(s.accuracy - s.predicted)), least) * 1.25;
  const below = frame(lower, { height: 122, top: 24, x, y: [-worst, worst], yTicks: 3, xLabel: `${slice.axis} kept`, xFormat: tickKept, yFormat: tickGap });
  make("line", { class: "axis", x1: below.inner.left, x2: below.inner.right, y1: below.py(0), y2: below.py(0) }, below.svg);
  for (const s of slice.seen) {
    const gap = s.accuracy - s.predicted;
    make("line", { x1: below.px(s.kept), x2: below.px(s.kept), y1: below.py(0), y2: below.py(gap), style: `stroke:${paint};stroke-width:2.5` }, below.svg);
    below.dot(s.kept, gap, paint, 3.5);
  }
  make("text", { x: below.inner.left, y: 14 }, below.svg, data.percent ? "residual, points" : "residual");
  if (slider) {
    const marker = make("line", { class: "here", y1: top.inner.top, y2: top.inner.bottom }, top.svg);
    host.follow = () => { const at = top.px(quotes[current].s[AXES.indexOf(slice.axis)]); marker.setAttribute("x1", at); marker.setAttribute("x2", at); };
    host.follow();
  }
}

function drawLearning(host) {
  const group = host.dataset.group, shown = document.querySelector('input[name="measure"]:checked').value;
  const curves = data.learning.filter((c) => c.group === group);
  const all = data.learning.flatMap((c) => c[shown]), most = Math.max(...curves.map((c) => c.loss.length));
  const range = around(all, 0), yStep = stepOf(...range, 4), y = toTicks(range, yStep);
  const box = frame(host, { height: 220, x: [most > 1 ? 1 : 0.5, Math.max(most, 1.5)], y, xLabel: "epoch", xTicks: Math.min(6, most), xFormat: (v) => (Number.isInteger(v) ? String(v) : ""),
    yStep, yFormat: shown === "loss" ? tickPlain : tickScore });
  const points = [];
  curves.forEach((curve, k) => {
    const paint = group === "final" ? colour(curve.name.split(",")[0]) : colour(group);
    const values = curve[shown].map((v, n) => [n + 1, v]).filter(([, v]) => v !== null);
    if (!values.length) return;
    const strength = group === "final" ? 0.9 : 0.35 + 0.65 * (k + 1) / curves.length;
    box.line(values, paint).style.opacity = strength;
    for (const [n, v] of values) {
      if (most <= 12 || n === values.at(-1)[0]) box.dot(n, v, paint, most <= 12 ? 3 : 3.5).style.opacity = strength;
      points.push({ x: box.px(n), y: box.py(v), text: `${curve.name}\nepoch ${n}: ${shown === "loss" ? v.toFixed(4) : score(v)}` });
    }
  });
  hover(box.svg, points);
}

function drawLayers(host) {
  const layers = data.layers, most = Math.max(...layers.map((l) => l[1]));
  const box = frame(host, { height: 240, x: [0, layers.length], y: [0, most * 1.04], xFormat: null, bottom: 30, yFormat: (v) => (Number.isInteger(v) ? String(v) : ""), left: 44,
    xLabel: "convolutions, from input to output" });
  const wide = (box.inner.right - box.inner.left) / layers.length, gap = Math.min(3, wide * 0.22), points = [];
  layers.forEach(([name, whole, kept], k) => {
    const x = box.px(k) + gap / 2, width = Math.max(1, wide - gap), top = box.py(whole);
    make("rect", { x, y: top, width, height: box.inner.bottom - top, rx: 1.5, style: `fill:var(--${kept ? "width" : "depth"});opacity:${kept ? 0.2 : 0.4}` }, box.svg);
    if (kept) make("rect", { x, y: box.py(kept), width, height: box.inner.bottom - box.py(kept), rx: 1.5, style: "fill:var(--width)" }, box.svg);
    points.push({ x: x + width / 2, y: box.py(kept || whole), text: kept ? `${name}\n${kept} of ${whole} channels` : `${name}\ngone with its block` });
  });
  hover(box.svg, points, 90);
}

chart("comparison", drawComparison);
chart("slice", drawSlice);
for (const host of document.querySelectorAll('[data-chart="slice"]')) followers.push(() => host.follow && host.follow());
chart("learning", drawLearning);
for (const choice of document.querySelectorAll('input[name="measure"]'))
  choice.addEventListener("change", () => { for (const host of document.querySelectorAll('[data-chart="learning"]')) drawLearning(host); });
chart("layers", drawLayers);

drawAll();
if (slider) { slider.disabled = false; showQuote(); }
let drawnAt = innerWidth, waiting = 0;
addEventListener("resize", () => {
  if (innerWidth === drawnAt) return;
  cancelAnimationFrame(waiting);
  waiting = requestAnimationFrame(() => { drawnAt = innerWidth; drawAll(); });
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
document.documentElement.dataset.ready = String(Math.round(performance.now()));
