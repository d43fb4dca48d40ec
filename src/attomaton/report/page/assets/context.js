// The context box: computes hard retrieval, then soft composition, from tokens.

const MOST_SUGGESTED = 12;

class ContextBox {
  // pick(query, scroll) shows a query in the rest of the page.
  constructor(automaton, pick) {
    this.automaton = automaton;
    this.pick = pick;
    this.ids = [];
    const textual = automaton.canSplit;
    this.text = make("textarea", {
      id: "context-text",
      rows: 2,
      spellcheck: "false",
      autocomplete: "off",
      dir: "auto",
      oninput: () => this.read(),
    });
    this.search = make("input", {
      id: "token-search",
      type: "text",
      spellcheck: "false",
      autocomplete: "off",
      oninput: () => this.suggest(),
      onkeydown: (event) => {
        if (event.key === "Enter") this.addFirst();
      },
    });
    this.strip = make("div", {
      class: "chips strip",
      role: "group",
      "aria-label": "Context, shaded by attention",
    });
    this.suggested = make("div", { class: "chips", role: "group", "aria-label": "Suggested tokens" });
    this.problem = make("p", { class: "problem", role: "status" });
    const kind = automaton.data.tokenizer === null ? "Context, as token ids" : "Context";
    find("context-form").append(
      ...(textual
        ? [make("label", { for: "context-text" }, kind), this.text]
        : [
            make(
              "p",
              { class: "quiet" },
              `The tokenizer of this run (${automaton.data.tokenizer}) cannot run in a page; add its tokens one by one.`,
            ),
          ]),
      make(
        "p",
        { class: "row" },
        make("label", { for: "token-search" }, "Add a token"),
        this.search,
        button("Clear", () => this.set([])),
      ),
      this.suggested,
      this.problem,
      this.strip,
    );
  }

  // The context in the text; nothing if a token is unknown.
  read() {
    const words = this.automaton.split(this.text.value);
    const { ids, unknown } = this.automaton.lookup(words);
    this.ids = unknown.length ? [] : ids;
    this.show(unknown);
  }

  set(ids) {
    this.ids = ids;
    this.text.value = this.write(ids);
    this.show([]);
  }

  // The context as text, if the tokenizer maps it back to the same tokens.
  write(ids) {
    const names = ids.map((id) => this.automaton.name(id));
    const glue = { character: "", byte: "" }[this.automaton.data.tokenizer] ?? " ";
    const text = names.join(glue);
    const words = this.automaton.split(text);
    return words && words.length === names.length && words.every((word, place) => word === names[place])
      ? text
      : "";
  }

  // A token is inserted before the query, so the query stays the same.
  add(id) {
    this.set(this.ids.length ? [...this.ids.slice(0, -1), id, this.ids.at(-1)] : [id]);
  }

  // The token with the text in the search box, and tokens that begin with it.
  candidates() {
    const wanted = this.search.value;
    if (!wanted) return [];
    const { ids } = this.automaton.lookup([wanted]);
    const found = new Set(ids);
    const folded = wanted.toLowerCase();
    for (const [text, id] of this.automaton.ids || []) {
      if (found.size >= MOST_SUGGESTED) break;
      if (text.toLowerCase().startsWith(folded)) found.add(id);
    }
    return [...found];
  }

  suggest() {
    this.suggested.replaceChildren(
      ...this.candidates().map((id) =>
        button([token(this.automaton.name(id), 30)], () => this.set([...this.ids, id]), {
          class: "chip",
          title: "Add at the end",
        }),
      ),
    );
  }

  addFirst() {
    const [first] = this.candidates();
    if (first !== undefined) this.set([...this.ids, first]);
  }

  // Shows the unknown tokens, and the prediction for the context, if there is one.
  show(unknown) {
    this.problem.replaceChildren(
      ...(unknown.length
        ? [
            "Not among the tokens of this page: ",
            ...unknown.slice(0, 5).flatMap((word) => [token(word, 30), " "]),
            "(check case and punctuation)",
          ]
        : []),
    );
    const found = this.ids.length ? this.automaton.answer(this.ids) : null;
    this.showStrip(found);
    find("context-said").textContent = found ? this.say(found) : "";
    const place = find("context-answer");
    if (!this.ids.length)
      place.replaceChildren(
        unknown.length
          ? ""
          : make("p", { class: "quiet" }, "Type a context, or choose tokens in the graph below."),
      );
    else if (!found)
      place.replaceChildren(
        make(
          "p",
          { class: "notice" },
          "The query ",
          token(this.automaton.name(this.ids.at(-1)), 30),
          " is not in this page, which holds as many queries as fit, most samples first; run attomaton explain on the run folder.",
        ),
      );
    else place.replaceChildren(...this.describe(found));
  }

  // The prediction in one line, for screen readers.
  say(found) {
    const best = [...found.entries].sort((one, other) => other.probability - one.probability).slice(0, 3);
    return (
      `${found.rule.toLowerCase().replaceAll("_", " ")}: ` +
      best.map((entry) => `${cut(this.automaton.name(entry.token), 30)} ${percent(entry.probability)}`).join(", ")
    );
  }

  // The tokens of the context, shaded by the attention on each position.
  showStrip(found) {
    const weight = new Map(
      found ? found.entries.map((entry) => [entry.token, entry.probability / entry.times]) : [],
    );
    this.strip.replaceChildren(
      ...this.ids.map((id, place) => {
        const attention = weight.get(id) || 0;
        const last = place === this.ids.length - 1;
        const chip = button(
          [token(this.automaton.name(id), 30), last ? make("small", null, " query") : null],
          () => this.set(this.ids.filter((_, other) => other !== place)),
          {
            class: last ? "chip query" : "chip",
            title: `attention ${attention.toPrecision(4)}; choose to remove`,
          },
        );
        chip.style.backgroundColor = `color-mix(in srgb, var(--win) ${(60 * attention).toFixed(1)}%, var(--card))`;
        return chip;
      }),
    );
  }

  describe(found) {
    const { query, rule } = found;
    const graph = this.automaton.graph(query);
    const shownIn = graph ? button("show its graph", () => this.pick(query, true), { class: "link" }) : null;
    const steps = [
      make("li", null, make("strong", null, "Query: "), token(this.automaton.name(query), 40), " ", shownIn),
    ];
    steps.push(make("li", null, make("strong", null, "Retrieval: "), ...this.tellRetrieval(found, graph)));
    steps.push(
      make(
        "li",
        null,
        make("strong", null, "Composition: "),
        rule === "NO_EVIDENCE"
          ? "every position has equal weight."
          : "each retrieved token has the odds m · eˢ, with m its count in the context and s its soft score.",
      ),
    );
    return [
      make(
        "p",
        { class: "rule" },
        make("strong", { id: "rule" }, rule.toLowerCase().replaceAll("_", " ")),
        `: ${this.automaton.data.rules[rule]}.`,
      ),
      make("ol", { class: "steps" }, steps),
      this.tabulate(found, graph),
    ];
  }

  tellRetrieval(found, graph) {
    if (!graph || !found.retrieved.length) return ["there is no evidence under this query."];
    const taken = found.entries.filter((entry) => entry.taken);
    const parts = found.retrieved.length;
    return [
      ...taken.slice(0, 8).flatMap((entry) => [token(this.automaton.name(entry.token), 24), " "]),
      taken.length > 8 ? "… " : "",
      parts > 1
        ? `(${parts} components of equal hard score)`
        : taken.length > 1
          ? "(one component: they tie)"
          : "",
      `: ${plural(found.beaten.length, "component")} beaten, ${found.incomparable.length} not comparable.`,
    ];
  }

  // The outcome of an entry, with the evidence on the path from the retrieved component.
  fate(entry, found, graph) {
    if (found.rule === "NO_EVIDENCE") return "equal weight for every position";
    if (!entry.seen) return "ignored: no evidence under this query";
    if (entry.taken) return "retrieved";
    const component = graph.componentOf[entry.row];
    if (found.incomparable.includes(component)) return "lower hard score; no path decides";
    const path = found.paths[0];
    const rows = [];
    for (let row = path.get(component); row !== null; row = path.get(graph.above[row])) rows.push(row);
    const weakest = Math.min(...rows.map((row) => graph.support[row]));
    return `beaten ${rows.length > 1 ? `in ${rows.length} steps` : "directly"}, support ${count(weakest)}`;
  }

  tabulate(found, graph) {
    const score = (entry) => (entry.seen ? graph.hard[entry.row] : -Infinity);
    const entries = [...found.entries].sort(
      (one, other) => other.probability - one.probability || score(other) - score(one),
    );
    const rows = entries.map((entry) => {
      const bar = make("span", { class: "bar" });
      bar.style.width = `${100 * entry.probability}%`;
      return make(
        "tr",
        { class: entry.taken ? "taken" : null, "data-token": entry.token },
        make(
          "th",
          { scope: "row" },
          token(this.automaton.name(entry.token), 40),
          make("small", null, this.fate(entry, found, graph)),
        ),
        make(
          "td",
          null,
          make("data", { value: entry.probability }, entry.probability.toFixed(6)),
          make("span", { class: "track", "aria-hidden": "true" }, bar),
        ),
        make("td", null, count(entry.times)),
        make("td", null, entry.seen ? short(graph.hard[entry.row]) : "–"),
        make("td", null, entry.seen ? short(graph.soft[entry.row]) : "–"),
      );
    });
    return make(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Every token of the context" },
      make(
        "table",
        { id: "answer" },
        make("caption", null, "Every token of the context"),
        columnHeads(["token", "probability", "times", "hard score", "soft score"]),
        make("tbody", null, rows),
      ),
    );
  }
}
