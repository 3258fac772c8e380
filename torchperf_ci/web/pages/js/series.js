// The page of series over time: up to twenty, chosen in a search field.

import { catalogue, onTrunk, wholeSeries } from "./data.js";
import { TONES, badge, benchmarkName, changeOf, changed, command, commitName, counted, day, differ, evidence, extreme, figures, h, interval, link, machineName, measureAgain, minute, number, plural, reading, seriesName, short } from "./dom.js";
import { chart, relativeBy, swatch } from "./chart.js";
import { finder } from "./find.js";
import { choice, filters, matching, noMatch, nothingYet, page, setState, state as now } from "./page.js";
import { table } from "./table.js";

const MOST = 20;
const SPANS = [["30", "30 days"], ["90", "90 days"], ["365", "a year"]];
const DAY = 86_400;
const PICKS = Object.fromEntries(["repo", "benchmark", "device", "arch"].map((name) => [name, (series) => series[name]]));

page("series", "Series", async (state) => {
  const index = await catalogue();
  if (!index.all.length) return nothingYet();
  const asked = [...new Set((state.s ?? "").split(","))].filter(Boolean);
  const ids = asked.slice(0, MOST);
  const chosen = ids.map((id) => index.byId.get(id)).filter(Boolean);
  const found = chosen.length ? index.all : matching(index.all, PICKS, state);
  const add = picker(found, index.severalRepos, ids, state.q ?? "");
  const unknown = ids.length - chosen.length;
  const where = new Set(chosen.map((series) => `${benchmarkName(series, index.severalRepos)} on ${machineName(series)}`));
  return [
    h("h1", {}, chosen.length === 1 ? `${seriesName(chosen[0])}: ${chosen[0].metric}` : chosen.length ? plural(chosen.length, "series", "series") : `Find one of ${plural(found.length, "series", "series")}`),
    asked.length > MOST ? h("p", { class: "problem" }, `A chart has ${MOST} series at most; ${asked.length - MOST} of this address are left out.`) : null,
    where.size === 1 ? h("p", { class: "quiet" }, ...where) : null,
    unknown ? h("p", { class: "problem" }, `${plural(unknown, "series", "series")} in this address ${unknown === 1 ? "is" : "are"} not in the store.`) : null,
    ...(chosen.length ? await shown(chosen, state, index.all, add) : [filters(index.all, PICKS, state), h("div", { class: "picker" }, add), state.q ? null : found.length ? models(found) : noMatch(index.all, PICKS, state, "series")]),
  ];
});

/** A search field for series; each match can be added to those drawn, or drawn alone. */
function picker(items, severalRepos, ids, query) {
  const full = ids.length >= MOST && `A chart has ${MOST} series at most: remove one first.`;
  const item = (series, input) => {
    const is = ids.includes(series.id);
    const other = is ? ids.filter((id) => id !== series.id) : [...ids, series.id];
    return [
      h("button", { type: "button", name: series.id, "aria-pressed": is ? "true" : "false", disabled: full && !is, title: full, onclick: () => setState({ s: other.join(","), q: input.value }) }, is ? "Remove" : "Add"), " ",
      link("series", { ...now(), s: series.id, q: "" }, `${seriesName(series)} ${series.metric}`), h("span", { class: "quiet" }, ` ${machineName(series)} · ${benchmarkName(series, severalRepos)}`)];
  };
  return finder({ id: "find", label: "Find series", items, item, nouns: ["series", "series"], query, hint: "words of a model, metric, device …", keep: (q) => setState({ q }, false) });
}

/** The table of all models, for users who do not know what to search for. */
function models(all) {
  const counts = new Map();
  for (const series of all) {
    const row = counts.get(series.model) ?? { model: series.model, metrics: new Set(), machines: new Set(), count: 0 };
    row.metrics.add(series.metric); row.machines.add(machineName(series)); row.count += 1;
    counts.set(series.model, row);
  }
  return table("models", plural(counts.size, "model"), [
    { head: "model", prose: true, value: (row) => row.model, cell: (row) => (row.model ? link("series", { ...now(), q: row.model }, row.model) : "without a name") },
    { head: "metrics", prose: true, value: (row) => [...row.metrics].sort().join(", ") },
    { head: "machines", prose: true, value: (row) => [...row.machines].sort().join(", "), cell: (row) => (row.machines.size > 2 ? plural(row.machines.size, "machine") : [...row.machines].sort().join(", ")) },
    { head: "series", number: true, value: (row) => row.count },
  ], [...counts.values()].sort((left, right) => left.model.localeCompare(right.model)), 50);
}

async function shown(chosen, state, all, add) {
  const newest = chosen.reduce((most, series) => Math.max(most, series.last), 0);
  const from = Math.max(0, newest - (Number(state.from) || Infinity) * DAY);
  const spans = !from || SPANS.some(([days]) => days === state.from) ? SPANS : [...SPANS, [state.from, `${state.from} days`]];
  const rows = await Promise.all(chosen.map(async (series) => cut(series, await wholeSeries(series, from), from)));
  const apart = [(series) => benchmarkName(series, differ(chosen, "repo")), machineName].filter((name) => new Set(chosen.map(name)).size > 1);
  if (rows.length > 1) rows.forEach((row) => { row.label = [row.name, ...apart.map((name) => name(row.of))].join(", "); });
  const mixed = new Set(rows.map((row) => row.unit)).size > 1;
  const relative = mixed || state.scale === "relative";
  const [first] = rows;
  const again = [...new Set(chosen.map(measureAgain))].filter(Boolean);
  const title = `${rows.length === 1 ? first.name : plural(rows.length, "series", "series")}${apart.includes(machineName) ? "" : `, ${machineName(first.of)}`}`;
  return [
    rows.length === 1 ? figures(...about(first)) : null,
    ...noValueSince(rows, all),
    ...rows.filter((row) => relative && !relativeBy(row)).map((row) => h("p", { class: "note" }, `${row.label ?? row.name} is not drawn: its first level is not above zero, so nothing is relative to it.`)),
    rows.length > 1 ? h("ul", { class: "legend" }, ...rows.map((row, place) => legend(row, place, chosen))) : null,
    chart(rows, relative, title),
    rows.length === 1 ? bands(first) : null,
    rows.some((row) => !row.points.every((point) => onTrunk(row, point))) ? h("p", { class: "quiet" }, "Hollow points are of other branches, which are not judged.") : null,
    h("div", { class: "picker" }, choice("from", "Time", spans, state.from ?? "", "all"), mixed ? h("span", { class: "quiet" }, "Units differ: each series is relative to its first level.") : choice("scale", "Scale", [["relative", "relative to the first level"]], relative ? "relative" : "", "absolute"), add),
    changes(rows),
    ...rows.map(machines),
    again.length ? h("h2", {}, "Measure it again") : null,
    again.length ? h("p", { class: "quiet" }, "In a clone of the repository. Name the suite with --suite unless torchperf.yml does.") : null,
    ...again.slice(0, 3).map(command),
    table("points", "Every run", POINTS, rows.flatMap((row) => row.points.map((point) => ({ ...point, row }))).sort((a, b) => b.time - a.time), 50),
  ];
}

/** Notes about series that newer runs have no value of: one for all of which the same is told. */
function noValueSince(rows, all) {
  const text = (row) => `No value since ${day(row.last.time)}: ${plural(row.later, "newer run")} on this machine ${row.later === 1 ? "has" : "have"} none. `;
  const told = rows.filter((row) => row.later).map((row) => [text(row), row]);
  return [...new Map(told).keys()].map((words) => {
    const own = told.filter(([other]) => other === words).map(([, row]) => row);
    const names = own.length < rows.length ? own.map((row) => row.label).join("; ") : "all of these series";
    return h("p", { class: "note" }, words, rows.length > 1 ? `This is true of ${names}. ` : "", ...own.length === 1 ? outcome(own[0].of, all) : []);
  });
}

/** A link to the series with the status of the same case, if there is one. */
function outcome(series, all) {
  const same = (other) => other.metric === "status" && ["repo", "benchmark", "model", "mode", "dtype", "backend", "device", "arch"].every((name) => other[name] === series[name]);
  const found = series.metric === "status" ? null : all.find(same);
  return found ? [link("series", { s: found.id }, "Does it still pass?")] : [];
}

function cut(series, whole, from) {
  const since = (entry) => entry.time >= from;
  return {
    ...whole, of: Object.assign(series, { kind: whole.kind }), name: `${seriesName(series)} ${series.metric}`,
    points: whole.points.filter(since), changes: whole.changes.filter(since), machine_changes: whole.machine_changes.filter(since),
    levels: whole.levels.filter((level) => level.end >= from).map((level) => ({ ...level, start: Math.max(level.start, from) })),
  };
}

function legend(row, place, chosen) {
  const others = chosen.filter((series) => series !== row.of).map((series) => series.id).join(",");
  const level = row.levels[row.levels.length - 1];
  return h("li", {}, h("span", { class: `swatch c${place % 10}`, "aria-hidden": "true" }, swatch(place)), ` ${row.label}`, level ? `: ${number(level.value, row.unit)}` : "", " ",
    chosen.length > 1 ? h("button", { type: "button", name: `remove ${row.of.id}`, onclick: () => setState({ s: others }) }, "Remove") : null);
}

/** The key figures of a series: its level, its last change, its noise, and the smallest change that would be detected. */
function about(row) {
  const level = row.levels[row.levels.length - 1];
  const last = row.changes[row.changes.length - 1];
  return [
    level ? [row.later ? `on ${day(row.last.time)}` : "now", number(level.value, row.unit)] : row.last && ["now", reading(row.last.value, row.of, row.unit)],
    last ? [`${last.word} since ${day(last.time)}`, badge(TONES[last.word], changeOf(last, row.of, row.unit))] : ["last change", "none in this period"],
    row.noise === null ? null : ["noise between runs", share(row.noise)],
    row.detectable === null ? null : ["smallest detectable change", share(row.detectable)],
    ["runs", counted(new Set(row.points.map((point) => point.run)).size)],
  ];
}

const share = (value) => `${(value * 100).toPrecision(2)}%`;

function bands(row) {
  if (row.kind === "outcome") return h("p", { class: "quiet" }, "Whether the case passes: any failure counts, so there is no noise to show.");
  if (row.kind !== "ratio") return h("p", { class: "quiet" }, "Counts, and values that may be zero, are judged by their differences, so there is no noise in percent to show.");
  if (row.noise === null) return h("p", { class: "quiet" }, "There are too few runs with a value on this machine to estimate their noise, so no change is judged yet.");
  return h("p", { class: "quiet" }, "Each point is a run with the range of its repetitions; the lines are levels. ",
    h("span", { class: "band" }), " is the noise, two standard deviations either way; ", row.detectable === null ? "" : [h("span", { class: "band wide" }), " holds changes that two runs usually do not reveal; "], `${share(row.min_effect)} is the smallest change that matters.`);
}

function machines(row) {
  const lines = row.machine_changes.map((entry) => h("li", {}, `${row.label ? `${row.label}, ` : ""}${day(entry.time)}: other conditions: ${entry.differs.join("; ")}`));
  return lines.length ? h("ul", { class: "quiet" }, ...lines) : null;
}

function changes(rows) {
  const all = rows.flatMap((row) => row.changes.map((entry) => ({ ...entry, row }))).sort((a, b) => b.time - a.time);
  if (!all.length) return h("p", {}, "No change of level in this period.");
  return table("changes", plural(all.length, "change of level", "changes of level"), [
    { head: "since", short: true, value: (entry) => day(entry.time) },
    { head: "what", value: (entry) => entry.word, cell: (entry) => badge(TONES[entry.word], entry.recovered ? `${entry.word}, recovered ${day(entry.recovered)}` : entry.word) },
    { head: "series", prose: true, rare: true, value: (entry) => entry.row.label },
    { head: "change", number: true, value: (entry) => entry.ratio, cell: changed },
    { head: "95% interval", hidden: true, value: (entry) => interval(entry.low, entry.high) },
    { head: "old", number: true, value: (entry) => entry.old, cell: (entry) => reading(entry.old, entry.row.of, entry.row.unit) },
    { head: "new", number: true, value: (entry) => entry.new, cell: (entry) => reading(entry.new, entry.row.of, entry.row.unit) },
    { head: "commits", short: true, value: (entry) => `${short(entry.last_commit)}..${short(entry.first_commit)}` },
    { head: "culprit", prose: true, value: (entry) => entry.culprits.map((culprit) => short(culprit.commit)).join(" "), cell: (entry) => (entry.culprits.length ? entry.culprits.map(evidence) : "not bisected") },
  ], all);
}

const POINTS = [
  { head: "time", short: true, value: (point) => minute(point.time), cell: (point) => link("run", { id: point.run }, minute(point.time)) },
  { head: "series", prose: true, rare: true, value: (point) => point.row.label },
  { head: "value", number: true, value: (point) => point.value, cell: (point) => reading(point.value, point.row.of, point.row.unit) },
  { head: "lowest", number: true, value: (point) => point.low, cell: (point) => extreme(point.low, point, point.row.of) },
  { head: "highest", number: true, value: (point) => point.high, cell: (point) => extreme(point.high, point, point.row.of) },
  { head: "repetitions", number: true, value: (point) => point.n },
  { head: "commit", prose: true, value: (point) => `${point.commit} ${point.subject}`.trim(), cell: commitName },
  { head: "branch", value: (point) => point.branch },
  { head: "reason", prose: true, rare: true, value: (point) => point.why },
];
