// An audit of heads: a map of layers and heads, a list of them, and a panel about the chosen one.

const data = JSON.parse(find("data").textContent);
const { columns, rungs, explained } = data;
const all = data.layers.map((_, head) => head);
const nameOf = (head) => `L${data.layers[head]}H${data.numbers[head]}`;
const dotted = (head) => `${data.layers[head]}.${data.numbers[head]}`;
const known = (name) => name in columns && columns[name].some((one) => one !== null);

const rounded = (value, digits) => Number(value.toFixed(digits)); // −0.04 becomes 0, not "−0.0"
const fixed = (value, digits) => (value === null ? "–" : rounded(value, digits).toFixed(digits).replace("-", "−"));
const signed = (value, digits) => (value !== null && rounded(value, digits) >= 0 ? "+" : "") + fixed(value, digits);
const typeOf = (head) => (known("type") && columns.type[head] !== null ? columns.type[head] : "no type");

// Colours of types: Okabe and Ito's, and greys. Each type also has a letter, for readers who see no colours.
const TYPE_COLOURS = {
  sink: "#5b6470",
  "previous token": "#0072b2",
  induction: "#d55e00",
  duplicate: "#e69f00",
  position: "#56b4e9",
  delimiter: "#f0e442",
  "token-specific": "#009e73",
  "next-token seeking": "#cc79a7",
  contextual: "#dfe3e8",
  mixed: "#b9a58c",
  "like random weights": "#f3ead7",
  uniform: "#a3abb5",
  "outside the window": "#c9b8e8",
};
const SPARE = ["#7b3294", "#1b2330", "#a6d854", "#8c510a"];

const types = new Map(); // type → how many heads, colour, letter
for (const head of all) {
  const entry = types.get(typeOf(head)) ?? { count: 0 };
  entry.count += 1;
  types.set(typeOf(head), entry);
}
const KNOWN_TYPES = Object.keys(TYPE_COLOURS);
const rankOf = (type) => (KNOWN_TYPES.includes(type) ? KNOWN_TYPES.indexOf(type) : KNOWN_TYPES.length);
const typeNames = [...types.keys()].sort((one, other) => rankOf(one) - rankOf(other));
const letters = new Map(); // those of the known types do not depend on which of them occur
for (const name of [...KNOWN_TYPES, ...typeNames]) {
  const free = Array.from(name.toUpperCase()).find(
    (sign) => /\p{L}/u.test(sign) && ![...letters.values()].includes(sign),
  );
  if (!letters.has(name)) letters.set(name, free ?? "?");
}
typeNames.forEach((name, place) => {
  const colour = Object.hasOwn(TYPE_COLOURS, name) ? TYPE_COLOURS[name] : SPARE[place % SPARE.length];
  Object.assign(types.get(name), { colour, letter: letters.get(name) });
});

// A colour between those of a ramp, at 0 … 1, and whether text on it is white.
const SHARE = ["#f4f6f8", "#a9cce3", "#3b86bd", "#0b3c6f"];
const SIGNED = ["#8a3a00", "#d55e00", "#f2b98f", "#f6f6f6", "#8fc1e0", "#0072b2", "#06365a"];
const SHADE = ["#ffffff", "#005c9e"];
const MISSING = "#ffffff";
const parse = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
function onRamp(ramp, at) {
  const place = Math.min(Math.max(at, 0), 1) * (ramp.length - 1),
    low = Math.min(Math.floor(place), ramp.length - 2);
  const [from, to] = [parse(ramp[low]), parse(ramp[low + 1])];
  const mixed = from.map((one, part) => Math.round(one + (to[part] - one) * (place - low)));
  return "#" + mixed.map((one) => one.toString(16).padStart(2, "0")).join("");
}
function inkOn(colour) {
  const [red, green, blue] = parse(colour).map((one) => {
    const share = one / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.179 ? "#ffffff" : "#000000"; // a contrast of at least 4.5
}

// What the map may show: types, shares between 0 and most, or numbers of both signs.
const added = (rung) =>
  all.map((head) =>
    explained[rung][head] === null || (rung && explained[rung - 1][head] === null)
      ? null
      : explained[rung][head] - (rung ? explained[rung - 1][head] : 0),
  );
function findMeasures() {
  const found = [];
  const share = (group, name, values) =>
    found.push({ group, name, values, kind: "share", most: 1, digits: 3 });
  const number = (group, name, values, digits) => {
    const sizes = values
      .filter((one) => one !== null)
      .map(Math.abs)
      .sort((one, other) => one - other);
    const most = sizes.length ? sizes[Math.floor(0.98 * (sizes.length - 1))] : 0; // a few heads are far from all others
    found.push({ group, name, values, kind: "signed", most: most || 1, digits });
  };
  if (known("type")) found.push({ group: "Summary", name: "type", kind: "type", values: columns.type });
  if (known("named")) share("Summary", "explained by named rungs", columns.named);
  else share("Summary", "explained by all rungs", explained[rungs.length - 1]);
  if (known("pairs")) share("Summary", "explainable by pairs", columns.pairs);
  if (known("contextual")) share("Summary", "contextual", columns.contextual);
  share("Summary", "attention on the first token", columns.first);
  number("Summary", "next-token seeking, z", columns.seeking_z, 1);
  rungs.forEach((name, rung) => number("Added by a rung", cut(visible(name), 40), added(rung), 3));
  if (known("pattern_rise"))
    number("Causal value: rise in loss", "own mean pattern", columns.pattern_rise, 4);
  if (known("ablation_rise")) number("Causal value: rise in loss", "mean output", columns.ablation_rise, 4);
  return found;
}
const measures = findMeasures();
let measure = measures[0];

function colourOf(head) {
  if (measure.kind === "type") return types.get(typeOf(head)).colour;
  const value = measure.values[head];
  if (value === null) return MISSING;
  if (measure.kind === "share") return onRamp(SHARE, value / measure.most);
  return onRamp(SIGNED, 0.5 + value / measure.most / 2);
}
function valueOf(head) {
  if (measure.kind === "type") return cut(visible(typeOf(head)), 40);
  const value = measure.values[head];
  return measure.kind === "share" ? fixed(value, measure.digits) : signed(value, measure.digits);
}

// The order "by interest": the rarest type first, then the largest share; without types, the largest |z|.
const shareOf = (head) =>
  known("type_share") ? columns.type_share[head] : explained[rungs.length - 1][head];
const byInterest = [...all].sort((one, other) => {
  const [first, second] = [one, other].map((head) => types.get(typeOf(head)).count);
  const strength = (head) => (known("type") ? shareOf(head) : Math.abs(columns.seeking_z[head] ?? 0)) ?? 0;
  return first - second || rankOf(typeOf(one)) - rankOf(typeOf(other)) || strength(other) - strength(one);
});

let chosen = byInterest[0];
const shownTypes = new Set(); // empty: all
let text = "";
const isShown = (head) =>
  (!shownTypes.size || shownTypes.has(typeOf(head))) &&
  (!text ||
    [nameOf(head), dotted(head), `layer ${data.layers[head]}`].some((one) => one.toLowerCase() === text) ||
    typeOf(head).toLowerCase().includes(text));

// The map.
const cells = [];
function drawMap() {
  const grid = find("map"),
    wide = Math.max(...data.numbers) + 1;
  grid.style.gridTemplateColumns = `2.4rem repeat(${wide}, minmax(8px, 26px))`;
  grid.style.setProperty("--wide", wide);
  document.querySelector("main").classList.toggle("slim", wide <= 10); // the list fits beside the map
  const every = wide > 16 ? 4 : 1;
  const top = Array.from({ length: wide }, (_, number) =>
    make(
      "span",
      { role: "columnheader", "aria-label": `head ${number}` },
      number % every ? "" : String(number),
    ),
  );
  grid.append(
    make("div", { role: "row" }, make("span", { role: "columnheader", class: "corner" }, "layer"), top),
  );
  const layers = new Map();
  for (const head of all) layers.set(data.layers[head], [...(layers.get(data.layers[head]) ?? []), head]);
  for (const [layer, heads] of [...layers].sort((one, other) => one[0] - other[0])) {
    const row = heads.map((head) => {
      const cell = make("button", {
        type: "button",
        role: "gridcell",
        class: "cell",
        tabindex: -1,
        "data-head": head,
      });
      cell.style.gridColumn = data.numbers[head] + 2;
      cells[head] = cell;
      return cell;
    });
    grid.append(make("div", { role: "row" }, make("span", { role: "rowheader" }, String(layer)), row));
  }
  const headOf = (event) => {
    const cell = event.target.closest("[data-head]");
    return cell && grid.contains(cell) ? Number(cell.dataset.head) : null;
  };
  grid.addEventListener("click", (event) => headOf(event) !== null && choose(headOf(event), true));
  grid.addEventListener("keydown", moveFocus);
  for (const name of ["mouseover", "focusin"]) grid.addEventListener(name, (event) => showTip(headOf(event)));
  for (const name of ["mouseleave", "focusout"]) grid.addEventListener(name, () => showTip(null));
}

function colourMap() {
  for (const head of all) {
    const colour = colourOf(head),
      cell = cells[head];
    cell.style.background = colour;
    cell.style.color = inkOn(colour);
    cell.textContent = measure.kind === "type" ? types.get(typeOf(head)).letter : "";
    cell.setAttribute("aria-label", `${nameOf(head)}, ${measure.name} ${valueOf(head)}`);
    cell.setAttribute("aria-selected", head === chosen);
    cell.tabIndex = head === chosen ? 0 : -1;
    cell.classList.toggle("faint", !isShown(head));
  }
}

const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
function moveFocus(event) {
  const step = STEPS[event.key],
    from = cells.indexOf(event.target);
  if (!step || from < 0) return;
  event.preventDefault();
  const next = all.find(
    (head) =>
      data.layers[head] === data.layers[from] + step[0] &&
      data.numbers[head] === data.numbers[from] + step[1],
  );
  if (next !== undefined) cells[next].focus();
}

function showTip(head) {
  const tip = find("tip");
  tip.hidden = head === null;
  if (head === null) return;
  const lines = [make("strong", null, `${nameOf(head)} · ${dotted(head)}`)];
  if (known("type"))
    lines.push(
      make(
        "span",
        null,
        token(typeOf(head), 40),
        known("type_share") ? ` (share ${fixed(shareOf(head), 2)})` : "",
      ),
    );
  if (measure.kind !== "type") lines.push(make("span", null, `${measure.name}: ${valueOf(head)}`));
  lines.push(make("span", null, `next-token seeking: z ${signed(columns.seeking_z[head], 1)}`));
  replace(tip, lines);
  const cell = cells[head].getBoundingClientRect(),
    box = tip.getBoundingClientRect(),
    room = document.documentElement.clientWidth;
  tip.style.left = `${Math.max(4, Math.min(cell.left, room - box.width - 4))}px`;
  tip.style.top = `${cell.top > box.height + 8 ? cell.top - box.height - 6 : cell.bottom + 6}px`;
}

// The legend; that of types is also the filter.
function drawLegend() {
  const chip = (name) => {
    const { colour, letter, count: many } = types.get(name);
    const swatch = make("span", { class: "swatch", "aria-hidden": "true" }, letter);
    swatch.style.background = colour;
    swatch.style.color = inkOn(colour);
    return make(
      "button",
      {
        type: "button",
        class: "toggle",
        "aria-pressed": String(shownTypes.has(name)),
        onclick: () => toggle(name),
      },
      swatch,
      token(name, 40),
      make("small", null, ` ${count(many)}`),
    );
  };
  const parts = [];
  if (known("type")) {
    const focused = document.activeElement?.closest("#legend .toggle");
    const at = focused ? [...find("legend").querySelectorAll(".toggle")].indexOf(focused) : -1;
    parts.push(
      make(
        "div",
        { class: "toggles", role: "group", "aria-label": "Show only heads of these types" },
        typeNames.map(chip),
      ),
    );
    if (at >= 0) setTimeout(() => find("legend").querySelectorAll(".toggle")[at]?.focus());
  }
  if (measure.kind !== "type") {
    const bar = make("span", { class: "ramp", "aria-hidden": "true" }),
      ramp = measure.kind === "share" ? SHARE : SIGNED;
    bar.style.background = `linear-gradient(to right, ${ramp.join(", ")})`;
    const ends =
      measure.kind === "share"
        ? ["0", "1"]
        : [`≤ −${fixed(measure.most, measure.digits)}`, `≥ +${fixed(measure.most, measure.digits)}`];
    parts.push(make("p", { class: "row scale" }, ends[0], bar, ends[1]));
  }
  replace(find("legend"), parts);
}
function toggle(name) {
  if (!shownTypes.delete(name)) shownTypes.add(name);
  refresh();
}

// The list.
const zOf = known("type_z") ? columns.type_z : columns.seeking_z;
const listColumns = [
  {
    name: "head",
    of: (head) => nameOf(head),
    key: (head) => [data.layers[head], data.numbers[head]],
    ascending: true,
  },
  ...(known("type")
    ? [
        {
          name: "type",
          of: (head) => token(typeOf(head), 40),
          key: (head) => [rankOf(typeOf(head)), -(shareOf(head) ?? 0)],
          ascending: true,
        },
      ]
    : []),
  {
    name: known("type_share") ? "share" : "explained",
    of: (head) => fixed(shareOf(head), 2),
    key: (head) => [shareOf(head) ?? -Infinity],
  },
  {
    name: "z",
    of: (head) => signed(zOf[head], 1),
    key: (head) => [zOf[head] ?? -Infinity],
  },
  {
    name: "first",
    of: (head) => fixed(columns.first[head], 2),
    key: (head) => [columns.first[head] ?? -Infinity],
  },
];
let sorting = { column: null, up: true }; // null: by interest
let most = 200; // rows of the list, until all are asked for
function order() {
  if (!sorting.column) return byInterest;
  const { key } = sorting.column,
    sign = sorting.up ? 1 : -1;
  return [...all].sort((one, other) => {
    const [first, second] = [key(one), key(other)];
    const at = first.findIndex((part, place) => part !== second[place]);
    return at < 0 ? one - other : sign * (first[at] < second[at] ? -1 : 1);
  });
}
function drawList() {
  const heads = order().filter(isShown);
  const header = (column) => {
    const mine = sorting.column === column,
      up = mine ? !sorting.up : Boolean(column.ascending);
    const act = () => {
      sorting = { column, up };
      drawList();
      find("list").querySelectorAll("thead button")[listColumns.indexOf(column)].focus();
    };
    const arrow = mine ? (sorting.up ? " ▲" : " ▼") : "";
    const state = mine ? (sorting.up ? "ascending" : "descending") : "none";
    return make(
      "th",
      { scope: "col", "aria-sort": state },
      button(column.name + arrow, act, { class: "link" }),
    );
  };
  const row = (head) =>
    make(
      "tr",
      { "data-head": head, class: head === chosen ? "chosen" : null },
      listColumns.map((column, place) =>
        place
          ? make("td", null, column.of(head))
          : make(
              "th",
              { scope: "row" },
              button(column.of(head), null, { class: "link" }),
              ` ${dotted(head)}`,
            ),
      ),
    );
  const rule = known("type") ? "rarest type first, then the largest share" : "largest |z| first";
  const said = sorting.column
    ? button("Sort by interest", () => ((sorting = { column: null, up: true }), drawList()), {
        class: "link",
      })
    : `Sorted by interest: ${rule}.`;
  replace(
    find("list"),
    make(
      "p",
      { class: "quiet" },
      said,
      ` z is that of ${known("type_z") ? "the type" : "next-token seeking"}, against random heads;`,
      " first is the attention on the first token.",
    ),
    make(
      "table",
      null,
      make("thead", null, make("tr", null, listColumns.map(header))),
      make("tbody", null, heads.slice(0, most).map(row)),
    ),
    heads.length > most
      ? button(`Show all ${count(heads.length)}`, () => ((most = Infinity), drawList()))
      : null,
  );
  find("n-shown").textContent = `${count(heads.length)} of ${plural(all.length, "head")}`;
}
find("list").addEventListener("click", (event) => {
  const row = event.target.closest("tr[data-head]");
  if (row) choose(Number(row.dataset.head), true);
});

// The panel: ladder, numbers and contexts of the chosen head.
function drawLadder(head) {
  const rows = [];
  let before = 0;
  const bar = (name, from, to, kind, note) => {
    const [low, high] = [from, to]
      .map((one) => Math.min(Math.max(one, 0), 1))
      .sort((one, other) => one - other);
    const part = make("span", { class: `part ${kind}` });
    part.style.left = `${100 * low}%`;
    part.style.width = `${100 * (high - low)}%`;
    rows.push(
      make(
        "tr",
        null,
        make("th", { scope: "row" }, token(name, 40)),
        make("td", { class: "beam" }, part),
        make("td", null, kind === "rest" ? fixed(to - from, 3) : signed(to - from, 3)),
        make("td", null, note),
      ),
    );
  };
  rungs.forEach((name, rung) => {
    const share = explained[rung][head];
    if (share === null) return;
    bar(name, before, share, share < before ? "harm" : "help", signed(data.z[rung][head], 1));
    before = share;
  });
  const contextual = known("contextual") ? columns.contextual[head] : null;
  if (contextual === null) bar("not explained", before, 1, "rest", "");
  else {
    bar("any pair score", before, Math.max(1 - contextual, before), "pairs", "");
    bar("contextual", 1 - contextual, 1, "rest", "");
  }
  return make(
    "table",
    { class: "ladder" },
    make("caption", null, "What explains where it looks: share added by each rung, on held-out documents"),
    columnHeads(["rung", "0 … 1", "share", "z"]),
    make("tbody", null, rows),
  );
}

function listNumbers(head) {
  const of = (name) => (name in columns ? columns[name][head] : null),
    rows = [];
  const add = (name, value) => rows.push(make("div", null, make("dt", null, name), make("dd", null, value)));
  const [inside, first] = [of("inside"), of("first")];
  add("on the window", fixed(inside, 3));
  add("on the first token", fixed(first, 3));
  if (inside !== null && first !== null) add("between them", fixed(Math.max(1 - inside - first, 0), 3));
  add("on copies of the next token", fixed(of("seeking_mass"), 3));
  add("excess on the next token", signed(of("seeking_excess"), 3));
  add("next-token seeking, z", signed(of("seeking_z"), 1));
  add("seeks the next token", of("seeks") === null ? "not tested" : of("seeks") ? "yes" : "no");
  if (known("pattern_rise")) add("loss, own mean pattern", signed(of("pattern_rise"), 4));
  if (known("ablation_rise")) add("loss, mean output", signed(of("ablation_rise"), 4));
  return make("dl", { class: "figures" }, rows);
}

// A token of a context; its shade grows with the square root of attention, so that a few percent are visible.
function shade(element, share) {
  const colour = onRamp(SHADE, Math.sqrt(share));
  element.style.background = colour;
  element.style.color = inkOn(colour);
  return element;
}
function word(id, share, kind, note) {
  const whole = data.tokens[id],
    shown = cut(visible(whole), 40),
    blank = shown.length > 1 && shown.startsWith("␣");
  const element = make(
    "bdi",
    { class: `word ${kind}`, title: share === null ? note : `${percent(share)} of attention; ${note}` },
    blank ? [make("span", { class: "blank" }, "␣"), shown.slice(1)] : shown,
  );
  return share === null ? element : shade(element, share);
}
function drawContext([number, first, ...attention]) {
  const [document, position, opening, label, ...tokens] = data.windows[number];
  const share = (part) => part / data.full;
  const between = Math.max(0, 1 - share(first) - attention.reduce((sum, part) => sum + share(part), 0));
  const gap = position - tokens.length, // tokens between the first one and the window
    last = tokens.length - 1;
  const rounded = between * data.full < tokens.length / 2 + 1 ? 0 : between; // each share is rounded
  const words = tokens.map((id, at) => {
    const kinds = [at === last ? "query" : "", id === label ? "same" : ""];
    const lag = last - at;
    return word(
      id,
      share(attention[at]),
      kinds.join(" "),
      at === last ? "the query" : `${plural(lag, "token")} before the query`,
    );
  });
  const parts = [word(opening, share(first), "first", "the first token")];
  if (gap > 0)
    parts.push(
      shade(
        make(
          "span",
          { class: "word gap", title: `${plural(gap, "token")} not shown; ${percent(rounded)} of attention` },
          "…",
        ),
        rounded,
      ),
    );
  return make(
    "figure",
    { class: "context" },
    make(
      "figcaption",
      null,
      `Document ${count(document)}, position ${count(position)}: ${percent(share(first))} on the first token`,
    ),
    make(
      "p",
      { class: "words", dir: "ltr" },
      parts,
      words,
      make("span", { class: "arrow", "aria-label": "next token" }, "→"),
      word(label, null, "next", "the next token"),
    ),
  );
}
function shades() {
  const keys = [0.01, 0.05, 0.2, 0.5, 1].flatMap((share) => [
    shade(make("span", { class: "word" }, `${100 * share}\u00a0%`), share),
    " ",
  ]);
  return make(
    "p",
    { class: "quiet words" },
    "Attention: ",
    keys,
    " ",
    make("span", { class: "word query" }, "query"),
    " ",
    make("span", { class: "word next" }, "next token"),
    " ",
    make("span", { class: "word same" }, "the same token as the next one"),
  );
}

function drawPanel() {
  const head = chosen,
    contexts = data.contexts[head] ?? [];
  const { colour, letter } = types.get(typeOf(head));
  const chip = make("span", { class: "swatch", "aria-hidden": "true" }, letter);
  chip.style.background = colour;
  chip.style.color = inkOn(colour);
  const share =
    known("type_share") && columns.type_share[head] !== null ? `, share ${fixed(shareOf(head), 2)}` : "";
  replace(find("panel-h"), nameOf(head), make("small", null, ` head ${dotted(head)}`));
  replace(
    find("about"),
    known("type")
      ? make("p", { class: "named" }, chip, make("strong", null, token(typeOf(head), 40)), share)
      : null,
    known("type_reason") && columns.type_reason[head]
      ? make("p", { class: "token" }, visible(columns.type_reason[head]))
      : null,
    drawLadder(head),
    make("p", { class: "quiet" }, data.said_of_z),
    make("h3", null, "Attention"),
    listNumbers(head),
    known("ablation_rise") ? make("p", { class: "quiet" }, data.no_evidence) : null,
    contexts.length
      ? make("h3", null, "Held-out contexts in which it departs most from its mean pattern")
      : null,
    contexts.length ? shades() : null,
    contexts.map(drawContext),
  );
}

function choose(head, scroll) {
  chosen = head;
  colourMap();
  for (const row of find("list").querySelectorAll("tr[data-head]"))
    row.classList.toggle("chosen", Number(row.dataset.head) === head);
  drawPanel();
  find("panel").scrollTop = 0;
  const top = find("panel").getBoundingClientRect().top;
  if (scroll && (top < 0 || top > 0.7 * innerHeight)) find("panel").scrollIntoView();
}
function refresh() {
  drawLegend();
  colourMap();
  drawList();
}

document.documentElement.dataset.theme = "light";
replace(find("title"), "Heads of ", token(data.model, 80));
find("subtitle").textContent =
  `What explains where ${plural(all.length, "head")} look${all.length === 1 ? "s" : ""}, from ${plural(data.n_rows, "row")} of attention in ${plural(data.n_documents, "held-out document")}.`;
for (const group of new Set(measures.map((one) => one.group))) {
  const options = measures.filter((one) => one.group === group);
  find("measure").append(
    make(
      "optgroup",
      { label: group },
      options.map((one) => make("option", { value: measures.indexOf(one) }, one.name)),
    ),
  );
}
find("measure").addEventListener("change", (event) => {
  measure = measures[Number(event.target.value)];
  refresh();
});
find("search").addEventListener("input", (event) => {
  text = event.target.value.trim().toLowerCase();
  refresh();
});
addEventListener("keydown", (event) => event.key === "Escape" && showTip(null));
addEventListener("scroll", () => showTip(null), { passive: true });
drawMap();
refresh();
drawPanel();
