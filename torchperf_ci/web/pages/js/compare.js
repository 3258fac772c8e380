// The page that compares two runs.

import { catalogue, kindOf, loadIfThere, named, rowsOf, sameMachine } from "./data.js";
import { againColumn, badge, benchmarkName, change, changed, counted, figures, h, interval, link, machineName, minute, plural, reading, seriesColumn, short, svg } from "./dom.js";
import { finder } from "./find.js";
import { nothingYet, page, setState, state as now } from "./page.js";
import { table } from "./table.js";

page("compare", "Compare", async (state) => {
  const index = await catalogue();
  if (!index.runs.length) return nothingYet();
  const head = index.runById.get(state.head);
  const base = index.runById.get(state.base);
  const unknown = ["head", "base"].map((name) => state[name]).filter((id) => id && !index.runById.has(id));
  const [news, bases] = [index.runs, head ? index.runs.filter((run) => run !== head && sameMachine(run, head)) : index.runs];
  const choose = h("div", { class: "picker" }, picker(index, "head", "New run", news, head), picker(index, "base", "Base", bases, base));
  if (base && head && sameMachine(base, head)) return comparison(index, base, head, state, choose);
  return [
    h("h1", {}, "Compare two runs"), ...unknown.map((id) => h("p", { class: "problem" }, `The run ${id} in this address is not in the store.`)),
    base && head ? h("p", { class: "problem" }, `The base is of ${benchmarkName(base, true)} on ${machineName(base)}, the new run of ${benchmarkName(head, true)} on ${machineName(head)}. Only runs of one benchmark on the same kind of machine are compared.`) : null,
    choose, newest(index),
  ];
});

/** The table of the most common comparisons: the newest runs, each with the one before it. */
function newest(index) {
  const pairs = index.comparisons.map((ids) => ids.map((id) => index.runById.get(id))).sort((left, right) => right[1].time - left[1].time);
  if (!pairs.length) return h("p", {}, "Choose two runs on the same kind of machine.");
  return table("newest", "The newest runs, each with the previous one", [
    { head: "new", short: true, value: ([, head]) => minute(head.time), cell: ([base, head]) => link("compare", { base: base.id, head: head.id }, minute(head.time)) },
    { head: "commits", short: true, value: ([base, head]) => `${short(base.commit)}..${short(head.commit)}` },
    { head: "benchmark", value: ([, head]) => benchmarkName(head, index.severalRepos) },
    { head: "machine", prose: true, value: ([, head]) => machineName(head) },
  ], pairs, 20);
}

const runName = (run) => `${minute(run.time)} ${short(run.commit)}`;

/** The data types and backends of each kind of machine, with the times between which it measured in them. */
function waysOf(index) {
  const found = new Map();
  for (const series of index.all) {
    const ways = found.get(kindOf(series)) ?? new Map();
    const { first, last } = ways.get(`${series.dtype} ${series.backend}`) ?? series;
    ways.set(`${series.dtype} ${series.backend}`, { first: Math.min(first, series.first), last: Math.max(last, series.last) });
    found.set(kindOf(series), ways);
  }
  return (run) => [...found.get(kindOf(run)) ?? []].filter(([, { first, last }]) => first <= run.end && run.time <= last).map(([way]) => way);
}

/** A search field for runs by date, commit, subject, branch, repository, benchmark, device, hardware, data type and backend. */
function picker(index, name, label, runs, current) {
  index.ways ??= waysOf(index);
  const items = runs.map((run) => ({ run, text: [minute(run.time), run.commit, run.subject, run.branch, run.repo, run.benchmark, run.device, run.arch, ...index.ways(run)].join(" ").toLowerCase() }));
  const item = ({ run }) => [link("compare", { ...now(), [name]: run.id }, runName(run)), h("span", { class: "quiet" }, ` ${[run.subject, run.branch].filter(Boolean).join(" · ")} · ${benchmarkName(run, index.severalRepos)} on ${machineName(run)}`)];
  return finder({ id: name, label, items, item, nouns: ["run", "runs"], hint: current ? runName(current) : "date, commit, subject, branch, machine, dtype, backend …" });
}

async function comparison(index, base, head, state, choose) {
  const document = await loadIfThere(`compare/${base.id}/${head.id}.json`);
  const title = [
    h("p", {}, "Base ", link("run", { id: base.id }, runName(base)), ", new ", link("run", { id: head.id }, runName(head)), `, ${benchmarkName(head, index.severalRepos)} on ${machineName(head)}. `,
      h("button", { type: "button", onclick: () => setState({ base: head.id, head: base.id }) }, "Swap")),
    choose,
  ];
  if (!document) return [h("h1", {}, "Compare two runs"), ...title, h("p", { class: "problem" }, "This site has comparisons of the newest runs with the previous ones. torchperf serve compares any two runs of one kind of machine.")];
  const names = named(index.byId, document.rows.series);
  const compared = rowsOf(document.rows).map((row, place) => ({ ...row, name: names[place], unit: names[place].unit }));
  const relevant = compared.filter((row) => row.word !== "within noise");
  const all = state.show === "all" || !relevant.length;
  const rows = all ? compared : relevant;
  return [
    h("h1", { class: compared.some((row) => row.worse > 0) ? "bad" : null }, sentence(compared)), ...title,
    document.differs.length ? h("p", {}, badge("warning", `other conditions: ${document.differs.join("; ")}`)) : null,
    figures(...document.means.map((mean) => [`${mean.metric}, geometric mean of ${counted(mean.n)}`, change(mean.ratio)])),
    compared.some((row) => row.ratio) ? h("p", { class: "quiet" }, `Each interval is of its series alone. A change is beyond noise if chance would exceed it in any of the ${plural(compared.length, "series", "series")} in at most one of twenty comparisons, so an interval without 0% may be within noise.`) : null,
    relevant.length && relevant.length < compared.length ? h("p", {}, h("button", { type: "button", name: "show", onclick: () => setState({ show: all ? "" : "all" }) },
      all ? `Only the ${counted(relevant.length)} to look at` : `Show all ${plural(compared.length, "series", "series")}`)) : null,
    table("compare", all ? "All series" : "Series not within their noise", columns(rows), rows),
  ];
}

/** Summarizes the comparison in a sentence, the worst first. */
function sentence(rows) {
  const count = (pick) => rows.filter(pick).length;
  const [worse, better, changed] = [1, -1, 0].map((way) => count((row) => row.word === "beyond noise" && row.worse === way));
  const other = count((row) => row.word === "not comparable");
  const unknown = count((row) => row.word === "noise unknown");
  const beyond = [worse && `${counted(worse)} worse`, better && `${counted(better)} better`, changed && `${counted(changed)} changed`].filter(Boolean).join(", ");
  if (rows.length && other === rows.length) return `None of ${plural(rows.length, "series", "series")} can be compared`;
  return [
    beyond ? `Beyond noise: ${beyond} of ${plural(rows.length, "series", "series")}` : `None of ${plural(rows.length, "series", "series")} is beyond its noise`,
    other && `${counted(other)} cannot be compared`, unknown && `the noise of ${counted(unknown)} is unknown`,
  ].filter(Boolean).join("; ");
}

const columns = (rows, reach = farthest(rows)) => [
  seriesColumn((row) => row.name.metric),
  { head: "metric", hidden: true, value: (row) => row.name.metric },
  { head: "base", number: true, value: (row) => row.base, cell: (row) => reading(row.base, { ...row.name, kind: row.ratio && "ratio" }, row.unit) },
  { head: "new", number: true, value: (row) => row.head, cell: (row) => reading(row.head, { ...row.name, kind: row.ratio && "ratio" }, row.unit) },
  { head: "change", number: true, value: (row) => row.ratio, cell: changed },
  { head: "95% interval", rare: true, value: (row) => interval(row.low, row.high), cell: (row) => span(row, reach) },
  { head: "against the noise", value: (row) => row.word, cell: (row) => badge(tone(row), row.word === "beyond noise" ? `${row.word}, ${["better", "no direction", "worse"][row.worse + 1]}` : row.word) },
  { head: "why", prose: true, rare: true, value: (row) => row.why },
  againColumn((row) => row.name),
];

/** The largest absolute logarithm of any interval's end, at least 0.02. */
const farthest = (rows) => rows.reduce((most, row) => (row.low === null ? most : Math.max(most, -Math.log(row.low), Math.log(row.high))), 0.02);

/** Draws the interval of a change relative to no change; all rows of a table share the scale `reach`. */
function span(row, reach) {
  if (row.low === null) return "–";
  const x = (ratio) => 80 + (Math.log(ratio) / reach) * 76;
  return svg("svg", { class: `span ${tone(row)}`, viewBox: "0 0 160 18", role: "img", "aria-label": interval(row.low, row.high) },
    svg("line", { x1: 80, x2: 80, y1: 0, y2: 18, stroke: "currentColor", "stroke-dasharray": "2 2" }),
    svg("line", { x1: x(row.low), x2: x(row.high), y1: 9, y2: 9, stroke: "currentColor", "stroke-width": 2 }),
    svg("circle", { cx: x(row.ratio), cy: 9, r: 4, fill: "currentColor" }));
}

const tone = ({ word, worse }) => ({ "not comparable": "warning", "beyond noise": ["good", "warning", "bad"][worse + 1] })[word] ?? "none";
