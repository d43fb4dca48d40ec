// An audit of heads: what explains where each looks, as bars and as a table.

const RUNG_COLOURS = ["#8c8c8c", "#0072b2", "#d55e00", "#009e73", "#8a5cb8", "#b0892e", "#3a9aa8"];
const BARS = { height: 250, left: 46, right: 8, top: 12, bottom: 44, bar: 18 };

const fixed = (value, digits) =>
  value === null ? "–" : (value < 0 ? "−" : "") + Math.abs(value).toFixed(digits);
const signed = (value, digits) => (value !== null && value >= 0 ? "+" : "") + fixed(value, digits);
const colourOf = (rung) => RUNG_COLOURS[rung % RUNG_COLOURS.length];

// One bar per head; each part is the contribution of a rung. Negative contributions are not drawn.
function drawBars({ heads, rungs }) {
  const { height, left, right, top, bottom, bar } = BARS;
  const width = Math.max(460, left + right + bar * heads.length),
    room = (width - left - right) / heads.length;
  const y = (share) => height - bottom - (height - top - bottom) * Math.min(share, 1);
  const bars = heads.map(([name, shares], place) => {
    let below = 0;
    const parts = shares.map((share, rung) => {
      const reached = Math.max(below, share ?? 0);
      const part = draw("rect", {
        x: (left + room * (place + 0.1)).toFixed(1),
        width: (0.8 * room).toFixed(1),
        y: y(reached).toFixed(1),
        height: (y(below) - y(reached)).toFixed(1),
        fill: colourOf(rung),
      });
      below = reached;
      return part;
    });
    const x = left + room * (place + 0.5),
      under = height - bottom + 8;
    return draw(
      "g",
      null,
      draw("title", null, `${visible(name)}: ${fixed(shares[shares.length - 1], 3)} explained`),
      parts,
      draw(
        "text",
        { x: x + 4, y: under, transform: `rotate(-90 ${x + 4} ${under})`, "text-anchor": "end" },
        cut(visible(name), 6),
      ),
    );
  });
  const lines = [0, 0.25, 0.5, 0.75, 1].map((at) =>
    draw(
      "g",
      null,
      draw("line", { class: "grid", x1: left, x2: width - right, y1: y(at), y2: y(at) }),
      draw("text", { x: left - 6, y: y(at) + 4, "text-anchor": "end" }, String(at)),
    ),
  );
  const svg = draw(
    "svg",
    {
      class: "bars",
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": "Explained share of each head, rung by rung; the numbers are in the table below",
    },
    lines,
    bars,
  );
  const legend = rungs.map((name, rung) =>
    make(
      "span",
      { class: "rung" },
      draw(
        "svg",
        { width: 12, height: 12, "aria-hidden": "true" },
        draw("rect", { width: 12, height: 12, fill: colourOf(rung) }),
      ),
      token(name, 40),
    ),
  );
  return make(
    "figure",
    null,
    make("figcaption", null, "Contribution of each rung to the explained share of each head"),
    make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Explained shares" }, svg),
    make("p", { class: "legend rungs" }, legend),
  );
}

function tableOfHeads(audit) {
  const causal = audit.no_evidence !== null;
  const rungs = audit.rungs.map((name, place) => make("span", null, place ? "+ " : "", token(name, 40)));
  const headers = ["head", ...rungs, "next-token excess", "z", "seeks the next token"];
  if (causal) headers.push("loss, own mean pattern", "loss, mean output");
  const rows = audit.heads.map(([name, shares, excess, z, seeks, ...worth]) => [
    token(name, 40),
    ...shares.map((share) => fixed(share, 3)),
    signed(excess, 3),
    signed(z, 1),
    seeks === null ? "–" : seeks ? "yes" : "no",
    ...worth.map((rise) => signed(rise, 4)),
  ]);
  return table("Explained share, nested: each rung includes all before it", headers, rows, { class: "audit" });
}

function showHeads(automaton) {
  const { heads: audit } = automaton.data,
    place = find("heads");
  if (!audit) {
    place.remove();
    find("heads-link").remove();
    return;
  }
  const say = (text, kind) => make("p", { class: kind ?? "quiet" }, text);
  const over = audit.steps.length > 1;
  const pick = (column) => audit.steps.map((one) => [one[0], one[column]]);
  place.append(
    make(
      "p",
      { class: "lead" },
      "Heads of ",
      token(audit.model, 80),
      audit.step === null ? "" : `, at step ${count(audit.step)}`,
      `: ${plural(audit.rows, "row")} of attention in ${plural(audit.documents, "held-out document")}. `,
      "An explained share is 1 if the rungs predict the attention of a head exactly, 0 if they explain nothing, and below 0 if they mislead.",
    ),
    drawBars(audit),
  );
  const mean = over
    ? drawChart("Mean explained share over heads, by training step", pick(2), pick(1))
    : null;
  if (mean) {
    const first = make("span", null, " ", token(audit.rungs[0], 40), " alone");
    const keys = [make("span", { class: "key measured" }), " all rungs", make("span", { class: "key predicted" })];
    place.append(make("div", { class: "charts" }, mean), make("p", { class: "legend" }, keys, first));
  }
  if (audit.heads.length < audit.n_heads)
    place.append(say(`The first ${count(audit.heads.length)} of ${count(audit.n_heads)} heads are shown.`, "notice"));
  place.append(tableOfHeads(audit), say(audit.said_of_z));
  place.append(
    say(
      audit.no_evidence === null
        ? "The file does not contain the causal effect of heads."
        : `The last two columns give the rise in loss when a head uses its own mean attention pattern, and when its output is its mean. ${audit.no_evidence}`,
    ),
  );
}
