// Scores of tokens (rows) under queries (columns): blue wins, orange loses, blank means no evidence.

const HEAT_COLUMNS = 10;
const HEAT_ROWS = 14;

class HeatMap {
  constructor(automaton, pick) {
    this.automaton = automaton;
    this.pick = pick;
    this.kind = "hard";
    this.buttons = ["hard", "soft"].map((kind) =>
      button(
        `${kind} scores`,
        () => {
          this.kind = kind;
          this.render();
        },
        { class: "toggle" },
      ),
    );
    this.place = make("div");
    find("scores").append(
      make(
        "p",
        { class: "lead" },
        "Rows are tokens, columns queries. Blue tokens are preferred, orange ones beaten; an empty cell means no evidence. Hard scores decide which tokens are retrieved, soft scores the odds within a tie.",
      ),
      make("div", { class: "row", role: "group", "aria-label": "Which scores" }, this.buttons),
      this.place,
    );
  }

  show(query) {
    this.query = query;
    this.render();
  }

  columns() {
    const others = this.automaton.queries
      .slice(0, HEAT_COLUMNS)
      .map((list) => list[0])
      .filter((one) => one !== this.query);
    return [this.query, ...others].slice(0, HEAT_COLUMNS).map((one) => this.automaton.graph(one));
  }

  // Tokens of the chosen query that occur in most columns, ties and high scores first.
  rows(graphs) {
    const own = graphs[0];
    const score = (row) => (own.members[own.componentOf[row]].length > 1 ? 10 : 0) + Math.abs(own.hard[row]);
    const known = own.tokens.map((id, row) => ({
      id,
      row,
      times: graphs.filter((graph) => graph.rowOf.has(id)).length,
    }));
    known.sort((one, other) => other.times - one.times || score(other.row) - score(one.row));
    return known
      .slice(0, HEAT_ROWS)
      .sort((one, other) => own.hard[other.row] - own.hard[one.row])
      .map((one) => one.id);
  }

  render() {
    this.buttons.forEach((one, place) =>
      one.setAttribute("aria-pressed", String((place === 0) === (this.kind === "hard"))),
    );
    const graphs = this.columns();
    const ids = this.rows(graphs);
    const value = (graph, id) => (graph.rowOf.has(id) ? graph[this.kind][graph.rowOf.get(id)] : null);
    const largest = Math.max(
      1e-12,
      ...ids.flatMap((id) => graphs.map((graph) => Math.abs(value(graph, id) ?? 0))),
    );
    const head = graphs.map((graph, place) =>
      make(
        "th",
        { scope: "col", class: place ? null : "own" },
        button([token(this.automaton.name(graph.query), 12)], () => this.pick(graph.query), {
          class: "link",
        }),
      ),
    );
    const lines = ids.map((id) =>
      make(
        "tr",
        null,
        make("th", { scope: "row" }, token(this.automaton.name(id), 16)),
        graphs.map((graph) => this.cell(value(graph, id), largest)),
      ),
    );
    const caption = `${this.kind === "hard" ? "Hard" : "Soft"} scores of ${ids.length} tokens under ${graphs.length} queries`;
    this.place.replaceChildren(
      make(
        "div",
        { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
        make(
          "table",
          { class: "heat" },
          make("caption", null, caption),
          make("thead", null, make("tr", null, make("th", { scope: "col" }, "token"), head)),
          make("tbody", null, lines),
        ),
      ),
    );
  }

  cell(value, largest) {
    const cell = make(
      "td",
      null,
      value === null
        ? ""
        : value
            .toFixed(2)
            .replace(/^-(0\.00)$/, "$1")
            .replace("-", "−"),
    );
    if (value !== null)
      cell.style.backgroundColor = `color-mix(in srgb, var(--${value < 0 ? "lose" : "win"}) ${((55 * Math.abs(value)) / largest).toFixed(1)}%, var(--card))`;
    return cell;
  }
}
