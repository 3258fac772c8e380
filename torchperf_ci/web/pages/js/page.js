// What all pages share: the header, the state in the query string, filters, and messages while there is nothing to draw.

import { Changed, forget } from "./data.js";
import { address, command, h } from "./dom.js";

const PAGES = [["", "Overview"], ["series", "Series"], ["compare", "Compare"], ["regressions", "Regressions"], ["run", "Runs"]];

/** Draws a page: `draw(state, main)` fills the main part from the state, again whenever the state changes. */
export function page(name, title, draw) {
  document.title = `${title} · torchperf`;
  const main = h("main", { id: "main", tabindex: "-1" });
  document.body.replaceChildren(header(name), main, h("footer", {}, "Times are UTC, intervals 95%. A missing value is a gap, never zero; values are compared on one machine only."));
  const redraw = () => drawn(main, title, () => draw(state(), main));
  addEventListener("popstate", redraw);
  addEventListener("statechange", redraw);
  // Firefox reloads with the state that a page had before it was hidden; Safari on iOS knows only that it is hidden.
  for (const leaving of ["beforeunload", "pagehide"]) addEventListener(leaving, () => history.replaceState({ top: scrollY }, ""));
  redraw().then(() => scrollTo(0, history.state?.top ?? scrollY)); // a browser that goes back restores it before anything is drawn
}

/** What a control has in common with its successor, once the page is drawn again. */
const controlKey = (element) => `${element.tagName} ${element.name || element.id || element.textContent}`;

let turn = 0;

async function drawn(main, title, draw) {
  turn += 1;
  const mine = turn;
  main.setAttribute("aria-busy", "true");
  try {
    const parts = await draw().catch((error) => {
      if (!(error instanceof Changed)) throw error;
      forget();
      return draw();
    });
    if (mine !== turn) return;
    const focused = main.contains(document.activeElement) ? controlKey(document.activeElement) : null;
    main.replaceChildren(...[parts].flat(2).filter(Boolean));
    document.dispatchEvent(new Event("drawn"));
    if (focused) ([...main.querySelectorAll("a, button, input, select")].find((one) => controlKey(one) === focused) ?? main).focus();
  } catch (error) {
    if (mine !== turn) return;
    main.replaceChildren(h("p", { class: "problem", role: "alert" }, error.message));
  }
  document.title = [...new Set([main.querySelector("h1")?.textContent ?? title, title, "torchperf"])].join(" · ");
  main.removeAttribute("aria-busy");
}

function header(name) {
  const links = PAGES.map(([page, text]) => h("a", { href: address(page), "aria-current": page === name ? "page" : null }, text));
  return h("header", {}, h("a", { class: "skip", href: "#main" }, "Skip to content"), h("strong", {}, h("img", { src: `${document.documentElement.dataset.root}icon.svg`, alt: "" }), "torchperf"), h("nav", { "aria-label": "Pages" }, ...links));
}

/** The state of the page, from its URL. */
export const state = () => Object.fromEntries(new URLSearchParams(location.search));

/** Changes the state: adds an entry to the history and draws the page again, unless only the URL is to tell it. Empty values are removed from the URL. */
export function setState(changes, isDrawn = true) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === "" || value === null || value === undefined) query.delete(name);
    else query.set(name, value);
  }
  history[isDrawn ? "pushState" : "replaceState"](null, "", query.size ? `?${query}` : location.pathname);
  if (isDrawn) dispatchEvent(new Event("statechange"));
}

/** A select element for one value of the state; the empty value is labeled `all`. */
export function choice(name, label, values, current, all = "all") {
  const known = values.some((value) => [value].flat()[0] === current);
  const options = [...values, ...(known || !current ? [] : [current])].map((value) => {
    const [key, text] = Array.isArray(value) ? value : [value, value];
    return h("option", { value: key, selected: key === current }, text);
  });
  const select = h("select", { name, onchange: () => setState({ [name]: select.value }) }, h("option", { value: "", selected: !current }, all), ...options);
  return h("label", {}, `${label} `, select);
}

/** Select elements that filter rows; `picks` maps the name of each to a function that gets its value from a row. An unset one with a single value is left out. */
export function filters(rows, picks, current) {
  const choices = Object.entries(picks).map(([name, pick]) => [name, [...new Set(rows.map(pick))].filter(Boolean).sort()]);
  const useful = choices.filter(([name, values]) => values.length > 1 || current[name]);
  return h("div", { class: "filters" }, ...useful.map(([name, values]) => choice(name, LABELS[name] ?? name, values, current[name] ?? "")));
}

/** The rows that match every filter that is set. */
export const matching = (rows, picks, current) => rows.filter((row) => Object.entries(picks).every(([name, pick]) => !current[name] || pick(row) === current[name]));

/** The message when no row matches, which names a filter to remove. */
export function noMatch(rows, picks, current, noun) {
  const loose = Object.keys(picks).find((name) => current[name] && matching(rows, picks, { ...current, [name]: "" }).length);
  return loose ? `No ${noun} matches. Without the filter ${LABELS[loose] ?? loose} = ${current[loose]}, some do.` : `No ${noun} matches these filters.`;
}

const LABELS = { arch: "hardware", repo: "repository" };

/** Explains how to get the first results into the store. */
export function nothingYet() {
  return [
    h("h1", {}, "There are no results yet"),
    h("p", {}, "Measure something, ingest the records, and reload this page:"),
    command("torchperf run --suite quick --out records"),
    command("torchperf ingest records"),
    command("torchperf serve"),
  ];
}
