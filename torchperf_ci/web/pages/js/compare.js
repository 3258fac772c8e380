// What differs between two runs?

import { Missing, catalogue, load } from "./data.js";
import { badge, change, h, interval, link, machineName, minute, plural, reading, seriesName, short } from "./dom.js";
import { choice, filters, nothingYet, page, setState } from "./page.js";
import { table } from "./table.js";

page("compare", "Compare", async (state) => {
  const index = await catalogue();
  if (!index.runs.length) return nothingYet();
  const head = index.runById.get(state.head);
  const base = index.runById.get(state.base);
  const names = ["benchmark", "device", "arch", "branch"];
  const shown = index.runs.filter((run) => names.every((name) => !state[name] || run[name] === state[name]));
  const alike = head ? shown.filter((run) => sameMachine(run, head)) : shown;
  return [
    h("h1", {}, "Compare two runs"),
    filters(index.runs, Object.fromEntries(names.map((name) => [name, (run) => run[name]])), state),
    h("div", { class: "filters" }, picker("head", "New", shown, head), picker("base", "Base", alike.filter((run) => run !== head), base)),
    base && head ? await comparison(base, head, state) : newest(index),
  ];
});

/** What people compare most: the newest runs, each with the one before it. */
function newest(index) {
  const pairs = index.comparisons.map((ids) => ids.map((id) => index.runById.get(id))).sort((left, right) => right[1].time - left[1].time).slice(0, 10);
  return [
    h("p", {}, "Choose two runs on the same kind of machine", pairs.length ? ", or take one of the newest with the run before it:" : "."),
    h("ul", {}, ...pairs.map(([base, head]) => h("li", {}, link("compare", { base: base.id, head: head.id }, minute(head.time)), ` ${head.benchmark} on ${machineName(head)}, ${short(base.commit)} → ${short(head.commit)}`))),
  ];
}

const sameMachine = (left, right) => ["repo", "benchmark", "device", "arch"].every((name) => left[name] === right[name]);

function picker(name, label, runs, current) {
  const known = current && !runs.includes(current) ? [current, ...runs] : runs;
  return choice(name, label, known.slice(0, 500).map((run) => [run.id, `${minute(run.time)}  ${short(run.commit)}  ${run.branch}  ${machineName(run)}`]), current?.id, "choose a run");
}

async function comparison(base, head, state) {
  const document = await load(`compare/${base.id}/${head.id}.json`).catch((error) => {
    if (!(error instanceof Missing)) throw error;
    return null;
  });
  if (!document) return h("p", { class: "problem" }, "This site holds comparisons of the newest runs with the one before them. torchperf serve compares any two runs of one kind of machine.");
  const relevant = document.rows.filter((row) => row.word !== "within noise");
  const rows = state.show === "all" ? document.rows : relevant;
  return [
    h("p", {}, "Base ", link("run", { id: base.id }, `${minute(base.time)} ${short(base.commit)}`), ", new ", link("run", { id: head.id }, `${minute(head.time)} ${short(head.commit)}`), `, on ${machineName(head)}. `,
      h("button", { type: "button", onclick: () => setState({ base: head.id, head: base.id }) }, "Swap")),
    document.differs.length ? h("p", {}, badge("warning", `another machine: ${document.differs.join("; ")}`)) : null,
    table("means", "Geometric mean of new over base, over the series that both runs have", [
      { head: "metric", value: (row) => row.metric },
      { head: "change", number: true, value: (row) => row.ratio, cell: (row) => change(row.ratio) },
      { head: "series", number: true, value: (row) => row.n },
    ], document.means),
    h("p", {}, `${plural(relevant.length, "series", "series")} to look at of ${document.rows.length}. `,
      h("button", { type: "button", onclick: () => setState({ show: state.show === "all" ? "" : "all" }) }, state.show === "all" ? "Only these" : "Show all")),
    rows.length ? table("compare", "Series", COLUMNS, rows) : h("p", {}, "Nothing is beyond its noise, and everything could be compared."),
  ];
}

const COLUMNS = [
  { head: "series", value: (row) => seriesName(row.name), cell: (row) => link("series", { s: row.series }, seriesName(row.name)) },
  { head: "metric", value: (row) => row.name.metric },
  { head: "base", number: true, value: (row) => row.base, cell: (row) => reading(row.base, row.name, row.unit) },
  { head: "new", number: true, value: (row) => row.head, cell: (row) => reading(row.head, row.name, row.unit) },
  { head: "change", number: true, value: (row) => row.ratio, cell: (row) => change(row.ratio) },
  { head: "95% interval", value: (row) => interval(row.low, row.high) },
  { head: "against the noise", value: (row) => row.word, cell: (row) => badge(tone(row), row.word === "beyond noise" ? `${row.word}, ${["better", "no direction", "worse"][row.worse + 1]}` : row.word) },
  { head: "why", prose: true, rare: true, value: (row) => row.why },
];

function tone(row) {
  if (row.word === "not comparable") return "warning";
  if (row.word !== "beyond noise") return "none";
  return ["good", "warning", "bad"][row.worse + 1];
}
