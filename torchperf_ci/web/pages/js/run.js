// The page of a run: what ran, and on what machine. Without an ID, the list of all runs.

import { Changed, catalogue, loadIfThere, placed, valuesOf } from "./data.js";
import { againColumn, badge, benchmarkName, commitName, counted, extreme, h, link, machineName, minute, outward, plural, reading, seriesName } from "./dom.js";
import { filters, matching, noMatch, nothingYet, page } from "./page.js";
import { table } from "./table.js";

page("run", "Runs", async (state) => (state.id ? oneRun(state.id) : allRuns(state)));

async function allRuns(state) {
  const { runs, severalRepos } = await catalogue();
  if (!runs.length) return nothingYet();
  const picks = Object.fromEntries(["repo", "benchmark", "device", "arch", "branch"].map((name) => [name, (run) => run[name]]));
  const shown = matching(runs, picks, state);
  return [
    h("h1", {}, "Runs"),
    filters(runs, picks, state),
    shown.length ? table("runs", plural(shown.length, "run"), [
      { head: "time", short: true, value: (run) => minute(run.time), cell: (run) => link("run", { id: run.id }, minute(run.time)) },
      { head: "commit", prose: true, value: (run) => `${run.commit} ${run.subject}`.trim(), cell: commitName },
      { head: "branch", value: (run) => run.branch },
      { head: "repository", rare: true, value: (run) => (severalRepos ? run.repo : "") },
      { head: "benchmark", value: (run) => run.benchmark },
      { head: "machine", prose: true, value: machineName },
      { head: "job", value: (run) => run.url, cell: (run) => outward(run.url, run.url ? run.url.split("/").pop() : run.name) },
    ], shown) : h("p", {}, noMatch(runs, picks, state, "run")),
  ];
}

async function oneRun(id) {
  const [document, index] = await Promise.all([loadIfThere(`run/${encodeURIComponent(id)}.json`), catalogue()]);
  if (!document) return [h("p", { class: "problem" }, `The run ${id} in this address is not in the store.`), ...(await allRuns({}))];
  const { machine, differs, notes, counts, failed, not_run: missing } = document;
  const [run, previous] = [id, document.previous].map((one) => index.runById.get(one));
  if (!run) throw new Changed();
  const caseColumn = { head: "case", prose: true, value: (one) => seriesName(one.name), cell: (one) => link("series", { q: [...Object.values(one.name), run.device, run.arch].join(" ") }, seriesName(one.name)) };
  const again = againColumn((one) => ({ ...one.name, device: run.device }));
  return [
    h("h1", {}, sentence(counts, missing.length)),
    h("p", {}, `${benchmarkName(run, index.severalRepos)} on ${machineName(run)}, ${minute(run.time)}, commit ${commitName(run)}, branch ${run.branch || "unknown"}. `, outward(run.url, run.url ? "The job at GitHub" : ""), run.url ? " · " : "",
      previous ? link("compare", { base: previous.id, head: run.id }, "Compare with the previous run") : "There is no earlier run", " · ",
      h("a", { href: `../data/run/${id}.json`, download: `run-${id}.json` }, "Download as JSON")),
    differs.length ? h("p", {}, badge("warning", `The machine differs from the previous run: ${differs.join("; ")}`)) : null,
    ...notes.map((note) => h("p", { class: "note" }, note)),
    failed.length ? table("failed", `${plural(failed.length, "case")} that did not pass`, [
      caseColumn,
      { head: "status", value: (one) => one.status, cell: (one) => badge("warning", one.status) },
      { head: "reason", prose: true, value: (one) => one.reason },
      again,
    ], failed) : null,
    missing.length ? table("not-run", `${plural(missing.length, "case")} of the five runs before that did not run`, [caseColumn, again], missing.map((name) => ({ name }))) : null,
    table("measured", "What was measured", [...VALUES, again], measured(document, placed(index.all, run, document.series, document.last))),
    h("h2", {}, "The machine"),
    Object.keys(machine).length ? null : h("p", {}, "Its fingerprint is not recorded."),
    h("dl", { class: "facts" }, ...Object.entries(machine).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
  ];
}

/** The rows of what the run measured, failed cases first. */
function measured(document, names) {
  const caseOf = ({ model, mode, dtype, backend }) => JSON.stringify([model, mode, dtype, backend]);
  const failed = new Set(document.failed.map((one) => caseOf(one.name)));
  const rows = valuesOf(document.values).map((row, place) => ({ ...row, name: names[place], passed: !failed.has(caseOf(names[place])) }));
  return rows.sort((left, right) => left.passed - right.passed || left.name.place - right.name.place);
}

/** Summarizes the outcomes of a run: how many cases passed, failed and did not run. */
function sentence(counts, missing) {
  const words = Object.entries(counts).map(([word, count]) => `${counted(count)} ${word === "pass" ? "passed" : word === "no status" ? "without a status" : word}`);
  return [...words, missing ? `${counted(missing)} did not run` : ""].filter(Boolean).join(", ");
}

const VALUES = [
  { head: "case", prose: true, value: (row) => seriesName(row.name), cell: (row) => link("series", { s: row.name.id }, seriesName(row.name)) },
  { head: "metric", value: (row) => row.name.metric },
  { head: "value", number: true, value: (row) => row.value, cell: (row) => reading(row.value, row.name, row.name.unit) },
  { head: "lowest", number: true, value: (row) => row.low, cell: (row) => extreme(row.low, row, row.name) },
  { head: "highest", number: true, value: (row) => row.high, cell: (row) => extreme(row.high, row, row.name) },
  { head: "repetitions", number: true, value: (row) => row.n },
  { head: "reason", prose: true, rare: true, value: (row) => row.why },
];
