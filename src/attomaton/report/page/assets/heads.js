// An audit of heads: what explains where each head looks, as bars and as a table.
//
// A head is [name, shares, excess, z, seeks, rise with its own mean pattern, rise with its mean output]; the two
// rises are missing without a causal audit. shares[rung] is the explained share of all rungs up to this one.

const RUNG_COLOURS = ["#8c8c8c", "#0072b2", "#d55e00", "#009e73", "#8a5cb8", "#b0892e", "#3a9aa8"];
// In pixels: the margins of the drawing, and the width of a bar with the space beside it.
const BARS = { height: 250, left: 46, right: 8, top: 12, bottom: 44, bar: 18 };

const fixed = (value, digits) =>
  value === null ? "–" : (value < 0 ? "−" : "") + Math.abs(value).toFixed(digits);
const signed = (value, digits) => (value !== null && value >= 0 ? "+" : "") + fixed(value, digits);
const colourOf = (rung) => RUNG_COLOURS[rung % RUNG_COLOURS.length];

const yOfShare = (share) =>
  BARS.height - BARS.bottom - (BARS.height - BARS.top - BARS.bottom) * Math.min(share, 1);

// The bar of a head, from x on; each part is what a rung adds. Negative additions are not drawn.
function drawBar([name, shares], x, width) {
  let drawn = 0;
  const parts = shares.map((share, rung) => {
    const reached = Math.max(drawn, share ?? 0);
    const part = draw("rect", {
      x: (x + 0.1 * width).toFixed(1),
      width: (0.8 * width).toFixed(1),
      y: yOfShare(reached).toFixed(1),
      height: (yOfShare(drawn) - yOfShare(reached)).toFixed(1),
      fill: colourOf(rung),
    });
    drawn = reached;
    return part;
  });
  const labelX = x + 0.5 * width + 4;
  const labelY = BARS.height - BARS.bottom + 8;
  const upright = `rotate(-90 ${labelX} ${labelY})`;
  return draw(
    "g",
    null,
    draw("title", null, `${visible(name)}: ${fixed(shares[shares.length - 1], 3)} explained`),
    parts,
    draw("text", { x: labelX, y: labelY, transform: upright, "text-anchor": "end" }, cut(visible(name), 6)),
  );
}

// The bars of all heads, with a grid of shares and a legend of rungs.
function drawBars({ heads, rungs }) {
  const { height, left, right, bar } = BARS;
  const width = Math.max(460, left + right + bar * heads.length);
  const barWidth = (width - left - right) / heads.length;
  const bars = heads.map((head, index) => drawBar(head, left + barWidth * index, barWidth));
  const lines = [0, 0.25, 0.5, 0.75, 1].map((share) => {
    const y = yOfShare(share);
    return draw(
      "g",
      null,
      draw("line", { class: "grid", x1: left, x2: width - right, y1: y, y2: y }),
      draw("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, String(share)),
    );
  });
  const svg = draw(
    "svg",
    {
      class: "bars",
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": "What each rung adds to the explained share of each head; the numbers are in the table below",
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
    make("figcaption", null, "What each rung adds to the explained share of each head"),
    make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Explained shares" }, svg),
    make("p", { class: "legend rungs" }, legend),
  );
}

function tableOfHeads(audit) {
  const isCausal = audit.no_evidence !== null;
  const rungs = audit.rungs.map((name, index) => make("span", null, index ? "+ " : "", token(name, 40)));
  const headers = ["head", ...rungs, "next-token excess", "z", "seeks the next token"];
  if (isCausal) headers.push("loss, own mean pattern", "loss, mean output");
  const rows = audit.heads.map(([name, shares, excess, z, seeks, ...rises]) => [
    token(name, 40),
    ...shares.map((share) => fixed(share, 3)),
    signed(excess, 3),
    signed(z, 1),
    seeks === null ? "–" : seeks ? "yes" : "no",
    ...rises.map((rise) => signed(rise, 4)),
  ]);
  const title = "Explained share of attention, cumulative: each rung together with the rungs before it";
  return table(title, headers, rows, { class: "audit" });
}

// The section of the page; it is removed if there is no audit.
function showHeads(automaton) {
  const { heads: audit } = automaton.data;
  const section = find("heads");
  if (!audit) {
    section.remove();
    find("heads-link").remove();
    return;
  }
  const say = (text, kind) => make("p", { class: kind ?? "quiet" }, text);
  section.append(
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
  // audit.steps are [step, mean share of the first rung, mean share of all rungs]
  const pick = (column) => audit.steps.map((means) => [means[0], means[column]]);
  const title = "Explained share of attention, mean over heads";
  const chart = audit.steps.length > 1 ? drawChart(title, pick(2), pick(1), "") : null;
  if (chart) {
    const first = make("span", null, " ", token(audit.rungs[0], 40), " alone");
    const keys = [make("span", { class: "key measured" }), " all rungs", make("span", { class: "key predicted" })];
    section.append(make("div", { class: "charts" }, chart), make("p", { class: "legend" }, keys, first));
  }
  if (audit.heads.length < audit.n_heads)
    section.append(say(`The first ${count(audit.heads.length)} of ${count(audit.n_heads)} heads are shown.`, "notice"));
  section.append(tableOfHeads(audit), say(audit.said_of_z));
  section.append(
    say(
      audit.no_evidence === null
        ? "The file does not contain the causal effect of heads."
        : `The last two columns give the rise in loss when a head uses its own mean attention pattern, and when its output is its mean. ${audit.no_evidence}`,
    ),
  );
}
