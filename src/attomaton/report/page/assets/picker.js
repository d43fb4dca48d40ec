// The list of queries, with a search; arrow keys and Enter work in both.

const MOST_OPTIONS = 100;

class QueryPicker {
  constructor(automaton, pick) {
    this.automaton = automaton;
    this.pick = pick;
    this.active = 0;
    this.input = make("input", {
      id: "query-search",
      type: "text",
      role: "combobox",
      autocomplete: "off",
      spellcheck: "false",
      "aria-expanded": "true",
      "aria-controls": "query-list",
      "aria-autocomplete": "list",
      placeholder: "search",
      oninput: () => {
        this.active = 0;
        this.render();
      },
      onkeydown: (event) => this.press(event),
    });
    this.list = make("div", {
      id: "query-list",
      role: "listbox",
      "aria-label": "Queries",
      tabindex: 0,
      onkeydown: (event) => this.press(event),
    });
    this.more = make("p", { class: "quiet", "aria-live": "polite" });
    const { n_shown, coverage } = automaton.data;
    const title =
      n_shown < coverage.n_queries
        ? `Queries (${count(n_shown)} of ${count(coverage.n_queries)})`
        : `Queries (${count(n_shown)})`;
    find("picker").append(make("label", { for: "query-search" }, title), this.input, this.list, this.more);
    this.chosen = null;
    this.names = automaton.queries.map((list) => ({
      query: list[0],
      samples: list[1],
      text: automaton.name(list[0]),
    }));
  }

  matches() {
    const wanted = this.input.value.trim().toLowerCase();
    if (!wanted) return this.names;
    const hits = this.names.filter((one) => one.text.toLowerCase().includes(wanted));
    return hits.sort(
      (one, other) => (other.text.toLowerCase() === wanted) - (one.text.toLowerCase() === wanted),
    );
  }

  render() {
    const found = this.matches();
    this.shown = found.slice(0, MOST_OPTIONS);
    this.list.replaceChildren(
      ...this.shown.map((one, place) =>
        make(
          "div",
          {
            role: "option",
            id: `query-${place}`,
            class: place === this.active ? "active" : null,
            "aria-selected": String(one.query === this.chosen),
            onclick: () => this.choose(place),
          },
          token(one.text, 22),
          make("span", { class: "quiet" }, count(one.samples)),
        ),
      ),
    );
    if (this.shown.length) this.input.setAttribute("aria-activedescendant", `query-${this.active}`);
    else this.input.removeAttribute("aria-activedescendant");
    this.more.textContent =
      found.length > MOST_OPTIONS
        ? `${count(found.length - MOST_OPTIONS)} more: type to narrow`
        : found.length
          ? ""
          : "No query of this page contains that text.";
  }

  press(event) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
    if (step && this.shown.length) {
      this.active = Math.max(0, Math.min(this.shown.length - 1, this.active + step));
      this.render();
      const row = this.list.children[this.active];
      this.list.scrollTop = Math.max(
        row.offsetTop + row.offsetHeight - this.list.clientHeight,
        Math.min(this.list.scrollTop, row.offsetTop),
      );
    } else if (event.key === "Enter" && this.shown.length) this.choose(this.active);
    else return;
    event.preventDefault();
  }

  choose(place) {
    this.active = place;
    this.pick(this.shown[place].query);
  }

  mark(query) {
    this.chosen = query;
    this.render();
  }
}
