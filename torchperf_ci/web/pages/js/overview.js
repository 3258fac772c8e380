// Is anything wrong right now?

import { load } from "./data.js";
import { badge, change, evidence, h, link, machineName, minute, plural, short, svg } from "./dom.js";
import { nothingYet, page } from "./page.js";

page("", "Overview", async () => {
  const overview = await load("overview.json");
  if (!overview.groups.length) return nothingYet();
  const wrong = overview.groups.some((group) => group.open);
  return [
    h("h1", { class: wrong ? "bad" : "good" }, overview.sentence),
    h("p", { class: "quiet" }, `Newest result: ${minute(overview.time)}.`),
    h("div", { class: "cards" }, ...overview.groups.map(card)),
    ...(overview.culprits.length ? [
      h("h2", {}, "Newest culprits"),
      h("ul", {}, ...overview.culprits.map((culprit) => h("li", {}, evidence(culprit)))),
      h("p", {}, link("regressions", {}, "All culprits and changes")),
    ] : []),
  ];
});

function card(group) {
  const { run } = group;
  const where = { device: run.device, arch: run.arch, benchmark: run.benchmark };
  return h("section", { class: "card" },
    h("h2", {}, `${run.benchmark} on ${machineName(run)}`),
    trend(group.trend),
    h("dl", {},
      row("Regressions", group.open
        ? link("regressions", { ...where, state: "open" }, badge("bad", `${group.open} open`))
        : badge("none", "none open"), group.recovered ? `, ${group.recovered} recovered` : ""),
      row("Newest run", link("run", { id: run.id }, minute(run.time)), ` at ${short(run.commit)}`),
      row("Cases", ...cases(group.counts)),
      group.not_run ? row("Did not run", link("run", { id: run.id }, badge("warning", plural(group.not_run, "case")))) : null,
      group.differs.length ? row("Machine", badge("warning", group.differs.join("; "))) : null,
      group.previous ? row("Compare", link("compare", { base: group.previous.id, head: run.id }, "with the run before")) : null,
      row("Series", link("series", { q: run.arch || run.device }, plural(group.series, "series", "series")))));
}

const row = (name, ...what) => h("div", {}, h("dt", {}, name), h("dd", {}, ...what));

function cases(counts) {
  const words = Object.entries(counts).sort(([left], [right]) => (right === "pass") - (left === "pass") || left.localeCompare(right));
  return words.flatMap(([word, count], place) => [place ? ", " : "", word === "pass" ? `${count} passed` : badge("warning", `${count} ${word}`)]);
}

const WIDTH = 320;
const HEIGHT = 70;
const LEAST = 0.02;

/** The geometric mean of latencies by day. Days without a run are gaps in time, not zeros. */
function trend({ day: days, ratio, n }) {
  if (days.length < 2) return h("p", { class: "quiet" }, "No trend of latencies yet.");
  const [low, high] = [Math.min(...ratio, 1 - LEAST), Math.max(...ratio, 1 + LEAST)];
  const x = (time) => ((time - days[0]) / (days[days.length - 1] - days[0])) * WIDTH;
  const y = (value) => HEIGHT - 4 - ((value - low) / (high - low)) * (HEIGHT - 8);
  const last = ratio[ratio.length - 1];
  const text = `Geometric mean of ${plural(n[n.length - 1], "latency", "latencies")} over ${plural(days.length, "day")}: now ${change(last)} against each series' median`;
  return h("figure", {},
    svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": text, class: "trend" },
      svg("line", { x1: 0, x2: WIDTH, y1: y(1), y2: y(1), class: "middle" }),
      svg("polyline", { points: days.map((time, place) => `${x(time).toFixed(1)},${y(ratio[place]).toFixed(1)}`).join(" ") })),
    h("figcaption", {}, text));
}
