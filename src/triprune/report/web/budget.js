/* The slider, what it says, and accuracy against cost. Its stops are quotes made by triprune itself. */
const quotes = data.quotes;
const slider = document.getElementById("budget");
let current = data.start;
const followers = [];

function keptText(axis, kept) {
  const known = data.units[axis];
  if (axis === "width" || !known) return kept.toFixed(3);
  return `${Math.round(kept * known)} of ${known} ${axis === "depth" ? "blocks" : "px"}`;
}

function showQuote() {
  const quote = quotes[current];
  const put = (id, text) => { document.getElementById(id).textContent = text; };
  put("budget-value", percent(quote.b));
  put("budget-accuracy", score(quote.a));
  put("budget-interval", quote.lo === null ? "no interval: too few observations" : `90 % interval ${score(quote.lo)} – ${score(quote.hi)}`);
  const { whole, made, noun } = data.spending;
  put("budget-amount", whole ? amount(quote.c * whole) : percent(quote.c, 1));
  put("budget-cost", `${whole ? `${percent(quote.c, 1)} of ${amount(whole)}` : `of the original's ${noun}`}, ${quote.own ? `${made}: the run's own choice` : made === "by formula" ? made : "by the fitted cost"}`);
  AXES.forEach((axis, i) => {
    put(`kept-${axis}`, keptText(axis, quote.s[i]));
    put(`beyond-${axis}`, quote.x.includes(axis) ? "beyond what was observed" : "");
    document.getElementById(`bar-${axis}`).style.width = `${100 * quote.s[i]}%`;
  });
  slider.setAttribute("aria-valuetext", `budget ${percent(quote.b)}, predicted accuracy ${score(quote.a)}`);
  for (const follow of followers) follow();
}

function drawBudget(host) {
  const drawn = data.curves.flatMap(([, stretches]) => stretches.flatMap(({ points }) => points));
  const seen = data.observed.map((o) => o.a), ends = data.finals.flatMap((f) => f.accuracies);
  const reach = quotes.flatMap((q) => [q.lo, q.hi]);
  const focus = [...quotes.map((q) => q.a), ...seen, ...ends];
  const y = roomFor(focus, reach, 0.06);
  const spent = [...quotes.map((q) => q.b), ...drawn.map(([budget]) => budget), ...data.finals.map((f) => f.c), ...data.observed.map((o) => o.c)];
  const low = Math.min(...spent, 0.98), high = Math.max(...spent);
  const chart = frame(host, { height: Math.min(420, Math.max(300, host.clientWidth * 0.7)), x: [low, high], y,
    xLabel: `remaining ${data.spending.noun}`, xFormat: tickPercent });
  const clip = make("clipPath", { id: "budget-clip" }, chart.svg), { inner } = chart;
  make("rect", { x: inner.left, y: inner.top - 8, width: inner.right - inner.left, height: inner.bottom - inner.top + 8 }, clip);
  const clipped = (node) => { node.setAttribute("clip-path", "url(#budget-clip)"); return node; };
  const lower = data.band.map(([budget, low]) => [budget, low]), upper = data.band.map(([budget, , high]) => [budget, high]);
  if (data.band.length) clipped(chart.band(upper, lower, colour("joint")));
  for (const [name, stretches] of data.curves) for (const { inside, points } of stretches)
    clipped(chart.line(points, colour(name), `${name === "joint" ? "strong" : ""} ${inside ? "" : "beyond"}`));
  const points = quotes.map((q) => ({ x: chart.px(q.b), y: chart.py(q.a), text: `budget ${percent(q.b)}: ${score(q.a)}\ndepth ${q.s[0].toFixed(2)}, width ${q.s[1].toFixed(2)}, resolution ${q.s[2].toFixed(2)}` }));
  for (const o of data.observed) {
    chart.dot(o.c, o.a, colour(o.axis));
    points.push({ x: chart.px(o.c), y: chart.py(o.a), text: `observed: ${o.axis} ${o.kept}\n${score(o.a)} at ${percent(o.c, 1)} of the ${data.spending.noun}` });
  }
  for (const f of data.finals) for (const a of f.accuracies) {
    chart.diamond(f.c, a, colour(f.name));
    points.push({ x: chart.px(f.c), y: chart.py(a), text: `finished: ${f.name}\n${score(a)} on the test split` });
  }
  const marker = make("g", {}, chart.svg);
  const follow = () => {
    const q = quotes[current], x = chart.px(q.b);
    marker.replaceChildren();
    make("line", { class: "here", x1: x, x2: x, y1: inner.top, y2: inner.bottom }, marker);
    make("circle", { class: "ring", cx: x, cy: chart.py(q.a), r: 7 }, marker);
  };
  follow(); host.follow = follow;
  hover(chart.svg, points);
}

if (slider) {
  slider.addEventListener("input", () => { current = Number(slider.value); showQuote(); });
  chart("budget", drawBudget);
  for (const host of document.querySelectorAll('[data-chart="budget"]')) followers.push(() => host.follow && host.follow());
}
