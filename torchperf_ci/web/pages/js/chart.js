// Charts of series over time: points with their spread, levels, changes, machines and noise. uPlot draws each once its page is there.

import { onTrunk } from "./data.js";
import { SIGNS, TONES, change, commitName, day, h, link, minute, number, reading, short } from "./dom.js";
import { save } from "./table.js";

const COLOURS = 10;
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3]];
const MAX_SPREADS = 1500;
const HEIGHT = 360;
const NARROW = 600;
const DAY = 86_400;
const MONTH = 28 * DAY;

const css = (variable) => getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
const colour = (place) => css(`--c${place % COLOURS}`);
const dash = (place) => DASHES[place % DASHES.length]; // each of 20 series has another combination
export const swatch = (place) => ["━", "╌", "┈", "┅"][place % DASHES.length];
let live = null; // the chart of the page
for (const media of ["(prefers-color-scheme: dark)", "print"]) matchMedia(media).addEventListener("change", () => live?.redraw());

/** Returns the chart of `rows`: {name, unit, points, levels, changes, machine_changes, noise, detectable}. `relative` scales each to its first level. Screen readers pass the arrow keys to an application only. */
export function chart(rows, relative, title) {
  const said = h("p", { class: "said", "aria-live": "polite" }, "Hover over a run, or step through the runs with the arrow keys; drag to zoom in, double-click to zoom out.");
  const frame = h("div", { class: "canvas", tabindex: "0", role: "application", "aria-label": `Chart of ${title}. Arrow keys step through its points; the table below lists them all.` });
  const picture = h("button", { type: "button", "aria-label": "PNG of the chart", onclick: () => photograph(frame.querySelector("canvas"), title, rows) }, "PNG");
  const scaled = rows.map((row) => ({ ...row, by: relative ? relativeBy(row) : 1 }));
  document.addEventListener("drawn", () => frame.isConnected && drawn(frame, said, scaled, relative), { once: true }); // its width is known then
  return h("figure", { class: "chart" }, frame, h("div", { class: "under" }, said, h("p", { class: "tools" }, picture)));
}

/** The factor that makes the first level of a series 1; null if that level is not above zero, so that nothing is relative to it. */
export function relativeBy(row) {
  const first = row.levels[0]?.value ?? row.points.find((point) => point.value !== null)?.value;
  return first > 0 ? 1 / first : null;
}

/** Saves the drawn chart as a PNG, with a background, a title, and the names of several series. */
function photograph(canvas, title, rows) {
  const [unit, height] = [devicePixelRatio, 20 * devicePixelRatio];
  const lines = [[title, css("--ink")], ...(rows.length > 1 ? rows.map((row, place) => [`${swatch(place)} ${row.label}`, colour(place)]) : [])];
  const copy = h("canvas", { width: canvas.width, height: canvas.height + lines.length * height + 8 * unit });
  const ink = copy.getContext("2d");
  ink.fillStyle = css("--paper"); ink.fillRect(0, 0, copy.width, copy.height);
  ink.font = `600 ${14 * unit}px system-ui`;
  lines.forEach(([text, paint], place) => { ink.fillStyle = paint; ink.fillText(text, 12 * unit, (place + 1) * height, copy.width - 24 * unit); });
  ink.drawImage(canvas, 0, copy.height - canvas.height);
  copy.toBlob((blob) => blob && save("chart.png", blob));
}

function drawn(frame, said, rows, relative) {
  if (!window.uPlot) return said.replaceChildren("The chart cannot be drawn, as uPlot was not loaded or does not run in this browser; the table below has all of its points.");
  const times = [...new Set(rows.flatMap((row) => row.points.map((point) => point.time)))].sort((a, b) => a - b);
  const place = new Map(times.map((time, index) => [time, index]));
  const lines = rows.flatMap((row, index) => [true, false].map((judged) => ({ row, index, judged, points: row.points.filter((point) => onTrunk(row, point) === judged) }))).filter(({ points }) => points.length);
  const columns = lines.map(({ row, points }) => {
    const column = new Array(times.length).fill(undefined); // undefined: the series had no run then, and its line has no gap
    for (const point of points) column[place.get(point.time)] = point.value === null || row.by === null ? null : point.value * row.by;
    return column;
  });
  const size = () => ({ width: frame.clientWidth, height: HEIGHT });
  live?.destroy(); // else each chart that was ever drawn stays in memory
  const plot = live = new uPlot({ ...size(), ...options(rows, lines, relative, times, frame.clientWidth < NARROW, said) }, [times, ...columns], frame);
  new ResizeObserver(() => frame.isConnected && plot.setSize(size())).observe(frame);
  frame.addEventListener("keydown", (event) => walk(event, plot));
}

function options(rows, lines, relative, times, narrow, said) {
  const axis = { stroke: () => css("--quiet"), grid: { stroke: () => css("--faint"), width: 1 }, ticks: { show: false }, font: "12px system-ui" };
  const value = relative ? ticks((number) => (number - 1) * 100, (text, sign) => `${sign}${text}%`)
    : rows.every((row) => row.kind === "outcome") ? (numbers) => numbers.map((number) => ["fails", "passes"][number] ?? "") : ticks((number) => number, (text, sign) => `${sign === "−" ? sign : ""}${text}`);
  const moment = (time, step) => (!times[times.length - 1] ? (time ? "" : day(0)) : step < DAY ? minute(time).slice(5) : step < MONTH ? day(time).slice(narrow ? 5 : 0) : day(time).slice(0, 7));
  return {
    legend: { show: false }, padding: [22, 44, 0, 0], tzDate: (time) => uPlot.tzDate(new Date(time * 1000), "UTC"),
    axes: [
      { ...axis, size: 32, space: narrow ? 56 : 80, values: (_, moments, __, ___, step) => moments.map((time) => moment(time, step)) },
      { ...axis, size: (_, texts) => 16 + 8 * Math.max(...(texts ?? []).map((text) => text.length), 3), values: (_, numbers, __, ___, step) => value(numbers, step) },
    ],
    scales: { x: times.length === 1 ? { range: [times[0] - DAY, times[0] + DAY] } : {}, y: { range: (plot, low, high) => reach(plot, spreads(rows), low, high) } },
    series: [{}, ...lines.map(({ row, index, judged }) => ({
      stroke: () => colour(index), fill: null, width: 1, dash: dash(index), alpha: row.levels.length ? 0.6 : 0.9,
      paths: row.levels.length || !judged ? () => null : undefined, // a series with levels is drawn by these
      points: { show: true, size: times.length < 100 ? 7 : times.length < 500 ? 5 : 3, fill: () => (judged ? colour(index) : css("--paper")), width: judged ? 0 : 1 },
    }))],
    cursor: { drag: { x: true, y: false }, points: { size: 9 } },
    hooks: { drawAxes: [(plot) => unit(plot, relative ? "" : rows[0].unit)], drawClear: [(plot) => beneath(plot, rows)], draw: [(plot) => above(plot, rows)], setCursor: [(plot) => told(plot, said, rows)] },
  };
}

/** Formats the numbers of an axis with as many decimals as its steps need; very large and very small ones with an exponent. */
export function ticks(scaled, said) {
  return (numbers, step) => {
    let digits = 0;
    const size = (by) => step * (scaled(2) - scaled(1)) * 10 ** by;
    while (digits < 12 && Math.abs(size(digits) - Math.round(size(digits))) > 1e-6 * size(digits)) digits += 1;
    const values = numbers.map(scaled);
    const largest = Math.max(...values.map(Math.abs));
    const text = largest >= 1e9 || largest < 1e-4 ? (value) => (value ? Number(value.toPrecision(6)).toExponential() : "0")
      : (value) => value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
    return values.map((value) => {
      const rounded = Math.abs(value) < size(-3) ? 0 : value;
      return said(text(Math.abs(rounded)), rounded > 0 ? "+" : rounded < 0 ? "−" : "±");
    });
  };
}

/** The spreads that are drawn: none of thousands. */
function spreads(rows) {
  if (rows.reduce((sum, row) => sum + row.points.length, 0) > MAX_SPREADS) return [];
  return rows.flatMap((row, index) => row.points.filter((point) => row.by !== null && point.value !== null && point.n > 1)
    .map((point) => ({ index, time: point.time, low: point.low * row.by, high: point.high * row.by })));
}

/**
 * The range of the value axis: the values with their spreads and a margin of at least 2%, so that mere noise does not fill the chart.
 * Spreads get at most as much room above and below as the values have, so that one repetition does not flatten all others.
 */
function reach(plot, all, low, high) {
  if (low === null || high === null) return [0, 1];
  const { min, max } = plot.series[0]; // the times that are zoomed to
  const seen = all.filter(({ time }) => time >= min && time <= max);
  const least = Math.abs(high) * 0.02;
  const room = Math.max(high - low, least);
  const bottom = Math.max(low - room, Math.min(low, ...seen.map((spread) => spread.low)));
  const top = Math.min(high + room, Math.max(high, ...seen.map((spread) => spread.high)));
  const margin = Math.max((top - bottom) * 0.1, least) || 1;
  return [low >= 0 ? Math.max(0, bottom - margin) : bottom - margin, top + margin];
}

function unit(plot, text) {
  const { ctx: ink } = plot;
  ink.save();
  ink.font = `${12 * devicePixelRatio}px system-ui`; ink.fillStyle = css("--quiet"); ink.textAlign = "left"; ink.textBaseline = "alphabetic";
  ink.fillText(text, 0, 12 * devicePixelRatio);
  ink.restore();
}

/** Draws two bands around the newest level: the noise (two standard deviations), and the smallest detectable change. */
function beneath(plot, rows) {
  if (rows.length !== 1) return;
  const [row] = rows;
  const level = row.levels[row.levels.length - 1];
  if (!level || row.by === null) return;
  for (const [share, alpha] of [[row.detectable, 0.1], [row.noise && 2 * row.noise, 0.18]]) {
    if (!share) continue;
    const [left, right] = [plot.valToPos(level.start, "x", true), plot.valToPos(level.end, "x", true)];
    const [top, bottom] = [1 + share, 1 / (1 + share)].map((by) => plot.valToPos(level.value * row.by * by, "y", true));
    paint(plot, (ink) => { ink.globalAlpha = alpha; ink.fillStyle = colour(0); ink.fillRect(left, top, right - left, bottom - top); });
  }
}

function above(plot, rows) {
  const { min, max } = plot.scales.y;
  const marks = new Map();
  for (const { index, time, low, high } of spreads(rows)) {
    line(plot, [[time, low], [time, high]], { stroke: colour(index), alpha: 0.35 });
    if (low < min) sign(plot, time, "▾", colour(index), min);
    if (high > max) sign(plot, time, "▴", colour(index), max);
  }
  rows.forEach((row, index) => {
    if (row.by === null) return;
    for (const point of row.points) if (point.value === null) sign(plot, point.time, "×", colour(index), min);
    for (const level of row.levels) line(plot, [[level.start, level.value * row.by], [level.end, level.value * row.by]], { stroke: colour(index), width: 2.5, dashes: dash(index) });
    for (const entry of row.changes) marks.set(`${entry.time} ${name(entry)}`, [entry.time, name(entry), `--${TONES[entry.word]}`, []]);
    for (const entry of row.machine_changes) marks.set(`${entry.time} machine`, [entry.time, machine(entry), "--quiet", [4, 4]]);
  });
  label(plot, [...marks.values()].sort(([left], [right]) => left - right));
}

/** Names what differs about the machine, if that is short enough. */
function machine({ differs }) {
  const names = differs.map((text) => text.split(":")[0]).join(", ");
  return names && names.length <= 20 ? `new ${names}` : "new machine";
}

const name = (entry) => `${SIGNS[TONES[entry.word]]} ${entry.culprits[0] ? short(entry.culprits[0].commit) : entry.ratio ? change(entry.ratio) : entry.word}`;

function line(plot, ends, { stroke, width = 1, dashes = [], alpha = 1 }) {
  paint(plot, (ink) => {
    ink.strokeStyle = stroke; ink.lineWidth = width * devicePixelRatio; ink.setLineDash(dashes); ink.globalAlpha = alpha;
    ink.beginPath();
    ends.forEach(([x, y], place) => ink[place ? "lineTo" : "moveTo"](plot.valToPos(x, "x", true), plot.valToPos(y, "y", true)));
    ink.stroke();
  });
}

/** Marks a run without a value, such as a failed one, or a spread that goes on, within the edge of the chart at `value`. */
function sign(plot, time, text, stroke, value) {
  paint(plot, (ink) => {
    ink.fillStyle = stroke; ink.font = `${12 * devicePixelRatio}px system-ui`; ink.textAlign = "center"; ink.textBaseline = text === "▴" ? "top" : "bottom";
    ink.fillText(text, plot.valToPos(time, "x", true), plot.valToPos(value, "y", true));
  });
}

/** Draws a line for each mark. Its text moves down row by row until it covers no other, to the left if there is no room, and is left out beside the same one. */
function label(plot, marks) {
  const { ctx: ink, bbox } = plot;
  const [space, height] = [4 * devicePixelRatio, 15 * devicePixelRatio];
  const [ends, told] = [[], new Map()];
  for (const [time, text, variable, dashes] of marks) {
    const x = plot.valToPos(time, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    paint(plot, () => {
      ink.font = `600 ${12 * devicePixelRatio}px system-ui`; ink.textAlign = "left";
      ink.strokeStyle = css(variable); ink.fillStyle = css(variable); ink.setLineDash(dashes); ink.lineWidth = devicePixelRatio;
      ink.beginPath(); ink.moveTo(x, bbox.top); ink.lineTo(x, bbox.top + bbox.height); ink.stroke();
      const width = ink.measureText(text).width;
      if (x - told.get(text) < width + space) return; // one after another, a machine's series tell the same
      told.set(text, x);
      const start = x + space + width > bbox.left + bbox.width ? x - space - width : x + space;
      const free = ends.findIndex((end) => end < start);
      const row = free < 0 ? ends.length : free;
      ends[row] = start + width + space;
      const base = bbox.top + (row + 1) * height - 3 * devicePixelRatio;
      ink.setLineDash([]); ink.lineWidth = space; ink.strokeStyle = css("--paper"); ink.strokeText(text, start, base); // readable over points
      ink.fillText(text, start, base);
    });
  }
}

function paint(plot, draw) {
  const { ctx: ink, bbox } = plot;
  ink.save();
  ink.beginPath(); ink.rect(bbox.left, bbox.top, bbox.width, bbox.height); ink.clip();
  draw(ink);
  ink.restore();
}

/** Describes the points under the cursor in words, with a link to their run. */
function told(plot, said, rows) {
  const { idx } = plot.cursor;
  if (idx === null || idx === undefined) return;
  const time = plot.data[0][idx];
  const found = rows.flatMap((row) => row.points.filter((point) => point.time === time).map((point) => [row, point]));
  if (!found.length) return;
  const words = found.map(([row, point]) => sentence(row, point)).join("; ");
  said.replaceChildren(`${minute(time)}: ${words}. `, link("run", { id: found[0][1].run }, "The run"));
}

function sentence(row, point) {
  const changed = row.changes.find((entry) => entry.time === point.time);
  const spread = point.n > 1 ? ` (${number(point.low)} to ${number(point.high)}, ${point.n} repetitions)` : "";
  const value = point.value === null ? `no value, ${point.why}` : `${reading(point.value, row.of, row.unit)}${point.why && `, ${point.why}`}${spread}`;
  return `${row.label ?? row.name}: ${value}, commit ${commitName(point)}${onTrunk(row, point) ? "" : `, branch ${point.branch}`}${changed ? `, ${changed.word}${changed.ratio ? ` by ${change(changed.ratio)}` : ""} since ${day(changed.time)}` : ""}`;
}

function walk(event, plot) {
  const times = plot.data[0];
  const { min, max } = plot.scales.x; // where it is zoomed to
  const [first, last] = [times.findIndex((time) => time >= min), times.findLastIndex((time) => time <= max)];
  const at = plot.cursor.idx ?? first - 1;
  const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: first, End: last }[event.key];
  if (next === undefined) return;
  event.preventDefault();
  const index = Math.min(Math.max(next, first), last);
  const value = plot.data.slice(1).map((column) => column[index]).find((one) => one !== null && one !== undefined);
  const top = value === undefined ? 0 : plot.valToPos(value, "y");
  plot.setCursor({ left: plot.valToPos(times[index], "x"), top });
}
