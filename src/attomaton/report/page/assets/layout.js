// Positions of the components of a graph: layers by height, highest on top, wrapped at the width.

// layOut(graph, view, width, name) gives the boxes of components, the titles of layers, and the pills, which
// show more of a layer or more layers. view has the number of shown layers, the shown components of a layer
// (limits), and the components that are always shown (kept).

const FIRST_LAYERS = 8; // shown at first
const FIRST_COMPONENTS = 10; // of a layer
const MORE_LAYERS = 12; // shown by a click
const MORE_COMPONENTS = 100;

// In pixels.
const GAP = 14; // between boxes
const LINE = 50; // from one line of boxes to the next
const MARGIN = 10;
const TITLE = 26; // height of the title of a layer
const BETWEEN = 34; // below a layer
const HIGH = 38; // height of a box
const SIGN = 7.6; // width of a character

// The components of each layer, highest first; in a layer, larger ones and those with more support first.
function findLayers(graph) {
  if (graph.layers) return graph.layers;
  const weight = graph.members.map((rows, component) =>
    [...graph.downward[component], ...graph.upward[component]].reduce(
      (sum, row) => sum + graph.support[row],
      0,
    ),
  );
  const layers = [];
  graph.heights.forEach((height, component) => (layers[height] ||= []).push(component));
  for (const layer of layers)
    layer.sort(
      (one, other) => graph.members[other].length - graph.members[one].length || weight[other] - weight[one],
    );
  graph.weight = weight;
  graph.layers = layers.reverse();
  return graph.layers;
}

// The largest tie; without ties, the first component of the highest layer.
function findLargest(graph) {
  const firsts = findLayers(graph).map((layer) => layer[0]);
  return firsts.reduce((best, one) => (graph.members[one].length > graph.members[best].length ? one : best));
}

// The text of a box: the token, or the two most probable tokens of a tie and the number of its tokens.
function labelOf(graph, component, name) {
  const rows = graph.members[component];
  if (rows.length === 1) return { title: cut(visible(name(graph.tokens[rows[0]])), 16), note: "" };
  const first = [...rows]
    .sort((one, other) => graph.soft[other] - graph.soft[one])
    .slice(0, 2)
    .map((row) => cut(visible(name(graph.tokens[row])), 9));
  return {
    title: first.join(", ") + (rows.length > 2 ? " …" : ""),
    note: `${count(rows.length)} tokens tie`,
  };
}

const widthOf = (label) =>
  20 + SIGN * Math.max(Array.from(label.title).length, Array.from(label.note).length * 0.85, 3);

// Which components of a layer are shown: the first ones, up to the requested number, and the required ones.
function shownOf(layer, number, view) {
  const most = view.limits.get(number) || FIRST_COMPONENTS;
  const shown = layer.slice(0, most);
  for (const component of view.kept)
    if (!shown.includes(component) && layer.includes(component)) shown.push(component);
  return shown;
}

// Which layers are shown: the first ones, and those of the required components.
function layersShown(graph, layers, view) {
  const kept = new Set([...view.kept].map((component) => layers.length - 1 - graph.heights[component]));
  return layers.map((_, number) => number).filter((number) => number < view.layers || kept.has(number));
}

// Items of one layer side by side, wrapped at the width, each line centred.
function fillLines(items, top, width) {
  const most = width - 2 * MARGIN;
  const lines = [[]];
  let used = 0;
  for (const item of items) {
    item.width = Math.min(item.width, most);
    if (used && used + item.width > most) {
      lines.push([]);
      used = 0;
    }
    lines.at(-1).push(item);
    used += item.width + GAP;
  }
  lines.forEach((line, number) => {
    let x = (width - line.reduce((sum, item) => sum + item.width + GAP, -GAP)) / 2;
    for (const item of line) {
      item.x = x;
      item.y = top + LINE * number;
      x += item.width + GAP;
    }
  });
  return top + LINE * lines.length;
}

// All positions for a drawing of this width; name(id) is the text of a token.
function layOut(graph, view, width, name) {
  const layers = findLayers(graph);
  const boxes = [];
  const titles = [];
  const pills = [];
  let top = MARGIN;
  for (const number of layersShown(graph, layers, view)) {
    const layer = layers[number];
    const shown = shownOf(layer, number, view);
    titles.push({
      y: Math.max(top + 2, 16), // below the border of the drawing
      text: `layer ${number + 1} of ${layers.length} · ${plural(layer.length, "component")}`,
    });
    const layerBoxes = shown.map((component) => {
      const label = labelOf(graph, component, name);
      return { component, label, height: HIGH, width: widthOf(label) };
    });
    const text = `+ ${count(layer.length - shown.length)} more`;
    const more =
      shown.length < layer.length
        ? [{ text, layer: number, height: HIGH, width: 20 + SIGN * text.length }]
        : [];
    top = fillLines([...layerBoxes, ...more], top + TITLE, width) + BETWEEN;
    boxes.push(...layerBoxes);
    pills.push(...more);
  }
  const nHidden = layers.length - Math.min(view.layers, layers.length);
  if (nHidden > 0) {
    const text = `+ ${plural(nHidden, "layer")} below`;
    const below = { text, layer: null, height: HIGH, width: 20 + SIGN * text.length };
    top = fillLines([below], top, width) + BETWEEN;
    pills.push(below);
  }
  return { boxes, titles, pills, height: top - BETWEEN };
}
