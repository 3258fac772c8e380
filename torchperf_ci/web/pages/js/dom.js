// Creates elements from data. Strings always become text nodes: no code of the pages parses markup.

/** Creates an element with attributes and children; strings become text, null is left out. `on…` attributes are listeners. */
export const h = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);

/** The same for SVG elements. */
export const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined).map((child) => (typeof child === "string" ? child.replace(/[\u202a-\u202e\u2066-\u2069]/g, (mark) => `\\u${mark.charCodeAt(0).toString(16)}`) : child))); // marks that would reverse our words, too
  return element;
}

/** A link within the dashboard, to a page with a state. */
export const link = (page, state, ...children) => h("a", { href: address(page, state) }, ...children);

export function address(page, state = {}) {
  const query = new URLSearchParams(Object.entries(state).filter(([, value]) => value !== "" && value != null));
  const root = document.documentElement.dataset.root;
  return `${root}${page ? `${page}/` : root ? "" : "./"}${query.size ? `?${query}` : ""}`;
}

/** A link to another site if the URL is HTTP or HTTPS; else plain text. */
export const outward = (url, text) => /^https?:\/\//.test(url ?? "") ? h("a", { href: url, rel: "noreferrer" }, text) : text;

/** Formats a value as the terminal does, with at least four significant digits, never rounded to zero; a missing value is a dash. */
export function number(value, unit = "") {
  if (value === null || value === undefined) return "–";
  const digits = Math.abs(value) >= 1e15 || (value !== 0 && Math.abs(value) < 1e-4) ? value.toExponential(3) : plain(value);
  return unit ? `${digits} ${unit}` : digits;
}

function plain(value) {
  if (Math.abs(value) >= 1000) return value.toLocaleString("en", { maximumFractionDigits: 0 });
  return Number.isInteger(value) ? String(value) : value.toPrecision(4);
}

/** Words in the names of metrics that are a pass or a fail, and those that reverse them, as in `metrics.py`. */
const OUTCOME = /(^|[^a-z0-9])(status|accuracy|pass[^a-z0-9]*rate)([^a-z0-9]|$)/i;
const REVERSING = /(^|[^a-z0-9])(loss|drop|degradation|savings?|saved|reduction|improvement|efficiency|error)([^a-z0-9]|$)/i;

/** Formats a value of a series, whose `kind` may be known; a pass or a fail as a word. */
export function reading(value, names, unit = "") {
  const isOutcome = names.kind ? names.kind === "outcome" : OUTCOME.test(names.metric) && !REVERSING.test(names.metric);
  return isOutcome && (value === 0 || value === 1) ? ["fails", "passes"][value] : number(value, unit);
}

/** Formats the lowest or the highest of several repetitions; a single one has neither. */
export const extreme = (value, { n }, names) => (n > 1 ? reading(value, names) : "–");

/** Formats a ratio as a change in percent: 1.031 is +3.1%. */
export function change(ratio) {
  if (ratio === null || ratio === undefined) return "–";
  const percent = (ratio - 1) * 100;
  const digits = Math.abs(percent) >= 100 ? 0 : Math.abs(percent) >= 1 ? 1 : 2;
  const shown = Math.abs(percent).toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return `${Number(shown) === 0 ? "±" : percent > 0 ? "+" : "−"}${shown}%`;
}

/** Formats a change of a series in percent, or as its old and its new value if it has no ratio. */
export const changeOf = ({ ratio, old, new: now }, names, unit) => (ratio ? change(ratio) : [old, now].map((value) => reading(value, names, unit)).join(" → "));

export function interval(low, high) {
  if (low === null || low === undefined) return "";
  return high === null || high === undefined ? `${change(low)} or more` : `${change(low)} to ${change(high)}`;
}

export const day = (time) => (time ? new Date(time * 1000).toISOString().slice(0, 10) : "no date");
export const minute = (time) => (time ? new Date(time * 1000).toISOString().slice(0, 16).replace("T", " ") : "no date");
export const short = (commit) => (commit || "").slice(0, 10) || "no commit";

/** The commit of a run or a point, with its subject if known. */
export const commitName = ({ commit, subject }) => `${short(commit)} ${subject}`.trim();
export const counted = (count) => count.toLocaleString("en");
export const plural = (count, noun, nouns = `${noun}s`) => `${counted(count)} ${count === 1 ? noun : nouns}`;

/** The name of a series, with the most specific part first. */
export const seriesName = (names) => [names.model, names.mode, names.dtype, names.backend].filter(Boolean).join(" ") || "without a name";

export const machineName = (names) => [names.device, names.arch].filter(Boolean).join(" · ");

/** Whether series or runs differ in a field, such as their repository, which is then named. */
export const differ = (all, field) => all.some((one) => one[field] !== all[0][field]);

/** The name of a benchmark, with its repository if there are several. */
export const benchmarkName = (names, several) => (several ? `${names.repo} ${names.benchmark}` : names.benchmark);

/** A command line with a button that copies it. */
export const command = (line) => h("div", { class: "command" }, h("code", {}, line), copying(line));

/** The column with the command that measures a row again; `names(row)` are the names of its series. */
export const againColumn = (names) => ({
  head: "command", tool: true, value: (row) => measureAgain(names(row)), cell: (row) => { const line = measureAgain(names(row)); return line ? copying(line) : ""; },
});

export const copying = (line) => h("button", { type: "button", title: line, onclick: (event) => copy(line, event.currentTarget) }, "Copy");

/** Copies a text, also where `navigator.clipboard` is missing, as it is without TLS. */
function copy(text, button) {
  const area = Object.assign(h("textarea"), { value: text }); // as it is, with marks that are shown as such elsewhere
  button.after(area); area.select();
  button.textContent = document.execCommand("copy") ? "Copied" : "Not copied";
  area.remove(); button.focus();
}

/** Quotes any text as one word of a shell's command line. */
export const shellWord = (text) => (/^[\w./:@%+=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/**
 * The command that measures a series again where its suite is the configured one; empty for the results of another tool, which
 * have no mode. The filter is a glob, in which the model's name is literal; the device is named as torch does.
 */
export function measureAgain(names) {
  if (!names.mode) return "";
  const flags = { filter: names.model.replace(/^-|[[*?]/g, "[$&]"), mode: names.mode, dtype: names.dtype, backend: names.backend, device: names.device.replace(/^rocm$/, "cuda").replace(/^arm64-/, "") };
  const given = Object.entries(flags).filter(([, value]) => value).map(([flag, value]) => `--${flag} ${shellWord(value)}`);
  return `torchperf run ${given.join(" ")}`;
}

/** A culprit with its evidence, and links to the commit and to the issues that name it. */
export function evidence(culprit) {
  return h("div", {}, outward(culprit.url, `${short(culprit.commit)} ${culprit.subject}`),
    ` ${change(culprit.ratio)} (${interval(culprit.low, culprit.high)}), ${percent(culprit.posterior)} sure, ${plural(culprit.pairs, "pair")}`,
    culprit.issues ? [", ", outward(culprit.issues, "issues that name it")] : "");
}

/** Formats a probability as a percentage, never as 100%. */
const percent = (share) => (share > 0.999 ? ">99.9%" : `${(share * 100).toFixed(1)}%`);

/** The tones of changes of level and of their states. */
export const TONES = { regressed: "bad", open: "bad", recovered: "none", "no longer measured": "none", improved: "good", changed: "warning" };

/** Signs of a tone, so that color is never the only cue. They have no direction: worse may be less. */
export const SIGNS = { bad: "✗", good: "✓", warning: "◆", none: "●" };

/** A colored label with a sign; long texts may wrap. */
export const badge = (tone, text) => h("span", { class: `badge ${tone}${text.length > 24 ? " long" : ""}` }, `${SIGNS[tone]} ${text}`);

/** A list of key figures, given as pairs of a name and a value. */
export const figures = (...pairs) => h("dl", { class: "figures" }, ...pairs.filter(Boolean).map(([name, ...value]) => h("div", {}, h("dt", {}, name), h("dd", {}, ...value))));

/** A change in percent with its interval beneath. */
export const changed = (row) => [change(row.ratio), h("small", {}, row.low === null ? "" : interval(row.low, row.high))];

/** The column of a series: its name, and beneath it what distinguishes it from others of the same name. */
export const seriesColumn = (beneath) => ({
  head: "series", prose: true, value: (row) => seriesName(row.name),
  cell: (row) => [link("series", { s: row.series }, seriesName(row.name)), h("small", {}, beneath(row))],
});
