// Is anything wrong right now?

import { load } from "./data.js";
import { badge, change, day, evidence, h, link, machineName, minute, plural, seriesName, short, svg } from "./dom.js";
import { nothingYet, page } from "./page.js";
import { save, table } from "./table.js";

page("", "Overview", async () => {
  const [overview, { changes }] = await Promise.all([load("overview.json"), load("regressions.json")]);
  if (!overview.groups.length) return nothingYet();
  const wrong = overview.groups.some((group) => group.open);
  const causes = openCauses(changes);
  const told = new Set(causes.flatMap((cause) => cause.culprits.map((culprit) => culprit.commit)));
  const others = overview.culprits.filter((culprit) => !told.has(culprit.commit));
  return [
    h("h1", { class: wrong ? "bad" : "good" }, overview.sentence),
    h("p", { class: "quiet" }, `Newest result: ${minute(overview.time)} UTC.`),
    causes.length ? table("open", "Open regressions by what is behind them", CAUSES, causes, 5) : null,
    h("h2", {}, "Machines"),
    h("div", { class: "cards" }, ...overview.groups.map(card)),
    ...(others.length ? [h("h2", {}, causes.length ? "Other culprits, the newest" : "Newest culprits"), h("ul", {}, ...others.map((culprit) => h("li", {}, evidence(culprit))))] : []),
    h("p", {}, link("regressions", {}, "All culprits and changes")),
  ];
});

/** Regressions that last, those of one range of commits together, the newest first. */
function openCauses(changes) {
  const causes = new Map();
  for (const entry of changes) {
    const { change: found, name } = entry;
    if (found.word !== "regressed" || found.recovered) continue;
    const range = found.first_commit ? [found.last_commit, found.first_commit] : [name.device, name.arch, found.time];
    const key = JSON.stringify(range);
    if (!causes.has(key)) causes.set(key, { time: found.time, culprits: found.culprits, entries: [] });
    causes.get(key).entries.push(entry);
  }
  return [...causes.values()];
}

const CAUSES = [
  { head: "since", short: true, value: (cause) => day(cause.time) },
  {
    head: "what", prose: true, value: (cause) => cause.entries.map((entry) => `${seriesName(entry.name)} ${entry.name.metric}`).join("; "),
    cell: ({ entries: [first, ...rest], entries }) => [
      link("series", { s: entries.slice(0, 20).map((entry) => entry.series).join(",") }, `${seriesName(first.name)} ${first.name.metric}`),
      rest.length ? ` and ${rest.length} more` : "", h("small", {}, [...new Set(entries.map((entry) => machineName(entry.name)))].join(", "))],
  },
  { head: "worst change", number: true, value: worst, cell: (cause) => badge("bad", cause.entries.some((entry) => entry.change.ratio) ? change(worst(cause)) : "fails") },
  {
    head: "cause", prose: true, value: (cause) => cause.culprits.map((culprit) => `${culprit.commit} ${culprit.subject}`).join("; "),
    cell: ({ culprits, entries: [{ change: found }] }) => (culprits.length ? culprits.map(evidence)
      : [`not bisected: ${short(found.last_commit)}..${short(found.first_commit)}`]),
  },
];

/** The change that is farthest from none. */
function worst({ entries }) {
  return entries.map((entry) => entry.change.ratio).reduce((most, ratio) => (ratio && Math.abs(Math.log(ratio)) > Math.abs(Math.log(most ?? 1)) ? ratio : most), null);
}

function card(group) {
  const { run } = group;
  const where = { device: run.device, arch: run.arch, benchmark: run.benchmark };
  const drawing = trend(group.trend);
  return h("section", { class: "card" },
    h("h3", {}, machineName(run)),
    h("p", { class: "quiet" }, run.benchmark),
    drawing ?? h("p", { class: "quiet" }, "No trend of latencies yet: it begins with the second day."),
    h("dl", {},
      row("Regressions", group.open
        ? link("regressions", { ...where, state: "open" }, badge("bad", `${group.open} open`))
        : badge("none", "none open"), group.recovered ? `, ${group.recovered} recovered` : ""),
      row("Newest run", link("run", { id: run.id }, minute(run.time)), h("div", { class: "quiet" }, `at ${short(run.commit)}`)),
      row("Cases", ...cases(group.counts)),
      group.not_run ? row("Did not run", link("run", { id: run.id }, badge("warning", plural(group.not_run, "case")))) : null,
      group.differs.length ? row("Machine", badge("warning", group.differs.join("; "))) : null),
    h("p", {}, group.previous ? [link("compare", { base: group.previous.id, head: run.id }, "Compare with the run before"), " · "] : "",
      link("series", { q: run.arch || run.device }, plural(group.series, "series", "series")),
      drawing ? [" · ", h("button", { type: "button", class: "plain", onclick: () => save("trend.svg", drawing.querySelector("svg").outerHTML) }, "Trend as SVG")] : ""));
}

const row = (name, ...what) => h("div", {}, h("dt", {}, name), h("dd", {}, ...what));

function cases(counts) {
  const words = Object.entries(counts).sort(([left], [right]) => (right === "pass") - (left === "pass") || left.localeCompare(right));
  return words.flatMap(([word, count], place) => [place ? ", " : "", word === "pass" ? `${count} passed` : badge("warning", `${count} ${word}`)]);
}

const WIDTH = 320;
const HEIGHT = 72;
const LEAST = 0.02;

/** The geometric mean of latencies by day. Days without a run are gaps in time, not zeros. */
function trend({ day: days, ratio, n }) {
  if (days.length < 2) return null;
  const [low, high] = [Math.min(...ratio, 1 - LEAST), Math.max(...ratio, 1 + LEAST)];
  const x = (time) => ((time - days[0]) / (days[days.length - 1] - days[0])) * WIDTH;
  const y = (value) => HEIGHT - 4 - ((value - low) / (high - low)) * (HEIGHT - 8);
  const now = change(ratio[ratio.length - 1]);
  const text = `Geometric mean of ${plural(n[n.length - 1], "latency", "latencies")} over ${plural(days.length, "day")}: now ${now} against each series' median, between ${change(Math.min(...ratio))} and ${change(Math.max(...ratio))}`;
  const drawing = svg("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": text, class: "trend" },
    svg("line", { x1: 0, x2: WIDTH, y1: y(1), y2: y(1), stroke: "#59636e", "stroke-dasharray": "2 4" }),
    svg("polyline", { points: days.map((time, place) => `${x(time).toFixed(1)},${y(ratio[place]).toFixed(1)}`).join(" "), fill: "none", stroke: "#2563eb", "stroke-width": 1.75 }));
  return h("figure", {},
    drawing,
    h("figcaption", { title: text }, h("span", { class: "big" }, now), ` latency, the geometric mean of ${n[n.length - 1]} against ${plural(days.length, "day")}`));
}
