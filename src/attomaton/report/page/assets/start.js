// Assembles the page.

const automaton = new PageAutomaton(JSON.parse(find("data").textContent));

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  find("theme").textContent = name === "dark" ? "Light" : "Dark";
  find("theme").setAttribute("aria-label", `Switch to ${name === "dark" ? "light" : "dark"} colours`);
}
setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
find("theme").addEventListener("click", () =>
  setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"),
);

// Whether a token is a word that a reader knows; "<unk>" and punctuation are not.
function isWord(id) {
  return /^\p{L}+$/u.test(automaton.name(id));
}

// The query to begin with: the word with the most samples, or the token with the most.
function firstQuery() {
  const ids = automaton.queries.map((query) => query[0]);
  return ids.find(isWord) ?? ids[0];
}

// A context to begin with: tokens of the largest tie, something it precedes, and the query; words first.
function firstContext(query) {
  const graph = automaton.graph(query);
  const top = findLargest(graph);
  const best = (rows) => [...rows].sort((one, other) => graph.support[other] - graph.support[one]);
  const wordsFirst = (ids) => [...ids.filter(isWord), ...ids.filter((id) => !isWord(id))];
  const others = (ids, most) => wordsFirst(ids.filter((id) => id !== query)).slice(0, most);
  const above = graph.members[top].map((row) => graph.tokens[row]);
  const below = best(graph.downward[top]).map((row) => graph.tokens[graph.members[graph.below[row]][0]]);
  return [...others(above, 3), ...others(below.slice(0, 20), 2), query];
}

let pending = 0;
const picker = new QueryPicker(automaton, pickQuery);
const context = new ContextBox(automaton, pickQuery);
const view = new GraphView(automaton, (id) => context.add(id));
const heat = new HeatMap(automaton, pickQuery);

function pickQuery(query, scroll) {
  picker.mark(query);
  view.show(query);
  clearTimeout(pending);
  pending = setTimeout(() => heat.show(query), 30);
  if (scroll) find("query").scrollIntoView();
}

showSummary(automaton, pickQuery);
showTraining(automaton);
showHeads(automaton);
showCoverage(automaton);
showProvenance(automaton);
picker.render();
if (automaton.queries.length) {
  const first = firstQuery();
  pickQuery(first);
  context.set(firstContext(first));
} else context.set([]);
