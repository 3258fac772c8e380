// The documents, each fetched once, and the list of what there is.

const loaded = new Map();

/** A document by its path below `data/`. Rejects with a sentence for people. */
export function load(path) {
  if (!loaded.has(path)) loaded.set(path, fetched(path));
  return loaded.get(path);
}

async function fetched(path) {
  const { root } = document.documentElement.dataset;
  const answer = await fetch(`${root}data/${path}`).catch(() => null);
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
  index.all ??= index.series.map((row) => decoded(index, row));
  index.byId ??= new Map(index.all.map((series) => [series.id, series]));
  index.runById ??= new Map(index.runs.map((run) => [run.id, run]));
  return index;
}

function decoded(index, row) {
  const series = { id: row[0] };
  index.fields.forEach((field, place) => { series[field] = index.names[field][row[place + 1]]; });
  [series.first, series.last, series.points] = row.slice(index.fields.length + 1);
  series.text = index.fields.map((field) => series[field]).join(" ").toLowerCase();
  return series;
}

/** All years of a series, joined: columns one after the other. */
export async function wholeSeries(series, from) {
  const years = [];
  for (let year = yearOf(Math.max(series.first, from)); year <= yearOf(series.last); year += 1) years.push(year);
  const [index, ...parts] = await Promise.all([catalogue(), ...years.map((year) => load(`series/${series.id}/${year}.json`))]);
  return joined(parts, runsOf(index, series));
}

/** The runs of a series' kind of machine, the oldest first, as its points count them. */
function runsOf(index, series) {
  const same = (run) => ["repo", "benchmark", "device", "arch"].every((name) => run[name] === series[name]);
  index.runsOf ??= new Map();
  const kind = JSON.stringify([series.repo, series.benchmark, series.device, series.arch]);
  if (!index.runsOf.has(kind)) index.runsOf.set(kind, index.runs.filter(same).reverse());
  return index.runsOf.get(kind);
}

const yearOf = (time) => new Date(time * 1000).getUTCFullYear();

function joined(parts, runs) {
  const newest = parts[parts.length - 1];
  const points = parts.flatMap((part) => part.points.run.map((run, place) => point(part, place, runs[run])));
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

function point(part, place, run) {
  const columns = part.points;
  return {
    time: run.time + columns.after[place], value: columns.value[place], low: columns.low[place], high: columns.high[place],
    n: columns.n[place], commit: run.commit, run: run.id, branch: run.branch,
    machine: part.machines[columns.machine[place]], why: columns.why[place] ?? "",
  };
}
