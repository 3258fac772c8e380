// The overview: open regressions, the state of each kind of machine, and the newest culprits.

import { load } from "./data.js";
import { badge, benchmarkName, change, changeOf, counted, day, differ, evidence, h, link, machineName, minute, plural, seriesName, short, svg } from "./dom.js";
import { nothingYet, page } from "./page.js";
import { save, table } from "./table.js";

page("", "Overview", async () => {
  const overview = await load("overview.json");
  const causes = overview.causes.map((cause) => ({ ...cause.worst, ...cause }));
  if (!overview.groups.length) return nothingYet();
  const [many, benchmarks] = ["repo", "benchmark"].map((field) => differ(overview.groups.map((group) => group.run), field));
  const told = new Set(causes.flatMap((cause) => cause.culprits.map((culprit) => culprit.commit)));
  const others = overview.culprits.filter((culprit) => !told.has(culprit.commit));
  const old = overview.time > 0 && overview.groups.every(isOld); // 0 where no record has a time
  return [
    h("h1", { class: old && overview.tone === "good" ? "warning" : overview.tone }, overview.sentence),
    h("p", { class: old ? "note" : "quiet" }, `Newest result: ${minute(overview.time)} UTC${old ? `, ${plural(Math.floor((Date.now() / 1000 - overview.time) / 86_400), "day")} ago: nothing has reported since` : ""}.`),
    ...overview.groups.filter(isAhead).map(({ run }) => h("p", { class: "note" }, `The newest run on ${machineName(run)} is of ${minute(run.end)}, which is yet to come: its clock is wrong, and machines whose clocks are right may count as silent.`)),
    causes.length ? table("open", "Open regressions by cause", CAUSES, causes.map((cause) => ({ ...cause, repo: many ? cause.name.repo : "", benchmark: benchmarks ? cause.name.benchmark : "" })), 5) : null,
    h("h2", {}, "Machines"),
    h("div", { class: "cards" }, ...overview.groups.map((group) => card(group, many))),
    ...(others.length ? [h("h2", {}, causes.length ? "Other culprits, the newest" : "Newest culprits"), h("ul", {}, ...others.map((culprit) => h("li", {}, evidence(culprit))))] : []),
    h("p", {}, link("regressions", {}, "All culprits and changes")),
  ];
});

/** Whether the newest run of a machine is later than now, by more than clocks of readers differ. */
const isAhead = ({ run }) => run.end > Date.now() / 1000 + 3600;

/** Whether a machine has reported neither for a week nor for three times the longest interval between its newest runs. */
const isOld = ({ run, longest_gap: gap }) => Date.now() / 1000 - run.end > Math.max(7 * 86_400, 3 * gap);

const machines = (cause) => cause.machines.map(([device, arch]) => machineName({ device, arch })).join(", ");

const CAUSES = [
  { head: "since", short: true, value: (cause) => day(cause.time) },
  {
    head: "what", prose: true, value: (cause) => `${seriesName(cause.name)} ${cause.name.metric}`,
    cell: (cause) => [link("series", { s: cause.series.join(",") }, `${seriesName(cause.name)} ${cause.name.metric}`),
      cause.count > 1 ? ` and ${counted(cause.count - 1)} more` : "", h("small", {}, [cause.repo, cause.benchmark, machines(cause)].filter(Boolean).join(", "))],
  },
  { head: "regressions", hidden: true, value: (cause) => cause.count }, { head: "machines", hidden: true, value: machines },
  { head: "repository", hidden: true, rare: true, value: (cause) => cause.repo }, { head: "benchmark", hidden: true, rare: true, value: (cause) => cause.benchmark },
  ...["old", "new"].map((head) => ({ head, hidden: true, value: (cause) => cause[head] })),
  { head: "worst change", number: true, value: (cause) => cause.ratio, cell: (cause) => badge("bad", changeOf(cause, cause.name, cause.unit)) },
  {
    head: "cause", prose: true, value: (cause) => cause.culprits.map((culprit) => `${culprit.commit} ${culprit.subject}`).join("; "),
    cell: (cause) => (cause.culprits.length ? cause.culprits.map(evidence) : `not bisected: ${short(cause.last_commit)}..${short(cause.first_commit)}`),
  },
];

function card(group, many) {
  const { run } = group;
  const where = { repo: many ? run.repo : "", device: run.device, arch: run.arch, benchmark: run.benchmark };
  const drawing = trend(group.trend);
  return h("section", { class: "card" },
    h("h3", {}, machineName(run)),
    h("p", { class: "quiet" }, benchmarkName(run, many)),
    drawing ?? h("p", { class: "quiet" }, group.trend.day.length ? "No latency trend yet: it starts on the second day." : "No run here has a latency(ms) and a time, so there is no trend."),
    h("dl", {},
      row("Regressions", group.open
        ? link("regressions", { ...where, state: "open" }, badge("bad", `${counted(group.open)} open`))
        : badge("none", group.too_new ? "too few runs to judge" : "none open"), group.recovered ? `, ${counted(group.recovered)} recovered` : "", group.newly_worse.length ? [", ", newlyWorse(group.newly_worse)] : ""),
      row("Newest run", link("run", { id: run.id }, minute(run.time)), h("div", { class: "quiet" }, `at ${short(run.commit)}`),
        group.silent ? badge("warning", `no run since ${day(run.time)}`) : ""),
      row("Cases", ...cases(group.counts)),
      group.not_run ? row("Did not run", link("run", { id: run.id }, badge("warning", plural(group.not_run, "case")))) : null,
      group.differs.length ? row("Machine", badge("warning", group.differs.join("; "))) : null),
    h("p", {}, group.previous ? [link("compare", { base: group.previous, head: run.id }, "Compare with the previous run"), " · "] : "",
      link("series", where, plural(group.series, "series", "series")),
      drawing ? [h("span", { class: "tool" }, " · "), h("button", { type: "button", class: "plain", onclick: () => save("trend.svg", drawing.querySelector("svg").outerHTML) }, "Trend as SVG")] : ""));
}

/** A link to series that got worse in their newest runs, of which a chart of the last 30 days shows the first ones. */
const newlyWorse = (all, most = 20) => link("series", { s: all.slice(0, most).join(","), from: 30 }, `${counted(all.length)} too recent to count${all.length > most ? ` (the first ${most})` : ""}`);

const row = (name, ...what) => h("div", {}, h("dt", {}, name), h("dd", {}, ...what));

function cases(counts) {
  const words = Object.entries(counts).sort(([left], [right]) => (right === "pass") - (left === "pass") || left.localeCompare(right));
  return words.flatMap(([word, count], place) => [place ? ", " : "", word === "pass" ? `${counted(count)} passed` : badge(word === "no status" ? "none" : "warning", `${counted(count)} ${word}`)]);
}

const [WIDTH, HEIGHT, LEAST] = [320, 72, 0.02];

/** Draws the geometric mean of latencies by day. Days without a run are gaps in time, not zeros; `breaks` are days from which on the machine is another. */
function trend({ day: days, ratio, n, breaks }) {
  if (days.length < 2) return null;
  const [low, high] = [Math.min(...ratio, 1 - LEAST), Math.max(...ratio, 1 + LEAST)];
  const x = (time) => ((time - days[0]) / (days[days.length - 1] - days[0])) * WIDTH;
  const y = (value) => HEIGHT - 4 - ((value - low) / (high - low)) * (HEIGHT - 8);
  const starts = [days[0], ...breaks];
  const lines = starts.map((start, part) => days.map((time, place) => [time, place]).filter(([time]) => time >= start && !(time >= starts[part + 1])));
  const own = lines[lines.length - 1].map(([, place]) => ratio[place]).sort((a, b) => a - b); // on the newest machine
  const now = change(ratio[ratio.length - 1] / ((own[(own.length - 1) >> 1] + own[own.length >> 1]) / 2));
  const points = (line) => [line[0], ...line].map(([time, place]) => `${x(time).toFixed(1)},${y(ratio[place]).toFixed(1)}`).join(" "); // a line of one day is a dot
  const text = `Geometric mean of ${plural(n[n.length - 1], "latency", "latencies")} over ${plural(days.length, "day")}, between ${change(Math.min(...ratio))} and ${change(Math.max(...ratio))} against each series' median: now ${now} against the median of ${plural(own.length, "day")}${breaks.length ? `; another machine since ${breaks.map(day).join(", ")}` : ""}`;
  const drawing = svg("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": text, class: "trend" },
    svg("line", { x1: 0, x2: WIDTH, y1: y(1), y2: y(1), stroke: "#59636e", "stroke-dasharray": "2 4" }),
    ...breaks.map((time) => svg("line", { class: "break", x1: x(time), x2: x(time), y1: 0, y2: HEIGHT, stroke: "#59636e", "stroke-dasharray": "4 4" })),
    ...lines.map((line) => svg("polyline", { points: points(line), fill: "none", stroke: "#2563eb", "stroke-width": 1.75, "stroke-linecap": "round" })));
  return h("figure", {},
    drawing,
    h("figcaption", { title: text }, h("span", { class: "big" }, now), ` latency of ${counted(n[n.length - 1])} series, against the median of ${plural(own.length, "day")}${breaks.length ? "; dashed: another machine" : ""}`));
}
