// The priority graph of one query: its drawing, and the details of the chosen component.

const MOST_LINES = 160; // of the chosen component, and of the others
const MOST_LISTED = 12; // components that the chosen one precedes, or that precede it
const MOST_CHIPS = 30; // tokens of the chosen component

class GraphView {
  constructor(automaton, addToken) {
    this.automaton = automaton;
    this.addToken = addToken;
    this.name = (id) => automaton.name(id);
    this.head = make("div", { class: "graph-head" });
    this.canvas = make("div", { class: "canvas" });
    this.detail = make("div", { class: "detail" });
    find("graph").append(this.head, this.canvas, this.detail);
    this.width = 0;
    new ResizeObserver(() => {
      if (Math.abs(this.canvas.clientWidth - this.width) > 4) this.render();
    }).observe(this.canvas);
  }

  // Draws the graph of a query, with its largest tie chosen.
  show(query) {
    this.graph = this.automaton.graph(query);
    this.view = { layers: FIRST_LAYERS, limits: new Map(), kept: new Set() };
    this.selected = findLargest(this.graph);
    this.strongest = this.graph.support.reduce((most, support) => Math.max(most, support), 1);
    this.view.kept.add(this.selected);
    this.renderHead();
    this.render();
    this.renderDetail();
  }

  renderHead() {
    const { graph } = this;
    const ties = graph.members.filter((rows) => rows.length > 1).length;
    const search = make("input", {
      id: "node-search",
      type: "text",
      autocomplete: "off",
      spellcheck: "false",
      placeholder: "a token",
      onkeydown: (event) => {
        if (event.key === "Enter") this.seek(search.value);
      },
    });
    this.sought = make("span", { class: "quiet", role: "status" });
    this.head.replaceChildren(
      make("h3", null, "Query ", token(this.name(graph.query), 30)),
      make(
        "p",
        null,
        `${plural(graph.samples, "sample")}; ${plural(graph.tokens.length, "token")} in ${plural(graph.members.length, "component")}, ${ties < 2 ? `${ties ? "one" : "none"} of them a tie` : `${count(ties)} of them ties`}; ${plural(graph.layers.length, "layer")}. A line leads from the winner down to the loser; thicker lines have more support. Arrow keys move between components.`,
      ),
      make(
        "p",
        { class: "row" },
        make("label", { for: "node-search" }, "Find in this graph"),
        search,
        button("Find", () => this.seek(search.value)),
        this.sought,
      ),
    );
  }

  // Chooses the component of the token with this text.
  seek(text) {
    const { ids } = this.automaton.lookup([text]);
    const row = ids.length ? this.graph.rowOf.get(ids[0]) : undefined;
    if (row === undefined) {
      this.sought.textContent = "not in this graph";
      return;
    }
    this.sought.textContent = "";
    this.view.kept.add(this.graph.componentOf[row]);
    this.select(this.graph.componentOf[row], true);
  }

  select(component, redraw) {
    this.selected = component;
    if (redraw) this.render();
    else this.mark();
    this.renderDetail();
  }

  render() {
    if (!this.graph) return;
    this.width = this.canvas.clientWidth;
    const width = Math.max(this.width, 260);
    const plan = layOut(this.graph, this.view, width, this.name);
    this.boxes = new Map(plan.boxes.map((box) => [box.component, box]));
    this.lines = draw("g", { class: "lines", "aria-hidden": "true" });
    this.nodes = plan.boxes.map((box) => this.drawBox(box));
    const svg = draw(
      "svg",
      {
        width,
        height: plan.height,
        role: "group",
        "aria-label": "Components of this query in layers",
        onkeydown: (event) => this.press(event),
      },
      this.lines,
      plan.titles.map((title) => draw("text", { class: "layer", x: width - MARGIN, y: title.y }, title.text)),
      this.nodes,
      plan.pills.map((pill) => this.drawPill(pill)),
    );
    this.canvas.replaceChildren(svg);
    this.mark();
  }

  drawBox(box) {
    const { component, label } = box;
    const rows = this.graph.members[component];
    const spoken = rows.length > 1 ? `${label.title}: ${label.note}` : label.title;
    return draw(
      "g",
      {
        class: rows.length > 1 ? "box tie" : "box",
        role: "button",
        tabindex: -1,
        "data-component": component,
        "aria-label": spoken,
        transform: `translate(${box.x} ${box.y})`,
        onclick: () => this.select(component),
      },
      draw("rect", { width: box.width, height: box.height, rx: 7 }),
      draw("text", { x: box.width / 2, y: label.note ? 16 : 24 }, label.title),
      label.note ? draw("text", { class: "note", x: box.width / 2, y: 31 }, label.note) : null,
    );
  }

  drawPill(pill) {
    const act = () => this.expand(pill.layer);
    return draw(
      "g",
      {
        class: "box pill",
        role: "button",
        tabindex: 0,
        "aria-label": pill.text,
        transform: `translate(${pill.x} ${pill.y})`,
        onclick: act,
        onkeydown: (event) => {
          if (event.key === "Enter" || event.key === " ") {
            event.preventDefault();
            event.stopPropagation();
            act();
          }
        },
      },
      draw("rect", { width: pill.width, height: pill.height, rx: 19 }),
      draw("text", { x: pill.width / 2, y: 24 }, pill.text),
    );
  }

  // Shows more components of a layer; null means more layers.
  expand(layer) {
    if (layer === null) this.view.layers += MORE_LAYERS;
    else this.view.limits.set(layer, (this.view.limits.get(layer) || FIRST_COMPONENTS) + MORE_COMPONENTS);
    this.render();
  }

  // Arrow keys choose the next or the previous box.
  press(event) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const index = this.nodes.findIndex((node) => Number(node.dataset.component) === this.selected);
    const next = this.nodes[Math.max(0, Math.min(this.nodes.length - 1, index + step))];
    this.select(Number(next.dataset.component));
    next.focus();
  }

  // The order's rows between shown components: those of the chosen one, otherwise the best supported.
  rowsShown() {
    const { graph, boxes } = this;
    const inside = (row) => boxes.has(graph.above[row]) && boxes.has(graph.below[row]);
    const own = [...graph.downward[this.selected], ...graph.upward[this.selected]].filter(inside);
    const rest = [];
    for (const component of boxes.keys())
      for (const row of graph.downward[component]) if (!graph.implied.has(row) && inside(row)) rest.push(row);
    rest.sort((one, other) => graph.support[other] - graph.support[one]);
    return { own: own.slice(0, MOST_LINES), rest: rest.slice(0, MOST_LINES) };
  }

  // Redraws the lines, and marks the chosen component and those beside it in the order.
  mark() {
    const { own, rest } = this.rowsShown();
    const near = new Set([this.selected]);
    for (const row of own) {
      near.add(this.graph.above[row]);
      near.add(this.graph.below[row]);
    }
    this.lines.replaceChildren(
      ...rest.map((row) => this.drawLine(row, "line")),
      ...own.map((row) => this.drawLine(row, "line own")),
    );
    const drawn = this.boxes.has(this.selected);
    this.nodes.forEach((node, place) => {
      const component = Number(node.dataset.component);
      const chosen = component === this.selected;
      node.classList.toggle("chosen", chosen);
      node.classList.toggle("near", near.has(component) && !chosen);
      node.setAttribute("aria-pressed", String(chosen));
      node.setAttribute("tabindex", chosen || (!drawn && place === 0) ? 0 : -1);
    });
  }

  // A row of the order as a curve from the component above to the one below, vertical at both ends.
  drawLine(row, kind) {
    const from = this.boxes.get(this.graph.above[row]);
    const to = this.boxes.get(this.graph.below[row]);
    const x1 = from.x + from.width / 2;
    const y1 = from.y + from.height;
    const x2 = to.x + to.width / 2;
    const y2 = to.y;
    const bend = Math.max(18, (y2 - y1) / 2);
    const support = this.graph.support[row];
    return draw(
      "path",
      {
        class: kind,
        d: `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`,
        "stroke-width": (0.8 + (4.2 * Math.log(support)) / Math.log(1 + this.strongest)).toFixed(2),
      },
      draw("title", null, `support ${support}`),
    );
  }

  // The tokens of the chosen component, with odds if they tie, and its neighbours in the order.
  renderDetail() {
    const { graph, selected } = this;
    const rows = [...graph.members[selected]].sort((one, other) => graph.soft[other] - graph.soft[one]);
    const odds = rows.map((row) => Math.exp(graph.soft[row] - graph.soft[rows[0]]));
    const chips = rows.slice(0, MOST_CHIPS).map((row, place) => this.chip(row, rows.length > 1 ? odds[place] : null));
    const nHidden = rows.length - chips.length;
    replace(
      this.detail,
      make(
        "h4",
        null,
        rows.length > 1 ? `A tie of ${count(rows.length)} tokens` : "One token",
        `, hard score ${short(graph.hard[rows[0]])}`,
      ),
      make(
        "p",
        { class: "quiet" },
        rows.length > 1
          ? "Each with its odds against the first; choose one to add it to the context."
          : "Choose it to add it to the context.",
      ),
      make(
        "div",
        { class: "chips" },
        chips,
        nHidden > 0 ? make("span", { class: "quiet" }, `and ${count(nHidden)} more`) : null,
      ),
      this.relations("It precedes", graph.downward[selected], graph.below),
      this.relations("It is preceded by", graph.upward[selected], graph.above),
    );
  }

  chip(row, odds) {
    const id = this.graph.tokens[row];
    return button(
      [token(this.name(id), 40), odds === null ? null : make("small", null, ` ${short(odds)}`)],
      () => this.addToken(id),
      { class: "chip", title: "Add to the context" },
    );
  }

  // A list of the components at one end of these rows of the order, the best supported first.
  relations(title, rows, ends) {
    if (!rows.length) return null;
    const { graph } = this;
    const best = [...rows].sort((one, other) => graph.support[other] - graph.support[one]);
    const line = (row) =>
      make(
        "li",
        null,
        button(
          [token(labelOf(graph, ends[row], this.name).title, 30)],
          () => {
            this.view.kept.add(ends[row]);
            this.select(ends[row], true);
          },
          { class: "link" },
        ),
        ` support ${count(graph.support[row])}, ${plural(graph.edges[row], "edge")}`,
      );
    return make(
      "div",
      { class: "relations" },
      make("h5", null, `${title} ${plural(rows.length, "component")} directly`),
      make("ul", null, best.slice(0, MOST_LISTED).map(line)),
      best.length > MOST_LISTED
        ? make("p", { class: "quiet" }, `and ${count(best.length - MOST_LISTED)} with less support`)
        : null,
    );
  }
}
