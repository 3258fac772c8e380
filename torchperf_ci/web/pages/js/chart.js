// Lines of series over time: points with their spread, levels, changes, machines, noise. Drawn by uPlot when it is seen.

import { change, day, h, minute, number, short } from "./dom.js";
import { save } from "./table.js";

const COLOURS = 10;
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3]];
const MOST_SPREADS = 1500;

const css = (variable) => getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
const colour = (place) => css(`--c${place % COLOURS}`);
const dash = (place) => DASHES[Math.floor(place / COLOURS) % DASHES.length];

/** `rows` are {name, unit, points, levels, changes, machine_changes, noise, detectable}; `relative` is to the first level. */
export function chart(rows, relative, title) {
  const box = h("div", { class: "chart" });
  const said = h("p", { class: "said", "aria-live": "polite" }, "Arrow keys walk the points.");
  const frame = h("div", { class: "canvas", tabindex: "0", role: "group", "aria-label": `Chart of ${title}. Arrow keys walk its points; the table below has them all.` });
  const picture = h("button", { type: "button", onclick: () => frame.querySelector("canvas")?.toBlob((blob) => blob && save("chart.png", blob)) }, "PNG");
  box.append(frame, said, h("p", { class: "tools" }, picture));
  const scaled = rows.map((row) => ({ ...row, by: relative ? 1 / (row.levels[0]?.value || firstValue(row) || 1) : 1 }));
  whenSeen(frame, () => drawn(frame, said, scaled, relative));
  return box;
}

const firstValue = (row) => row.points.find((point) => point.value !== null)?.value;

function whenSeen(frame, draw) {
  const observer = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    observer.disconnect();
    draw();
  });
  observer.observe(frame);
}

function drawn(frame, said, rows, relative) {
  const times = [...new Set(rows.flatMap((row) => row.points.map((point) => point.time)))].sort((a, b) => a - b);
  const place = new Map(times.map((time, index) => [time, index]));
  const columns = rows.map((row) => {
    const column = new Array(times.length).fill(undefined); // no run of this series then: no gap
    for (const point of row.points) column[place.get(point.time)] = point.value === null ? null : point.value * row.by;
    return column;
  });
  const text = (value) => (relative ? change(value) : String(Number(value.toPrecision(4))));
  const axis = { stroke: css("--ink"), grid: { stroke: css("--line"), width: 1 }, ticks: { stroke: css("--line") } };
  const options = {
    width: frame.clientWidth, height: 380, legend: { show: false }, tzDate: (time) => uPlot.tzDate(new Date(time * 1000), "UTC"),
    axes: [{ ...axis, space: 80, values: (_, moments, __, ___, step) => moments.map((time) => (step < 86_400 ? minute(time).slice(5) : day(time))) }, { ...axis, size: 80, values: (_, values) => values.map(text) }],
    scales: { y: { range: (_, low, high) => reach(low, high, rows) } },
    series: [{}, ...rows.map((row, index) => ({ stroke: colour(index), width: 1, dash: dash(index), alpha: 0.75, points: { show: times.length < 2000, size: 5 } }))],
    cursor: { drag: { x: true, y: false } },
    hooks: { drawClear: [(plot) => beneath(plot, rows)], draw: [(plot) => above(plot, rows)], setCursor: [(plot) => told(plot, said, rows)] },
  };
  const plot = new uPlot(options, [times, ...columns], frame);
  new ResizeObserver(() => plot.setSize({ width: frame.clientWidth, height: 380 })).observe(frame);
  frame.addEventListener("keydown", (event) => walk(event, plot, rows, place));
}

/** Room for the values and 2% on either side, so that noise does not fill the picture. */
function reach(low, high, rows) {
  if (low === null || high === null) return [0, 1];
  const least = Math.abs(high) * 0.02;
  const margin = Math.max((high - low) * 0.1, rows.length ? least : 0);
  return [low >= 0 ? Math.max(0, low - margin) : low - margin, high + margin];
}

/** Bands of the newest level: what is noise (two standard deviations), and what would be seen. */
function beneath(plot, rows) {
  if (rows.length !== 1) return;
  const [row] = rows;
  const level = row.levels[row.levels.length - 1];
  if (!level) return;
  for (const [share, alpha] of [[row.detectable, 0.07], [row.noise && 2 * row.noise, 0.12]]) {
    if (!share) continue;
    const [left, right] = [plot.valToPos(level.start, "x", true), plot.valToPos(level.end, "x", true)];
    const [top, bottom] = [1 + share, 1 / (1 + share)].map((by) => plot.valToPos(level.value * row.by * by, "y", true));
    paint(plot, (ink) => { ink.globalAlpha = alpha; ink.fillStyle = colour(0); ink.fillRect(left, top, right - left, bottom - top); });
  }
}

function above(plot, rows) {
  rows.forEach((row, index) => {
    if (rows.length * row.points.length <= MOST_SPREADS) row.points.forEach((point) => spread(plot, row, point, colour(index)));
    for (const level of row.levels) line(plot, [[level.start, level.value * row.by], [level.end, level.value * row.by]], colour(index), 2.5, []);
    for (const entry of row.changes) mark(plot, entry.time, sign(entry), entry.word === "improved" ? "--good" : "--bad", []);
    for (const entry of row.machine_changes) mark(plot, entry.time, "machine", "--quiet", [4, 4]);
  });
}

const sign = (entry) => `${entry.word === "improved" ? "▼" : entry.word === "regressed" ? "▲" : "◆"} ${entry.culprits[0] ? short(entry.culprits[0].commit) : ""}`;

function spread(plot, row, point, ink) {
  if (point.value !== null && point.n > 1) line(plot, [[point.time, point.low * row.by], [point.time, point.high * row.by]], ink, 1, []);
}

function line(plot, ends, stroke, width, dashes) {
  paint(plot, (ink) => {
    ink.strokeStyle = stroke; ink.lineWidth = width * devicePixelRatio; ink.setLineDash(dashes); ink.globalAlpha = 0.8;
    ink.beginPath();
    ends.forEach(([x, y], place) => ink[place ? "lineTo" : "moveTo"](plot.valToPos(x, "x", true), plot.valToPos(y, "y", true)));
    ink.stroke();
  });
}

function mark(plot, time, text, variable, dashes) {
  const tone = css(variable);
  paint(plot, (ink) => {
    const x = plot.valToPos(time, "x", true);
    ink.strokeStyle = tone; ink.fillStyle = tone; ink.setLineDash(dashes); ink.lineWidth = devicePixelRatio;
    ink.beginPath(); ink.moveTo(x, plot.bbox.top); ink.lineTo(x, plot.bbox.top + plot.bbox.height); ink.stroke();
    ink.font = `${12 * devicePixelRatio}px system-ui`; ink.textAlign = "left";
    ink.fillText(text, x + 3 * devicePixelRatio, plot.bbox.top + 12 * devicePixelRatio);
  });
}

function paint(plot, draw) {
  const { ctx: ink, bbox } = plot;
  ink.save();
  ink.beginPath(); ink.rect(bbox.left, bbox.top, bbox.width, bbox.height); ink.clip();
  draw(ink);
  ink.restore();
}

/** What is under the cursor, in words. */
function told(plot, said, rows) {
  const { idx } = plot.cursor;
  if (idx === null || idx === undefined) return;
  const time = plot.data[0][idx];
  const words = rows.flatMap((row) => row.points.filter((point) => point.time === time).map((point) => sentence(row, point)));
  if (words.length) said.textContent = `${minute(time)}: ${words.join("; ")}`;
}

function sentence(row, point) {
  const changed = row.changes.find((entry) => entry.time === point.time);
  const value = point.value === null ? `no value, ${point.why}` : `${number(point.value, row.unit)} (${number(point.low)} to ${number(point.high)}, ${point.n} repetitions)`;
  return `${row.name}: ${value}, commit ${short(point.commit)}${changed ? `, ${changed.word} by ${change(changed.ratio)} since ${day(changed.time)}` : ""}`;
}

function walk(event, plot, rows, place) {
  const times = plot.data[0];
  const at = plot.cursor.idx ?? -1;
  const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: times.length - 1 }[event.key];
  if (next === undefined) return;
  event.preventDefault();
  const index = Math.min(Math.max(next, 0), times.length - 1);
  const row = rows.findIndex((one) => one.points.some((point) => place.get(point.time) === index && point.value !== null));
  const top = row < 0 ? 0 : plot.valToPos(plot.data[row + 1][index], "y");
  plot.setCursor({ left: plot.valToPos(times[index], "x"), top });
}
