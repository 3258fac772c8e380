// What ran, on what? Without an id: which runs are there?

import { catalogue, load } from "./data.js";
import { badge, command, h, link, machineName, measureAgain, minute, number, outward, plural, seriesName, short } from "./dom.js";
import { filters, nothingYet, page } from "./page.js";
import { table } from "./table.js";

page("run", "Runs", async (state) => (state.id ? oneRun(state.id) : allRuns(state)));

async function allRuns(state) {
  const { runs } = await catalogue();
  if (!runs.length) return nothingYet();
  const names = ["benchmark", "device", "arch", "branch"];
  const shown = runs.filter((run) => names.every((name) => !state[name] || run[name] === state[name]));
  return [
    h("h1", {}, "Runs"),
    filters(runs, Object.fromEntries(names.map((name) => [name, (run) => run[name]])), state),
    table("runs", plural(shown.length, "run"), [
      { head: "time", value: (run) => minute(run.time), cell: (run) => link("run", { id: run.id }, minute(run.time)) },
      { head: "commit", value: (run) => run.commit, cell: (run) => short(run.commit) },
      { head: "branch", value: (run) => run.branch },
      { head: "benchmark", value: (run) => run.benchmark },
      { head: "machine", value: machineName },
      { head: "job", value: (run) => run.url, cell: (run) => outward(run.url, run.name) },
    ], shown),
  ];
}

async function oneRun(id) {
  const { run, previous, machine, differs, notes, counts, cases, not_run: missing } = await load(`run/${id}.json`);
  const failed = cases.filter((one) => !["pass", "no status"].includes(one.status));
  return [
    h("h1", {}, `${run.benchmark} on ${machineName(run)}`),
    h("p", {}, `${minute(run.time)}, commit ${short(run.commit)}, branch ${run.branch || "unknown"}. `, outward(run.url, run.url ? "The job at GitHub" : ""), run.url ? ". " : "",
      previous ? link("compare", { base: previous.id, head: run.id }, "Compare with the run before") : "There is no run before it."),
    h("p", {}, ...Object.entries(counts).flatMap(([word, count]) => [badge(word === "pass" ? "none" : "warning", `${count} ${word === "pass" ? "passed" : word}`), " "]), missing.length ? badge("warning", `${missing.length} did not run`) : ""),
    ...notes.map((note) => h("p", { class: "note" }, note)),
    failed.length ? table("failed", `${plural(failed.length, "case")} without a result`, [
      { head: "case", value: (one) => seriesName(one.name) },
      { head: "status", value: (one) => one.status, cell: (one) => badge("warning", one.status) },
      { head: "reason", prose: true, value: (one) => one.reason },
    ], failed) : null,
    missing.length ? table("not-run", `${plural(missing.length, "case")} of the run before that did not run`, [
      { head: "case", value: seriesName },
    ], missing) : null,
    table("measured", "What was measured", VALUES, cases.flatMap((one) => one.values.map((value) => ({ ...value, case: one.name })))),
    h("h2", {}, "The machine"),
    differs.length ? h("p", {}, badge("warning", `differs from the run before: ${differs.join("; ")}`)) : null,
    h("dl", { class: "facts" }, ...Object.entries(machine).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    cases.length ? h("h2", {}, "Measure a case again") : null,
    cases.length ? command(measureAgain({ ...cases[0].name, device: run.device })) : null,
  ];
}

const VALUES = [
  { head: "case", value: (row) => seriesName(row.case), cell: (row) => link("series", { s: row.series }, seriesName(row.case)) },
  { head: "metric", value: (row) => row.metric },
  { head: "value", number: true, value: (row) => row.value, cell: (row) => number(row.value, row.unit) },
  { head: "lowest", number: true, value: (row) => row.low, cell: (row) => number(row.low) },
  { head: "highest", number: true, value: (row) => row.high, cell: (row) => number(row.high) },
  { head: "repetitions", number: true, value: (row) => row.n },
  { head: "why no value", prose: true, rare: true, value: (row) => row.why },
];
