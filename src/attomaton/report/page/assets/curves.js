// Measured training curves, and curves predicted without training.

const CHART = { width: 460, height: 250, left: 52, right: 12, top: 14, bottom: 36 };

// Multiples of 1, 2 or 5 times a power of ten between two numbers, at most about n.
function ticksOf(low, high, n) {
  const raw = (high - low) / n || 1;
  const unit = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((times) => times * unit).find((candidate) => candidate >= raw);
  const ticks = [];
  for (let at = Math.ceil(low / step) * step; at <= high + 1e-9 * step; at += step) ticks.push(at);
  return ticks;
}

// Two curves of points [step, value] on a logarithmic axis of steps; null if there is nothing to draw.
function drawChart(title, measured, predicted, note = "; the numbers are in the table below") {
  const all = [...measured, ...predicted].filter(([step, value]) => step > 0 && value !== null);
  if (!all.length) return null;
  const steps = all.map(([step]) => Math.log10(step));
  const values = all.map(([, value]) => value);
  const [first, last, low, high] = [
    Math.min(...steps),
    Math.max(...steps, Math.min(...steps) + 0.1),
    Math.min(0, ...values),
    Math.max(...values),
  ];
  const { width, height, left, right, top, bottom } = CHART;
  const x = (step) => left + ((width - left - right) * (Math.log10(step) - first)) / (last - first);
  const y = (value) => height - bottom - ((height - top - bottom) * (value - low)) / (high - low || 1);
  const path = (points) =>
    points
      .filter(([step, value]) => step > 0 && value !== null)
      .map(([step, value], place) => `${place ? "L" : "M"}${x(step).toFixed(1)} ${y(value).toFixed(1)}`)
      .join("");
  const powers = [];
  for (let power = Math.ceil(first); power <= last; power++) powers.push(10 ** power);
  const svg = draw(
    "svg",
    {
      class: "chart",
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": `${title}, by training step${note}`,
    },
    ticksOf(low, high, 4).map((at) =>
      draw(
        "g",
        null,
        draw("line", { class: "grid", x1: left, x2: width - right, y1: y(at), y2: y(at) }),
        draw("text", { x: left - 6, y: y(at) + 4, "text-anchor": "end" }, short(Number(at.toPrecision(6)))),
      ),
    ),
    powers.map((at) =>
      draw(
        "g",
        null,
        draw("line", { class: "grid", x1: x(at), x2: x(at), y1: top, y2: height - bottom }),
        draw("text", { x: x(at), y: height - bottom + 16, "text-anchor": "middle" }, count(at)),
      ),
    ),
    draw("text", { x: (left + width - right) / 2, y: height - 3, "text-anchor": "middle" }, "step"),
    draw("path", { class: "measured", d: path(measured) }),
    predicted.length ? draw("path", { class: "predicted", d: path(predicted) }) : null,
  );
  return make("figure", null, make("figcaption", null, title), svg);
}

function showTraining(automaton) {
  const { training } = automaton.data;
  const place = find("training");
  if (!training) {
    place.append(
      make(
        "p",
        { class: "quiet" },
        "This run folder has no training. Add it with attomaton train CORPUS --out RUN, and its verdicts with attomaton verify RUN.",
      ),
    );
    if (automaton.data.verdicts.length) place.append(...showVerdicts(automaton));
    return;
  }
  const pick = (points, column) => points.map((point) => [point[0], point[column]]);
  const charts = [
    ["Training loss", 1],
    ["Norm of W", 2],
  ].map(([title, column]) =>
    drawChart(title, pick(training.measured, column), pick(training.predicted, column)),
  );
  const legend = make(
    "p",
    { class: "legend" },
    make("span", { class: "key measured" }),
    " measured",
    ...(training.predicted.length
      ? [make("span", { class: "key predicted" }), " predicted from the corpus alone"]
      : []),
  );
  const every = Math.max(1, Math.ceil(training.measured.length / 20));
  const rows = training.measured
    .filter((_, row) => row % every === 0 || row === training.measured.length - 1)
    .map(([step, loss, norm]) => [count(step), short(loss), short(norm)]);
  place.append(
    make("div", { class: "charts" }, charts),
    legend,
    training.reason ? make("p", { class: "quiet" }, training.reason) : "",
    make(
      "details",
      null,
      make("summary", null, "The numbers"),
      table("Measured", ["step", "loss", "norm of W"], rows),
    ),
    ...showVerdicts(automaton),
  );
}
