// The automaton, rebuilt from the packed lists, and its predictions: the same steps as Automaton.explain.

// PageAutomaton.answer(context) is the prediction. A graph has nodes (rows of its tokens), components, and an
// order, whose rows are pairs of components, above and below.

// Expands a list in which [value, times] encodes a run.
function expand(list) {
  const full = [];
  for (const entry of list) {
    if (!Array.isArray(entry)) full.push(entry);
    else for (let left = entry[1]; left > 0; left--) full.push(entry[0]);
  }
  return full;
}

// The values from their differences, in a list with runs.
function sumUp(differences) {
  let total = 0;
  return expand(differences).map((step) => (total += step));
}

// Rows of each component and the component of each row; numbered by the smallest row.
function findComponents(size, ties) {
  const group = new Array(size).fill(null);
  for (const rows of ties) for (const row of rows) group[row] = rows;
  const members = [];
  const componentOf = new Array(size).fill(null);
  for (let row = 0; row < size; row++) {
    if (componentOf[row] !== null) continue;
    const rows = group[row] || [row];
    for (const member of rows) componentOf[member] = members.length;
    members.push(rows);
  }
  return { members, componentOf };
}

// The graph of a query from its packed list, whose entries are named by the fields.
function unpackQuery(fields, list) {
  const packed = Object.fromEntries(fields.map((name, index) => [name, list[index]]));
  const tokens = sumUp(packed.tokens);
  const { members, componentOf } = findComponents(tokens.length, packed.ties.map(sumUp));
  const soft = new Float64Array(tokens.length);
  sumUp(packed.soft_rows).forEach((row, index) => (soft[row] = packed.soft_values[index]));
  const above = sumUp(packed.above);
  const below = sumUp(packed.below);
  // rows of the order by component: those in which it is above, and those in which it is below
  const downward = members.map(() => []);
  const upward = members.map(() => []);
  above.forEach((from, row) => {
    downward[from].push(row);
    upward[below[row]].push(row);
  });
  const implied = new Set(sumUp(packed.implied));
  return {
    query: packed.query,
    samples: packed.samples,
    tokens,
    members,
    componentOf,
    soft,
    hard: expand(packed.hard_indices).map((index) => packed.hard_values[index]),
    heights: expand(packed.heights),
    above,
    below,
    edges: expand(packed.edges),
    support: expand(packed.support),
    implied,
    downward,
    upward,
    rowOf: new Map(tokens.map((token, row) => [token, row])),
  };
}

// The components that a path leads to from `top`, and the row of the order that first reached each.
function reach(graph, top) {
  const reachedBy = new Map([[top, null]]);
  const waiting = [top];
  for (let next = 0; next < waiting.length; next++) {
    for (const row of graph.downward[waiting[next]]) {
      if (reachedBy.has(graph.below[row])) continue;
      reachedBy.set(graph.below[row], row);
      waiting.push(graph.below[row]);
    }
  }
  return reachedBy;
}

// The distinct tokens of a context, ascending, and how many times each occurs.
function countTokens(context) {
  const counts = new Map();
  for (const token of context) counts.set(token, (counts.get(token) || 0) + 1);
  return [...counts].sort((one, other) => one[0] - other[0]).map(([token, times]) => ({ token, times }));
}

// Every distinct token of the context with its probability; which components are retrieved, beaten, incomparable.
function answer(graph, context, tie) {
  const entries = countTokens(context);
  for (const entry of entries) {
    entry.row = graph && graph.rowOf.has(entry.token) ? graph.rowOf.get(entry.token) : null;
    entry.seen = entry.row !== null;
    entry.taken = false;
    entry.probability = 0;
  }
  const seen = entries.filter((entry) => entry.seen);
  if (!seen.length) {
    for (const entry of entries) {
      entry.probability = entry.times / context.length;
      entry.taken = true;
    }
    return { entries, rule: "NO_EVIDENCE", retrieved: [], beaten: [], incomparable: [] };
  }
  // retrieved: the tokens with the best hard score; composed: odds m · exp(soft score) among them, for m
  // occurrences, with the largest soft score subtracted so that no exponential overflows
  const best = Math.max(...seen.map((entry) => graph.hard[entry.row]));
  const taken = seen.filter((entry) => graph.hard[entry.row] >= best - tie);
  const largest = Math.max(...taken.map((entry) => graph.soft[entry.row]));
  let total = 0;
  for (const entry of taken) {
    entry.taken = true;
    entry.odds = entry.times * Math.exp(graph.soft[entry.row] - largest);
    total += entry.odds;
  }
  for (const entry of taken) entry.probability = entry.odds / total;
  return { entries, ...compare(graph, seen, taken) };
}

// Whether each component of the context is retrieved, beaten by all that are retrieved, or comparable to none.
function compare(graph, seen, taken) {
  const componentsOf = (list) =>
    [...new Set(list.map((entry) => graph.componentOf[entry.row]))].sort((a, b) => a - b);
  const retrieved = componentsOf(taken);
  const paths = retrieved.map((top) => reach(graph, top));
  const others = componentsOf(seen).filter((component) => !retrieved.includes(component));
  const beaten = others.filter((component) => paths.every((path) => path.has(component)));
  const incomparable = others.filter((component) => !beaten.includes(component));
  const undecided = incomparable.length > 0 || retrieved.length > 1;
  return { retrieved, beaten, incomparable, paths, undecided };
}

// The rule's name, as `explain` names it.
function nameRule(found) {
  if (found.rule) return found.rule;
  if (found.undecided) return "INCOMPARABLE";
  return found.entries.every((entry) => entry.seen) ? "DETERMINED" : "UNSEEN_IGNORED";
}

// Words in lower case and punctuation split off; an apostrophe inside a word and underscores belong to it.
function splitSigns(text, words) {
  const signs = /[\p{P}\p{S}]/gu;
  const within = /^[\p{L}\p{N}]['’][\p{L}\p{N}]$/u;
  const apart = (sign, at, line) =>
    sign === "_" || within.test(around(line, at)) ? sign : ` ${sign} `;
  const lines = text.toLowerCase().replaceAll("\n", "<eos>").split("<eos>");
  const split = lines.map((line) => words(line.replace(signs, apart)));
  return split.flatMap((tokens, number) => (number ? ["<eos>", ...tokens] : tokens));
}

// The character at a position with its neighbours, as whole code points.
function around(line, at) {
  return [...line.slice(0, at)].slice(-1).join("") + [...line.slice(at)].slice(0, 2).join("");
}

// The automaton of the page; queries are unpacked on demand.
class PageAutomaton {
  constructor(data) {
    this.data = data;
    this.packed = new Map(data.queries.map((list) => [list[0], list]));
    this.hidden = new Set(sumUp(data.hidden));
    this.unpacked = new Map();
    const ids = data.tokens && data.tokens.ids ? sumUp(data.tokens.ids) : null;
    this.texts = data.tokens ? data.tokens.texts : null;
    // without a list of ids, the page has the texts of all tokens, by id
    this.indexOf = ids && new Map(ids.map((id, index) => [id, index]));
    this.ids = this.texts && new Map(this.texts.map((text, index) => [text, ids ? ids[index] : index]));
  }

  get queries() {
    return this.data.queries;
  }

  graph(query) {
    if (!this.unpacked.has(query) && this.packed.has(query)) {
      this.unpacked.set(query, unpackQuery(this.data.fields, this.packed.get(query)));
    }
    return this.unpacked.get(query);
  }

  name(token) {
    if (!this.texts) return String(token);
    const index = this.indexOf ? this.indexOf.get(token) : token;
    return index === undefined ? `#${token}` : this.texts[index];
  }

  // The ids of tokens given as text, and the unknown ones.
  lookup(words) {
    const ids = [];
    const unknown = [];
    for (const word of words) {
      const id = this.ids
        ? this.ids.get(word)
        : /^\d+$/.test(word) && Number(word) < this.data.n_tokens
          ? Number(word)
          : undefined;
      if (id === undefined) unknown.push(word);
      else ids.push(id);
    }
    return { ids, unknown };
  }

  // A text as tokens of the run's tokenizer; null if a page cannot run it.
  split(text) {
    const spaces = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/;
    const words = (one) => one.split(spaces).filter((word) => word);
    switch (this.data.tokenizer) {
      case null:
        return words(text);
      case "word":
        return words(text.replaceAll("\n", " <eos> "));
      case "word-lower":
        return words(text.toLowerCase().replaceAll("\n", " <eos> "));
      case "word-punct":
        return splitSigns(text, words);
      case "character":
        return Array.from(text);
      case "byte":
        return Array.from(new TextEncoder().encode(text), (byte) => this.name(byte));
      default:
        return null;
    }
  }

  get canSplit() {
    return this.split("") !== null;
  }

  // The prediction for a context of token ids; null if the query is not in this page.
  answer(context) {
    const query = context[context.length - 1];
    if (this.hidden.has(query)) return null;
    const found = answer(this.graph(query), context, this.data.tie);
    return { ...found, rule: nameRule(found), query };
  }
}
