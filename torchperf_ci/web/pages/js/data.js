// Loads the documents, each only once, and decodes the lists of all series and runs.

const loaded = new Map();
const VERSIONS = { index: 3, overview: 5, regressions: 3, series: 6, run: 4, compare: 3 }; // of the documents that this code knows

/** Loads a document by its path below `data/`. Rejects with a message for users. */
export function load(path) {
  if (!loaded.has(path)) loaded.set(path, fetched(path));
  loaded.get(path).catch(() => loaded.delete(path)); // it may succeed later
  return loaded.get(path);
}

/** The same, or null if the document does not exist, such as a comparison that is not part of a static site. */
export const loadIfThere = (path) => load(path).catch((error) => (error instanceof Missing ? null : Promise.reject(error)));

/** Makes `load` fetch every document again. */
export const forget = () => loaded.clear();

async function fetched(path) {
  const { root } = document.documentElement.dataset;
  const answer = await fetch(`${root}data/${path}`, { cache: "no-cache" }).catch(() => null);
  if (!answer) throw new Error("The server does not answer. Is it still running?");
  if (answer.status === 404) throw new Missing(`There is no document ${path} here.`);
  if (!answer.ok) throw new Error(`The server answered ${answer.status} for ${path}.`);
  const content = await answer.json().catch(() => { throw new Error(`The answer for ${path} broke off, or is of something else, such as the login page of a proxy.`); });
  if (content.version !== VERSIONS[path.split(/\W/)[0]]) throw new Error("This page and its results are of different versions of torchperf. Reload it; a browser may keep an old page for ten minutes.");
  return content;
}

class Missing extends Error {}

/** A document does not fit the index: the store has changed between the two. */
export class Changed extends Error { message = "The results are changing at the moment. Reload this page."; }

/** Loads all series as objects, with the text to search in, and all runs, newest first. */
export async function catalogue() {
  const index = await load("index.json");
  index.all ??= index.series.map((row, place) => decoded(index, row, place));
  index.byId ??= new Map(index.all.map((series) => [series.id, series]));
  index.runById ??= new Map(index.runs.map((run) => [run.id, Object.assign(run, { subject: Object.hasOwn(index.subjects, run.commit) ? index.subjects[run.commit] : "" })]));
  index.severalRepos ??= index.names.repo.length > 1;
  return index;
}

function decoded(index, row, place) {
  const series = { id: row[0], place };
  index.fields.forEach((field, column) => { series[field] = index.names[field][row[column + 1]]; });
  [series.first, series.last, series.years] = row.slice(index.fields.length + 1);
  series.unit = index.units[series.metric];
  series.text = index.fields.map((field) => series[field]).join(" ").toLowerCase();
  return series;
}

/** The kind of machine of a series or a run, as a key. */
export const kindOf = ({ repo, benchmark, device, arch }) => JSON.stringify([repo, benchmark, device, arch]);

export const sameMachine = (left, right) => ["repo", "benchmark", "device", "arch"].every((name) => left[name] === right[name]);

/** Whether a point counts for the levels of its series: if its branch is the trunk, or unknown. */
export const onTrunk = ({ trunk }, { branch }) => ["", trunk].includes(branch);

/** The items with these IDs. Throws `Changed` if one of them is not in the index. */
export function named(byId, ids) {
  const items = ids.map((id) => byId.get(id));
  if (items.includes(undefined)) throw new Changed();
  return items;
}

/** The items of a kind of machine at places, each told by the step from the one before. Throws `Changed` if the last one has another ID. */
export function placed(items, machine, steps, last) {
  let place = 0;
  const there = items.filter((item) => sameMachine(item, machine));
  const found = steps.map((step) => there[place += step]);
  if (found.includes(undefined) || (found.length && found[found.length - 1].id !== last)) throw new Changed();
  return found;
}

/** Turns columns of values into rows, with the ends of their repetitions. */
export const valuesOf = (columns) => rowsOf(columns).map((row) => ({ ...row, low: end(row.value, row.below, -1), high: end(row.value, row.above, 1) }));

const end = (value, distance, sign) => (distance === null ? null : Number((value + sign * distance).toPrecision(6)));

/** Turns columns into rows. */
export const rowsOf = (columns) => Object.values(columns)[0].map((_, place) => Object.fromEntries(Object.entries(columns).map(([head, column]) => [head, column[place]])));

/** Loads all years of a series since the time `from`, and joins them. */
export async function wholeSeries(series, from) {
  const years = series.years.filter((year) => year >= yearOf(Math.min(from, series.last)));
  const [index, ...parts] = await Promise.all([catalogue(), ...years.map((year) => load(`series/${series.id}/${year}.json`))]);
  return { ...joined(parts, index, series), unit: series.unit };
}

const yearOf = (time) => new Date(time * 1000).getUTCFullYear();

function joined(parts, index, series) {
  const newest = parts[parts.length - 1];
  const runs = [...index.runs].reverse();
  const points = parts.flatMap((part) => pointsOf(part, placed(runs, series, part.points.run, part.last)));
  const last = points.filter((point) => onTrunk(newest, point)).pop() ?? points[points.length - 1];
  const levels = new Map(parts.flatMap((part) => part.levels).map((level) => [level.start, level]));
  return {
    ...newest,
    points,
    last,
    later: last ? index.runs.filter((run) => run.time > last.time && run.branch === last.branch && sameMachine(run, series)).length : 0,
    levels: [...levels.values()].sort((one, other) => one.end - other.end),
    changes: parts.flatMap((part) => part.changes),
    machine_changes: parts.flatMap((part) => part.machine_changes),
  };
}

function pointsOf({ points }, runs) {
  return valuesOf(points).map((row, place) => ({ ...row, run: runs[place].id, time: runs[place].time + row.after, commit: runs[place].commit, subject: runs[place].subject, branch: runs[place].branch }));
}
