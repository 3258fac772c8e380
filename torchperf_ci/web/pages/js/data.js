// Loads the documents, each only once, and decodes the lists of all series and runs.

const loaded = new Map();

/** Loads a document by its path below `data/`. Rejects with a message for users. */
export function load(path) {
  if (!loaded.has(path)) {
    loaded.set(path, fetched(path).catch((error) => {
      loaded.delete(path); // it may succeed later
      throw error;
    }));
  }
  return loaded.get(path);
}

/** The same, or null if the document does not exist, such as a comparison that is not part of a static site. */
export const loadIfThere = (path) => load(path).catch((error) => {
  if (!(error instanceof Missing)) throw error;
  return null;
});

/** Makes `load` fetch every document again. */
export const forget = () => loaded.clear();

async function fetched(path) {
  const { root } = document.documentElement.dataset;
  const answer = await fetch(`${root}data/${path}`, { cache: "no-cache" }).catch(() => null);
  if (!answer) throw new Error("The server does not answer. Is it still running?");
  if (answer.status === 404) throw new Missing(`There is no document ${path} here.`);
  if (!answer.ok) throw new Error(`The server answered ${answer.status} for ${path}.`);
  return answer.json();
}

class Missing extends Error {}

/** A document does not fit the index: the store has changed between the two. */
export class Changed extends Error {
  constructor() {
    super("The results are changing at the moment. Reload this page.");
  }
}

/** Loads all series as objects, with the text to search in, and all runs, newest first. */
export async function catalogue() {
  const index = await load("index.json");
  index.all ??= index.series.map((row, place) => decoded(index, row, place));
  index.byId ??= new Map(index.all.map((series) => [series.id, series]));
  index.runById ??= new Map(index.runs.map((run) => [run.id, Object.assign(run, { subject: index.subjects[run.commit] ?? "" })]));
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

/** The series of a kind of machine in the order of their numbers: by first result, those of the metric `status` last. */
export function numbered(index, machine) {
  const status = (series) => Number(series.metric === "status");
  return index.all.filter((series) => sameMachine(series, machine)).sort((a, b) => status(a) - status(b) || a.first - b.first);
}

/** The series or runs that the `numbers` of a document stand for. Throws `Changed` if its checksum `numbering` is not that of `items`. */
export function numberedAs(items, numbers, numbering) {
  const used = items.slice(0, numbers.reduce((most, number) => Math.max(most, number + 1), 0));
  const sum = used.reduce((total, { id }) => (Math.imul(total, 31) + parseInt(id, 16)) >>> 0, 0);
  if (sum !== numbering) throw new Changed();
  return numbers.map((number) => items[number]);
}

/** Expands ranges, each given as its first number and its length. */
export const counted = (ranges) => ranges.flatMap(([first, count]) => Array.from({ length: count }, (_, place) => first + place));

/** Turns columns of values into rows. */
export function values({ value, below, above, n, why }) {
  return value.map((number, place) => ({
    value: number, low: extreme(number, below[place], -1), high: extreme(number, above[place], 1), n: n[place], why: why[place] ?? "",
  }));
}

/** The number that is `units` of the value's fourth digit below (`way` -1) or above (1) the value. */
function extreme(value, units, way) {
  if (value === null || units === null) return null;
  const unit = Number(`1e${Math.max(Number(value.toExponential().split("e")[1]) - 3, -307)}`);
  return Number(((Math.floor(value / unit + 0.5) + way * units) * unit).toPrecision(9));
}

/** Loads all years of a series since the time `from`, and joins them. */
export async function wholeSeries(series, from) {
  const years = series.years.filter((year) => year >= yearOf(Math.min(from, series.last)));
  const [index, ...parts] = await Promise.all([catalogue(), ...years.map((year) => load(`series/${series.id}/${year}.json`))]);
  return { ...joined(parts, runsOf(index, series)), unit: series.unit };
}

/** The runs on a series' kind of machine, oldest first, as the points' run indices count them. */
const runsOf = (index, series) => index.runs.filter((run) => sameMachine(run, series)).reverse();

const yearOf = (time) => new Date(time * 1000).getUTCFullYear();

function joined(parts, runs) {
  const newest = parts[parts.length - 1];
  const points = parts.flatMap((part) => pointsOf(part, runs));
  const last = points.filter(({ branch }) => ["", newest.trunk].includes(branch)).pop() ?? points[points.length - 1];
  const levels = new Map(parts.flatMap((part) => part.levels).map((level) => [level.start, level]));
  return {
    ...newest,
    points,
    last,
    later: last ? runs.filter((run) => run.time > last.time && run.branch === last.branch).length : 0,
    levels: [...levels.values()],
    changes: parts.flatMap((part) => part.changes),
    machine_changes: parts.flatMap((part) => part.machine_changes),
  };
}

function pointsOf({ points, numbering }, all) {
  const [runs, told] = [numberedAs(all, counted(points.run), numbering), values(points)];
  return runs.map((run, place) => ({ ...told[place], time: run.time + points.after[place], commit: run.commit, subject: run.subject, run: run.id, branch: run.branch }));
}
