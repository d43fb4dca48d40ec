// Elements built without markup: text is only ever inserted as text.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) element.append(child);
  }
  return element;
}

const make = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);
const draw = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);
const find = (id) => document.getElementById(id);

const replace = (element, ...children) =>
  element.replaceChildren(...children.flat().filter((child) => child !== null));

const count = (number) => number.toLocaleString("en-US");
const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.001 ? 3 : 1)}\u00a0%`;
const plural = (number, word, many) => `${count(number)} ${number === 1 ? word : many || word + "s"}`;

function short(number) {
  if (number === null || number === undefined) return "–";
  if (number === 0) return "0";
  const size = Math.abs(number);
  const text = size >= 1e5 || size < 1e-3 ? number.toExponential(2) : String(Number(number.toPrecision(4)));
  return text.replace(/^-/, "−");
}

// A token in visible form: white space, invisible and bidirectional control characters are named.
const NAMED = new Map([
  [" ", "␣"],
  ["\n", "⏎"],
  ["\t", "⇥"],
  ["", "(empty)"],
]);
function visible(text) {
  if (NAMED.has(text)) return NAMED.get(text);
  return text
    .replace(/^ /, "␣")
    .replace(/\n/g, "⏎")
    .replace(
      /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g,
      (sign) => `\\u{${sign.codePointAt(0).toString(16)}}`,
    );
}

function cut(text, most) {
  const signs = Array.from(text.slice(0, 4 * most + 4));
  return signs.length > most ? signs.slice(0, most - 1).join("") + "…" : text;
}

const token = (text, most = 60) =>
  make(
    "bdi",
    { class: "token", title: text.length > most ? text.slice(0, 400) : null },
    cut(visible(text), most),
  );

const columnHeads = (headers) =>
  make(
    "thead",
    null,
    make(
      "tr",
      null,
      headers.map((header) => make("th", { scope: "col" }, header)),
    ),
  );

function table(caption, headers, rows, properties) {
  return make(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    make(
      "table",
      properties,
      make("caption", null, caption),
      columnHeads(headers),
      make(
        "tbody",
        null,
        rows.map((row) =>
          make(
            "tr",
            null,
            row.map((cell, place) => (place ? make("td", null, cell) : make("th", { scope: "row" }, cell))),
          ),
        ),
      ),
    ),
  );
}

const button = (label, act, properties) =>
  make("button", { type: "button", onclick: act, ...properties }, label);
