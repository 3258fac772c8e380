// The page of all changes of level and all culprits.

import { load } from "./data.js";
import { TONES, againColumn, badge, changed, copying, counted, day, differ, evidence, h, interval, machineName, outward, plural, reading, seriesColumn, short } from "./dom.js";
import { filters, matching, noMatch, nothingYet, page } from "./page.js";
import { table } from "./table.js";

page("regressions", "Regressions", async (state) => {
  const { changes, culprits } = await load("regressions.json");
  if (!changes.length && !culprits.length && !(await load("overview.json")).groups.length) return nothingYet();
  const all = changes.map((entry) => ({ ...entry, state: stateOf(entry), year: day(entry.time).slice(0, 4) }));
  const picks = { year: (row) => row.year, repo: (row) => row.name.repo, device: (row) => row.name.device, arch: (row) => row.name.arch, benchmark: (row) => row.name.benchmark, metric: (row) => row.name.metric, state: (row) => row.state };
  for (const field of ["repo", "benchmark"].filter((one) => differ(all.map((row) => row.name), one))) all.forEach((row) => { row[field] = row.name[field]; });
  const shown = matching(all, picks, state);
  const proven = culprits.map((entry) => ({ ...entry, ...entry.culprit, state: culpritState(entry, all, picks, state) })).filter((row) => row.state);
  return [
    h("h1", {}, summary(matching(all, picks, { ...state, state: "" })), Object.keys(picks).some((name) => name !== "state" && state[name]) ? " with these filters" : ""),
    filters(all, picks, state),
    proven.length ? table("culprits", `${plural(proven.length, "commit")} proven to be a culprit`, CULPRITS, proven) : null,
    shown.length ? table("regressions", `${plural(shown.length, "change")} of level`, COLUMNS, shown) : h("p", {}, all.length ? noMatch(all, picks, state, "change") : "No series has changed its level yet."),
  ];
});

const CULPRITS = [
  { head: "date", short: true, value: (row) => row.date.slice(0, 10) },
  { head: "state", value: (row) => row.state, cell: (row) => badge(TONES[row.state] ?? "none", row.state) },
  { head: "commit", prose: true, value: (row) => `${row.commit} ${row.subject}`, cell: (row) => [evidence(row), h("small", {}, row.author)] },
  { head: "author", hidden: true, value: (row) => row.author },
  { head: "what got worse", prose: true, value: (row) => row.series.join("; "), cell: (row) => [row.series.join("; "), h("small", {}, row.machine)] },
  { head: "machine", hidden: true, value: (row) => row.machine },
  { head: "what changed inside", prose: true, rare: true, value: (row) => row.inside.join("; ") },
  { head: "command", tool: true, rare: true, value: (row) => row.command, cell: (row) => copying(row.command) },
];

/** The state of a culprit: open if any of the matching changes that it caused is, empty if none matches. Without any, its own year must match. */
function culpritState(entry, all, picks, filter) {
  const own = all.filter((row) => row.culprits.some((one) => one.commit === entry.culprit.commit));
  const told = matching(own.length ? own : [{ year: entry.date.slice(0, 4), state: "no series here", name: {} }], picks, filter);
  return (told.find((row) => row.state === "open") ?? told[0])?.state;
}

const COLUMNS = [
  { head: "since", short: true, value: (row) => day(row.time) },
  { head: "state", value: (row) => row.state, cell: (row) => badge(TONES[row.state], row.recovered ? `recovered ${day(row.recovered)}` : row.state === "no longer measured" ? `no comparable result since ${day(row.ended)}` : row.state) },
  seriesColumn((row) => [row.name.metric, row.repo, row.benchmark, machineName(row.name)].filter(Boolean).join(", ")),
  { head: "repository", hidden: true, rare: true, value: (row) => row.repo }, { head: "benchmark", hidden: true, rare: true, value: (row) => row.benchmark },
  { head: "metric", hidden: true, value: (row) => row.name.metric },
  { head: "change", number: true, value: (row) => row.ratio, cell: changed },
  { head: "95% interval", hidden: true, value: (row) => interval(row.low, row.high) },
  { head: "old", number: true, value: (row) => row.old, cell: (row) => reading(row.old, { ...row.name, kind: row.ratio && "ratio" }, row.unit) },
  { head: "new", number: true, value: (row) => row.new, cell: (row) => reading(row.new, { ...row.name, kind: row.ratio && "ratio" }, row.unit) },
  { head: "machine", hidden: true, value: (row) => machineName(row.name) },
  { head: "commits", hidden: true, value: (row) => `${short(row.last_commit)}..${short(row.first_commit)}` },
  { head: "cause", prose: true, value: (row) => row.culprits.map((culprit) => `${short(culprit.commit)} ${culprit.subject}`).join("; "), cell: (row) => (row.culprits.length ? row.culprits.map((culprit) => outward(culprit.url, `${short(culprit.commit)} ${culprit.subject}`)) : `not bisected: ${short(row.last_commit)}..${short(row.first_commit)}`) },
  againColumn((row) => row.name),
];

const stateOf = ({ word, recovered, ended }) => (word !== "regressed" ? word : recovered ? "recovered" : ended ? "no longer measured" : "open");

function summary(rows) {
  const [open, recovered] = ["open", "recovered"].map((state) => rows.filter((row) => row.state === state).length);
  return `${open ? plural(open, "regression is", "regressions are") : "No regression is"} open${recovered ? `, ${counted(recovered)} recovered` : ""}`;
}
