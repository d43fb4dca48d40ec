// Summary, coverage, verdicts and provenance: sentences and tables.

function showSummary(automaton, pick) {
  const { coverage, n_shown, samples_share, note, manifest, verdicts } = automaton.data;
  const source = manifest.input && manifest.input.name;
  find("title").replaceChildren(
    "What attention learns from ",
    token(source || automaton.data.run || "this corpus", 40),
  );
  const lines = [];
  if (note) lines.push(note);
  lines.push(
    `${plural(coverage.n_read, "sample was", "samples were")} read. In ${percent(coverage.realisable)} of them the next token is already in the context; attention alone can learn only these, and everything below is about them.`,
  );
  lines.push(
    `Under ${plural(coverage.n_queries, "query", "queries")} (last tokens), ${plural(coverage.n_edges, "edge")} record which token wins against which. They form ${plural(coverage.n_components, "component")}: tokens of one component beat each other in turn and so tie; where a path leads from one component to another, the first wins.`,
  );
  lines.push(
    `${percent(coverage.tied_queries)} of the queries have ties, where training mixes tokens with finite odds. ${tellOrdered(coverage)}`,
  );
  if (n_shown < coverage.n_queries) {
    lines.push(
      `This page holds ${count(n_shown)} of the ${count(coverage.n_queries)} queries, as many as fit, most samples first: they cover ${percent(samples_share)} of the samples that can be learned. The run folder has all of them.`,
    );
  }
  const figures = [
    [count(coverage.n_read), "samples read"],
    [percent(coverage.realisable), "can be learned"],
    [count(coverage.n_queries), "queries"],
    [count(coverage.n_components), "components"],
    [proven(coverage), "solutions proven"],
  ];
  if (verdicts.length) figures.push([tellVerdicts(verdicts), "claims about training"]);
  find("summary").append(
    make(
      "dl",
      { class: "figures" },
      figures.map(([number, label]) => make("div", null, make("dt", null, label), make("dd", null, number))),
    ),
    ...lines.map((line) =>
      make("p", { class: n_shown < coverage.n_queries && line === lines.at(-1) ? "notice" : null }, line),
    ),
  );
  if (coverage.largest.length) {
    find("summary").append(
      make(
        "p",
        null,
        "Largest ties: ",
        coverage.largest.flatMap((one, place) => [
          place ? ", " : "",
          button([token(automaton.name(one.query), 20)], () => pick(one.query, true), {
            class: "link",
            disabled: !automaton.packed.has(one.query),
          }),
          ` (${plural(one.size, "token")})`,
        ]),
        ".",
      ),
    );
  }
}

// The number of queries under which all components are ordered.
function tellOrdered({ n_queries, ordered_queries }) {
  const ordered = Math.round(ordered_queries * n_queries);
  if (ordered === n_queries)
    return "Under every query any two components are ordered, so the theorem decides every context of known tokens.";
  const open =
    "there are components that the corpus does not order: if a context contains two of them and none above both, the theorem does not decide, and hard scores do.";
  if (!ordered) return `Under every query ${open}`;
  return `Under ${plural(ordered, "query", "queries")} any two components are ordered, so the theorem decides every context of known tokens; under the other ${count(n_queries - ordered)} ${open}`;
}

function countVerdicts(verdicts) {
  const of = (status) => verdicts.filter((one) => one.status === status).length;
  return { holds: of("holds"), fails: of("fails"), early: of("too_early"), outside: of("not_applicable") };
}

function tellVerdicts(verdicts) {
  const { holds, fails, early, outside } = countVerdicts(verdicts);
  return [
    holds || !fails ? `${holds} ${holds === 1 ? "holds" : "hold"}` : "",
    fails ? `${fails} ${fails === 1 ? "fails" : "fail"}` : "",
    early + outside ? `${early + outside} not judged` : "",
  ]
    .filter(Boolean)
    .join(", ");
}

const proven = (coverage) =>
  [coverage.hard, coverage.soft].filter((one) => one.status === "certified").length + " of 2";

function showCoverage(automaton) {
  const { coverage, manifest } = automaton.data;
  const config = manifest.config || {};
  const embedded = Boolean(config.embeddings);
  const rows = [
    ["One layer of one head, whose weights W are trained as one matrix", "assumed"],
    ["The output reads the attention mass on each token (token ids or a tied readout)", "assumed"],
    ["Log-loss, gradient descent with small enough steps", "assumed"],
    [
      "The label is in the context",
      `true for ${percent(coverage.realisable)} of the samples; the others carry no information and are left out`,
    ],
    [
      "Embeddings",
      embedded ? "given; both parts were solved jointly" : "orthonormal, so queries do not interact",
    ],
    [
      "Each context is ordered by the corpus",
      tellOrdered(coverage),
    ],
    [
      "Evidence kept",
      config.min_support > 1
        ? `edges seen at least ${config.min_support} times`
        : "every edge, including those seen once",
    ],
  ];
  const { hard, soft } = coverage;
  find("coverage").append(
    table("Assumptions, and whether the data meet them", ["assumption", "here"], rows),
    table(
      "Certificates, computed from the solutions themselves",
      ["part", "status", "proof"],
      [
        [
          "hard (W_svm)",
          hard.status,
          `relative gap ${short(hard.gap)}, largest violation ${short(hard.violation)} (tolerance: ${short(hard.rtol)})`,
        ],
        [
          "soft (W_fin)",
          soft.status,
          `gradient norm ${short(soft.gradient_norm)} (tolerance: ${short(soft.atol)})` +
            (soft.error_bound === null ? "" : `; each score is within ${short(soft.error_bound)}`),
        ],
      ],
    ),
  );
}

function showVerdicts(automaton) {
  const { verdicts } = automaton.data;
  if (!verdicts.length)
    return [
      make(
        "p",
        { class: "quiet" },
        "No verdicts: run attomaton verify on this folder, then write the report again.",
      ),
    ];
  const words = {
    holds: "✓ holds",
    fails: "✗ fails",
    too_early: "needs more steps",
    not_applicable: "does not apply here",
  };
  const status = (one) => words[one.status] || one.status;
  const { early, outside } = countVerdicts(verdicts);
  const why = [
    early ? `${early} ${early === 1 ? "needs" : "need"} more steps of training` : "",
    outside ? `${outside} ${outside === 1 ? "does" : "do"} not apply here` : "",
  ].filter(Boolean);
  const rows = verdicts.map((one) => [
    [one.claim, make("small", null, one.reason)],
    [
      make("span", { class: `status ${one.status}` }, status(one)),
      one.value === null ? null : make("small", null, short(one.value) + (one.bound === null ? "" : `, bound ${short(one.bound)}`)),
    ],
  ]);
  return [
    make("p", null, `${tellVerdicts(verdicts)}${why.length ? `: ${why.join(", ")}` : ""}.`),
    table("Verdicts", ["claim, and what was measured", "verdict"], rows, { class: "verdicts" }),
  ];
}

// A command that reproduces such a run, from its manifest; null if there is none.
function tellCommand({ input, config }, run) {
  if (!input || !config || !input.name || config.embeddings || config.queries) return null;
  const options = [
    ["--window", config.window, 32],
    ["--tokenizer", input.tokenizer, "word"],
    ["--column", config.column, null],
    ["--documents", config.documents, "file"],
    ["--format", config.format, null],
    ["--max-window", config.max_window, null],
    ["--min-support", config.min_support, 1],
    ["--queries", Number.isInteger(config.queries) ? config.queries : null, null],
    ["--sample-queries", config.sample_queries, 1],
    ["--engine", config.engine, "auto"],
  ];
  const quoted = (text) =>
    /^[\w.\/:@%+-]+$/.test(text) ? text : `'${String(text).replaceAll("'", "'\\''")}'`;
  return [
    "attomaton learn",
    quoted(input.name),
    ...options
      .filter(([, value, usual]) => value !== undefined && value !== null && value !== usual)
      .map(([name, value]) => `${name} ${quoted(value)}`),
    "--out",
    quoted(run),
  ].join(" ");
}

function showProvenance(automaton) {
  const { manifest, written_by, run } = automaton.data;
  const command = tellCommand(manifest, run);
  const facts = [
    ["run folder", run],
    ["report written by", `attomaton ${written_by}`],
  ];
  if (command) facts.push(["command", make("code", null, command)]);
  for (const [name, value] of Object.entries(manifest.input || {}))
    if (!(name in (manifest.config || {}))) facts.push([`input: ${name}`, make("code", null, String(value))]);
  for (const [name, value] of Object.entries(manifest.config || {})) {
    if (value !== null) facts.push([`setting: ${name}`, make("code", null, cut(typeof value === "string" ? value : JSON.stringify(value), 120))]);
  }
  const versions = Object.entries(manifest.versions || {})
    .map(([name, value]) => `${name} ${value}`)
    .join(", ");
  facts.push(["versions", versions]);
  find("provenance").append(
    make(
      "dl",
      { class: "facts" },
      facts.flatMap(([name, value]) => [make("dt", null, name), make("dd", null, value)]),
    ),
    make(
      "details",
      null,
      make("summary", null, "SHA-256 of every file of the run"),
      table(
        "Files",
        ["file", "bytes", "SHA-256"],
        Object.entries(manifest.files || {}).map(([name, one]) => [
          name,
          count(one.bytes),
          make("code", null, one.sha256),
        ]),
      ),
    ),
  );
}
