// Everything put together.

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

// A context to begin with: tokens of the largest tie, something it precedes, and the query.
function firstContext(query) {
  const graph = automaton.graph(query),
    top = findLargest(graph);
  const best = (rows) => [...rows].sort((one, other) => graph.support[other] - graph.support[one]);
  const above = graph.members[top]
    .map((row) => graph.tokens[row])
    .filter((id) => id !== query)
    .slice(0, 3);
  const below = best(graph.downward[top])
    .slice(0, 2)
    .map((row) => graph.tokens[graph.members[graph.below[row]][0]]);
  return [...above, ...below.filter((id) => id !== query), query];
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
showCoverage(automaton);
showProvenance(automaton);
picker.render();
if (automaton.queries.length) {
  const first = automaton.queries[0][0];
  pickQuery(first);
  context.set(firstContext(first));
} else context.set([]);
