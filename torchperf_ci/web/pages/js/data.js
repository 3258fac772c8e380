// The documents, each fetched once, and the list of what there is.

const loaded = new Map();

/** A document by its path below `data/`. Rejects with a sentence for people. */
export function load(path) {
  if (!loaded.has(path)) loaded.set(path, fetched(path));
  return loaded.get(path);
}

async function fetched(path) {
  const { root } = document.documentElement.dataset;
  const answer = await fetch(`${root}data/${path}`, { cache: "no-cache" }).catch(() => null);
  if (!answer) throw new Error("The server does not answer. Is it still running?");
  if (answer.status === 404) throw new Missing(`There is no document ${path} here.`);
  if (!answer.ok) throw new Error(`The server answered ${answer.status} for ${path}.`);
  return answer.json();
}

/** A document that is not there, as a comparison that a static site was not made with. */
export class Missing extends Error {}

/** All series as objects, with the text that a search looks at, and all runs, newest first. */
export async function catalogue() {
  const index = await load("index.json");
  index.all ??= index.series.map((row, place) => decoded(index, row, place));
  index.byId ??= new Map(index.all.map((series) => [series.id, series]));
  index.runById ??= new Map(index.runs.map((run) => [run.id, Object.assign(run, { subject: index.subjects[run.commit] ?? "" })]));
  return index;
}

function decoded(index, row, place) {
  const series = { id: row[0], place };
  index.fields.forEach((field, column) => { series[field] = index.names[field][row[column + 1]]; });
  [series.first, series.last, series.points] = row.slice(index.fields.length + 1);
  series.unit = index.metrics[series.metric].unit;
  series.text = index.fields.map((field) => series[field]).join(" ").toLowerCase();
  return series;
}

export const sameMachine = (left, right) => ["repo", "benchmark", "device", "arch"].every((name) => left[name] === right[name]);

/** The series of a kind of machine by their numbers: as they came, those of the metric `status` last. */
export function numbered(index, machine) {
  const status = (series) => Number(series.metric === "status");
  return index.all.filter((series) => sameMachine(series, machine)).sort((a, b) => status(a) - status(b) || a.first - b.first);
}

/** The numbers in ranges, each of which is its first and how many they are. */
export const counted = (ranges) => ranges.flatMap(([first, count]) => Array.from({ length: count }, (_, place) => first + place));

/** A row for each place in columns of values. */
export function values({ value, below, above, n, why }) {
  return value.map((number, place) => ({
    value: number, low: extreme(number, below[place], -1), high: extreme(number, above[place], 1), n: n[place], why: why[place] ?? "",
  }));
}

/** What lies so many units of its fourth digit below or above a value. */
function extreme(value, units, way) {
  if (value === null || units === null) return null;
  const unit = Number(`1e${Math.max(Number(value.toExponential().split("e")[1]) - 3, -307)}`);
  return Number(((Math.floor(value / unit + 0.5) + way * units) * unit).toPrecision(9));
}

/** All years of a series, joined: columns one after the other. */
export async function wholeSeries(series, from) {
  const years = [];
  for (let year = yearOf(Math.max(series.first, from)); year <= yearOf(series.last); year += 1) years.push(year);
  const [index, ...parts] = await Promise.all([catalogue(), ...years.map((year) => load(`series/${series.id}/${year}.json`))]);
  return { ...joined(parts, runsOf(index, series)), unit: series.unit };
}

/** The runs of a series' kind of machine, the oldest first, as its points count them. */
function runsOf(index, series) {
  index.runsOf ??= new Map();
  const kind = JSON.stringify([series.repo, series.benchmark, series.device, series.arch]);
  if (!index.runsOf.has(kind)) index.runsOf.set(kind, index.runs.filter((run) => sameMachine(run, series)).reverse());
  return index.runsOf.get(kind);
}

const yearOf = (time) => new Date(time * 1000).getUTCFullYear();

function joined(parts, runs) {
  const newest = parts[parts.length - 1];
  const points = parts.flatMap((part) => pointsOf(part, runs));
  const last = points[points.length - 1];
  const levels = new Map(parts.flatMap((part) => part.levels).map((level) => [level.start, level]));
  return {
    ...newest,
    points,
    later: last ? runs.filter((run) => run.time > last.time && run.branch === last.branch).length : 0,
    levels: [...levels.values()],
    changes: parts.flatMap((part) => part.changes),
    machine_changes: parts.flatMap((part) => part.machine_changes),
  };
}

function pointsOf({ points }, all) {
  const [runs, told] = [counted(points.run).map((number) => all[number]), values(points)];
  return runs.map((run, place) => ({ ...told[place], time: run.time + points.after[place], commit: run.commit, subject: run.subject, run: run.id, branch: run.branch }));
}
