// Since when, and how sure? Up to twenty series, chosen by typing.

import { catalogue, search, wholeSeries } from "./data.js";
import { badge, change, command, day, evidence, h, interval, link, machineName, measureAgain, minute, number, plural, reading, seriesName, short } from "./dom.js";
import { chart } from "./chart.js";
import { choice, nothingYet, page, setState, state as now } from "./page.js";
import { table } from "./table.js";

const MOST = 20;
const SPANS = [["30", "30 days"], ["90", "90 days"], ["365", "a year"]];
const DAY = 86_400;

page("series", "Series", async (state) => {
  const index = await catalogue();
  if (!index.all.length) return nothingYet();
  const ids = (state.s ?? "").split(",").filter(Boolean).slice(0, MOST);
  const chosen = ids.map((id) => index.byId.get(id)).filter(Boolean);
  const unknown = ids.length - chosen.length;
  return [
    h("h1", {}, chosen.length === 1 ? `${seriesName(chosen[0])}: ${chosen[0].metric}` : "Series"),
    unknown ? h("p", { class: "problem" }, `${plural(unknown, "series", "series")} of this address ${unknown === 1 ? "is" : "are"} not in the store.`) : null,
    picker(index, ids, state.q ?? ""),
    ...(chosen.length ? await shown(chosen, state) : []),
  ];
});

/** Finds series as one types; each is added to those that are drawn. */
function picker(index, ids, query) {
  const found = h("ul", { class: "found" });
  const said = h("p", { class: "quiet", role: "status" });
  const input = h("input", { type: "search", id: "find", value: query, autocomplete: "off", placeholder: "resnet bf16 h100 latency …", oninput: () => look() });
  const look = () => {
    const asked = input.value.trim();
    const { matches, total, exact } = search(index.all, asked);
    said.textContent = !asked ? `${plural(index.all.length, "series", "series")} in all.` : exact
      ? `${plural(total, "series matches", "series match")}${total > matches.length ? `; the first ${matches.length}` : ""}.`
      : total ? `No series matches all of these words. The nearest ${total > matches.length ? matches.length : total}:` : "No series matches, nor is one near. Try the name of a model or a metric.";
    found.replaceChildren(...(asked ? matches : []).map(item));
  };
  const item = (series) => {
    const is = ids.includes(series.id);
    const other = is ? ids.filter((id) => id !== series.id) : [...ids, series.id].slice(-MOST);
    const button = h("button", { type: "button", "aria-pressed": is ? "true" : "false", onclick: () => setState({ s: other.join(","), q: input.value }) }, is ? "Remove" : "Add");
    return h("li", {}, button, " ", link("series", { ...now(), s: series.id, q: "" }, `${seriesName(series)} ${series.metric}`), h("span", { class: "quiet" }, ` ${machineName(series)} · ${series.benchmark}`));
  };
  look();
  return h("div", { class: "picker" }, h("label", { for: "find" }, "Find series "), input, said, found);
}

async function shown(chosen, state) {
  const newest = Math.max(...chosen.map((series) => series.last));
  const from = Number(state.from) ? newest - Number(state.from) * DAY : 0;
  const rows = await Promise.all(chosen.map(async (series) => cut(series, await wholeSeries(series, from), from)));
  if (rows.length > 1) rows.forEach((row) => { row.label = row.name; });
  const relative = state.scale === "relative" || new Set(rows.map((row) => row.unit)).size > 1;
  return [
    h("div", { class: "filters" }, choice("from", "Time", SPANS, state.from ?? "", "all"), choice("scale", "Scale", [["relative", "relative to the first level"]], relative ? "relative" : "", "absolute")),
    chart(rows, relative, rows.length === 1 ? rows[0].name : plural(rows.length, "series", "series")),
    h("ul", { class: "legend" }, ...rows.map((row, place) => legend(row, place, chosen))),
    changes(rows),
    ...(rows.length === 1 ? about(rows[0]) : []),
    table("points", "Every run", POINTS, rows.flatMap((row) => row.points.map((point) => ({ ...point, row }))).sort((a, b) => b.time - a.time)),
    h("h2", {}, "Measure it again"),
    ...chosen.slice(0, 3).map((series) => command(measureAgain(series))),
  ];
}

function cut(series, whole, from) {
  const since = (entry) => entry.time >= from;
  return {
    ...whole, of: series, name: `${seriesName(series)} ${series.metric}`,
    points: whole.points.filter(since), changes: whole.changes.filter(since), machine_changes: whole.machine_changes.filter(since),
    levels: whole.levels.filter((level) => level.end >= from).map((level) => ({ ...level, start: Math.max(level.start, from) })),
  };
}

function legend(row, place, chosen) {
  const others = chosen.filter((series) => series !== row.of).map((series) => series.id).join(",");
  const swatch = h("span", { class: `swatch c${place % 10}`, "aria-hidden": "true" }, ["━", "╌", "┈", "┅"][Math.floor(place / 10) % 4]);
  const level = row.levels[row.levels.length - 1];
  return h("li", {}, swatch, ` ${row.name}, ${machineName(row.of)}`, level ? `: ${number(level.value, row.unit)}` : "", " ",
    chosen.length > 1 ? h("button", { type: "button", onclick: () => setState({ s: others }) }, "Remove") : null);
}

function about(row) {
  const words = row.kind === "outcome" ? "Whether the case passes: any failure counts, so there is no noise to show." : row.noise === null
    ? "There are too few runs on this machine to tell its noise, so no change would be judged yet."
    : `Noise between runs is ${(row.noise * 100).toPrecision(2)}%. ${row.detectable === null ? "" : `A change of ${(row.detectable * 100).toPrecision(2)}% would be seen within two runs, mostly; ${(row.min_effect * 100).toPrecision(2)}% is the smallest that matters.`}`;
  const machines = row.machine_changes.map((entry) => h("li", {}, `${day(entry.time)}: another machine: ${entry.differs.join("; ")}`));
  return [h("p", {}, words), machines.length ? h("ul", {}, ...machines) : null];
}

function changes(rows) {
  const all = rows.flatMap((row) => row.changes.map((entry) => ({ ...entry, row }))).sort((a, b) => b.time - a.time);
  if (!all.length) return h("p", {}, "No change of level in this time.");
  return table("changes", plural(all.length, "change of level", "changes of level"), [
    { head: "since", value: (entry) => day(entry.time) },
    { head: "what", value: (entry) => entry.word, cell: (entry) => badge({ regressed: "bad", improved: "good" }[entry.word] ?? "warning", entry.recovered ? `${entry.word}, recovered ${day(entry.recovered)}` : entry.word) },
    { head: "series", rare: true, value: (entry) => entry.row.label },
    { head: "old", number: true, value: (entry) => entry.old, cell: (entry) => reading(entry.old, entry.row.of, entry.row.unit) },
    { head: "new", number: true, value: (entry) => entry.new, cell: (entry) => reading(entry.new, entry.row.of, entry.row.unit) },
    { head: "change", number: true, value: (entry) => entry.ratio, cell: (entry) => change(entry.ratio) },
    { head: "95% interval", rare: true, value: (entry) => interval(entry.low, entry.high) },
    { head: "commits", value: (entry) => `${short(entry.last_commit)}..${short(entry.first_commit)}` },
    { head: "culprit", prose: true, value: (entry) => entry.culprits.map((culprit) => short(culprit.commit)).join(" "), cell: culprits },
  ], all);
}

function culprits(entry) {
  return entry.culprits.length ? h("div", {}, ...entry.culprits.map(evidence)) : "not bisected";
}

const POINTS = [
  { head: "time", value: (point) => minute(point.time), cell: (point) => link("run", { id: point.run }, minute(point.time)) },
  { head: "series", rare: true, value: (point) => point.row.label },
  { head: "value", number: true, value: (point) => point.value, cell: (point) => reading(point.value, point.row.of, point.row.unit) },
  { head: "lowest", number: true, value: (point) => point.low, cell: (point) => number(point.low) },
  { head: "highest", number: true, value: (point) => point.high, cell: (point) => number(point.high) },
  { head: "repetitions", number: true, value: (point) => point.n },
  { head: "commit", value: (point) => point.commit, cell: (point) => short(point.commit) },
  { head: "branch", value: (point) => point.branch },
  { head: "why no value", prose: true, rare: true, value: (point) => point.why },
];
