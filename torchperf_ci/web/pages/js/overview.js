// The overview: open regressions, the state of each kind of machine, and the newest culprits.

import { load } from "./data.js";
import { badge, change, day, evidence, h, link, machineName, minute, plural, seriesName, short, svg } from "./dom.js";
import { nothingYet, page } from "./page.js";
import { save, table } from "./table.js";

page("", "Overview", async () => {
  const overview = await load("overview.json");
  const { causes } = overview;
  if (!overview.groups.length) return nothingYet();
  const told = new Set(causes.flatMap((cause) => cause.culprits.map((culprit) => culprit.commit)));
  const others = overview.culprits.filter((culprit) => !told.has(culprit.commit));
  return [
    h("h1", { class: causes.length ? "bad" : "good" }, overview.sentence),
    h("p", { class: "quiet" }, `Newest result: ${minute(overview.time)} UTC.`),
    causes.length ? table("open", "Open regressions by cause", CAUSES, causes, 5) : null,
    h("h2", {}, "Machines"),
    h("div", { class: "cards" }, ...overview.groups.map(card)),
    ...(others.length ? [h("h2", {}, causes.length ? "Other culprits, the newest" : "Newest culprits"), h("ul", {}, ...others.map((culprit) => h("li", {}, evidence(culprit))))] : []),
    h("p", {}, link("regressions", {}, "All culprits and changes")),
  ];
});

const CAUSES = [
  { head: "since", short: true, value: (cause) => day(cause.time) },
  {
    head: "what", prose: true, value: (cause) => `${seriesName(cause.name)} ${cause.name.metric}`,
    cell: (cause) => [link("series", { s: cause.series.join(",") }, `${seriesName(cause.name)} ${cause.name.metric}`),
      cause.count > 1 ? ` and ${cause.count - 1} more` : "", h("small", {}, machines(cause))],
  },
  { head: "regressions", hidden: true, value: (cause) => cause.count },
  { head: "machines", hidden: true, value: machines },
  { head: "worst change", number: true, value: (cause) => cause.ratio, cell: (cause) => badge("bad", cause.ratio ? change(cause.ratio) : "fails") },
  {
    head: "cause", prose: true, value: (cause) => cause.culprits.map((culprit) => `${culprit.commit} ${culprit.subject}`).join("; "),
    cell: (cause) => (cause.culprits.length ? cause.culprits.map(evidence) : `not bisected: ${short(cause.last_commit)}..${short(cause.first_commit)}`),
  },
];

function machines(cause) {
  return cause.machines.map(([device, arch]) => machineName({ device, arch })).join(", ");
}

function card(group) {
  const { run } = group;
  const where = { device: run.device, arch: run.arch, benchmark: run.benchmark };
  const drawing = trend(group.trend);
  return h("section", { class: "card" },
    h("h3", {}, machineName(run)),
    h("p", { class: "quiet" }, run.benchmark),
    drawing ?? h("p", { class: "quiet" }, "No latency trend yet: it starts on the second day."),
    h("dl", {},
      row("Regressions", group.open
        ? link("regressions", { ...where, state: "open" }, badge("bad", `${group.open} open`))
        : badge("none", "none open"), group.recovered ? `, ${group.recovered} recovered` : ""),
      row("Newest run", link("run", { id: run.id }, minute(run.time)), h("div", { class: "quiet" }, `at ${short(run.commit)}`)),
      row("Cases", ...cases(group.counts)),
      group.not_run ? row("Did not run", link("run", { id: run.id }, badge("warning", plural(group.not_run, "case")))) : null,
      group.differs.length ? row("Machine", badge("warning", group.differs.join("; "))) : null),
    h("p", {}, group.previous ? [link("compare", { base: group.previous.id, head: run.id }, "Compare with the previous run"), " · "] : "",
      link("series", { q: run.arch || run.device }, plural(group.series, "series", "series")),
      drawing ? [h("span", { class: "tool" }, " · "), h("button", { type: "button", class: "plain", onclick: () => save("trend.svg", drawing.querySelector("svg").outerHTML) }, "Trend as SVG")] : ""));
}

const row = (name, ...what) => h("div", {}, h("dt", {}, name), h("dd", {}, ...what));

function cases(counts) {
  const words = Object.entries(counts).sort(([left], [right]) => (right === "pass") - (left === "pass") || left.localeCompare(right));
  return words.flatMap(([word, count], place) => [place ? ", " : "", word === "pass" ? `${count} passed` : badge("warning", `${count} ${word}`)]);
}

const WIDTH = 320;
const HEIGHT = 72;
const LEAST = 0.02;

/** Draws the geometric mean of latencies by day. Days without a run are gaps in time, not zeros. */
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
    h("figcaption", { title: text }, h("span", { class: "big" }, now), ` latency of ${n[n.length - 1]}, against the median of ${plural(days.length, "day")}`));
}
